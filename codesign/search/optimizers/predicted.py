"""Search by a cheaper model alone: it is followed, and nothing is learned.

The plain alternative to every multi-fidelity search, and the baseline for ``gp-ehvi`` with
predictions: find the front of the cheap model, then spend the costly evaluations on it.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from codesign.base.columns import BoolArray, FloatArray, IntArray, IntegerList
from codesign.base.schema import Record
from codesign.search.optimizers.base import KeySet, SearchSpace
from codesign.search.optimizers.history import LearningOptimizer
from codesign.search.pareto import hypervolume, non_dominated

_LISTED = 1 << 17
"""Designs that are predicted; of larger spaces, as many random ones."""


class _Pool(NamedTuple):
    """Designs to propose from, and what is predicted of them: k of the m objectives.

    Attributes:
        rows: (p, d) designs predicted to be within every limit and the reference point.
        predicted: (p, k) their objectives.
        is_predicted: (m,) which objectives these are.
        bound: (k,) reference point.
    """

    rows: IntArray
    predicted: FloatArray
    is_predicted: BoolArray
    bound: FloatArray


class Predicted(LearningOptimizer):
    """Proposes the predicted front, first what adds most to the predicted hypervolume.

    Then the front of what is left, and so on. It looks at no result, unless it is ``greedy``. What
    is predicted to break a limit, or is beyond the reference point (the worst prediction if none
    is given), comes last. Random where nothing is predicted; objectives that are not are ignored.
    """

    class Options(Record):
        """Options of following predictions."""

        greedy: bool = False
        """Propose what is predicted to add most to the hypervolume of the results, and not to that
        of what was predicted of the same designs."""

    knows_pending = True
    hint_use = "alone"
    _options: Options

    def ask(self, n: int, pending: IntArray | None = None) -> IntArray:
        """(k, d) as the protocol promises."""
        waiting = self._space.no_rows if pending is None else pending
        evaluated = np.concatenate([self._memory.history().rows, waiting])
        proposed = self._space.no_rows
        if self._space.predict is not None:
            pool = self._pool
            history = self._memory.history()
            attained = self._predict(evaluated)
            if self._options.greedy:
                results = history.objectives[history.feasible]
                attained = np.concatenate([results, self._predict(waiting)])
            attained = attained[:, pool.is_predicted]
            remaining = np.flatnonzero(
                ~self._excluded(evaluated).contains(self._space.space.keys(pool.rows))
            )
            proposed = pool.rows[
                remaining[most_added(pool.predicted[remaining], attained, pool.bound, n)]
            ]
        excluded = KeySet(self._space.space.keys(np.concatenate([evaluated, proposed])))
        rest = self._space.sample_unseen(self._rng(pending), max(n - len(proposed), 0), excluded)
        return np.concatenate([proposed, rest])

    @cached_property
    def _pool(self) -> _Pool:
        space = self._space
        rows = space.sample_unseen(np.random.default_rng(self._seed), _LISTED, KeySet())
        predicted = self._predict(rows)
        is_predicted = np.asarray(~np.isnan(predicted).any(axis=0))
        predicted = predicted[:, is_predicted]
        bound = predicted.max(axis=0) if self._reference is None else self._reference[is_predicted]
        inside = (predicted <= bound).all(axis=1) & is_predicted.any()
        if space.predict_violations is not None:
            inside &= ~(space.predict_violations(rows) > 0).any(axis=1)
        return _Pool(rows[inside], predicted[inside], is_predicted, bound)

    def _predict(self, rows: IntArray) -> FloatArray:
        assert self._space.predict is not None
        return self._space.predict(rows) if len(rows) else np.empty((0, self._n_objectives))


def most_added(values: FloatArray, attained: FloatArray, bound: FloatArray, n: int) -> IntegerList:
    """Positions of at most n values, of which each adds most to those before it.

    The non-dominated of those that are left come first.

    Args:
        values: (p, k) objectives.
        attained: (a, k) objectives before any is chosen.
        bound: (k,) reference point of the hypervolume.
        n: How many.
    """
    remaining = np.arange(len(values))
    proposed = IntegerList()
    while len(proposed) < n and len(remaining):
        front = remaining[non_dominated(values[remaining])]
        gains = [hypervolume(np.vstack([attained, point]), bound) for point in values[front]]
        best = int(front[np.argmax(gains)])
        proposed.append(best)
        attained = np.concatenate([attained, values[[best]]])
        remaining = remaining[remaining != best]
    return proposed


def hinted_designs(
    search: SearchSpace, n: int, n_objectives: int, seed: int, reference: FloatArray | None = None
) -> IntArray:
    """(k, d) the best by what is predicted, of many drawn at random; what a search may start from.

    One after the other, each is of the predicted front and adds most to the predicted hypervolume
    (see :class:`Predicted`). They depend on the space, the seed and the reference point, so that
    they are the same for every optimizer. Fewer than ``n`` only if the space holds fewer.

    Args:
        search: Where to look; it predicts.
        reference: (m,) bound of the hypervolume.
    """
    return Predicted(search, n_objectives, seed, Predicted.Options(), reference).ask(n)
