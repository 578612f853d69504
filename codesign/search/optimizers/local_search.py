"""Pareto local search: neighbors of non-dominated designs, one or a few at a time.

Paquete, Chiarandini and Stützle, "Pareto local optimum sets in the biobjective traveling
salesman problem", 2004; a new design counts as soon as it is known, as in the anytime variants
(Dubois-Lacoste, López-Ibáñez and Stützle, 2015). Simple, without a model, and a baseline that
comparisons often leave out.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from codesign.base.columns import IntArray
from codesign.base.schema import Record
from codesign.search.observations import Observations
from codesign.search.optimizers.base import Count, KeySet
from codesign.search.optimizers.history import LearningOptimizer, scaled_excess
from codesign.search.pareto import non_dominated


class ParetoLocalSearch(LearningOptimizer):
    """Proposes a neighbor of a non-dominated design whose neighborhood is not exhausted.

    Designs of the front take turns in random order. Once all their neighborhoods are exhausted,
    it starts again from the designs that are non-dominated among the others, and at last from
    random ones. As long as nothing feasible is known, designs that violate less dominate those
    that violate more.
    """

    class Options(Record):
        """Options of Pareto local search."""

        batch: Count = 1
        """Designs proposed at a time."""

    knows_pending = True
    _options: Options

    def _set_up(self) -> None:
        super()._set_up()
        # Once exhausted, always exhausted: remembering it saves time and changes nothing.
        self._exhausted = KeySet()

    @property
    def preferred_batch(self) -> int:
        """The option's."""
        return self._options.batch

    def ask(self, n: int, pending: IntArray | None = None) -> IntArray:
        """(k, d) as the protocol promises."""
        rng = self._rng(pending)
        excluded = self._excluded(pending)
        history = self._memory.history()
        rows = self._space.no_rows
        for starts in _fronts(history):
            for start in rng.permutation(history.rows[starts]):
                key = self._space.space.keys(start[None, :])
                near = self._space.no_rows
                if not self._exhausted.contains(key)[0]:
                    near = self._space.unseen(self._space.space.neighbors(start), self._seen)
                    if not len(near):
                        self._exhausted.add(key)
                near = self._space.distinct(near, excluded)
                # One neighbor of each start: the next may be better known by then.
                # Drawn in either case, so that what is remembered makes no difference.
                first = int(rng.integers(1 << 30)) % max(len(near), 1)
                rows = np.concatenate([rows, near[first : first + 1]])
                rows = self._space.distinct(rows, excluded)
                if len(rows) >= n:
                    return rows[:n]
            if len(rows):
                return rows
        return self._space.sample_unseen(rng, n, excluded)


def _fronts(history: Observations) -> Iterator[IntArray]:
    """Positions of the designs with a result: the non-dominated, then those among the rest."""
    remaining = np.flatnonzero(~history.failed)
    excess = scaled_excess(history)
    if (excess[remaining] == 0).any():
        remaining = remaining[excess[remaining] == 0]
        values = history.objectives
    else:
        values = excess[:, None]
    while len(remaining):
        is_best = non_dominated(values[remaining])
        yield remaining[is_best]
        remaining = remaining[~is_best]
