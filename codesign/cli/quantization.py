"""Measure the effect of number formats on a local model."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated

import typer

from codesign.base.errors import needing_extra
from codesign.cli.flags import numbers
from codesign.cli.output import report

Model = Annotated[Path, typer.Option(help="Folder with config.json and *.safetensors.")]
Text = Annotated[Path, typer.Option(help="Text to measure on.")]
Context = Annotated[int, typer.Option(min=2, help="Tokens of a sequence.")]
Calibration = Annotated[int, typer.Option(min=1, help="Sequences to calibrate on.")]
Device = Annotated[str, typer.Option(help="Of torch, such as cpu or cuda.")]


def _measuring(output: Path) -> AbstractContextManager[None]:
    """The lock of a table: one process at a time measures for it."""
    from codesign.base.files import check_place
    from codesign.base.locks import exclusive

    check_place(output)
    place = output.parent if output.parent.is_dir() else Path()
    return exclusive(place / f".{output.name}.lock", "measures for this table", is_kept=False)


def quantize(
    model: Model,
    text: Text,
    formats: str = "mxfp8,mxint8,nvfp4,mxfp4",
    algorithms: str = "rtn",
    context: Context = 256,
    sequences: Annotated[int, typer.Option(min=2, help="Sequences that are measured.")] = 32,
    calibration: Calibration = 16,
    seed: int = 0,
    device: Device = "cpu",
    output: Path | None = None,
) -> None:
    """Measure what formats do to a local model: perplexity, divergence, agreement, layers.

    The table is written after each combination; interrupted, it goes on when run again.

    Args:
        formats: Formats, separated by commas; WEIGHTS/ACTIVATIONS/KV_CACHE or one for all.
        algorithms: By commas: rtn, gptq, clipping, quarot, smoothquant, or joined by +, such as
            quarot+gptq.
        seed: Seed of rotations and resamples.
        output: Table; accuracy-MODEL.json if not given.
    """
    with needing_extra("measuring a model", "accuracy"):
        from codesign.models.quantization.accuracy_table import (
            TableSettings,
            measure_table,
            parse_choice,
        )
    choices = [
        parse_choice(name.strip(), algorithm.strip(), "--formats")
        for algorithm in algorithms.split(",")
        for name in formats.split(",")
    ]
    settings = TableSettings(model, text, context, sequences, calibration, seed, device)
    path = output or Path(f"accuracy-{model.resolve().name}.json")
    with _measuring(path):
        table = measure_table(settings, choices, path)
    from codesign.answers.accuracy import QuantizeAnswer
    from codesign.report.accuracy_tables import measured_tables

    answer = QuantizeAnswer(**table, file=str(path))
    report(lambda: answer, lambda: measured_tables(answer))


def mix_formats(
    model: Model,
    text: Text,
    formats: str = "mxfp4,mxfp8",
    average_bits: str | None = None,
    divergence: float | None = None,
    algorithm: str = "rtn",
    context: Context = 256,
    sequences: Annotated[int, typer.Option(min=2, help="Sequences to choose on.")] = 16,
    calibration: Calibration = 16,
    device: Device = "cpu",
    output: Path | None = None,
) -> None:
    """Choose a format for each product of a local model, few bits where it is insensitive.

    Weights and inputs are mixed. As many sequences again measure the mixtures that were chosen.
    The table is written after each measurement; interrupted, it goes on when run again.

    Args:
        formats: Formats to mix, separated by commas.
        average_bits: Average bits of a weight, separated by commas, such as 4.5,5,6.
        divergence: Largest divergence in nats per token, in place of average bits.
        algorithm: Quantization algorithm, as in codesign accuracy quantize.
        output: Table; mixtures-MODEL.json if not given.
    """
    with needing_extra("measuring a model", "accuracy"):
        from codesign.models.quantization.mixture_table import MixtureSettings, mixture_table
    names = tuple(dict.fromkeys(name.strip() for name in formats.split(",")))
    settings = MixtureSettings(
        model, text, names, algorithm, context, sequences, calibration, device
    )
    path = output or Path(f"mixtures-{model.resolve().name}.json")
    limits = numbers("--average-bits", average_bits, above=0) if average_bits else []
    with _measuring(path):
        table = mixture_table(settings, limits, divergence, path)
    from codesign.answers.accuracy import MixFormatsAnswer
    from codesign.report.accuracy_tables import mixture_tables

    answer = MixFormatsAnswer(**table, file=str(path))
    report(lambda: answer, lambda: mixture_tables(answer))
