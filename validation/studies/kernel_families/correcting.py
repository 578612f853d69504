"""Corrections of laws, fitted to measured rows and judged on whole geometries left out."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import numpy as np

from codesign.base.columns import BoolArray, FloatArray, IntArray, StringArray, column_of
from codesign.base.schema import Record
from codesign.models.machines.device.corrections import MeasuredGroup, similarity
from validation.studies.kernel_families.family import KernelFamily
from validation.studies.kernel_families.rows import device_texts
from validation.studies.kernel_table import KernelTable

FOLDS = 5
_NOISE_RATIO = 0.25
"""Variance of what one size does not tell of another, over that of corrections [ours]. 20 % and
40 %; of 0.16 to 0.64 the best for whole geometries that were left out, within 0.003."""
_MOST_LOG = 2.0
"""Logarithms of measured over predicted time beyond which a row counts as if it had so much."""


def fitted_groups(
    family: KernelFamily[Any], table: KernelTable, constants: Record | None = None
) -> dict[str, MeasuredGroup]:
    """Corrections by group of kernels, from the rows that tell of a chip's libraries.

    Args:
        family: With a ``case``.
        table: (q,) rows.
        constants: Of the law that is corrected; None: those that are shipped.
    """
    assert family.case is not None
    rows = table.take((family.left_out(table) == "") & family.corrects(table))
    if not len(rows):
        return {}
    case, n = family.case(rows), len(rows)
    number, names = case.groups(
        column_of(device_texts(rows, lambda item: item.measured_name).tolist())
    )
    points = case.points(n)
    logs = np.log(rows["latency_s"] / family.predict(rows, constants))
    logs = np.clip(logs, -_MOST_LOG, _MOST_LOG)
    groups = {}
    for i, name in enumerate(names):
        group_points, measured = points[number == i], logs[number == i]
        weights = np.linalg.solve(
            similarity(group_points, group_points) + (_NOISE_RATIO * np.eye(len(group_points))),
            measured,
        )
        groups[name] = MeasuredGroup(group_points, family.transfer * weights)
    return dict(sorted(groups.items()))


def cross_validated_s(
    family: KernelFamily[Any],
    table: KernelTable,
    is_known: BoolArray | None = None,
    constants: Record | None = None,
    fold_of_row: Any = None,
) -> FloatArray:
    """(q,) corrected seconds of rows, by corrections fitted without all rows of their fold.

    NaN where a row is left out. The law alone of families that have no corrections.

    Args:
        table: (q,) rows.
        is_known: (q,) whether corrections are fitted to a row; None: to all.
        constants: Of the law that is corrected; None: those that are shipped.
        fold_of_row: (q,) fold of each row; None: five, each of geometries in all formats.
    """
    if family.case is None:
        return family.predict(table, constants)
    is_known = np.ones(len(table), dtype=np.bool_) if is_known is None else is_known
    seconds = table.missing()
    if fold_of_row is None:
        fold_of_row = folds(table, family.geometry)
    for fold in np.unique(fold_of_row):
        is_tested = fold_of_row == fold
        groups = fitted_groups(family, table.take(~is_tested & is_known), constants)
        seconds[is_tested] = family.corrected_s(table.take(is_tested), groups, constants)
    return seconds


def folds(table: KernelTable, columns: tuple[str, ...]) -> IntArray:
    """(q,) fold of each row, the same for the same geometry in whatever table."""
    names: list[StringArray] = [table.words(name) for name in columns]
    keys = zip(*(column.tolist() for column in names), strict=True)
    return np.array([crc32(" ".join(key).encode()) % FOLDS for key in keys], dtype=np.int64)
