"""Non-dominated sets and hypervolume, everything minimized.

Objectives are (n, m) arrays. A point dominates another if it is nowhere worse and somewhere
better; of equal points all are non-dominated. Hypervolume is the volume dominated by the
points and bounded by the reference point (MemExplorer Eq. 7). A plateau of a front is a point and
all that is hardly better and costs more; :func:`fold` says which these are.
"""

from __future__ import annotations

import bisect
import heapq

import numpy as np

from codesign.base.columns import BoolArray, FloatArray, FloatList, IntArray, IntegerList

TOLERANCE = 0.02
"""[ours] Share by which a design must be better to be worth a higher cost: below the errors of the
models and of what a product is specified to."""


def non_dominated(objectives: FloatArray) -> BoolArray:
    """(n,) mask of the rows that no other row dominates; equal rows are all kept.

    Rows with a NaN are never non-dominated.
    """
    mask = np.zeros(len(objectives), bool)
    finite = np.flatnonzero(~np.isnan(objectives).any(axis=1))
    if not len(finite):
        return mask
    points = objectives[finite]
    if points.shape[1] == 1:
        mask[finite] = points[:, 0] == points[:, 0].min()
        return mask
    import moocore

    mask[finite] = moocore.is_nondominated(points, keep_weakly=True)
    return mask


def distinct_front(objectives: FloatArray) -> IntArray:
    """Positions of the non-dominated rows, of equal ones the first, ordered by their values."""
    best = np.flatnonzero(non_dominated(objectives))
    return best[np.unique(objectives[best], axis=0, return_index=True)[1]]


def nearly_matches(values: FloatArray, others: FloatArray, tolerance: float) -> BoolArray:
    """Whether minimized values are at most a share worse than others, element by element.

    The share is of the smaller magnitude of the two, so 100 matches 102 at 2 %, to be minimized
    or, negated, maximized. With ``tolerance=0`` it is ``values <= others``. The arguments
    broadcast.

    >>> nearly_matches(np.array([-100.0, 102.0, 103.0]), np.array([-102.0, 100.0, 100.0]), 0.02)
    array([ True,  True, False])
    """
    slack = tolerance * np.minimum(np.abs(values), np.abs(others))
    return values - others <= slack


def fold(objectives: FloatArray, cost: int, tolerance: float = TOLERANCE) -> IntArray:
    """Under which row of a front each row is folded: a cheaper one that is nearly as good.

    The rows are walked from the cheapest up; equal costs by the other objectives, the first to
    the last, better ones first; equal rows in the order given. A row is folded under the first
    kept row on that way that :func:`nearly_matches` it in every objective, else it is kept. So

    - a row is folded only under a kept row that costs no more, and that is worse by at most the
      tolerance in any objective: folding never chains;
    - the cheapest row is kept; the best row in another objective may be folded;
    - two kept rows differ by more than the tolerance: the dearer is so much better somewhere;
    - the order of the rows decides nothing, but which of equal rows is kept.

    Args:
        objectives: (n, m) minimized, such as those of a front.
        cost: The column by which a row is called cheaper.
        tolerance: The share; with 0 every row is kept, equal ones too.

    Returns:
        (n,) the row under which each row is folded; its own number if it is kept.

    Examples:
        Token/s (negated) and watts; the second buys 1 % for 50 W, the third 3 %.

        >>> fold(np.array([[-103.0, 160.0], [-101.0, 150.0], [-100.0, 100.0]]), cost=1)
        array([0, 2, 2])
    """
    under = np.arange(len(objectives))
    if tolerance == 0:
        return under
    others = np.delete(objectives, cost, axis=1)
    walk = np.lexsort((*others.T[::-1], objectives[:, cost]))
    hosts: IntegerList = []
    points = np.empty_like(objectives)  # of the hosts, in the order of the walk
    for row in walk.tolist():
        matching = nearly_matches(points[: len(hosts)], objectives[row], tolerance)
        matches = np.flatnonzero(matching.all(axis=1))
        if len(matches):
            under[row] = hosts[matches[0]]
        else:
            points[len(hosts)] = objectives[row]
            hosts.append(row)
    return under


