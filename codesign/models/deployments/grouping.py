"""Designs by the degrees of parallelism that they state."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from codesign.base.columns import Columns, IntArray, n_designs, taken
from codesign.base.errors import InputError
from codesign.base.records import drop_keys
from codesign.models.deployments.parallelism import REPLICA_DEGREES, Parallelism


def _degree(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 1 or value % 1:
        raise InputError(f"expected a whole number of devices from 1, got {value!r}", name)
    return float(value)


def has_degrees(designs: Columns) -> bool:
    """Whether designs say over how many devices the model is spread."""
    return any(name in designs for name in REPLICA_DEGREES)


def groups(designs: Columns) -> Iterator[tuple[Parallelism, IntArray, Columns]]:
    """Designs of equal degrees: the degrees, (g,) positions, and columns without the degrees.

    Args:
        designs: Columns of (n,); a degree that is absent from them is 1.

    Raises:
        InputError: A degree is no whole number from 1.
    """
    n = n_designs(designs)
    degrees = [
        designs[name].lookup(partial(_degree, name), absent=1.0) if name in designs else np.ones(n)
        for name in REPLICA_DEGREES
    ]
    present, number = np.unique(np.stack(degrees, axis=1), axis=0, return_inverse=True)
    columns = drop_keys(designs, REPLICA_DEGREES)
    for i, degree in enumerate(present.astype(np.int64).tolist()):
        positions = np.flatnonzero(number.ravel() == i)
        yield Parallelism(*degree), positions, taken(columns, positions)
