"""A front as people choose from it: a design nearly as good as a cheaper one is folded under it.

The rule is that of :func:`codesign.search.pareto.fold`. A design keeps the number that it has on
the whole front, folded or not, so numbers do not depend on the tolerance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from codesign.base.columns import IntArray, IntegerList, IntegerSequence
from codesign.base.records import frozen
from codesign.search.pareto import TOLERANCE, fold
from codesign.search.problem import cost_column

if TYPE_CHECKING:
    from codesign.search.campaign import Results


@frozen
class FoldedFront:
    """The front of a campaign, ``n`` designs, with those that are folded under a cheaper one.

    Attributes:
        positions: (n,) positions of the whole front in the results, in its order.
        under: (n,) place on the front of the design under which each one is folded, or its own
            place. Place 0 is number 1.
        tolerance: Largest share by which a folded design is better.
    """

    positions: IntArray
    under: IntArray
    tolerance: float

    @property
    def kept(self) -> IntArray:
        """(k,) places of the designs that are not folded."""
        return np.flatnonzero(self.under == np.arange(len(self.under)))

    def folded_under(self, place: int) -> IntArray:
        """Places of the designs that are folded under one."""
        places = np.flatnonzero(self.under == place)
        return np.asarray(places[places != place])

    def count_words(self, place: int) -> str:
        """``+7 within 2 %``; empty if nothing is folded under that design."""
        n = len(self.folded_under(place))
        return f"+{n:,} {tolerance_words(self.tolerance)}" if n else ""

    @property
    def summary(self) -> str:
        """Sentence on the folded designs; empty if there are none."""
        n = len(self.positions) - len(self.kept)
        if not n:
            return ""
        share = f"{100 * self.tolerance:g} %"
        if n == 1:
            return f"1 more point gains at most {share} over a cheaper one; it is hidden"
        return f"{n:,} more points gain at most {share} over a cheaper one; they are hidden"


def folded_front(results: Results, tolerance: float = TOLERANCE) -> FoldedFront:
    """The front of a campaign, folded; with a tolerance of 0 nothing is."""
    return fold_positions(results, results.front(), tolerance)


def fold_positions(results: Results, positions: IntArray, tolerance: float) -> FoldedFront:
    """Some designs of the front folded among themselves."""
    cost = cost_column(results.problem.objectives)
    return FoldedFront(positions, fold(results.objectives[positions], cost, tolerance), tolerance)


def tolerance_words(tolerance: float) -> str:
    """``within 2 %``."""
    return f"within {100 * tolerance:g} %"


def number_ranges(places: IntegerSequence) -> str:
    """Places as numbers on the front: ``1 to 4, 7``.

    >>> number_ranges([0, 1, 2, 3, 6])
    '1 to 4, 7'
    """
    runs: list[IntegerList] = []
    for place in sorted(places):
        if runs and runs[-1][1] == place:
            runs[-1][1] = place + 1
        else:
            runs.append([place + 1, place + 1])
    return ", ".join(
        f"{low}" if low == high else f"{low}{' to ' if high > low + 1 else ', '}{high}"
        for low, high in runs
    )
