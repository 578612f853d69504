"""The exact front while it is being found, and what is left at the end.

Many designs may share one point of the front: two number formats of equal width, or a plateau
that another unit sets. Points are kept once, with the number of their designs and the first of
them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from codesign.base.columns import BoolArray, FloatArray, IntArray
from codesign.base.notebook import table_html
from codesign.base.records import frozen
from codesign.search.enumeration.dominance_table import DominanceTable
from codesign.search.pareto import hypervolume, non_dominated

MOST_LISTED = 256
"""Designs kept of one point; beyond, they are counted."""
_WORTH_A_TABLE = 1 << 10
"""Points for which a table is made; each of fewer is compared with the whole front. [ours]"""


@frozen
class ExactFront:
    """The front of a whole space: ``p`` points, ``k`` listed designs.

    Attributes:
        objectives: (p, m) distinct non-dominated points, minimized, in lexicographic order.
        counts: (p,) designs that have exactly these objectives.
        rows: (k, d) the designs of each point with the lowest numbers, up to ``MOST_LISTED``.
        point: (k,) which point each has, ascending.
        n_evaluated: Designs whose objectives were computed.
        n_repeated: Designs that no metric can tell from an evaluated one.
        n_excluded: Designs that a bound showed to be infeasible or dominated.
        n_failed: Designs that the evaluator could not evaluate; they are in no front.
    """

    objectives: FloatArray
    counts: IntArray
    rows: IntArray
    point: IntArray
    n_designs: int
    n_evaluated: int
    n_repeated: int
    n_excluded: int
    n_failed: int

    def __len__(self) -> int:
        return len(self.objectives)

    def hypervolume(self, reference: FloatArray) -> float:
        """Volume that the front dominates, bounded by the (m,) minimized ``reference``."""
        return hypervolume(self.objectives, reference)

    def representatives(self) -> IntArray:
        """(p, d) the design of each point with the lowest number."""
        first = np.searchsorted(self.point, np.arange(len(self.objectives)))
        return self.rows[first]

    def _repr_html_(self) -> str:
        """The front in a notebook: its points as they are minimized."""
        headers = [f"objective {j}" for j in range(self.objectives.shape[1])]
        points = ([f"{value:.6g}" for value in point] for point in self.objectives.tolist())
        title = f"Exact front: {len(self):,} points of {self.n_designs:,} designs, minimized"
        return table_html(title, headers, points)

    def only(self, points: IntArray) -> ExactFront:
        """Some of its points, by their ascending positions, with their designs."""
        listed = np.isin(self.point, points)
        return replace(
            self,
            objectives=self.objectives[points],
            counts=self.counts[points],
            rows=self.rows[listed],
            point=np.searchsorted(points, self.point[listed]),
        )


class Archive:
    """Non-dominated points met so far, each with the numbers of its designs.

    What it holds does not depend on the order in which designs are added.

    Args:
        n_objectives: m.
    """

    def __init__(self, n_objectives: int) -> None:
        self.points = np.empty((0, n_objectives))
        self.counts = np.empty(0, np.int64)
        self.members: list[IntArray] = []

    def __len__(self) -> int:
        return len(self.points)

    def add(self, points: FloatArray, numbers: IntArray, weights: IntArray) -> None:
        """Take (n, m) feasible points with a number of each and how many designs it stands for."""
        survivors = np.flatnonzero(~dominated_by(self.points, points))
        survivors = survivors[non_dominated(points[survivors])]
        if not len(survivors):
            return
        order = np.lexsort((numbers[survivors], *points[survivors].T[::-1]))
        survivors = survivors[order]
        starts = np.flatnonzero(_is_first(points[survivors]))
        distinct = points[survivors[starts]]
        totals = np.add.reduceat(weights[survivors], starts)
        groups = [group[:MOST_LISTED] for group in np.split(numbers[survivors], starts[1:])]
        self._merge(distinct, totals, groups)

    def merge(self, archive: Archive) -> None:
        """Take all that another archive holds; no design may be in both."""
        survivors = np.flatnonzero(~dominated_by(self.points, archive.points))
        self._merge(
            archive.points[survivors],
            archive.counts[survivors],
            [archive.members[i] for i in survivors],
        )

    def _merge(self, points: FloatArray, counts: IntArray, members: list[IntArray]) -> None:
        """Join distinct points in lexicographic order that nothing here dominates."""
        if not len(points):
            return
        survives = np.flatnonzero(~dominated_by(points, self.points))
        union = np.concatenate([self.points[survives], points])
        union_counts = np.concatenate([self.counts[survives], counts])
        union_members = [*[self.members[i] for i in survives], *members]
        order = np.lexsort(union.T[::-1])
        starts = np.flatnonzero(_is_first(union[order]))
        self.points = union[order[starts]]
        self.counts = np.add.reduceat(union_counts[order], starts)
        self.members = [
            union_members[group[0]]
            if len(group) == 1
            else np.sort(np.concatenate([union_members[i] for i in group]))[:MOST_LISTED]
            for group in np.split(order, starts[1:])
        ]


def _is_first(points: FloatArray) -> BoolArray:
    """(n,) whether each of the sorted points differs from the one before."""
    return np.concatenate([[True], (np.diff(points, axis=0) != 0).any(axis=1)])


def dominated_by(
    front: FloatArray, points: FloatArray, table: DominanceTable | None = None
) -> BoolArray:
    """(n,) whether any of the front's points dominates each point; equal ones do not.

    Args:
        front: (p, m) points of which none dominates another, in lexicographic order.
        points: (n, m); a coordinate of minus infinity is dominated by nothing.
        table: Of the front, if many calls share it.
    """
    if not len(front) or not len(points):
        return np.zeros(len(points), bool)
    # An objective in which all are equal decides nothing: often the third of three.
    varies = (points != front[0]).any(axis=0) | (front != front[0]).any(axis=0)
    if not varies.all():
        table = None
    if varies.any():
        front = front[:, varies]
        points = points[:, varies]
    if points.shape[1] <= 2:
        first = front[:, 0]
        second = front[:, -1]
        # Of the front's points with no larger first coordinate, the last has the least second one.
        before = np.searchsorted(first, points[:, 0], side="right") - 1
        last = np.maximum(before, 0)
        is_better = (second[last] < points[:, -1]) | (first[last] < points[:, 0])
        return (before >= 0) & (second[last] <= points[:, -1]) & is_better
    if table is None and len(points) < _WORTH_A_TABLE:
        is_as_good = np.ones((len(front), len(points)), bool)
        is_equal = np.ones_like(is_as_good)
        for of_front, of_points in zip(front.T, points.T, strict=True):
            is_as_good &= of_front[:, None] <= of_points
            is_equal &= of_front[:, None] == of_points
        return np.asarray((is_as_good & ~is_equal).any(axis=0))
    return (table or DominanceTable(front)).dominates(points)
