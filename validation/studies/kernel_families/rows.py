"""Rows of a table of measured kernels: which can be predicted, and with whose constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias, TypeVar

import numpy as np

from codesign.base.columns import BoolArray, FloatArray, Floats, StringArray, Strings
from codesign.base.schema import Record
from codesign.models.hardware.device import Device
from codesign.models.machines.device.rates import DeviceRates
from validation.studies.kernel_table import KernelTable

Constants = TypeVar("Constants", bound=Record)
Reasons: TypeAlias = StringArray
"""(q,) why a row is not predicted; empty where it is."""


def device_numbers(table: KernelTable, number: Callable[[Device], float]) -> FloatArray:
    """(q,) a number of every row's device; NaN where the device is unknown."""
    return np.array([np.nan if device is None else number(device) for device in table.devices])


def device_texts(table: KernelTable, text: Callable[[Device], str]) -> StringArray:
    """(q,) a text of every row's device; empty where the device is unknown."""
    texts = ["" if device is None else text(device) for device in table.devices]
    return np.array(texts, dtype=np.str_)


def multiplies_fp8(table: KernelTable) -> BoolArray:
    """(q,) whether the matrix units of every row's device take 8-bit floating point."""
    return device_numbers(table, lambda device: float("fp8" in device.peak)) > 0


def looped_rates(rates: DeviceRates, multiply_bits: Floats) -> DeviceRates:
    """Rates of the devices of rows in the benchmark's loops.

    Products of 8 bits are those of a steady state: they run at 1,260 to 1,355 TFLOP/s there on an
    H100, and at 1,535 in a burst, 1,278 hot (``h100_measured.csv``). Those of
    16 bits run at 810 to 850, as in a burst: nobody wrote the operands of most of them. Those of 4
    are short.

    Args:
        multiply_bits: Width at which the matrix units multiply.
    """
    looped = np.where(
        np.equal(np.round(multiply_bits), 8.0), rates.sustained_fraction, rates.burst_fraction
    )
    return replace(rates, burst_fraction=looped)


def find_reasons(
    table: KernelTable,
    operators: Strings,
    sizes: Strings,
    *,
    formats: Mapping[str, Strings] | None = None,
    may_be_0: Strings = (),
    more: Mapping[str, BoolArray] | None = None,
) -> Reasons:
    """(q,) the first reason why a row cannot be predicted; empty where there is none.

    Args:
        table: (q,) rows.
        operators: Those that the family predicts.
        sizes: Columns that must state a number above 0.
        formats: Number formats that the law knows, by column.
        may_be_0: Sizes that may be 0.
        more: (q,) where other reasons apply, by reason.
    """
    reasons = {
        "the operator is not of this family": ~np.isin(table.words("operator"), operators),
        "no file describes the device": np.array(
            [device is None for device in table.devices], dtype=np.bool_
        ),
    }
    for name in sizes:
        numbers = table[name]
        has_size = numbers >= 0 if name in may_be_0 else numbers > 0
        reasons[f"{name} is not stated"] = np.isnan(numbers)
        reasons[f"{name} is too small"] = ~has_size
    for column, allowed in (formats or {}).items():
        reasons[f"{column} is not known"] = ~np.isin(table.words(column), allowed)
    reasons |= more or {}
    masks = [np.asarray(mask, dtype=np.bool_) for mask in reasons.values()]
    return np.select(masks, list(reasons), default="").astype(np.str_)
