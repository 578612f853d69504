"""A few feasible designs of a problem in which hardly any is, and how bad they can be.

From the designs that come nearest to all limits it goes on from neighbor to neighbor until enough
are feasible; then outward, from the feasible designs with the worst value of each objective.
Deterministic; only for evaluators that answer in milliseconds.
"""

from __future__ import annotations

import numpy as np

from codesign.base.columns import FloatArray, IntArray
from codesign.search.execution.answers import Evaluate
from codesign.search.observations import Observations
from codesign.search.problem import Problem

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
    while search.observations.feasible.sum() < enough and search.goes_on():
        excess = np.maximum(search.observations.violations, 0.0).sum(axis=1)
        if not search.expand(np.lexsort((excess,))):
            break
    for _ in range(_OUTWARD_ROUNDS if search.observations.feasible.any() else 0):
        worst = np.concatenate([np.argsort(-column) for column in search.observations.objectives.T])
        if not search.goes_on() or not search.expand(worst[search.observations.feasible[worst]]):
            break
    return search.observations.objectives[search.observations.feasible]


class _Search:
    """Designs evaluated so far, of which ``observations`` has those with a result."""

    def __init__(self, problem: Problem, start: Observations, evaluate: Evaluate) -> None:
        self._problem = problem
        self._evaluate = evaluate
        self._expanded: set[int] = set()
        self._seen: set[int] = set()
        self.observations = start.part(slice(0))
        self._take(start)

    def goes_on(self) -> bool:
        return len(self.observations) < _MOST_EVALUATED

    def expand(self, order: IntArray) -> bool:
        """Evaluate the neighbors of the first designs in an order that were not expanded before.

        Returns:
            Whether there were any such designs; they may have no neighbor that is new.
        """
        parents = [i for i in order.tolist() if i not in self._expanded][:_PARENTS]
        self._expanded.update(parents)
        if not parents:
            return False
        rows = self.observations.rows
        near = np.concatenate([self._problem.space.neighbors(rows[i]) for i in parents])
        keys = self._problem.space.keys(near)
        _, first = np.unique(keys, return_index=True)
        new = np.array([i for i in first.tolist() if int(keys[i]) not in self._seen], int)
        if len(new):
            rows = near[new]
            rows = rows[self._problem.admits(rows)]
            if len(rows):
                self._take(self._evaluate(rows))
        return True

    def _take(self, observations: Observations) -> None:
        self._seen.update(map(int, self._problem.space.keys(observations.rows).tolist()))
        with_result = observations.part(~observations.failed)
        self.observations = Observations.joined([self.observations, with_result])