def hypervolume(objectives: FloatArray, reference: FloatArray) -> float:
    """Volume dominated by the rows, bounded by ``reference``; 0 if no row reaches inside."""
    inside = objectives[(objectives < reference).all(axis=1)]
    if not len(inside):
        return 0.0
    import moocore

    return float(moocore.hypervolume(inside, ref=reference))


def greedy_subset(objectives: FloatArray, reference: FloatArray, n: int) -> IntArray:
    """Positions of ``n`` rows, each chosen because it adds most volume to those before.

    Of any ``n`` rows their volume is at least ``1 - 1/e`` of the largest possible one (Nemhauser,
    Wolsey and Fisher, 1978), mostly close to it. The gain of a row only falls as others are chosen,
    so few are computed again (Minoux, 1978).

    Args:
        objectives: (k, m), minimized.
        reference: (m,) bound of the volume.
        n: Rows to choose; all within the bound, if there are fewer.
    """
    inside = np.flatnonzero((objectives < reference).all(axis=1))
    gains = (reference - objectives[inside]).prod(axis=1)
    waiting = [(-float(gain), int(row)) for gain, row in zip(gains, inside, strict=True)]
    heapq.heapify(waiting)
    subset: IntegerList = []
    volume = 0.0
    while waiting and len(subset) < n:
        _, row = heapq.heappop(waiting)
        gain = hypervolume(objectives[[*subset, row]], reference) - volume
        if waiting and gain < -waiting[0][0]:
            heapq.heappush(waiting, (-gain, row))
        else:
            subset.append(row)
            volume += gain
    return np.array(subset, np.int64)


class HypervolumeTracker:
    """The hypervolume after each observation, in the order they arrive.

    With two objectives an observation costs O(log front) and the value is exact; with more,
    the hypervolume is computed anew whenever the front changes.

    Args:
        reference: (m,) reference point; points outside it add nothing.
    """

    def __init__(self, reference: FloatArray) -> None:
        self._reference = np.asarray(reference, np.float64)
        self._front = np.empty((0, len(self._reference)))
        self._first: FloatList = []
        self._second: FloatList = []
        self.value = 0.0

    def add(self, point: FloatArray, feasible: bool = True) -> float:
        """Take one observation; returns the hypervolume so far."""
        if feasible and (point < self._reference).all():
            if len(self._reference) == 2:
                self._add_2d(float(point[0]), float(point[1]))
            elif not (self._front <= point).all(axis=1).any():
                keep = ~(self._front >= point).all(axis=1)
                self._front = np.vstack([self._front[keep], point])
                self.value = hypervolume(self._front, self._reference)
        return self.value

    def add_all(self, points: FloatArray, feasible: BoolArray) -> FloatArray:
        """Take (n, m) observations in their order; returns (n,) the hypervolume after each."""
        return np.array([self.add(*pair) for pair in zip(points, feasible.tolist(), strict=True)])

    def _add_2d(self, x: float, y: float) -> None:
        # The front is a staircase: x ascending, y descending.
        xs = self._first
        ys = self._second
        position = bisect.bisect_right(xs, x)
        if position > 0 and ys[position - 1] <= y:
            return
        start = position - 1 if position > 0 and xs[position - 1] == x else position
        end = start
        while end < len(xs) and ys[end] >= y:
            end += 1
        height = ys[start - 1] if start > 0 else float(self._reference[1])
        right = xs[end] if end < len(xs) else float(self._reference[0])
        before = 0.0
        for i in range(start, end):
            next_x = xs[i + 1] if i + 1 < len(xs) else float(self._reference[0])
            before += (next_x - xs[i]) * (height - ys[i])
        self.value += (right - x) * (height - y) - before
        xs[start:end] = [x]
        ys[start:end] = [y]
