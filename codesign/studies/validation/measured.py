"""Measured hardware beside our predictions, with rows held out of the fit.

Three ways to hold rows out, each with its own fits: all rows of one language model, all rows of
one device, and random groups of shapes. A row's error in the study is that of a fit that has
not seen its model (whole requests and operators of a layer) or its shape (all other rows).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from codesign.columns import BoolArray, FloatArray
from codesign.hardware.kernels import Efficiency, load_efficiencies
from codesign.studies.validation.fitting import (
    SMALL_CLASSES,
    fit,
    fit_rates,
    group_by_class,
    predict_s,
)
from codesign.studies.validation.measurements import MEASURED_FILE, Measurement, read_measurements
from codesign.studies.validation.study import Study, summarize

N_SHAPE_FOLDS = 5
LARGE_GEMM_FLOP = 1e9

_NOTES = (
    "Ours is predicted by a fit that has not seen the row's language model, or, for rows without "
    "one and for devices measured with one model only, its shape.",
    "Free constants: one set per class of devices (codesign/hardware/devices/efficiency.yaml); "
    "15 for GPUs, two rates for each of the iGPU, the NPU and the CPU.",
    "The power-limited part of the peak is a number of the device file, from a published search "
    "for the fastest matrix product; it is not fitted.",
    "LMDeploy's latencies are printed in whole milliseconds: at 9 ms that alone is 5 %.",
    "The CPU's time per token grows four times faster with the context than its traffic; two NPU "
    "rows differ by a start-up of about 0.16 s that no kernel has. Two rates cannot follow that.",
    "Vidur's rows say A100 80GB and no form factor; they are taken for the PCIe card, on which "
    "large products run about 15 % slower than on the SXM card.",
    "Where requests exceed the memory, as many run as fit with half their output; preemption and "
    "recomputation are not modeled.",
    "Collectives started from the host (Vidur's) take up to 60 us more than NCCL alone; the model "
    "gives NCCL's time, without its change of protocol at about 1 MB.",
    "The form of the model, the tiles and LMDeploy's decode step before the first token were "
    "chosen with all rows in view; only the constants are held out: other hardware may do worse.",
    "Nearly all rows are of A100s: nothing here measures an H100, an MI300X or a TPU.",
    "With one device held out, what only it shows (links, fused attention, starts from the host) "
    "stays at round starting values.",
)


def run(seed: int = 0, size: int | None = None) -> Study:
    """Fit, hold out, and compare every measurement that is shipped.

    Args:
        seed: Of the groups of shapes.
        size: Number of groups of shapes; 5 if None.
    """
    rows = read_measurements()
    used = [row for row in rows if row.kernels is not None]
    n_folds = size or N_SHAPE_FOLDS
    by_model = held_out(used, model_folds(used))
    by_device = held_out(used, device_folds(used))
    by_shape = held_out(used, shape_folds(used, seed, n_folds))
    ours = np.where(np.isnan(by_model), by_shape, by_model)
    errors = _errors(used, ours)
    summary = [
        *_summaries(used, errors, "held out"),
        *_summaries(used, _errors(used, by_device), "device held out", by_group=False),
    ]
    return Study(
        name="measured",
        question="How far are predictions from measurements of real devices that others published?",
        rows=[_row(row, seconds) for row, seconds in zip(used, ours, strict=True)],
        summary=summary,
        targets=_targets(used, errors, _errors(used, by_device)),
        notes=(*_left_out(rows), *_NOTES),
    )


def compare(path: Path | str = MEASURED_FILE) -> Study:
    """Any table of measurements beside predictions with the shipped efficiencies; no fit.

    Args:
        path: A table with the columns of ``measured_calibration.csv``.

    Raises:
        InputError: The table cannot be read.
    """
    rows = read_measurements(path)
    used = [row for row in rows if row.kernels is not None]
    ours, classes = np.full(len(used), np.nan), load_efficiencies().classes
    for name, members in _classes(used):
        ours[members] = predict_s([used[i] for i in members], classes[name])
    errors = _errors(used, ours)
    return Study(
        name="measured",
        question="How far are predictions with the shipped efficiencies from these measurements?",
        rows=[_row(row, seconds) for row, seconds in zip(used, ours, strict=True)],
        summary=_summaries(used, errors, "shipped"),
        targets=_targets(used, errors, np.full(len(used), np.nan)),
        notes=_left_out(rows),
    )


# Holding out


@dataclass(frozen=True)
class Fold:
    """Rows that one fit sees, and rows that it predicts; positions, without common ones."""

    name: str
    training: tuple[int, ...]
    testing: tuple[int, ...]


def model_folds(rows: Sequence[Measurement]) -> list[Fold]:
    """One fold per language model and class of devices that was measured with several."""
    return _folds(rows, lambda row: row.family)


def device_folds(rows: Sequence[Measurement]) -> list[Fold]:
    """One fold per device of a class that has several."""
    return _folds(rows, lambda row: row.device.key if row.device else "")


def shape_folds(rows: Sequence[Measurement], seed: int, n_folds: int) -> list[Fold]:
    """Folds of random groups of shapes, drawn in each class of devices.

    All rows of a shape are in the same fold.
    """
    rng = np.random.default_rng(seed)
    fold: dict[tuple[str, str, str], str] = {}
    for _, members in _classes(rows):
        shapes = sorted({_shape(rows[i]) for i in members})
        drawn = rng.permutation(len(shapes)) % n_folds
        fold |= {shape: f"shapes {n + 1}" for shape, n in zip(shapes, drawn, strict=True)}
    return _folds(rows, lambda row: fold[_shape(row)])


def _shape(row: Measurement) -> tuple[str, str, str]:
    return row.device_class, row.group, row.shape


def _folds(rows: Sequence[Measurement], key: Callable[[Measurement], str]) -> list[Fold]:
    folds = []
    for name, members in _classes(rows):
        labels = {key(rows[i]) for i in members} - {""}
        for label in sorted(labels):
            testing = tuple(i for i in members if key(rows[i]) == label)
            training = tuple(i for i in members if key(rows[i]) != label)
            if training:
                folds.append(Fold(f"{name}: {label}", training, testing))
    return folds


def _classes(rows: Sequence[Measurement]) -> Iterator[tuple[str, list[int]]]:
    names = [row.device_class for row in rows]
    for name in sorted(set(names)):
        yield name, [i for i, own in enumerate(names) if own == name]


def held_out(rows: Sequence[Measurement], folds: Sequence[Fold]) -> FloatArray:
    """(r,) seconds predicted by the fit of the fold in which a row is tested; NaN if in none."""
    ours = np.full(len(rows), np.nan)
    shared: Efficiency | None = None
    for fold in folds:
        training = [rows[i] for i in fold.training]
        testing = list(fold.testing)
        if rows[testing[0]].device_class in SMALL_CLASSES:
            # These inherit the GPUs' other constants; they share no row with the GPUs.
            shared = shared or fit(group_by_class(rows)["gpu"])
            fitted = fit_rates(training, shared)
        else:
            fitted = fit(training)
        ours[testing] = predict_s([rows[i] for i in testing], fitted)
    return ours


# Reporting


def _errors(rows: Sequence[Measurement], seconds: FloatArray) -> FloatArray:
    """(r,) relative errors of what was published: a time or a rate."""
    measured = np.array([row.seconds for row in rows])
    is_rate = np.array([row.is_rate for row in rows], dtype=np.bool_)
    return np.where(is_rate, measured / seconds, seconds / measured) - 1.0


def _row(row: Measurement, seconds: float) -> Mapping[str, Any]:
    ratio = row.seconds / seconds if row.is_rate else seconds / row.seconds
    return {
        "what": row.description,
        "group": row.group,
        "device": row.device.key if row.device else "",
        "unit": row.unit,
        "reference": row.value,
        "ours": float(row.value * ratio),
        "error": float(ratio - 1.0),
        "source": row.source,
    }


def _summaries(
    rows: Sequence[Measurement], errors: FloatArray, how: str, by_group: bool = True
) -> list[dict[str, Any]]:
    per_device = [f"{row.group}, {row.device.name if row.device else ''}" for row in rows]
    groupings = [[row.group for row in rows]] if by_group else []
    summaries = []
    for labels in (*groupings, per_device):
        for label in sorted(set(labels)):
            chosen = np.array([own == label for own in labels]) & ~np.isnan(errors)
            if chosen.any():
                summaries.append(summarize(f"{label} ({how})", errors[chosen]))
    return summaries


def _targets(
    rows: Sequence[Measurement], errors: FloatArray, by_device: FloatArray
) -> list[dict[str, Any]]:
    groups = np.array([row.group for row in rows])
    large = np.array([row.flop > LARGE_GEMM_FLOP for row in rows])
    promises = (
        ("time per output token", groups == "TPOT", 0.10),
        ("time to first token", groups == "TTFT", 0.15),
        ("GEMM above 1 GFLOP", (groups == "GEMM") & large, 0.12),
    )
    targets = []
    for quantity, chosen, limit in promises:
        targets += _target(f"median error, {quantity}", chosen, errors, limit)
        targets += _target(f"median error, {quantity}, device held out", chosen, by_device, limit)
    return targets


def _target(
    promise: str, chosen: BoolArray, errors: FloatArray, limit: float
) -> list[dict[str, Any]]:
    known = np.abs(errors[chosen & ~np.isnan(errors)])
    if not len(known):
        return []
    median = float(np.median(known))
    return [
        {
            "what": promise,
            "target": f"<= {limit:.0%}",
            "measured": median,
            "is_met": median <= limit,
        }
    ]


def _left_out(rows: Sequence[Measurement]) -> list[str]:
    reasons = Counter(row.reason for row in rows if row.kernels is None)
    used = sum(row.kernels is not None for row in rows)
    notes = [f"{used} of {len(rows)} rows are compared."]
    return notes + [f"{n} rows left out: {reason}." for reason, n in reasons.most_common()]
