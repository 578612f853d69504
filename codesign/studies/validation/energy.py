"""Measured energy of kernels beside what ``codesign platform`` adds up, time and power predicted.

A user's device is one that the fits have not seen, so that both the constants of energy and those
of time are fitted without a row's device, too. Only two devices have watts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

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
from codesign.studies.validation.study import Study, summarize

TARGET = 0.10
"""Median error of the energy of kernels that is promised."""


def run(seed: int = 0, size: int | None = None) -> Study:
    """Compare the energy of every kernel whose watts were measured.

    Args:
        seed: Nothing is drawn.
        size: Not used.
    """
    table, _ = measured_kernels()
    rows = _predictable(table.take(energy.left_out(table) == ""))
    measured, devices = energy.measured_joules(rows), device_keys(rows)
    shipped = load_constants("energy", EnergyConstants, "gpu")
    ours = energy.energy_joules(rows, _predicted_s(rows, None))
    errors = {
        "ours": ours(shipped) / measured - 1.0,
        "held_out": np.full(len(rows), np.nan),
        "measured_time": np.full(len(rows), np.nan),
    }
    for device in sorted(set(devices.tolist())):
        is_tested = devices == device
        own, others = rows.take(is_tested), table.take(device_keys(table) != device)
        constants = energy.FAMILY.fit(others)
        seconds = _predicted_s(own, others)
        predictions = {"held_out": seconds, "measured_time": own["latency_s"]}
        for name, time_s in predictions.items():
            joules = energy.energy_joules(own, time_s)(constants)
            errors[name][is_tested] = joules / measured[is_tested] - 1.0
    return Study(
        name="energy",
        question="How far is the energy of kernels from what boards were measured to draw?",
        rows=_rows(rows, measured, errors),
        summary=_summary(rows, errors),
        targets=[
            _target("energy at measured times, device held out", errors["measured_time"]),
            _target("energy at predicted times, shipped constants", errors["ours"]),
            _target("energy at predicted times, device held out", errors["held_out"]),
        ],
        notes=_NOTES,
    )


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


def _rows(
    rows: KernelTable, measured: FloatArray, errors: dict[str, FloatArray]
) -> list[dict[str, Any]]:
    words = {name: rows.words(name) for name in ("id", "operator", "framework")}
    devices = device_keys(rows)
    return [
        {
            "what": f"{words['id'][i]} {words['operator'][i]}, J",
            "group": str(words["operator"][i]),
            "device": str(devices[i]),
            "framework": str(words["framework"][i]),
            "reference": float(joules),
            "ours": float(joules * (1.0 + errors["ours"][i])),
            "error": float(errors["ours"][i]),
            "held_out": float(errors["held_out"][i]),
            "measured_time": float(errors["measured_time"][i]),
        }
        for i, joules in enumerate(measured)
    ]


def _summary(rows: KernelTable, errors: dict[str, FloatArray]) -> list[dict[str, Any]]:
    operators, devices = rows.words("operator"), device_keys(rows)
    groups = {"all": np.ones(len(rows), dtype=np.bool_)}
    for device in sorted(set(devices.tolist())):
        groups[f"all, {device}"] = devices == device
    for operator in dict.fromkeys(operators.tolist()):
        for device in sorted(set(devices[operators == operator].tolist())):
            groups[f"{operator}, {device}"] = (operators == operator) & (devices == device)
    summary = []
    for group, chosen in groups.items():
        row = summarize(group, errors["ours"][chosen])
        held_out = np.abs(errors["held_out"][chosen])
        summary.append(row | {"held_out_absolute_error": float(np.median(held_out))})
    return summary


def _target(words: str, errors: FloatArray) -> dict[str, Any]:
    median = float(np.median(np.abs(errors)))
    return {
        "what": f"median error, {words}",
        "target": f"<= {TARGET:.0%}",
        "measured": median,
        "is_met": median <= TARGET,
    }


_NOTES = (
    "Watts of whole boards by NVIDIA (ai-dynamo/aiconfigurator at 095f58a, Apache-2.0), of kernels "
    "of 0.1 ms and more, times the measured seconds. Two devices have them: what is held out is "
    "predicted from the other alone.",
    "Errors are of energy as a user gets it, time and power both predicted. Requests add up many "
    "kernels, whose errors partly cancel: the mean power of 33 requests on A100s, which have no "
    "watts here, is in the study systems.",
)
