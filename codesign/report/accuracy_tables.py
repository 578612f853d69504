"""Tables on the accuracy of a model in number formats: measured, published and estimated."""

from __future__ import annotations

from collections import Counter

from codesign.answers.accuracy import (
    AccuracyAnswer,
    MixFormatsAnswer,
    QuantizeAnswer,
)
from codesign.base.columns import StringTuple
from codesign.base.errors import InputError
from codesign.evaluators.format_accuracy import AccuracyOptions
from codesign.insight.evaluated_design import EvaluatedDesign
from codesign.models.format_mixture import is_mixed, mixture_words
from codesign.models.quantization.loss_rule import (
    estimate,
)
from codesign.models.quantization.measured import MeasuredTable
from codesign.models.quantization.published import (
    MEASURES,
    FormatChoice,
)
from codesign.models.workload import Request, bits_per_weight, parameter_count
from codesign.report.tables import Tables, record_table

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


def accuracy_tables(answer: AccuracyAnswer, measured: MeasuredTable | None) -> Tables:
    """Published scores beside the rule, then estimates and measurements of combinations.

    Args:
        answer: The answer about a model.
        measured: The table of its measured rows.
    """
    fields = f"{_FORMATS} measure=of ratio=ratio_to_16_bits low high basis"
    estimates = record_table("Scores over those at 16 bits", answer.estimates, fields, folds=True)
    errors = answer.errors_of_rule.accuracy
    words = ", ".join(f"{measure} {value:.2f}" for measure, value in errors.items())
    line = f"Error of the log of an estimated loss that 80 % of withheld scores keep: {words}."
    tables = [*_published_tables(answer), estimates]
    if measured is not None:
        title = f"Measured: {measured.model} on {measured.text}; KL in nats, ratios of perplexities"
        if not measured.is_of(answer.n_parameters):
            title += f", which is not {answer.model}: {measured.n_parameters:.4g} parameters"
        fields = (
            f"{_FORMATS} divergence_nats.mean=KL perplexity_ratio.mean=ratio "
            "perplexity_ratio.low=low perplexity_ratio.high=high published_ratio=published "
            f"ratio_of_rule=by_rule {_BESIDE} basis"
        )
        tables.append(record_table(title, answer.measured or (), fields, folds=True))
    return [*tables, line]


_FORMATS = "formats_in_words=weights_/_activations_/_KV_cache,_algorithm"
_BESIDE = "log_error_of_rule=log_error"


def _published_tables(answer: AccuracyAnswer) -> Tables:
    """The scores, and below them their sources by number."""
    if not answer.published:
        return [f"No score of {answer.model} is published here."]
    sources = list(dict.fromkeys(score.source for score in answer.published))
    rows = [
        vars(score)
        | {
            "formats_in_words": score.formats_in_words,
            "benchmark": score.benchmark.replace(",", ", "),
            "source": sources.index(score.source) + 1,
        }
        for score in answer.published
    ]
    fields = "benchmark full_precision=16_bits score ratio ratio_of_rule=by_rule"
    table = record_table(
        "Published scores", rows, f"{_FORMATS} {fields} {_BESIDE} source", folds=True
    )
    lines = [f"{number}: {source}" for number, source in enumerate(sources, start=1)]
    return [table, *lines]


_EACH_FORMAT = (
    "weight_format=weights activation_format=activations kv_format=KV_cache "
    "quantization_algorithm=algorithm"
)
_DIVERGENCE = "divergence_nats.mean=KL divergence_nats.low=KL_low divergence_nats.high=KL_high"


def measured_tables(answer: QuantizeAnswer) -> Tables:
    """A measured table as lines: one for each combination."""
    rows = [
        vars(row) | {"worst": min((x for x in row.layer_sqnr_db if x is not None), default=None)}
        for row in answer.rows
    ]
    fields = (
        f"{_EACH_FORMAT} perplexity.mean=perplexity perplexity_ratio.mean=ratio {_DIVERGENCE} "
        "agreement.mean=top-1 worst=worst_layer,_dB"
    )
    words = (
        f"{answer.n_evaluation} sequences of {answer.context_length} tokens, seed "
        f"{answer.seed}, on {answer.device}. Table: {answer.file}"
    )
    title = f"{answer.model} on {answer.text}, measured; KL in nats"
    return [record_table(title, rows, fields), words]


def mixture_tables(answer: MixFormatsAnswer) -> Tables:
    """Mixtures by their bits, and the cost of each product."""
    counts = [Counter(sorted(mixture.formats.values())) for mixture in answer.mixtures]
    rows = [
        vars(mixture) | {"products": ", ".join(f"{n} {name}" for name, n in count.items())}
        for mixture, count in zip(answer.mixtures, counts, strict=True)
    ]
    fields = (
        f"average_bits=bits expected_divergence_nats=expected_KL {_DIVERGENCE} "
        "products=products_in_each_format weight_format=weight_format_of_a_space"
    )
    costs = [vars(x) | dict(x.divergence_nats) for x in answer.sensitivities]
    names = " ".join(answer.sensitivities[0].divergence_nats)
    return [
        record_table(f"Mixtures for {answer.model}, KL in nats per token", rows, fields),
        record_table(
            "KL of each product alone, nats per token", costs, f"product n_weights=weights {names}"
        ),
        f"Table: {answer.file}",
    ]


def format_lines(evaluated: EvaluatedDesign) -> list[StringTuple]:
    """Lines on the cost of a design's formats to the model, measured or estimated.

    Intervals hold 80 % of withheld scores, or 95 % of resamples of what was measured.

    Nothing where the evaluator serves no language model or the design names no formats.
    """
    workload = evaluated.workload
    options = evaluated.options
    kinds = ("weight", "activation", "kv")
    weights, activations, kv_cache = (evaluated.design.get(f"{group}_format") for group in kinds)
    if not isinstance(workload, Request) or None in (weights, activations, kv_cache):
        return []
    quantization = options.quantization_algorithm if isinstance(options, AccuracyOptions) else "rtn"
    algorithm = evaluated.design.get("quantization_algorithm") or quantization
    choice = FormatChoice(str(weights), str(activations), str(kv_cache), str(algorithm))
    model = workload.language_model
    lines: list[StringTuple] = []
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
            lines.append((f"{measure} relative to 16 bits", "not known", "", "", str(error)))
            continue
        interval = f"{result.low:.4f} to {result.high:.4f}"
        lines.append(
            (
                f"{measure} relative to 16 bits",
                f"{result.ratio:.4f}",
                interval,
                result.basis,
                result.source,
            )
        )
    table = options.measured_table() if isinstance(options, AccuracyOptions) else None
    loss = table.loss(choice, float(parameter_count(model))) if table else None
    if loss is not None:
        ratio = loss.perplexity_ratio
        ends = loss.divergence_nats
        for name, its in (
            ("perplexity relative to 16 bits", ratio),
            ("divergence, nats per token", ends),
        ):
            interval = f"{its.low:.4f} to {its.high:.4f}"
            lines.append((name, f"{its.mean:.4f}", interval, loss.basis, loss.source))
    return lines
