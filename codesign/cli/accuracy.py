"""Cost of number formats in accuracy."""

from __future__ import annotations

import math
from pathlib import Path

from codesign.cli.output import report


def accuracy(
    model: str,
    weights: str | None = None,
    activations: str = "bf16",
    kv_cache: str = "bf16",
    algorithm: str = "rtn",
    table: Path | None = None,
) -> None:
    """Show what formats cost a model in accuracy: published, measured, and estimates as such.

    Args:
        model: A bundled model, or another with published scores.
        weights: Format, such as mxfp4.
        activations: Format of activations.
        kv_cache: Format of keys and values.
        algorithm: Algorithm of quantization, such as rtn or gptq.
        table: A table of codesign accuracy quantize, shown beside them.
    """
    from codesign.answers.accuracy import AccuracyAnswer
    from codesign.models.quantization.measured import read_measured_table
    from codesign.models.quantization.published import FormatChoice
    from codesign.report import accuracy_tables as tables

    choices = tables.USUAL
    if weights is not None or (activations, kv_cache) != ("bf16", "bf16"):
        choices = (FormatChoice(weights or "bf16", activations, kv_cache, algorithm),)
    elif algorithm != "rtn":
        choices = tuple(
            FormatChoice(choice.weights, choice.activations, choice.kv_cache, algorithm)
            for choice in choices
        )
    measured = None if table is None else read_measured_table(table)
    n_parameters, vocab_size = _sizes(model)
    answer = AccuracyAnswer.describe(model, n_parameters, choices, measured, vocab_size)
    report(lambda: answer, lambda: tables.accuracy_tables(answer, measured))


def _sizes(model: str) -> tuple[float, float]:
    """Parameters and vocabulary of a model that can be loaded or has published scores.

    The vocabulary is infinite where only scores are known.

    Raises:
        UnknownNameError: Nobody knows it.
    """
    from codesign.base.errors import UnknownNameError
    from codesign.models.quantization.published import model_key, n_parameters_of, scored_models
    from codesign.models.workload import list_models, load_model, parameter_count

    if model in list_models() or "/" in model:
        loaded = load_model(model)
        return float(parameter_count(loaded)), float(loaded.vocab_size)
    if model_key(model) in scored_models():
        return n_parameters_of(model), math.inf
    raise UnknownNameError("language model", model, {*list_models(), *scored_models()})
