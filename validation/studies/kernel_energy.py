"""Measured energy of kernels beside what ``codesign size`` adds up, time and power predicted.

Constants of energy are of an H100, which has none of these rows. On a measured device times have
its corrections, fitted without a row's geometry. Any other device is one that the fits of time have
not seen, and has no corrections. At measured times the errors are of power alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign.base.columns import ArrayDict, BoolArray, FloatArray, JsonRows, values_at
from validation.studies.kernel_families import energy
from validation.studies.kernel_families.correcting import cross_validated_s
from validation.studies.kernel_families.family import KernelFamily
from validation.studies.kernel_table import KernelTable, joined
from validation.studies.kernels import (
    FAMILIES,
    device_keys,
    family_of,
    measured_kernels,
)
from validation.studies.study import Study, median_promise, summarize

TARGET = 0.10
"""Median error of the energy of kernels that is promised."""
_PREDICTIONS = {
    "measured_time": "energy at measured times",
    "error": "energy at predicted times, geometry held out",
    "held_out": "energy at predicted times, device held out",
}


def run() -> Study:
    """Compare the energy of every kernel whose watts were measured."""
    table, _ = measured_kernels()
    rows = table.take(energy.left_out(table) == "")
    # Also where another row has the same product, measured faster and without watts.
    rows = KernelTable(rows.text | {"fastest": np.full(len(rows), "1")}, rows.lines)
    devices = device_keys(rows)
    seconds = np.full(len(rows), np.nan)
    for family, is_selected in _family_masks(rows):
        seconds[is_selected] = _corrected_s_of(
            family, rows.take(is_selected), table.operator_rows(family.operators)
        )
    corrected_s, held_out_s = seconds, _held_out_s(rows, table, devices)
    errors = {
        "measured_time": _errors(rows, rows["latency_s"]),
        "error": _errors(rows, energy.sustained_s(rows, corrected_s)),
        "held_out": _errors(rows, energy.sustained_s(rows, held_out_s)),
    }
    return Study(
        name="energy",
        question="How far is the energy of kernels from what boards were measured to draw?",
        rows=_rows(rows, errors),
        summary=_summary(rows, errors),
        targets=[
            median_promise(words, TARGET, errors[name]) for name, words in _PREDICTIONS.items()
        ],
        notes=_NOTES,
    )


def _errors(rows: KernelTable, seconds: FloatArray) -> FloatArray:
    """(q,) relative errors of the energy of kernels that take so many seconds."""
    return energy.energy_joules(rows, seconds) / energy.measured_joules(rows) - 1.0


def _corrected_s_of(family: KernelFamily[Any], rows: KernelTable, table: KernelTable) -> FloatArray:
    """(q,) seconds of rows of one family, by corrections of a table without their geometry."""
    is_known = np.arange(len(rows) + len(table)) >= len(rows)
    return cross_validated_s(family, joined(rows, table), is_known)[: len(rows)]


def _held_out_s(rows: KernelTable, table: KernelTable, devices: NDArray[Any]) -> FloatArray:
    """(q,) seconds of rows by laws that are fitted without their device."""
    seconds = np.full(len(rows), np.nan)
    for device in sorted(set(devices.tolist())):
        others = table.take(device_keys(table) != device)
        for family, is_of_family in _family_masks(rows):
            is_selected = is_of_family & (devices == device)
            seconds[is_selected] = family.predict(
                rows.take(is_selected), family.fit(others.operator_rows(family.operators))
            )
    return seconds


def _family_masks(rows: KernelTable) -> list[tuple[KernelFamily[Any], BoolArray]]:
    """Families whose operators the rows have, and which rows."""
    families = [family_of(name) for name in FAMILIES]
    masks = [np.isin(rows.words("operator"), family.operators) for family in families]
    return [(family, mask) for family, mask in zip(families, masks, strict=True) if mask.any()]


def _rows(rows: KernelTable, errors: ArrayDict) -> JsonRows:
    words = {name: rows.words(name) for name in ("id", "operator", "framework")}
    devices = device_keys(rows)
    return [
        {
            "what": f"{words['id'][i]} {words['operator'][i]}, J",
            "group": str(words["operator"][i]),
            "device": str(devices[i]),
            "framework": str(words["framework"][i]),
            "reference": float(joules),
            "ours": float(joules * (1.0 + errors["error"][i])),
        }
        | values_at(errors, i)
        for i, joules in enumerate(energy.measured_joules(rows))
    ]


def _summary(rows: KernelTable, errors: ArrayDict) -> JsonRows:
    operators, devices = rows.words("operator"), device_keys(rows)
    is_written = energy.has_written_operands(rows)
    groups = {"all": np.ones(len(rows), dtype=np.bool_)}
    groups |= {"all, operands written": is_written, "all, never written": ~is_written}
    for device in sorted(set(devices.tolist())):
        groups[f"all, {device}"] = devices == device
    for operator in dict.fromkeys(operators.tolist()):
        for device in sorted(set(devices[operators == operator].tolist())):
            groups[f"{operator}, {device}"] = (operators == operator) & (devices == device)
    return [
        summarize(group, errors["error"][is_selected])
        | {
            f"{name}_absolute_error": float(np.median(np.abs(errors[name][is_selected])))
            for name in ("held_out", "measured_time")
        }
        for group, is_selected in groups.items()
    ]


_NOTES = (
    "Watts of whole boards by NVIDIA (ai-dynamo/aiconfigurator at 095f58a, Apache-2.0), of kernels "
    "of 0.1 ms and more, times the measured seconds. The constants of energy are of an H100.",
    "What is predicted is what the benchmark read: NVML shows the mean power of the second before, "
    "and loops last 0.3 to 1 s, so that a part of the reading is of the preparation of the kernel, "
    "longer for many sequences. The constants are of the loop alone.",
    "In the rows 'never written' the benchmark did not write weights or caches, and what memory "
    "held decides the power: products that read weights at 0.85 of an H200's bandwidth drew 42 to "
    "91 % of its limit. Such bytes are taken to draw 0.35 of others', which is a constant of the "
    "benchmark and in no prediction for users.",
    "At measured times the errors are of power alone. Predicted times are as users get them, with "
    "the corrections of a measured device, in a burst; energy is at the clock that the power limit "
    "leaves. Many rows are of versions slower than the fastest, which no law of a device knows: "
    "what remains at predicted times is mostly their time.",
    "Requests add up many kernels, whose errors partly cancel: the mean and the peak power of 33 "
    "requests on A100s, which have no watts here, are in the study systems.",
)
