"""What a cheaper model alone is good for: its front, evaluated and nothing learned from it.

The plain alternative to every multi-fidelity search, and the baseline for ``gp-ehvi`` with
predictions: find the front of the cheap model, then spend the costly evaluations on it.
"""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from codesign.columns import FloatArray, IntArray
from codesign.optimizers.base import KeySet
from codesign.optimizers.history import LearningOptimizer
from codesign.pareto import hypervolume, non_dominated
from codesign.schema import Record

_LISTED = 1 << 17
"""Designs that are predicted; of larger spaces, as many random ones."""


class Predicted(LearningOptimizer):
    """Proposes the predicted front, first what adds most to the predicted hypervolume.

    Then the front of what is left, and so on. Looks at no result and at no limit on metrics, but
    what is beyond the reference point (the worst prediction if none is given) comes last. Random
    where nothing is predicted.
    """

    class Options(Record):
        """Options of following predictions: there are none."""

    knows_pending: ClassVar[Literal[True]] = True

    def ask(self, n: int, pending: IntArray | None = None) -> IntArray:
        """(k, d) as the protocol promises."""
        rng = self._rng(pending)
        evaluated = self._memory.history().rows
        if pending is not None:
            evaluated = np.concatenate([evaluated, pending])
        chosen = self._space.no_rows if self._space.predict is None else self._best(n, evaluated)
        taken = KeySet()
        taken.add(self._space.space.keys(np.concatenate([evaluated, chosen])))
        rest = self._space.sample_unseen(rng, max(n - len(chosen), 0), taken)
        return np.concatenate([chosen, rest])

    @cached_property
    def _pool(self) -> tuple[IntArray, FloatArray, FloatArray]:
        """(p, d) designs, (p, m) predictions, and the (m,) bound inside of which they are."""
        rows = self._space.sample_unseen(np.random.default_rng(self._seed), _LISTED, KeySet())
        predicted = self._predict(rows)
        bound = predicted.max(axis=0) if self._reference is None else self._reference
        inside = (predicted <= bound).all(axis=1)
        return rows[inside], predicted[inside], bound

    def _predict(self, rows: IntArray) -> FloatArray:
        assert self._space.predict is not None
        return self._space.predict(rows) if len(rows) else np.empty((0, self._n_objectives))

    def _best(self, n: int, evaluated: IntArray) -> IntArray:
        """(k, d) what adds most, one after the other, to what was evaluated and chosen."""
        pool, predicted, bound = self._pool
        met = self._predict(evaluated)
        left = np.flatnonzero(~self._taken(evaluated).contains(self._space.space.keys(pool)))
        chosen: list[int] = []
        while len(chosen) < n and len(left):
            front = left[non_dominated(predicted[left])]
            gains = [hypervolume(np.vstack([met, point]), bound) for point in predicted[front]]
            best = front[int(np.argmax(gains))]
            chosen.append(int(best))
            met = np.concatenate([met, predicted[[best]]])
            left = left[left != best]
        return pool[chosen]
