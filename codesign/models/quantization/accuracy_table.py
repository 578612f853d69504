"""A measured accuracy table of a local model: every named combination, resumable.

The table is written after each combination, so an interrupted measurement goes on where it was.
"""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Sequence
from dataclasses import asdict, astuple
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter

from codesign.base.columns import Fields, JsonObject
from codesign.base.errors import InputError
from codesign.base.files import check_place, write_text
from codesign.base.loop_progress import LoopProgress
from codesign.base.records import frozen
from codesign.models.quantization.block_formats import find_block_format
from codesign.models.quantization.measured import MeasuredRow
from codesign.models.quantization.measurement import measure, split_text
from codesign.models.quantization.model_checkpoint import fingerprint, load_checkpoint, read_tokens
from codesign.models.quantization.published import FormatChoice
from codesign.models.quantization.quantized_model import algorithm_steps, quantized

_KEYS = ("weight_format", "activation_format", "kv_format", "quantization_algorithm")


@frozen
class TableSettings:
    """Formats to measure, and the amount of text.

    Attributes:
        model: Folder of the checkpoint.
        text: File to measure on; its end calibrates.
        context_length: Tokens of a sequence.
        n_evaluation: Sequences that are measured.
        n_calibration: Sequences that algorithms look at.
        seed: Of rotations and resamples.
    """

    model: Path
    text: Path
    context_length: int = 256
    n_evaluation: int = 32
    n_calibration: int = 16
    seed: int = 0
    device: str = "cpu"


def parse_choice(text: str, algorithm: str, where: str) -> FormatChoice:
    """Formats as ``W/A/KV``; one name stands for all three.

    Raises:
        InputError: Another number of names, or an unknown one.
    """
    names = text.split("/")
    if len(names) not in (1, 3):
        raise InputError(f"{where}: {text!r}: expected FORMAT or WEIGHTS/ACTIVATIONS/KV_CACHE")
    for name in names:
        find_block_format(name, where)
    algorithm_steps(algorithm, where)
    weights, activations, kv_cache = names * 3 if len(names) == 1 else names
    return FormatChoice(weights, activations, kv_cache, algorithm)


def measure_table(
    settings: TableSettings,
    choices: Sequence[FormatChoice],
    output: Path,
) -> JsonObject:
    """The table of all choices; those that the output has already are not measured again.

    Args:
        output: File of the table, in JSON.

    Raises:
        InputError: Model, text or output cannot be used; nothing is written.
    """
    device = usable_device(settings.device)
    decoder = load_checkpoint(settings.model, device)
    sequences = split_text(
        read_tokens(settings.model, settings.text),
        settings.context_length,
        settings.n_calibration,
        settings.n_evaluation,
    )
    head = {
        **table_head(settings, "context_length", "n_evaluation", "n_calibration", "seed"),
        "n_parameters": sum(weight.numel() for weight in decoder.weights.values()),
    }
    table = stored_table(output, head, rows=MeasuredRow)
    rows = {tuple(row[key] for key in _KEYS): row for row in table["rows"]}
    wanted_choices = {astuple(choice): choice for choice in choices}
    missing = [key for key in wanted_choices if key not in rows]
    n, n_missing = (len(keys) * settings.n_evaluation for keys in (wanted_choices, missing))
    with LoopProgress("sequences", n, n - n_missing) as loop:
        for key in missing:
            choice = wanted_choices[key]
            calibration = sequences.calibration.to(decoder.device)
            trial = quantized(decoder, choice, calibration, settings.seed)
            fidelity = measure(decoder, trial, sequences.evaluation, settings.seed, loop.advance)
            if not all(map(math.isfinite, asdict(fidelity.perplexity).values())):
                raise InputError(
                    f"{settings.model}: its perplexity with {choice} is not finite: "
                    f"{fidelity.perplexity}"
                )
            layers = [x if math.isfinite(x) else None for x in fidelity.layer_sqnr_db]
            named = dict(zip(_KEYS, key, strict=True))
            rows[key] = {**named, **asdict(fidelity), "layer_sqnr_db": layers}
            table["rows"] = list(rows.values())
            write_table(table, output)
    return {**table, "rows": [rows[key] for key in wanted_choices]}


def usable_device(name: str) -> str:
    """The device of that name.

    Raises:
        InputError: Torch cannot use it here.
    """
    try:
        torch.zeros(1, device=name)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"--device {name}: torch cannot use it: {reason}") from error
    return name


def device_label(name: str) -> str:
    """Torch's name of a device and, of a GPU, its model: their numbers differ in the last bits."""
    device = torch.device(name)
    return f"{name} ({torch.cuda.get_device_name(device)})" if device.type == "cuda" else name


def table_head(settings: Any, *counts: str) -> JsonObject:
    """All that a measurement depends on: files, some numbers of its settings, and versions."""
    return {
        "model": settings.model.name,
        "fingerprint": fingerprint(settings.model, settings.text),
        "text": settings.text.name,
        **{name: getattr(settings, name) for name in counts},
        "device": device_label(settings.device),
        "versions": {
            "python": platform.python_version(),
            "torch": version("torch"),
            "numpy": version("numpy"),
        },
    }


def stored_table(output: Path, head: Fields, **records: type) -> JsonObject:
    """The table with this head that a file has; of a new one, empty lists.

    Args:
        records: Type of the rows of each list.

    Raises:
        InputError: The output is of something else, or damaged.
    """
    check_place(output)
    if not output.exists():
        return {**head, **{name: [] for name in records}}
    try:
        stored = json.loads(output.read_text("utf-8"))
        differing = [key for key, value in head.items() if stored[key] != value]
        for name, record in records.items():
            TypeAdapter(list[record]).validate_python(stored[name])  # type: ignore[valid-type] # at run time it is one
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{output}: expected an accuracy table, got something else") from error
    if differing:
        raise InputError(
            f"{output}: has a table with another {', '.join(differing)}; name another --output"
        )
    return dict(stored)


def write_table(table: Fields, output: Path) -> None:
    """Put a table into its file at once."""
    write_text(output, json.dumps(table, indent=1) + "\n")
