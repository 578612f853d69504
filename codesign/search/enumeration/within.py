"""All feasible designs with objectives in a region, dominated ones too."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from codesign.base.columns import BoolArray, FloatArray, IntArray
from codesign.base.loop_progress import LoopProgress
from codesign.search.enumeration.decomposition import Part
from codesign.search.enumeration.walk import PartialFront, Walk
from codesign.search.problem import Problem

_ROOTS = 1 << 11


class _TooManyError(Exception):
    """More designs than wanted."""


class _Collection(Walk):
    """A walk that collects every design in a region, up to a number of them."""

    def __init__(
        self, problem: Problem, reaches: Callable[[FloatArray], BoolArray], most: int
    ) -> None:
        super().__init__(problem, np.empty((0, len(problem.objectives))))
        self._reaches = reaches
        self.rows: list[IntArray] = []
        self._most = most
        self.n_bounded = 0

    def _is_beaten(self, bounds: FloatArray, met: FloatArray) -> BoolArray:
        self.n_bounded += len(bounds)
        return ~self._reaches(bounds)

    def _evaluate(self, partials: Part, partial_front: PartialFront) -> None:
        rows = partials.rows[self.problem.admits(partials.rows)]
        observed = self.problem.evaluate(rows, self._metrics)
        self.rows.append(rows[observed.feasible & self._reaches(observed.objectives)])
        if sum(map(len, self.rows)) > self._most:
            raise _TooManyError


def designs_within(
    problem: Problem, reaches: Callable[[FloatArray], BoolArray], most: int
) -> tuple[IntArray | None, int]:
    """(n, d) every feasible design with objectives in a region.

    The evaluator's bounds exclude only designs that cannot reach the region.

    Args:
        problem: Only one of the designs that its evaluator calls interchangeable is listed.
        reaches: Function from (n, m) minimized objectives to (n,) True in the region. It must be
            true for a point that is nowhere worse than a point in the region. Unbounded objectives
            are minus infinity.
        most: Number of designs beyond which the search stops.

    Returns:
        The designs, or None if there are more than ``most``; number of partial designs that were
        bounded.
    """
    walk = _Collection(problem, reaches, most)
    n_roots = walk.decomposition.n_roots
    with LoopProgress("parts of the space", n_roots) as loop:
        for start in range(0, n_roots, _ROOTS):
            stop = min(start + _ROOTS, n_roots)
            try:
                walk.search(start, stop)
            except _TooManyError:
                return None, walk.n_bounded
            loop.done = stop
    nothing = np.empty((0, len(problem.space.parameters)), np.int64)
    return np.concatenate([nothing, *walk.rows]), walk.n_bounded
