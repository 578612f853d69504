"""An exact front explained: choices, absences, prices, knees."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from codesign.base.columns import FloatArray, FloatMap, IntArray, StringMap
from codesign.base.records import frozen
from codesign.insight.explanation.absence import Absence, Absences
from codesign.insight.explanation.binding import binding_shares
from codesign.insight.explanation.choices import (
    DerivedRange,
    FrontChoice,
    Knee,
    choices_of,
    derived_ranges,
    knees_of,
)
from codesign.insight.explanation.distance import Measure
from codesign.insight.explanation.movable_limits import limits_of
from codesign.insight.explanation.prices import Prices, prices_of
from codesign.insight.explanation.range_ends import RangeEnd, range_ends
from codesign.insight.explanation.variation import Fronts
from codesign.search.enumeration import ExactFront
from codesign.search.pareto import TOLERANCE, fold
from codesign.search.problem import Problem, cost_column

NOT_ASKED = "was not asked"
"""Reason for a limit without a price, if fronts of variations were not asked for."""
STEP = 0.05
"""Share of a limit by which it is moved: 35 W of 700 W, 3.3 mm of 66 mm [ours]."""


@frozen
class FrontExplanation:
    """Explanation of an exact front, ``p`` points and ``m`` objectives.

    Attributes:
        under: (p,) the cheaper point under which each is folded; itself if it is kept.
        tolerance: Largest share by which folded points are better.
        choices: Every parameter that varies; then those of repeated parts as a whole.
        derived: Derived quantities over the designs of kept points.
        measure: Measure of improvements.
        absences: Values that no design of the front has, in the order of ``choices``.
        prices: Shadow prices of the limits.
        unpriced: Conditions without a price, with the reason.
        knees: Knees among the kept points, the sharpest first.
        binding: Shares of :func:`~.binding.binding_shares` of each kept point.
        range_ends: Ends of ranges that stand on kept points, with one value beyond.
        n_enumerated: Number of exact fronts that were needed besides the front itself.
        seconds: Wall time of these fronts; stored ones are not computed again.
    """

    problem: Problem
    front: ExactFront
    under: IntArray
    tolerance: float
    choices: tuple[FrontChoice, ...]
    derived: tuple[DerivedRange, ...]
    measure: Measure
    absences: tuple[Absence, ...]
    prices: Prices
    unpriced: StringMap
    knees: tuple[Knee, ...]
    binding: tuple[FloatMap, ...]
    range_ends: tuple[RangeEnd, ...]
    n_enumerated: int
    seconds: float

    @property
    def kept(self) -> IntArray:
        """Points that are not folded, ascending."""
        return kept_points(self.under)

    @property
    def n_unlisted(self) -> int:
        """Designs of the front that are counted and not listed."""
        return int(self.front.counts.sum()) - len(self.front.rows)


def kept_points(under: IntArray) -> IntArray:
    """Points that are folded under no other, ascending."""
    return np.flatnonzero(under == np.arange(len(under)))


def explain_front(
    fronts: Fronts,
    front: ExactFront,
    reference: FloatArray,
    step: float = STEP,
    tolerance: float = TOLERANCE,
    is_thorough: bool = True,
) -> FrontExplanation:
    """Explain the exact front of a problem by those of its variations.

    Designs are compared with those points that are not folded under a cheaper one.

    Args:
        fronts: Of variations of the problem.
        reference: (m,) the campaign's reference point, minimized.
        step: Share of each limit by which it is moved for its price, above 0 and below 1.
        tolerance: Share by which a point must be better than a cheaper one to be kept.
        is_thorough: Whether fronts of variations are asked for: without them no value's absence
            is explained, and no limit has a price.

    Raises:
        JobError: An enumeration failed.
    """
    problem = fronts.problem
    under = fold(front.objectives, cost_column(problem.objectives), tolerance)
    kept_places = kept_points(under)
    kept_front = front.only(kept_places)
    measure = Measure.build(kept_front.objectives, problem.senses, tolerance)
    listed = choices_of(problem.space, front, kept_places)
    limits = limits_of(problem)
    movable = limits.movable
    unpriced = dict(limits.others)
    choices = listed
    absences: list[Absence] = []
    began = time.perf_counter()
    with fronts.side_by_side():
        if is_thorough:
            choices, absences = Absences(fronts, front, kept_places, measure).explain(listed)
        else:
            unpriced |= {limit.text: NOT_ASKED for limit in movable}
            movable = ()
        prices = prices_of(fronts, front, movable, reference, step)
    return FrontExplanation(
        problem=problem,
        front=front,
        under=under,
        tolerance=tolerance,
        choices=tuple(choices),
        derived=tuple(derived_ranges(problem.space, kept_front.rows)),
        measure=measure,
        absences=tuple(absences),
        prices=prices,
        unpriced=unpriced,
        knees=tuple(
            replace(knee, point=int(kept_places[knee.point]))
            for knee in knees_of(kept_front.objectives)
        ),
        binding=tuple(binding_shares(problem, row) for row in kept_front.representatives()),
        range_ends=tuple(range_ends(problem, front, tolerance)),
        n_enumerated=fronts.n_enumerated,
        seconds=time.perf_counter() - began,
    )
