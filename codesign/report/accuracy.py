"""What is known of the accuracy of a model in number formats, as tables and as a document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from codesign.quantization.loss_rule import (
    Estimate,
    algorithms,
    estimate,
    estimate_by_rule,
    load_rule,
)
from codesign.quantization.published import MEASURES, FormatChoice, PublishedScore, scores_of
from codesign.report.tables import plain_table, text_line

if TYPE_CHECKING:
    from rich.console import RenderableType

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
        n_parameters: Of it.
        choices: Combinations of formats that are of interest.
    """

    model: str
    n_parameters: float
    choices: Sequence[FormatChoice]

    @property
    def scores(self) -> tuple[PublishedScore, ...]:
        """Its published scores."""
        return scores_of(self.model)

    def of_rule(self, score: PublishedScore) -> Estimate | None:
        """What the rule has for a published score; None: it knows not these formats."""
        if not score.is_comparable or score.formats.algorithm not in algorithms():
            return None
        return estimate_by_rule(score.formats, self.model, self.n_parameters, score.measure)

    def estimates(self) -> list[tuple[FormatChoice, str, Estimate]]:
        """Each choice with each measure."""
        return [
            (choice, measure, estimate(choice, self.model, self.n_parameters, measure))
            for choice in self.choices
            for measure in MEASURES
        ]


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
        "errors_of_rule": {
            "accuracy": rule.accuracy.errors,
            "perplexity": rule.perplexity.errors,
        },
    }


def _formats_document(formats: FormatChoice) -> dict[str, str]:
    return {
        "weight_format": formats.weights,
        "activation_format": formats.activations,
        "kv_format": formats.kv_cache,
        "quantization_algorithm": formats.algorithm,
    }


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
        "source": score.source,
        "note": score.note,
    }


def accuracy_tables(report: AccuracyReport) -> list[RenderableType]:
    """Published scores beside the rule, then what the choices come to."""
    parts: list[RenderableType] = []
    if report.scores:
        parts.append(_published_table(report))
    else:
        parts.append(text_line(f"No score of {report.model} is published here."))
    parts.append(_estimates_table(report))
    errors = load_rule().accuracy.errors
    words = ", ".join(f"{kind} {value:.2f}" for kind, value in errors.items())
    line = f"Error of the log of an estimated loss that 80 % of withheld scores keep: {words}."
    return [*parts, text_line(line)]


_FORMAT_COLUMNS = ("weights", "activations", "KV cache", "algorithm")


def _cells(formats: FormatChoice) -> list[str]:
    return [formats.weights, formats.activations, formats.kv_cache, formats.algorithm]


def _published_table(report: AccuracyReport) -> RenderableType:
    numbers = ["16 bits", "score", "ratio", "by rule"]
    columns = [*_FORMAT_COLUMNS, "benchmark", *numbers, "source"]
    table = plain_table("Published scores", columns, numbers)
    for score in report.scores:
        result = report.of_rule(score)
        values = (score.full_precision, score.score, score.ratio, result and result.ratio)
        cells = ["–" if value is None else f"{value:.4g}" for value in values]
        table.add_row(*_cells(score.formats), score.benchmark, *cells, score.source)
    return table


def _estimates_table(report: AccuracyReport) -> RenderableType:
    numbers = ["ratio to 16 bits", "low", "high"]
    columns = [*_FORMAT_COLUMNS, "of", *numbers, "basis"]
    table = plain_table("Scores over those at 16 bits", columns, numbers)
    for choice, measure, result in report.estimates():
        values = [f"{value:.4g}" for value in (result.ratio, result.low, result.high)]
        table.add_row(*_cells(choice), measure, *values, result.basis)
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
            row["weight_format"],
            row["activation_format"],
            row["kv_format"],
            row["quantization_algorithm"],
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
                        [*numbers, "products in each format"], numbers)  # fmt: skip
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
        )
    names = list(document["sensitivities"][0]["divergence_nats"])
    costs = plain_table("KL of each product alone, 1e-3 nats per token",
                        ["product", "weights", *names], ["weights", *names])  # fmt: skip
    for item in document["sensitivities"]:
        cells = [f"{1e3 * item['divergence_nats'][name]:.3g}" for name in names]
        costs.add_row(item["product"], f"{item['n_weights']:,}", *cells)
    return [table, costs]
