"""Mixtures of formats for a local model: chosen on some sequences, measured on others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from operator import itemgetter
from pathlib import Path

from codesign.base.columns import FloatSequence, JsonObject, StringTuple
from codesign.base.errors import InputError
from codesign.base.loop_progress import LoopProgress
from codesign.base.records import frozen
from codesign.models.format_mixture import mixture_name
from codesign.models.quantization.accuracy_table import (
    stored_table,
    table_head,
    usable_device,
    write_table,
)
from codesign.models.quantization.block_formats import find_block_format
from codesign.models.quantization.measurement import measure, split_text
from codesign.models.quantization.mixture import (
    Mixture,
    Sensitivity,
    best_mixture,
    mixed_decoder,
    narrowest_mixture,
    sensitivities,
)
from codesign.models.quantization.model_checkpoint import load_checkpoint, read_tokens
from codesign.models.quantization.quantized_model import algorithm_steps


@frozen
class MixtureSettings:
    """Formats to mix, and the amount of text.

    Attributes:
        model: Folder of the checkpoint.
        text: File; its beginning chooses and measures, its end calibrates.
        formats: To mix.
        algorithm: For the weights; one without rotations or scales.
        context_length: Tokens of a sequence.
        n_sequences: To choose on, and as many to measure on.
        n_calibration: Sequences that algorithms look at.
    """

    model: Path
    text: Path
    formats: StringTuple
    algorithm: str = "rtn"
    context_length: int = 256
    n_sequences: int = 16
    n_calibration: int = 16
    device: str = "cpu"


def mixture_table(
    settings: MixtureSettings,
    average_bits: FloatSequence,
    divergence_nats: float | None,
    output: Path,
) -> JsonObject:
    """Sensitivities of all products, and the best mixture for each limit.

    The output is written after each measurement, and what it has already is not measured again.

    Args:
        average_bits: Limits on the bits of a weight on average.
        divergence_nats: Limit on the divergence; None: none.
        output: File of the table, in JSON.

    Raises:
        InputError: Something cannot be used, or a limit cannot be kept.
    """
    _check(settings, average_bits, divergence_nats)
    device = usable_device(settings.device)
    decoder = load_checkpoint(settings.model, device)
    n_sequences = settings.n_sequences
    split = split_text(
        read_tokens(settings.model, settings.text),
        settings.context_length,
        settings.n_calibration,
        2 * n_sequences,
    )
    to_measure = split.evaluation[:n_sequences]
    to_choose = split.evaluation[n_sequences:]
    calibration = split.calibration.to(decoder.device)
    head = {
        **table_head(settings, "context_length", "n_sequences", "n_calibration"),
        "quantization_algorithm": settings.algorithm,
    }
    table = stored_table(output, head, sensitivities=Sensitivity, mixtures=Mixture)
    known = [Sensitivity(**record) for record in table["sensitivities"]]
    n_done = sum(
        name in sensitivity.divergence_nats for sensitivity in known for name in settings.formats
    )
    n_products = len(decoder.products) * len(settings.formats)

    def keep(so_far: Sequence[Sensitivity]) -> None:
        table["sensitivities"] = [asdict(sensitivity) for sensitivity in so_far]
        write_table(table, output)
        loop.advance()

    with LoopProgress("products in each format", n_products, n_done) as loop:
        everything = sensitivities(
            decoder, settings.formats, calibration, to_choose, settings.algorithm, known, keep
        )
    measured = [sensitivity.measure(settings.formats) for sensitivity in everything]
    mixtures = [best_mixture(measured, bits) for bits in average_bits]
    if divergence_nats is not None:
        mixtures.append(narrowest_mixture(measured, divergence_nats))
    for mixture in mixtures:
        if not any(row["formats"] == mixture.formats for row in table["mixtures"]):
            trial = mixed_decoder(decoder, mixture.formats, calibration, settings.algorithm)
            fidelity = measure(decoder, trial, to_measure)
            row = {**asdict(mixture), "divergence_nats": asdict(fidelity.divergence_nats)}
            table["mixtures"].append(row)
            write_table(table, output)
    rows = {tuple(row["formats"].items()): row for row in table["mixtures"]}
    return {
        **table,
        "sensitivities": [asdict(sensitivity) for sensitivity in measured],
        "mixtures": [
            {
                **rows[tuple(mixture.formats.items())],
                "weight_format": _weight_format(measured, mixture),
            }
            for mixture in mixtures
        ],
    }


def _weight_format(measured: Sequence[Sensitivity], mixture: Mixture) -> str:
    """The mixture as a value of a space: its shares of the weights, as if of all layers alike."""
    total = sum(sensitivity.n_weights for sensitivity in measured)
    shares = [(x.n_weights / total, mixture.formats[x.product]) for x in measured]
    return mixture_name(sorted(shares, key=itemgetter(1)))


def _check(
    settings: MixtureSettings, average_bits: FloatSequence, divergence_nats: float | None
) -> None:
    for name in settings.formats:
        if find_block_format(name, "--formats").element is None:
            raise InputError(f"--formats: {name}: expected a format of blocks, rows or groups")
    if {"quarot", "smoothquant"} & set(algorithm_steps(settings.algorithm, "--algorithm")):
        raise InputError("--algorithm: expected rtn, gptq or clipping for a mixture")
    least = min(find_block_format(name).bits_per_element for name in settings.formats)
    for bits in average_bits:
        if not bits >= least:  # before anything is measured
            raise InputError(f"--average-bits: expected {least:g} or more, got {bits:g}")
    if not average_bits and divergence_nats is None:
        raise InputError("expected --average-bits or --divergence, got neither")
