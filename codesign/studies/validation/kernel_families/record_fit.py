"""What the families share: why a row has no prediction, and the robust fit of a record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from codesign.columns import BoolArray, FloatArray
from codesign.machines.device.constants import load_constants
from codesign.schema import Record
from codesign.studies.validation.kernel_table import KernelTable

Constants = TypeVar("Constants", bound=Record)
Reasons = NDArray[np.str_]

LOSS_SCALE = 0.1
"""Relative errors beyond this count linearly, not squared [ours]."""
PULL = 0.003
"""Weight of a departure from the start by a factor e, against an error of each row [ours]: keeps
what no row depends on at its start."""


def missing_reasons(
    table: KernelTable,
    numbers: Sequence[str],
    formats: Mapping[str, Sequence[str]],
    least: Mapping[str, float] | None = None,
) -> Reasons:
    """(q,) why a row cannot be predicted, empty where it can.

    Args:
        table: Rows.
        numbers: Columns that must state a number of at least 1.
        formats: Number formats that the law knows, by column.
        least: Least number of a column, where it is not 1.
    """
    reasons = np.full(len(table), "", dtype="<U80")

    def leave_out(chosen: BoolArray, reason: str) -> None:
        reasons[chosen & (reasons == "")] = reason

    leave_out(np.array([device is None for device in table.devices]), "no such device")
    for column in numbers:
        values, smallest = table[column], (least or {}).get(column, 1.0)
        leave_out(np.isnan(values), f"no {column}")
        leave_out(values < smallest, f"{column} below {smallest:g}")
    for column, known in formats.items():
        leave_out(~np.isin(table.words(column), known), f"unknown {column}")
    return reasons


def fill(
    table: KernelTable, reasons: Reasons, function: Callable[[KernelTable], FloatArray]
) -> FloatArray:
    """(q,) a function of the rows that are not left out; NaN for the others."""
    chosen = reasons == ""
    values = np.full(len(table), np.nan)
    values[chosen] = function(table.take(chosen))
    return values


def predict_rows(
    table: KernelTable,
    reasons: Reasons,
    predict: Callable[[KernelTable, Constants], FloatArray],
    load: Callable[[str], Constants],
) -> FloatArray:
    """(q,) predictions with the constants of each row's class of devices; NaN where left out."""
    seconds = np.full(len(table), np.nan)
    classes = np.array([device.device_class if device else "" for device in table.devices])
    for device_class in sorted(set(classes[reasons == ""].tolist())):
        chosen = (reasons == "") & (classes == device_class)
        seconds[chosen] = predict(table.take(chosen), load(device_class))
    return seconds


def shipped(
    family: str, record: type[Constants], constants: Constants | None
) -> Callable[[str], Constants]:
    """Constants of a class of devices: those handed over, else the shipped ones."""
    return lambda name: constants or load_constants(family, record, name)


def fit_record(
    start: Constants,
    names: Sequence[str],
    predict: Callable[[Constants], FloatArray],
    measured_s: FloatArray,
    most: Mapping[str, float],
) -> Constants:
    """Robust least squares of the logarithm of predicted over measured time.

    Args:
        start: Where the fit starts.
        names: Fields to fit, all positive; the others stay.
        predict: Seconds of the rows by constants.
        measured_s: (q,) seconds of the rows.
        most: Upper bounds of fields.
    """
    from scipy.optimize import least_squares

    origin = np.log([getattr(start, name) for name in names])
    bound = np.log([most.get(name, np.inf) for name in names])

    def record_at(point: FloatArray) -> Constants:
        values = dict(zip(names, map(float, np.exp(point)), strict=True))
        return start.model_copy(update=values)

    def residuals(point: FloatArray) -> FloatArray:
        errors = np.log(predict(record_at(point)) / measured_s)
        size = 2 * LOSS_SCALE**2 * (np.sqrt(1 + (errors / LOSS_SCALE) ** 2) - 1)
        pull = PULL * np.sqrt(len(measured_s)) * (point - origin)
        return np.concatenate([np.sign(errors) * np.sqrt(size), pull])

    solution = least_squares(
        residuals, np.minimum(origin, bound - 1e-6), bounds=(-np.inf, bound), xtol=1e-6, max_nfev=60
    )
    return record_at(solution.x)
