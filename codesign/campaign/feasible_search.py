"""A few feasible designs of a problem in which hardly any is, and how bad they can be.

From the designs that come nearest to all limits it goes on from neighbor to neighbor until enough
are feasible; then outward, from the feasible designs with the worst value of each objective.
Deterministic; only for evaluators that answer in milliseconds.
"""

from __future__ import annotations

import numpy as np

from codesign.columns import BoolArray, FloatArray, IntArray
from codesign.execution.answers import Evaluate
from codesign.problem import Observations, Problem

_PARENTS = 8
"""Designs whose neighbors are evaluated in one round."""
_OUTWARD_ROUNDS = 16
_MOST_EVALUATED = 20_000


def feasible_objectives(
    problem: Problem, start: Observations, evaluate: Evaluate, enough: int
) -> FloatArray:
    """(k, m) objectives of the feasible designs that are met, minimized.

    Args:
        enough: Feasible designs after which no more are looked for.
    """
    search = _Search(problem, start, evaluate)
    while search.n_feasible < enough and search.goes_on():
        if not search.expand(np.lexsort((search.excess,))):
            break
    for _ in range(_OUTWARD_ROUNDS if search.n_feasible else 0):
        worst = np.concatenate([np.argsort(-column) for column in search.objectives.T])
        if not search.goes_on() or not search.expand(worst[search.is_feasible[worst]]):
            break
    return search.objectives[search.is_feasible]


class _Search:
    """Designs evaluated so far."""

    def __init__(self, problem: Problem, start: Observations, evaluate: Evaluate) -> None:
        self._problem, self._evaluate = problem, evaluate
        self._rows: IntArray = start.rows[:0]
        self._expanded: set[int] = set()
        self._seen: set[int] = set()
        self.excess: FloatArray = np.empty(0)
        self.objectives: FloatArray = start.objectives[:0]
        self.is_feasible: BoolArray = np.empty(0, dtype=bool)
        self._take(start)

    @property
    def n_feasible(self) -> int:
        return int(self.is_feasible.sum())

    def goes_on(self) -> bool:
        return len(self._rows) < _MOST_EVALUATED

    def expand(self, order: IntArray) -> bool:
        """Evaluate the neighbors of the first designs in an order that were not expanded before.

        Returns:
            Whether there were any such designs; they may have no neighbor that is new.
        """
        parents = [i for i in order.tolist() if i not in self._expanded][:_PARENTS]
        self._expanded.update(parents)
        if not parents:
            return False
        near = np.concatenate([self._problem.space.neighbors(self._rows[i]) for i in parents])
        keys = self._problem.space.keys(near)
        _, first = np.unique(keys, return_index=True)
        new = np.array([i for i in first.tolist() if int(keys[i]) not in self._seen], dtype=int)
        if len(new):
            rows = near[new]
            rows = rows[self._problem.admits(rows)]
            if len(rows):
                self._take(self._evaluate(rows))
        return True

    def _take(self, observations: Observations) -> None:
        kept = ~observations.failed
        self._seen.update(map(int, self._problem.space.keys(observations.rows).tolist()))
        excess = np.maximum(observations.violations[kept], 0.0).sum(axis=1)
        self._rows = np.concatenate([self._rows, observations.rows[kept]])
        self.excess = np.concatenate([self.excess, excess])
        self.objectives = np.concatenate([self.objectives, observations.objectives[kept]])
        self.is_feasible = np.concatenate([self.is_feasible, observations.feasible[kept]])
