"""What an optimizer was told, kept in order and in few arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from codesign.columns import BoolArray, FloatArray, IntArray
from codesign.optimizers.base import BaseOptimizer, SearchSpace
from codesign.pareto import non_dominated


@dataclass(frozen=True)
class History:
    """Everything told, in order.

    Attributes:
        rows: (n, d) designs.
        objectives: (n, m) to minimize; NaN where failed.
        violations: (n, c), ``<= 0`` is within; NaN where failed.
        failed: (n,) designs without a result.
    """

    rows: IntArray
    objectives: FloatArray
    violations: FloatArray
    failed: BoolArray

    @classmethod
    def copied(
        cls, rows: IntArray, objectives: FloatArray, violations: FloatArray, failed: BoolArray
    ) -> History:
        """From arrays that may change afterwards."""
        return cls(
            np.array(rows, dtype=np.int64),
            np.array(objectives, dtype=np.float64),
            np.array(violations, dtype=np.float64),
            np.array(failed, dtype=bool),
        )

    @classmethod
    def joined(cls, parts: Sequence[History]) -> History:
        """One after the other: at least one part, all with the same objectives and limits."""
        return cls(
            np.concatenate([part.rows for part in parts]),
            np.concatenate([part.objectives for part in parts]),
            np.concatenate([part.violations for part in parts]),
            np.concatenate([part.failed for part in parts]),
        )

    def part(self, chosen: slice | IntArray | BoolArray) -> History:
        """Some of it, in the order chosen."""
        return History(
            self.rows[chosen], self.objectives[chosen], self.violations[chosen], self.failed[chosen]
        )

    @property
    def feasible(self) -> BoolArray:
        """(n,) designs with a result and within every limit."""
        return np.asarray(~self.failed & (self.violations <= 0).all(axis=1))

    @property
    def front(self) -> IntArray:
        """Positions of the non-dominated feasible designs."""
        feasible = np.flatnonzero(self.feasible)
        return feasible[non_dominated(self.objectives[feasible])]

    @property
    def front_values(self) -> FloatArray:
        """(k, m) the distinct values on the front, sorted."""
        return np.unique(self.objectives[self.front], axis=0)

    def excess(self) -> FloatArray:
        """(n,) sum of what is above the limits, each scaled by its largest excess; inf if failed.

        0 is feasible. Comparable within one history only.
        """
        above = np.nan_to_num(np.maximum(self.violations, 0.0), posinf=np.finfo(float).max)
        largest = above.max(axis=0, initial=0.0)
        total = (above / np.where(largest > 0, largest, 1.0)).sum(axis=1)
        return np.where(self.failed, np.inf, total)


class Memory:
    """Takes what is told; gives it back as a :class:`History`.

    Args:
        search: Where the designs are from.
    """

    def __init__(self, search: SearchSpace, n_objectives: int) -> None:
        self._search = search
        self._n_objectives = n_objectives
        self._parts: list[History] = []

    def add(self, part: History) -> None:
        """Take results."""
        self._parts.append(part)

    def history(self) -> History:
        """All that was told."""
        if not self._parts:
            nothing = np.empty((0, self._n_objectives))
            return History(self._search.no_rows, nothing, nothing[:, :0], np.empty(0, dtype=bool))
        if len(self._parts) > 1:
            # One part from now on: appending stays cheap.
            self._parts = [History.joined(self._parts)]
        return self._parts[0]


class LearningOptimizer(BaseOptimizer):
    """Keeps all that it was told, in order; see :class:`BaseOptimizer` for its arguments."""

    def _set_up(self) -> None:
        self._memory = Memory(self._space, self._n_objectives)

    def tell(
        self, rows: IntArray, objectives: FloatArray, violations: FloatArray, failed: BoolArray
    ) -> None:
        """Take results."""
        super().tell(rows, objectives, violations, failed)
        self._memory.add(History.copied(rows, objectives, violations, failed))
