"""The table of measured kernels: columns by name, with the device of every row."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from codesign.base.columns import BoolArray, FloatArray, StringArray, Strings
from codesign.base.errors import UnknownNameError
from codesign.base.records import frozen
from codesign.models.hardware.device import Device, load_device
from codesign.models.machines.device.rates import DeviceRates, device_rates
from validation.studies.measured_rows import read_rows
from validation.studies.study import DATA

KERNELS_FILE = DATA / "kernels_measured.csv.gz"
"""Kernels that NVIDIA measured (ai-dynamo/aiconfigurator at 095f58a, Apache-2.0), in SI units."""

_NEEDED = ("device", "family", "operator", "latency_s", "weight_dtype", "activation_dtype")


@frozen
class KernelTable:
    """Rows of a table of measured kernels, (q,) each.

    Attributes:
        text: Columns as they are written, by name.
        lines: Line of each row in its file.
    """

    text: dict[str, StringArray]
    lines: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, column: str) -> FloatArray:
        """A column as numbers; NaN where the file states none or has no such column."""
        if column not in self.text:
            return self.missing()
        return np.array([float(value) if value else np.nan for value in self.text[column]])

    def missing(self) -> FloatArray:
        """A new column of NaN."""
        return np.full(len(self), np.nan)

    def words(self, column: str) -> StringArray:
        """A column as text; empty where the file has no such column."""
        return self.text.get(column, np.full(len(self), ""))

    def take(self, selection: BoolArray | NDArray[np.int64]) -> KernelTable:
        """The rows at these positions, or where a mask is true."""
        columns = {name: values[selection] for name, values in self.text.items()}
        return KernelTable(columns, self.lines[selection])

    def operator_rows(self, operators: Strings) -> KernelTable:
        """The rows of these operators."""
        return self.take(np.isin(self.words("operator"), operators))

    @cached_property
    def devices(self) -> list[Device | None]:
        """The device of every row; None where no file describes it."""
        device_by_name = {
            name: _device_or_none(name) for name in set(self.words("device").tolist())
        }
        return [device_by_name[name] for name in self.words("device").tolist()]

    @cached_property
    def rates(self) -> DeviceRates:
        """Datasheet numbers of every row's device, (q,) each; NaN where the device is unknown."""

        def lookup(number: Callable[[Device], float]) -> FloatArray:
            by_key = {device.key: number(device) for device in self.devices if device}
            return np.array([by_key[device.key] if device else np.nan for device in self.devices])

        return device_rates(lookup)


def _device_or_none(name: str) -> Device | None:
    try:
        return load_device(name)
    except UnknownNameError:
        return None


@cache
def read_kernel_table(path: Path | str = KERNELS_FILE) -> KernelTable:
    """Every row of a table of measured kernels, compressed or not.

    Raises:
        InputError: The file cannot be read or lacks a column.
    """
    rows, names = read_rows(path, _NEEDED)
    columns = {name: np.array([row[name] or "" for row in rows]) for name in names}
    return KernelTable(columns, np.arange(2, len(rows) + 2))


def joined(first: KernelTable, second: KernelTable) -> KernelTable:
    """The rows of two tables; columns that only one has are empty in the other."""
    names = dict.fromkeys((*first.text, *second.text))
    text = {name: np.concatenate([first.words(name), second.words(name)]) for name in names}
    return KernelTable(text, np.concatenate([first.lines, second.lines]))
