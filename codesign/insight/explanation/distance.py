"""Distance of designs from the front: the loss of choosing them.

The *regret* of a design is the largest factor by which a design of the front that is nowhere
worse is better in some objective: 1 for a design that nothing dominates, above 1 elsewhere. By
as much an objective would have to improve, the others as they are, for the design to be
non-dominated; of the objectives, the one that lacks most counts. With a tolerance, "nowhere worse"
is "nowhere worse by more than the tolerance", and the front is what is left after folding: what
is nearly as good and cheaper is better. Where an objective is not
positive, factors have no meaning, and the same is told in shares of the front's range of each
objective: 0 for a design that nothing dominates.

(The multiplicative epsilon indicator [Zitzler2003]_ asks for the least improvement of all
objectives at once. A design that nearly ties with the front in one objective needs next to none,
however bad the others are, and exact fronts are full of such ties; so it is not used here.)

The regret does not fall if an objective gets worse: fewer points dominate the better design, and
by less. So over a set of designs its least value is taken on the set's own front, and looking at
that front alone is exact.

.. [Zitzler2003] Zitzler, Thiele, Laumanns, Fonseca, Grunert da Fonseca, "Performance assessment
   of multiobjective optimizers: an analysis and review", IEEE Transactions on Evolutionary
   Computation 7(2), 2003, section III.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from codesign.base.columns import FloatArray, IntArray
from codesign.base.metrics import Sense, flipped_columns
from codesign.base.records import frozen
from codesign.search.pareto import nearly_matches

Kind = Literal["factor", "share of range"]

_ROUNDING = 1e-9
_AT_ONCE = 1 << 22
"""Numbers in a table of all pairs."""


@frozen
class Measure:
    """Improvements with respect to one front.

    Attributes:
        front: (p, m) minimized, none dominated by another.
        kind: Improvements are factors (1: none) or shares of the front's range (0: none).
        tolerance: Share by which a design may be worse and still count as as good.
    """

    front: FloatArray
    senses: tuple[Sense, ...]
    kind: Kind
    tolerance: float = 0.0

    @classmethod
    def build(cls, front: FloatArray, senses: tuple[Sense, ...], tolerance: float = 0.0) -> Measure:
        """Measure by factors if every objective of the front is positive in its natural sign."""
        is_positive = bool((flipped_columns(front, senses) > 0).all())
        kind: Kind = "factor" if is_positive else "share of range"
        return cls(front, senses, kind, tolerance)

    def matters(self, improvement: float) -> bool:
        """Whether an improvement is more than the tolerance, and more than rounding."""
        none = 1.0 if self.kind == "factor" else 0.0
        return improvement - none > self.tolerance + _ROUNDING

    def regret(self, points: FloatArray) -> FloatArray:
        """(n,) of (n, m) minimized points: the largest that any objective lacks alone."""
        return np.asarray(self.alone(points).max(axis=1))

    def nearest(self, points: FloatArray) -> int:
        """The point with the least regret; of those within the tolerance, what lacks least in all.

        Regret counts the worst objective alone, so the least may be a waste in the others.
        """
        alone = self.alone(points)
        regret = alone.max(axis=1)
        slack = self.tolerance * (regret.min() if self.kind == "factor" else 1.0)
        near = np.flatnonzero(regret <= regret.min() + slack)
        return int(near[alone[near].sum(axis=1).argmin()])

    def alone(self, points: FloatArray) -> FloatArray:
        """(n, m) by how much the best front point that is nowhere else worse is better.

        That is what one objective lacks, the others as they are, until no point of the front
        dominates.
        """
        blocks = [np.empty((0, points.shape[1]))]
        step = max(_AT_ONCE // max(self.front.size, 1), 1)
        for start in range(0, len(points), step):
            some = points[start : start + step]
            gaps = self._raw(some[:, None, :], self.front[None, :, :])
            as_good = nearly_matches(self.front[None, :, :], some[:, None, :], self.tolerance)
            lacking = np.zeros((len(gaps), gaps.shape[2]))
            for j in range(gaps.shape[2]):
                is_as_good = np.delete(as_good, j, axis=2).all(axis=2)
                lacking[:, j] = np.where(is_as_good, gaps[:, :, j], 0.0).max(axis=1)
            blocks.append(np.maximum(lacking, 0.0))
        return self._natural_measure(np.concatenate(blocks))

    def near(self, regret: float) -> float:
        """The largest regret of what :meth:`nearest` chooses from, if the least is that."""
        return regret * (1.0 + self.tolerance) if self.kind == "factor" else regret + self.tolerance

    def dominating_points(self, regret: float) -> FloatArray:
        """(q, m) points: what one of them dominates has a larger regret than that.

        It is as bad as a point of the front, up to the tolerance, in all objectives but one, and in
        that one worse by more.
        """
        more = regret + _ROUNDING * max(1.0, regret)
        tolerance = self.tolerance * (1.0 - _ROUNDING)
        as_bad = self.front * np.where(self.front < 0, 1.0 + tolerance, 1.0 / (1.0 + tolerance))
        if self.kind == "factor":
            is_minimized = [sense == "minimize" for sense in self.senses]
            worse = self.front * np.where(is_minimized, more, 1.0 / more)
        else:
            worse = self.front + more * np.ptp(self.front, axis=0)
        columns = range(self.front.shape[1])
        replaced = [np.where(np.arange(self.front.shape[1]) == j, worse, as_bad) for j in columns]
        return np.concatenate(replaced)

    def dominating(self, point: FloatArray) -> IntArray:
        """Positions of the front's points that dominate the (m,) point up to the tolerance.

        Those that are better by more than the tolerance; if there is none, all as good ones.
        """
        as_good = nearly_matches(self.front, point, self.tolerance).all(axis=1)
        better = ~nearly_matches(point, self.front, self.tolerance).all(axis=1)
        return np.flatnonzero(as_good & better if (as_good & better).any() else as_good)

    def gaps_between(self, worse: FloatArray, better: FloatArray) -> FloatArray:
        """(m,) by how much one point is better than another in each objective."""
        return self._natural_measure(self._raw(worse[None, None, :], better[None, None, :])[0, 0])

    def _natural_measure(self, gaps: FloatArray) -> FloatArray:
        return np.exp(gaps) if self.kind == "factor" else gaps

    def _raw(self, points: FloatArray, front: FloatArray) -> FloatArray:
        """Logarithms of factors, so that they add up; or differences over ranges."""
        if self.kind == "factor":
            natural, best = (
                flipped_columns(objectives, self.senses) for objectives in (points, front)
            )
            # A maximized objective at or below zero lacks any factor.
            with np.errstate(divide="ignore", invalid="ignore"):
                logarithm = np.where(natural > 0, np.log(natural), -np.inf)
            return flipped_columns(logarithm - np.log(best), self.senses)
        low = self.front.min(axis=0)
        high = self.front.max(axis=0)
        return (points - front) / np.where(high > low, high - low, 1.0)
