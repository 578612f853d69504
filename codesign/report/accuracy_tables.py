"""Tables on the accuracy of a model in number formats: measured, published and estimated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from codesign.answers.accuracy import (
    AccuracyAnswer,
    FormatsEntry,
    MixFormatsAnswer,
    QuantizeAnswer,
)
from codesign.base.errors import InputError
from codesign.evaluators.format_accuracy import AccuracyOptions
from codesign.models.format_mixture import is_mixed, mixture_words
from codesign.models.quantization.loss_rule import (
    estimate,
)
from codesign.models.quantization.measured import Interval, MeasuredTable
from codesign.models.quantization.published import (
    MEASURES,
    FormatChoice,
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


def accuracy_tables(answer: AccuracyAnswer, measured: MeasuredTable | None) -> list[RenderableType]:
    """Published scores beside the rule, then estimates and measurements of combinations.

    Args:
        answer: The answer about a model.
        measured: The table of its measured rows.
    """
    parts: list[RenderableType] = []
    if answer.published:
        parts += _published_tables(answer)
    else:
        parts.append(text_line(f"No score of {answer.model} is published here."))
    numbers = ["ratio to 16 bits", "low", "high"]
    columns = ["of", *numbers, "basis"]
    table = _formats_table("Scores over those at 16 bits", columns, numbers)
    for estimated in answer.estimates:
        values = [f"{value:.4g}" for value in (estimated.ratio, estimated.low, estimated.high)]
        table.add_row(_in_one_cell(estimated), estimated.measure, *values, estimated.basis)
    parts.append(table)
    if measured is not None:
        parts.append(_measured_table(answer, measured))
    errors = answer.errors_of_rule.accuracy
    words = ", ".join(f"{measure} {value:.2f}" for measure, value in errors.items())
    line = f"Error of the log of an estimated loss that 80 % of withheld scores keep: {words}."
    return [*parts, text_line(line)]


_FORMAT_COLUMNS = ("weights", "activations", "KV cache", "algorithm")
_IN_ONE_COLUMN = "weights / activations / KV cache, algorithm"


def _in_one_cell(formats: FormatsEntry) -> str:
    names = f"{formats.weight_format} / {formats.activation_format} / {formats.kv_format}"
    return f"{names}, {formats.quantization_algorithm}"


def _formats_table(title: str, columns: Sequence[str], numbers: Sequence[str]) -> Table:
    """An empty table whose first column has formats, which may be broken over lines."""
    table = plain_table(title, [_IN_ONE_COLUMN, *columns], numbers)
    let_break(table.columns[0])
    return table


def _published_tables(answer: AccuracyAnswer) -> list[RenderableType]:
    """The scores, and below them their sources by number."""
    numbers = ["16 bits", "score", "ratio", "by rule", "log error", "source"]
    table = _formats_table("Published scores", ["benchmark", *numbers], numbers)
    sources = list(dict.fromkeys(score.source for score in answer.published))
    for score in answer.published:
        values = (score.full_precision, score.score, score.ratio, score.ratio_of_rule)
        cells = ["–" if value is None else f"{value:.4g}" for value in values]
        error = score.log_error_of_rule
        cells.append("–" if error is None else f"{error:+.2f}")
        cells.append(str(sources.index(score.source) + 1))
        table.add_row(_in_one_cell(score), score.benchmark.replace(",", ", "), *cells)
    lines = [text_line(f"{number}: {source}") for number, source in enumerate(sources, start=1)]
    return [table, *lines]


def _measured_table(answer: AccuracyAnswer, measured: MeasuredTable) -> RenderableType:
    numbers = ["KL, 1e-3 nats", "perplexity ratio", "95 %", "published", "by rule", "log error"]
    title = f"Measured: {measured.model} on {measured.text}"
    if not measured.is_of(answer.n_parameters):
        title += f", which is not {answer.model}: {measured.n_parameters:.4g} parameters"
    table = _formats_table(title, [*numbers, "basis"], numbers)
    let_break(table.columns[1 + numbers.index("95 %")])
    for row in answer.measured or ():
        ratio = row.perplexity_ratio
        beside = (row.published_ratio, row.ratio_of_rule, row.log_error_of_rule)
        table.add_row(
            _in_one_cell(row),
            f"{1e3 * row.divergence_nats.mean:.3g}",
            f"{ratio.mean:.4f}",
            f"{ratio.low:.4f} to {ratio.high:.4f}",
            *("–" if value is None else f"{value:.3f}" for value in beside),
            row.basis,
        )
    return table


def measured_tables(answer: QuantizeAnswer) -> list[RenderableType]:
    """A measured table as lines: one for each combination."""
    numbers = ["perplexity", "ratio", "KL, 1e-3 nats", "95 %", "top-1", "worst layer, dB"]
    table = plain_table(f"{answer.model} on {answer.text}, measured",
                        [*_FORMAT_COLUMNS, *numbers], numbers)  # fmt: skip
    for row in answer.rows:
        layers = [value for value in row.layer_sqnr_db if value is not None]
        table.add_row(
            row.weight_format,
            row.activation_format,
            row.kv_format,
            row.quantization_algorithm,
            f"{row.perplexity.mean:.4g}",
            f"{row.perplexity_ratio.mean:.4f}",
            *_divergence_cells(row.divergence_nats),
            f"{row.agreement.mean:.2%}",
            f"{min(layers):.1f}" if layers else "–",
        )
    words = (
        f"{answer.n_evaluation} sequences of {answer.context_length} tokens, seed "
        f"{answer.seed}, on {answer.device}. Table: {answer.file}"
    )
    return [table, text_line(words)]


def _divergence_cells(divergence: Interval) -> tuple[str, str]:
    """Mean and interval, in 1e-3 nats."""
    mean, low, high = (1e3 * end for end in (divergence.mean, divergence.low, divergence.high))
    return f"{mean:.3g}", f"{low:.3g} to {high:.3g}"


def mixture_tables(answer: MixFormatsAnswer) -> list[RenderableType]:
    """Mixtures by their bits, and the cost of each product."""
    numbers = ["bits", "expected KL", "measured KL", "95 %"]
    table = plain_table(f"Mixtures for {answer.model}, KL in 1e-3 nats per token",
                        [*numbers, "products in each format", "weight_format of a space"],
                        numbers)  # fmt: skip
    for mixture in answer.mixtures:
        names = sorted(mixture.formats.values())
        table.add_row(
            f"{mixture.average_bits:.3f}",
            f"{1e3 * mixture.expected_divergence_nats:.3g}",
            *_divergence_cells(mixture.divergence_nats),
            ", ".join(f"{names.count(name)} {name}" for name in dict.fromkeys(names)),
            mixture.weight_format,
        )
    names = list(answer.sensitivities[0].divergence_nats)
    costs = plain_table("KL of each product alone, 1e-3 nats per token",
                        ["product", "weights", *names], ["weights", *names])  # fmt: skip
    for product in answer.sensitivities:
        cells = [f"{1e3 * product.divergence_nats[name]:.3g}" for name in names]
        costs.add_row(product.product, f"{product.n_weights:,}", *cells)
    return [table, costs, text_line(f"Table: {answer.file}")]


def format_lines(evaluated: EvaluatedDesign) -> list[tuple[str, ...]]:
    """Lines on the cost of a design's formats to the model, measured or estimated.

    Intervals hold 80 % of withheld scores, or 95 % of resamples of what was measured.

    Nothing where the evaluator serves no language model or the design names no formats.
    """
    workload, options = evaluated.workload, evaluated.options
    kinds = ("weight", "activation", "kv")
    weights, activations, kv_cache = (evaluated.design.get(f"{group}_format") for group in kinds)
    if not isinstance(workload, Request) or None in (weights, activations, kv_cache):
        return []
    quantization = options.quantization_algorithm if isinstance(options, AccuracyOptions) else "rtn"
    algorithm = evaluated.design.get("quantization_algorithm") or quantization
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
