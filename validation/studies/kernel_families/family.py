"""A family of measured kernels: its rows, its law, and the fit of the law's constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeAlias

import numpy as np

from codesign.base.columns import (
    BoolArray,
    FloatArray,
    StringArray,
    Strings,
    StringTuple,
    column_of,
)
from codesign.base.records import frozen
from codesign.models.machines.device.constants import load_constants
from codesign.models.machines.device.corrections import KernelCase, MeasuredGroup, correction
from validation.studies.kernel_families.log_fit import fit_constants
from validation.studies.kernel_families.rows import Constants, Reasons, device_texts
from validation.studies.kernel_table import KernelTable

Law: TypeAlias = Callable[[KernelTable], Callable[[Constants], FloatArray]]
"""Gives the (q,) seconds of rows as a function of constants."""


def _every_row(table: KernelTable) -> BoolArray:
    return np.ones(len(table), dtype=np.bool_)


def measured_s(table: KernelTable) -> FloatArray:
    """(q,) measured seconds."""
    return table["latency_s"]


def device_operators(table: KernelTable) -> StringArray:
    """(q,) device and operator of each row."""
    return np.char.add(table.words("device"), table.words("operator"))


@frozen
class KernelFamily(Generic[Constants]):
    """A family of measured kernels; a module of ``kernel_families`` offers one as ``FAMILY``.

    Attributes:
        file: File of the shipped constants, which is called so.
        operators: Operators of the table that it predicts.
        target: Median error that is promised, as a share.
        left_out: (q,) why a row has no prediction; empty where it has one.
        law: Gives predictions of rows that are not left out as a function of constants.
        roofline: (q,) seconds of a bare roofline of the datasheet, of such rows.
        start: Where the fit starts; round numbers.
        first_guess: The start, where it depends on the rows or on other families.
        free: Fields to fit; all if left out.
        least: Lower limits of fields; that of the others is 0.
        most: Upper limits of fields: no more than the datasheet.
        groups: Group of each row, whose weight is the square root of its size; none: all alike.
        usable: (q,) whether a row tells of the device, so that it is fitted to.
        measured: (q,) what is predicted.
        normalized: The fitted constants, in their conventional form.
        case: What measured corrections depend on; none: the law has none.
        corrects: (q,) whether a row tells what a device's libraries do, so that corrections are
            fitted to it.
        transfer: Part of a correction that counts. Frameworks that are left out are predicted best
            with 0.7 of gemm's, 0.3 of attention's, 0.2 of mla_bmm's and none of experts'. The part
            goes so far towards it as the median error of others grows by half a point at most.
        geometry: Columns of which a combination is left out as a whole to judge corrections.
    """

    file: str
    operators: Strings
    target: float
    left_out: Callable[[KernelTable], Reasons]
    law: Law[Constants]
    roofline: Callable[[KernelTable], FloatArray]
    start: Constants
    first_guess: Callable[[KernelTable], Constants] | None = None
    free: Strings | None = None
    least: Mapping[str, float] | None = None
    most: Mapping[str, float] | None = None
    groups: Callable[[KernelTable], Strings | StringArray] | None = None
    usable: Callable[[KernelTable], BoolArray] = _every_row
    measured: Callable[[KernelTable], FloatArray] = measured_s
    normalized: Callable[[Constants], Constants] = lambda constants: constants
    case: Callable[[KernelTable], KernelCase] | None = None
    corrects: Callable[[KernelTable], BoolArray] = _every_row
    transfer: float = 1.0
    geometry: StringTuple = ()

    def predict(self, table: KernelTable, constants: Constants | None = None) -> FloatArray:
        """(q,) predictions; NaN where a row is left out.

        Args:
            table: (q,) rows.
            constants: For all rows; None: those shipped for the class of each row's device.
        """
        values, is_predicted = table.missing(), self.left_out(table) == ""
        classes = device_texts(table, lambda device: device.device_class)
        for name in sorted(set(classes[is_predicted].tolist())):
            is_selected = is_predicted & (classes == name)
            shipped = constants or load_constants(self.file, type(self.start), name)
            values[is_selected] = self.law(table.take(is_selected))(shipped)
        return values

    def corrected_s(
        self,
        table: KernelTable,
        groups: Mapping[str, MeasuredGroup] | None = None,
        constants: Constants | None = None,
    ) -> FloatArray:
        """(q,) seconds of the law with corrections; NaN where a row is left out.

        Args:
            table: (q,) rows.
            groups: Corrections; None: those that are shipped.
            constants: Of the law; None: those that are shipped.
        """
        seconds, is_predicted = self.predict(table, constants), self.left_out(table) == ""
        if self.case is None or not is_predicted.any():
            return seconds
        rows = table.take(is_predicted)
        chips = column_of(device_texts(rows, lambda device: device.measured_name).tolist())
        factors = correction(self.file, chips, self.case(rows), groups)
        floor = np.minimum(seconds[is_predicted], self.roofline_s(rows))
        seconds[is_predicted] = np.maximum(seconds[is_predicted] * factors, floor)
        return seconds

    def roofline_s(self, table: KernelTable) -> FloatArray:
        """(q,) seconds of a bare roofline of the datasheet; NaN where a row is left out."""
        is_predicted, values = self.left_out(table) == "", table.missing()
        if is_predicted.any():
            values[is_predicted] = self.roofline(table.take(is_predicted))
        return values

    def fitted_rows(self, table: KernelTable) -> KernelTable:
        """The rows to which constants are fitted."""
        return table.take((self.left_out(table) == "") & self.usable(table))

    def fit(self, table: KernelTable) -> Constants:
        """The constants that suit the rows best.

        Raises:
            InputError: No row can be fitted to.
        """
        rows = self.fitted_rows(table)
        fitted = fit_constants(
            self.start if self.first_guess is None else self.first_guess(rows),
            self.law(rows),
            self.measured(rows),
            groups=None if self.groups is None else self.groups(rows),
            free=self.free,
            least=self.least,
            most=self.most,
        )
        return self.normalized(fitted)
