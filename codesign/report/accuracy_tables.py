"""What is known of the accuracy of a model in number formats, as tables and as a document."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from codesign.base.errors import InputError
from codesign.evaluators.format_accuracy import AccuracyOptions
from codesign.models.format_mixture import is_mixed, mixture_words
from codesign.models.quantization.loss_rule import (
    ScoreEstimate,
    algorithms,
    estimate,
    estimate_by_rule,
    load_rule,
)
from codesign.models.quantization.measured import MeasuredLoss, MeasuredTable
from codesign.models.quantization.published import (
    MEASURES,
    FormatChoice,
    Measure,
    PublishedScore,
    scores_of,
)
from codesign.models.workload import Request, bits_per_weight, parameter_count
from codesign.report.tables import let_break, plain_table, text_line

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from codesign.insight.evaluated_design import EvaluatedDesign

FORMAT_COLUMNS = ("measure", "value", "interval", "basis", "source")
USUAL: tuple[FormatChoice, ...] = (
    FormatChoice("mxfp8", "mxfp8", "mxfp8"),
    FormatChoice("mxint8", "mxint8", "mxint8"),
    FormatChoice("mxfp4", "mxfp8", "mxfp8"),
    FormatChoice("mxfp4", "mxfp8", "mxfp4"),
    FormatChoice("mxfp4", "mxfp4", "mxfp4"),
    FormatChoice("nvfp4", "nvfp4", "mxfp8"),
    FormatChoice("int4-g128", "bf16", "bf16"),
)
"""Combinations that are estimated where none are named."""


@dataclass(frozen=True)
class AccuracyReport:
    """What is known of a model.

    Attributes:
        model: Name.
        choices: Combinations of formats that are of interest.
        table: What was measured of it; None: nothing.
        vocab_size: Its vocabulary, where no estimate of a perplexity is larger.
    """

    model: str
    n_parameters: float
    choices: Sequence[FormatChoice]
    table: MeasuredTable | None = None
    vocab_size: float = math.inf

    @property
    def scores(self) -> tuple[PublishedScore, ...]:
        """Its published scores."""
        return scores_of(self.model)

    def of_rule(self, score: PublishedScore) -> ScoreEstimate | None:
        """What the rule has for a published score; None: it knows not these formats."""
        if not score.is_comparable or score.formats.algorithm not in algorithms():
            return None
        return estimate_by_rule(score.formats, self.model, self.n_parameters, score.measure)

    def log_error(self, score: PublishedScore) -> float | None:
        """Logarithm of the loss by the rule over the published one, noise of benchmarks added."""
        result = self.of_rule(score)
        if result is None or score.ratio is None:
            return None
        sign = -1.0 if score.measure == "accuracy" else 1.0
        return _log_error(
            sign * math.log(result.ratio), sign * math.log(score.ratio), score.measure
        )

    def estimates(self) -> list[tuple[FormatChoice, str, ScoreEstimate]]:
        """Each choice with each measure."""
        return [
            (choice, measure, self._estimate(choice, measure))
            for choice in self.choices
            for measure in MEASURES
        ]

    def _estimate(self, choice: FormatChoice, measure: Measure) -> ScoreEstimate:
        return estimate(choice, self.model, self.n_parameters, measure, self.vocab_size)

    def measured(self) -> list[dict[str, Any]]:
        """Each row of the table, then each choice that it lacks, beside what others have of it.

        ``log_error_of_rule`` is the logarithm of the loss by the rule over the measured one, the
        noise of benchmarks added to both, as in ``errors_of_rule``.
        """
        if self.table is None:
            return []
        choices = dict.fromkeys([*(row.formats for row in self.table.rows), *self.choices])
        losses = ((item, self.table.loss(item, self.n_parameters)) for item in choices)
        return [self._beside(item, loss) for item, loss in losses if loss is not None]

    def _beside(self, formats: FormatChoice, loss: MeasuredLoss) -> dict[str, Any]:
        ratio = loss.perplexity_ratio
        published = [
            score.ratio
            for score in self.scores
            if (score.formats, score.measure) == (formats, "perplexity") and score.ratio
        ]
        by_rule = None
        if formats.algorithm in algorithms():
            by_rule = estimate_by_rule(formats, self.model, self.n_parameters, "perplexity").ratio
        return {
            **_formats_document(formats),
            "divergence_nats": asdict(loss.divergence_nats),
            "perplexity_ratio": asdict(ratio),
            "published_ratio": sum(published) / len(published) if published else None,
            "ratio_of_rule": by_rule,
            "log_error_of_rule": None
            if by_rule is None
            else _log_error(math.log(by_rule), math.log(ratio.mean), "perplexity"),
            "basis": loss.basis,
            "source": loss.source,
        }


def _log_error(loss_of_rule: float, true_loss: float, measure: Measure) -> float:
    rule = load_rule()
    floor = (rule.accuracy if measure == "accuracy" else rule.perplexity).floor
    return math.log((loss_of_rule + floor) / (max(true_loss, 0.0) + floor))


def accuracy_document(report: AccuracyReport) -> dict[str, Any]:
    """The document of ``codesign accuracy``."""
    rule = load_rule()
    return {
        "model": report.model,
        "n_parameters": report.n_parameters,
        "published": [_score_document(report, score) for score in report.scores],
        "estimates": [
            {**_formats_document(choice), "measure": measure, **vars(result)}
            for choice, measure, result in report.estimates()
        ],
        "measured": report.measured(),
        "errors_of_rule": {
            "accuracy": rule.accuracy.errors,
            "perplexity": rule.perplexity.errors,
        },
    }


def _formats_document(formats: FormatChoice) -> dict[str, str]:
    values = (formats.weights, formats.activations, formats.kv_cache, formats.algorithm)
    return dict(zip(_FORMAT_KEYS, values, strict=True))


def _score_document(report: AccuracyReport, score: PublishedScore) -> dict[str, Any]:
    result = report.of_rule(score)
    return {
        "identifier": score.identifier,
        "model": score.model,
        **_formats_document(score.formats),
        "benchmark": score.benchmark,
        "measure": score.measure,
        "full_precision": score.full_precision,
        "score": score.score,
        "ratio": score.ratio,
        "ratio_of_rule": None if result is None else result.ratio,
        "log_error_of_rule": report.log_error(score),
        "source": score.source,
        "note": score.note,
    }


def accuracy_tables(report: AccuracyReport) -> list[RenderableType]:
    """Published scores beside the rule, then what the choices come to."""
    parts: list[RenderableType] = []
    if report.scores:
        parts += _published_tables(report)
    else:
        parts.append(text_line(f"No score of {report.model} is published here."))
    parts.append(_estimates_table(report))
    if report.table is not None:
        parts.append(_measured_table(report, report.table))
    errors = load_rule().accuracy.errors
    words = ", ".join(f"{kind} {value:.2f}" for kind, value in errors.items())
    line = f"Error of the log of an estimated loss that 80 % of withheld scores keep: {words}."
    return [*parts, text_line(line)]


_FORMAT_KEYS = ("weight_format", "activation_format", "kv_format", "quantization_algorithm")
_FORMAT_COLUMNS = ("weights", "activations", "KV cache", "algorithm")
_IN_ONE_COLUMN = "weights / activations / KV cache, algorithm"


def _in_one_cell(formats: Mapping[str, Any]) -> str:
    weights, activations, kv_cache, algorithm = (formats[key] for key in _FORMAT_KEYS)
    return f"{weights} / {activations} / {kv_cache}, {algorithm}"


def _formats_table(title: str, columns: Sequence[str], numbers: Sequence[str]) -> Table:
    """An empty table whose first column has formats, which may be broken over lines."""
    table = plain_table(title, [_IN_ONE_COLUMN, *columns], numbers)
    let_break(table.columns[0])
    return table


def _published_tables(report: AccuracyReport) -> list[RenderableType]:
    """The scores, and below what the numbers of their sources stand for."""
    numbers = ["16 bits", "score", "ratio", "by rule", "log error", "source"]
    table = _formats_table("Published scores", ["benchmark", *numbers], numbers)
    sources = list(dict.fromkeys(score.source for score in report.scores))
    for score in report.scores:
        result = report.of_rule(score)
        values = (score.full_precision, score.score, score.ratio, result and result.ratio)
        cells = ["–" if value is None else f"{value:.4g}" for value in values]
        error = report.log_error(score)
        cells.append("–" if error is None else f"{error:+.2f}")
        cells.append(str(sources.index(score.source) + 1))
        formats = _in_one_cell(_formats_document(score.formats))
        table.add_row(formats, score.benchmark.replace(",", ", "), *cells)
    lines = [text_line(f"{number}: {source}") for number, source in enumerate(sources, start=1)]
    return [table, *lines]


def _estimates_table(report: AccuracyReport) -> RenderableType:
    numbers = ["ratio to 16 bits", "low", "high"]
    columns = ["of", *numbers, "basis"]
    table = _formats_table("Scores over those at 16 bits", columns, numbers)
    for choice, measure, result in report.estimates():
        values = [f"{value:.4g}" for value in (result.ratio, result.low, result.high)]
        formats = _in_one_cell(_formats_document(choice))
        table.add_row(formats, measure, *values, result.basis)
    return table


def _measured_table(report: AccuracyReport, measured: MeasuredTable) -> RenderableType:
    numbers = ["KL, 1e-3 nats", "perplexity ratio", "95 %", "published", "by rule", "log error"]
    title = f"Measured: {measured.model} on {measured.text}"
    if not measured.is_of(report.n_parameters):
        title += f", which is not {report.model}: {measured.n_parameters:.4g} parameters"
    table = _formats_table(title, [*numbers, "basis"], numbers)
    let_break(table.columns[1 + numbers.index("95 %")])
    for row in report.measured():
        ratio = row["perplexity_ratio"]
        beside = [row[key] for key in ("published_ratio", "ratio_of_rule", "log_error_of_rule")]
        table.add_row(
            _in_one_cell(row),
            f"{1e3 * row['divergence_nats']['mean']:.3g}",
            f"{ratio['mean']:.4f}",
            f"{ratio['low']:.4f} to {ratio['high']:.4f}",
            *("–" if value is None else f"{value:.3f}" for value in beside),
            row["basis"],
        )
    return table


def measured_tables(document: dict[str, Any]) -> list[RenderableType]:
    """A measured table as lines: one for each combination."""
    numbers = ["perplexity", "ratio", "KL, 1e-3 nats", "95 %", "top-1", "worst layer, dB"]
    table = plain_table(f"{document['model']} on {document['text']}, measured",
                        [*_FORMAT_COLUMNS, *numbers], numbers)  # fmt: skip
    for row in document["rows"]:
        divergence = {key: 1e3 * value for key, value in row["divergence_nats"].items()}
        layers = [value for value in row["layer_sqnr_db"] if value is not None]
        table.add_row(
            *(row[key] for key in _FORMAT_KEYS),
            f"{row['perplexity']['mean']:.4g}",
            f"{row['perplexity_ratio']['mean']:.4f}",
            f"{divergence['mean']:.3g}",
            f"{divergence['low']:.3g} to {divergence['high']:.3g}",
            f"{row['agreement']['mean']:.2%}",
            f"{min(layers):.1f}" if layers else "–",
        )
    words = (
        f"{document['n_evaluation']} sequences of {document['context_length']} tokens, seed "
        f"{document['seed']}, on {document['device']}. Table: {document['file']}"
    )
    return [table, text_line(words)]


def mixture_tables(document: dict[str, Any]) -> list[RenderableType]:
    """Mixtures by their bits, and what each product costs."""
    numbers = ["bits", "expected KL", "measured KL", "95 %"]
    table = plain_table(f"Mixtures for {document['model']}, KL in 1e-3 nats per token",
                        [*numbers, "products in each format", "weight_format of a space"],
                        numbers)  # fmt: skip
    for row in document["mixtures"]:
        divergence = {key: 1e3 * value for key, value in row["divergence_nats"].items()}
        names = sorted(row["formats"].values())
        counts = ", ".join(f"{names.count(name)} {name}" for name in dict.fromkeys(names))
        table.add_row(
            f"{row['average_bits']:.3f}",
            f"{1e3 * row['expected_divergence_nats']:.3g}",
            f"{divergence['mean']:.3g}",
            f"{divergence['low']:.3g} to {divergence['high']:.3g}",
            counts,
            row["weight_format"],
        )
    names = list(document["sensitivities"][0]["divergence_nats"])
    costs = plain_table("KL of each product alone, 1e-3 nats per token",
                        ["product", "weights", *names], ["weights", *names])  # fmt: skip
    for item in document["sensitivities"]:
        cells = [f"{1e3 * item['divergence_nats'][name]:.3g}" for name in names]
        costs.add_row(item["product"], f"{item['n_weights']:,}", *cells)
    return [table, costs, text_line(f"Table: {document['file']}")]


def format_lines(evaluated: EvaluatedDesign) -> list[tuple[str, ...]]:
    """What the design's formats cost the model, and whether that is measured or estimated.

    Intervals hold 80 % of withheld scores, or 95 % of resamples of what was measured.

    Nothing where the evaluator serves no language model or the design names no formats.
    """
    workload, options = evaluated.workload, evaluated.options
    kinds = ("weight", "activation", "kv")
    weights, activations, kv_cache = (evaluated.design.get(f"{kind}_format") for kind in kinds)
    if not isinstance(workload, Request) or None in (weights, activations, kv_cache):
        return []
    own = options.quantization_algorithm if isinstance(options, AccuracyOptions) else "rtn"
    algorithm = evaluated.design.get("quantization_algorithm") or own
    choice = FormatChoice(str(weights), str(activations), str(kv_cache), str(algorithm))
    model = workload.language_model
    lines: list[tuple[str, ...]] = []
    if is_mixed(choice.weights):
        bits = bits_per_weight(choice.weights, workload.format_convention)
        lines.append(
            ("bits of a weight", f"{bits:g}", "", "on average", mixture_words(choice.weights))
        )
    for measure in MEASURES:
        try:
            size = float(parameter_count(model))
            result = estimate(choice, model.name, size, measure, model.vocab_size)
        except InputError as error:
            lines.append((f"{measure} over 16 bits", "not known", "", "", str(error)))
            continue
        interval = f"{result.low:.4f} to {result.high:.4f}"
        lines.append(
            (
                f"{measure} over 16 bits",
                f"{result.ratio:.4f}",
                interval,
                result.basis,
                result.source,
            )
        )
    table = options.measured_table() if isinstance(options, AccuracyOptions) else None
    loss = table.loss(choice, float(parameter_count(model))) if table else None
    if loss is not None:
        ratio, ends = loss.perplexity_ratio, loss.divergence_nats
        for name, its in (("perplexity over 16 bits", ratio), ("divergence, nats per token", ends)):
            interval = f"{its.low:.4f} to {its.high:.4f}"
            lines.append((name, f"{its.mean:.4f}", interval, loss.basis, loss.source))
    return lines
