"""An exact front explained: choices, absences, prices, knees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from codesign.columns import FloatArray
from codesign.enumeration import ExactFront
from codesign.insight.absence import Absence, Absences
from codesign.insight.choices import (
    Choice,
    DerivedRange,
    Knee,
    choices_of,
    derived_ranges,
    knees_of,
)
from codesign.insight.distance import Measure
from codesign.insight.limits import limits_of
from codesign.insight.prices import Prices, prices_of
from codesign.insight.variation import Fronts
from codesign.problem import Problem

STEP = 0.05
"""Share of a limit by which it is moved: 35 W of 700 W, 3.3 mm of 66 mm [ours]."""


@dataclass(frozen=True)
class FrontExplanation:
    """What an exact front says, ``p`` points and ``m`` objectives.

    Attributes:
        problem: The problem.
        front: Its exact front.
        choices: Every parameter that varies; then those of repeated parts as a whole.
        derived: Derived quantities over the front's designs.
        measure: Of improvements.
        absences: Values that no design of the front has, in the order of ``choices``.
        prices: Shadow prices of the limits.
        unpriced: Conditions without a price, with the reason.
        knees: The sharpest first.
        n_enumerated: Exact fronts asked for, besides the front itself.
        seconds: Wall time that they took; little where they were stored.
    """

    problem: Problem
    front: ExactFront
    choices: tuple[Choice, ...]
    derived: tuple[DerivedRange, ...]
    measure: Measure
    absences: tuple[Absence, ...]
    prices: Prices
    unpriced: Mapping[str, str]
    knees: tuple[Knee, ...]
    n_enumerated: int
    seconds: float

    @property
    def signs(self) -> FloatArray:
        """(m,) factors between natural and minimized values."""
        return self.measure.signs

    @property
    def n_unlisted(self) -> int:
        """Designs of the front that are counted and not listed."""
        return int(self.front.counts.sum()) - len(self.front.rows)


def explain_front(
    fronts: Fronts, front: ExactFront, reference: FloatArray, step: float = STEP
) -> FrontExplanation:
    """Explain the exact front of a problem by those of its variations.

    Args:
        fronts: Of variations of the problem.
        front: Its exact front.
        reference: (m,) the campaign's reference point, minimized.
        step: Share of each limit by which it is moved for its price, above 0 and below 1.

    Raises:
        JobError: An enumeration failed.
    """
    problem = fronts.problem
    signs = np.array([objective.sign for objective in problem.objectives])
    measure = Measure.of(front.objectives, signs)
    try:
        listed = choices_of(problem.space, front)
        choices, absences = Absences(fronts, front, measure).explain(listed)
        limits = limits_of(problem)
        prices = prices_of(fronts, front, limits.found, reference, step)
    finally:
        fronts.progress.finish()
    return FrontExplanation(
        problem=problem,
        front=front,
        choices=tuple(choices),
        derived=tuple(derived_ranges(problem.space, front.rows)),
        measure=measure,
        absences=tuple(absences),
        prices=prices,
        unpriced=dict(limits.others),
        knees=tuple(knees_of(front.objectives)),
        n_enumerated=fronts.n_enumerated,
        seconds=fronts.seconds,
    )
