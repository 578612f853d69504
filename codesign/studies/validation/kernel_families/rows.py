"""Rows of a table of measured kernels: which can be predicted, and with whose constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from codesign.columns import BoolArray, FloatArray
from codesign.hardware.device import Device
from codesign.machines.device.constants import load_constants
from codesign.schema import Record
from codesign.studies.validation.kernel_table import KernelTable

Constants = TypeVar("Constants", bound=Record)


def device_numbers(table: KernelTable, number: Callable[[Device], float]) -> FloatArray:
    """(q,) a number of every row's device; NaN where the device is unknown."""
    return np.array([np.nan if item is None else number(item) for item in table.devices])


def device_texts(table: KernelTable, text: Callable[[Device], str]) -> NDArray[np.str_]:
    """(q,) a text of every row's device; empty where the device is unknown."""
    return np.array(["" if item is None else text(item) for item in table.devices])


def basic_reasons(
    table: KernelTable, operators: Sequence[str], sizes: Sequence[str]
) -> dict[str, BoolArray]:
    """What must hold for any row: a known operator and device, sizes above 0.

    Args:
        table: (q,) rows.
        operators: Those that the family predicts.
        sizes: Columns that must be stated.

    Returns:
        (q,) where each reason to leave a row out applies, by reason.
    """
    reasons = {
        "the operator is not of this family": ~np.isin(table.words("operator"), operators),
        "no file describes the device": np.array([item is None for item in table.devices]),
    }
    for name in sizes:
        with np.errstate(invalid="ignore"):
            reasons[f"{name} is not stated"] = ~(table[name] > 0)
    return reasons


def first_reason(reasons: Mapping[str, BoolArray]) -> NDArray[np.str_]:
    """(q,) the first reason that applies to each row; empty where none does."""
    masks = list(reasons.values())
    return np.select(masks, list(reasons), default="") if masks else np.array([])


def predict_rows_s(
    table: KernelTable,
    kept: BoolArray,
    law: Callable[[KernelTable], Callable[[Constants], FloatArray]],
    family: str,
    record: type[Constants],
    constants: Constants | None,
) -> FloatArray:
    """(q,) seconds of the rows that are kept, NaN of the others.

    Args:
        table: (q,) rows.
        kept: (q,) rows to predict; their devices are known.
        law: Gives the seconds of rows as a function of constants.
        family: File of the shipped constants.
        record: What it holds for a class of devices.
        constants: For all rows; None: those shipped for the class of each row's device.
    """
    times = np.full(len(table), np.nan)
    classes = device_texts(table, lambda device: device.device_class)
    for name in sorted(set(classes[kept].tolist())):
        chosen = kept & (classes == name)
        own = constants or load_constants(family, record, name)
        times[chosen] = law(table.take(chosen))(own)
    return times
