"""Observation data of an optimizer, in order and in few arrays."""

from __future__ import annotations

import numpy as np

from codesign.base.columns import FloatArray
from codesign.search.observations import Observations
from codesign.search.optimizers.base import BaseOptimizer, SearchSpace


def scaled_excess(history: Observations) -> FloatArray:
    """(n,) sum of what is above the limits, each scaled by its largest excess; inf if failed.

    0 is feasible. Comparable within one history only.
    """
    above = np.nan_to_num(np.maximum(history.violations, 0.0), posinf=np.finfo(float).max)
    largest = above.max(axis=0, initial=0.0)
    total = (above / np.where(largest > 0, largest, 1.0)).sum(axis=1)
    return np.where(history.failed, np.inf, total)


class Memory:
    """Takes what is told; gives it back in order.

    Args:
        search: Where the designs are from.
    """

    def __init__(self, search: SearchSpace, n_objectives: int) -> None:
        self._search = search
        self._n_objectives = n_objectives
        self._parts: list[Observations] = []

    def add(self, results: Observations) -> None:
        """Take results."""
        self._parts.append(results)

    def history(self) -> Observations:
        """All that was told."""
        if not self._parts:
            nothing = np.empty((0, self._n_objectives))
            return Observations(self._search.no_rows, nothing, nothing[:, :0])
        if len(self._parts) > 1:
            # One part from now on: appending stays cheap.
            self._parts = [Observations.joined(self._parts)]
        return self._parts[0]


class LearningOptimizer(BaseOptimizer):
    """Keeps all that it was told, in order; see :class:`BaseOptimizer` for its arguments."""

    def _set_up(self) -> None:
        self._memory = Memory(self._space, self._n_objectives)

    def _learn(self, results: Observations) -> None:
        """Take results."""
        self._memory.add(results)
