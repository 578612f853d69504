"""Designs by the degrees of parallelism that they state."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from codesign.columns import Columns, IntArray, taken
from codesign.deployments.parallelism import DEGREES, Parallelism


def has_degrees(designs: Columns) -> bool:
    """Whether designs say over how many devices the model is spread."""
    return any(name in designs for name in DEGREES)


def groups(designs: Columns) -> Iterator[tuple[Parallelism, IntArray, Columns]]:
    """Designs of equal degrees: the degrees, (g,) positions, and columns without the degrees.

    Args:
        designs: Columns of (n,); a degree that is absent from them is 1.
    """
    n = len(next(iter(designs.values())))
    degrees = [
        designs[name].lookup(float, absent=1.0) if name in designs else np.ones(n)
        for name in DEGREES
    ]
    present, number = np.unique(np.stack(degrees, axis=1), axis=0, return_inverse=True)
    columns = {name: column for name, column in designs.items() if name not in DEGREES}
    for i, (tensor, pipeline) in enumerate(present.tolist()):
        positions = np.flatnonzero(number.ravel() == i)
        yield Parallelism(int(tensor), int(pipeline)), positions, taken(columns, positions)
