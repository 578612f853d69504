"""Designs by the parameters that set an evaluator up: degrees of parallelism and options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from codesign.base.columns import (
    Columns,
    IntArray,
    SharedColumns,
    StringPair,
    StringTuple,
    combined,
    distinct,
    n_designs,
    shared_part,
)
from codesign.base.records import drop_keys
from codesign.models.accounts.account_constants import PROCESSES
from codesign.models.deployments import Parallelism
from codesign.models.deployments.grouping import groups, has_degrees
from codesign.models.hardware.accelerator import positions_of

OPTION_PARAMETERS: Mapping[str, StringTuple] = {
    "process": PROCESSES,
    "topology": ("staged", "parallel"),
}
"""Options that a space may decide, with their values."""
Stated = tuple[StringPair, ...]
"""Names and values of the options that a design states."""


def has_variants(designs: Columns) -> bool:
    """True if designs state degrees of parallelism or options."""
    return has_degrees(designs) or any(name in designs for name in OPTION_PARAMETERS)


def variants(designs: Columns) -> Iterator[tuple[Parallelism, Stated, IntArray, Columns]]:
    """Groups of designs: degrees, options, (g,) positions, and the columns without either."""
    names = [name for name in OPTION_PARAMETERS if name in designs]
    n = n_designs(designs)
    codes = [positions_of(designs, name, OPTION_PARAMETERS[name]) for name in names]
    number, first = distinct(*combined(*codes)) if codes else (np.zeros(n, np.int64), [0])
    columns = drop_keys(designs, names)
    for i, representative in enumerate(first if n else ()):
        stated = tuple(
            (name, OPTION_PARAMETERS[name][of_option[representative]])
            for name, of_option in zip(names, codes, strict=True)
        )
        positions = np.flatnonzero(number == i)
        alike = shared_part(columns, positions)
        if not has_degrees(designs):
            yield Parallelism(), stated, positions, alike
            continue
        for parallelism, within, rest in groups(alike):
            yield parallelism, stated, positions[within], SharedColumns(rest)
