"""Record of a benchmark function, for the tables of the modules beside this one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from codesign.base.columns import FloatArray

Values = tuple[Sequence[FloatArray], Sequence[FloatArray]]
"""(n,) each: the objectives, minimized, and the limits, where ``<= 0`` is within."""
MOST_VARIABLES = 30
"""Largest number of variables, that of ZDT1 to ZDT3."""


@dataclass(frozen=True)
class BenchmarkFunction:
    """A function of a box, which a grid of levels makes discrete.

    Attributes:
        title: What it is, for tables.
        compute: Objectives and limits of (n, d) variables, for a number of objectives.
        bounds: Least and largest value of each variable, or one pair for any number of them.
        n_objectives: The least and the largest number that it can have.
        n_limits: Of the ``compute``.
        names: By position of a variable that is a choice, the names of its values; the variable
            is then the number of the name.
    """

    title: str
    compute: Callable[[FloatArray, int], Values]
    bounds: tuple[tuple[float, float], ...] | tuple[float, float]
    n_objectives: tuple[int, int] = (2, 2)
    n_limits: int = 0
    names: Mapping[int, tuple[str, ...]] = field(default_factory=dict)

    @property
    def n_variables(self) -> int | None:
        """Number of variables; None if any number may be."""
        return None if isinstance(self.bounds[0], float) else len(self.bounds)

    def box(self, n_variables: int) -> tuple[FloatArray, FloatArray]:
        """(d,) least and (d,) largest values."""
        pairs = [self.bounds] * n_variables if self.n_variables is None else self.bounds
        low, high = np.array(pairs, dtype=np.float64).T
        return low, high


def exceeded(*margins: FloatArray) -> FloatArray:
    """(n,) the sum of what margins of limits lack, of which each should be at least 0."""
    return np.asarray(np.sum([np.maximum(-margin, 0.0) for margin in margins], axis=0))
