"""Measured energy of kernels beside what ``codesign platform`` adds up, time and power predicted.

A user's device is one that the fits have not seen, so that both the constants of energy and those
of time are fitted without a row's device, too. Only two devices have watts. At measured times the
errors are of power alone; there, constants are fitted without a row's geometry, too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign.columns import FloatArray
from codesign.machines.device.constants import load_constants
from codesign.machines.device.energy import EnergyConstants
from codesign.studies.validation.kernel_families import energy
from codesign.studies.validation.kernel_table import KernelTable
from codesign.studies.validation.kernels import (
    FAMILIES,
    device_keys,
    family_of,
    measured_kernels,
)
from codesign.studies.validation.study import Study, median_promise, summarize

TARGET = 0.10
"""Median error of the energy of kernels that is promised."""
_FOLDS = 5
"""Parts of the geometries, each of which is predicted by a fit to the others [ours]."""
_PREDICTIONS = {
    "measured_time": "energy at measured times, shipped constants",
    "measured_time_geometry": "energy at measured times, geometry held out",
    "measured_time_device": "energy at measured times, device held out",
    "error": "energy at predicted times, shipped constants",
    "held_out": "energy at predicted times, device held out",
}


def run(seed: int = 0, size: int | None = None) -> Study:
    """Compare the energy of every kernel whose watts were measured.

    Args:
        seed: Nothing is drawn.
        size: Not used.
    """
    table, _ = measured_kernels()
    rows = _predictable(table.take(energy.left_out(table) == ""))
    devices = device_keys(rows)
    shipped = load_constants("energy", EnergyConstants, "gpu")
    errors = {
        "error": _errors(rows, _predicted_s(rows, None), shipped),
        "held_out": np.full(len(rows), np.nan),
        "measured_time": _errors(rows, rows["latency_s"], shipped),
        "measured_time_device": _measured_time_errors(rows, devices),
        "measured_time_geometry": _measured_time_errors(rows, energy.geometries(rows) % _FOLDS),
    }
    for device in sorted(set(devices.tolist())):
        is_tested = devices == device
        own, others = rows.take(is_tested), table.take(device_keys(table) != device)
        constants = energy.FAMILY.fit(others)
        errors["held_out"][is_tested] = _errors(own, _predicted_s(own, others), constants)
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


def _errors(rows: KernelTable, seconds: FloatArray, constants: EnergyConstants) -> FloatArray:
    """(q,) relative errors of the energy of kernels that take so many seconds."""
    joules = energy.energy_joules(rows, seconds)(constants)
    return np.asarray(joules / energy.measured_joules(rows) - 1.0)


def _measured_time_errors(rows: KernelTable, folds: NDArray[Any]) -> FloatArray:
    """(q,) errors at measured times by constants that are fitted without a row's fold."""
    errors = np.full(len(rows), np.nan)
    for fold in sorted(set(folds.tolist())):
        is_tested = folds == fold
        own, constants = rows.take(is_tested), energy.FAMILY.fit(rows.take(~is_tested))
        errors[is_tested] = _errors(own, own["latency_s"], constants)
    return errors


def _predictable(rows: KernelTable) -> KernelTable:
    """The rows, also where another row has the same product, measured faster and without watts."""
    return KernelTable(rows.text | {"fastest": np.full(len(rows), "1")}, rows.lines)


def _predicted_s(rows: KernelTable, fitted: KernelTable | None) -> FloatArray:
    """(q,) seconds of rows, each by the family of its operator, whose constants are fitted anew.

    Args:
        rows: (q,) rows.
        fitted: Rows to fit to; None: the shipped constants.
    """
    seconds = np.full(len(rows), np.nan)
    for name in FAMILIES:
        family = family_of(name)
        chosen = np.isin(rows.words("operator"), family.operators)
        if chosen.any():
            constants = None if fitted is None else family.fit(fitted.of(family.operators))
            seconds[chosen] = family.predict(rows, constants)[chosen]
    return seconds


def _rows(rows: KernelTable, errors: dict[str, FloatArray]) -> list[dict[str, Any]]:
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
        | {name: float(values[i]) for name, values in errors.items()}
        for i, joules in enumerate(energy.measured_joules(rows))
    ]


def _summary(rows: KernelTable, errors: dict[str, FloatArray]) -> list[dict[str, Any]]:
    operators, devices = rows.words("operator"), device_keys(rows)
    is_written = energy.has_written_operands(rows)
    groups = {"all": np.ones(len(rows), dtype=np.bool_)}
    groups |= {"all, operands written": is_written, "all, never written": ~is_written}
    for device in sorted(set(devices.tolist())):
        groups[f"all, {device}"] = devices == device
    for operator in dict.fromkeys(operators.tolist()):
        for device in sorted(set(devices[operators == operator].tolist())):
            groups[f"{operator}, {device}"] = (operators == operator) & (devices == device)
    columns = {"held_out": "held_out", "measured_time_geometry": "measured_time"}
    return [
        summarize(group, errors["error"][chosen])
        | {
            f"{column}_absolute_error": float(np.median(np.abs(errors[name][chosen])))
            for name, column in columns.items()
        }
        for group, chosen in groups.items()
    ]


_NOTES = (
    "Watts of whole boards by NVIDIA (ai-dynamo/aiconfigurator at 095f58a, Apache-2.0), of kernels "
    "of 0.1 ms and more, times the measured seconds. Two devices have them: what is held out is "
    "predicted from the other alone.",
    "What is predicted is what the benchmark read: NVML shows the mean power of the second before, "
    "and loops last 0.3 to 1 s, so that a part of the reading is of the preparation of the kernel, "
    "longer for many sequences. The constants are of the loop alone.",
    "In the rows 'never written' the benchmark did not write weights or caches, and what memory "
    "held decides the power: products that read weights at 0.85 of an H200's bandwidth drew 42 to "
    "91 % of its limit.",
    "Errors are of energy as a user gets it, time and power both predicted; those 'at measured "
    "times' are of power alone, geometry held out. Times err by 14 % on these rows, of which many "
    "are of versions slower than the fastest. Were kernels slower at the power limit, by the 0.1st "
    "power of what they would draw over it, products would be 6 points better on both devices and "
    "all rows 1 point; predicted times are of short runs, at full clocks, so that no such law is "
    "used.",
    "Requests add up many kernels, whose errors partly cancel: the mean power of 33 requests on "
    "A100s, which have no watts here, is in the study systems; the energy of a byte was chosen "
    "with it in view.",
)
