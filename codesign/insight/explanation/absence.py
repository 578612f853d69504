"""Reasons for values of parameters that never occur on a front.

For each such value the exact front of the part of the space that has it is found, as far as it
comes near the front. If nothing there is feasible, the limits that stand in the way are named;
else its nearest miss: the design with the least regret (see ``distance.py``). A design that is
dominated by a point at which the regret is larger has a larger regret itself, so far parts are left
out by the bounds that leave out dominated ones (``Measure.beyond``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from codesign.base.columns import BoolArray, FloatArray, IntArray, IntegerList, Value
from codesign.base.records import frozen
from codesign.insight.explanation.choices import FrontChoice, possible_codes
from codesign.insight.explanation.distance import Measure
from codesign.insight.explanation.variation import Fronts, Variation
from codesign.search.enumeration import ExactFront, WantedPart
from codesign.search.problem import Problem
from codesign.space import DesignSpace

LOOKED_AT = 1 << 16
"""Designs of an infeasible part that are looked at, to name the limits that they break."""
_SEED = 0
_SAME = 1e-12
"""Relative difference of equal objectives: the same design in another batch."""


@frozen
class Miss:
    """The design of a value that is nearest to the front.

    Attributes:
        row: (d,) the design.
        objectives: (m,) minimized.
        regret: The largest of ``alone``.
        alone: (m,) that one objective needs, the others as they are.
        point: The kept point of the front that dominates it with the most similar design.
        dominator: (d,) that design.
        better: (m,) by how much that is better; it may be worse by the measure's tolerance.
    """

    row: IntArray
    objectives: FloatArray
    regret: float
    alone: FloatArray
    point: int
    dominator: IntArray
    better: FloatArray


@frozen
class Broken:
    """A limit that designs of an infeasible part break.

    Attributes:
        share: Of the designs that were looked at.
        least: Least violation among them; above 0 every one of them breaks it.
    """

    limit: str
    share: float
    least: float


@frozen
class Absence:
    """A value that no design of the front has.

    Attributes:
        value: The value; None: the parameter's absence.
        n_designs: Designs of the space that have it; those with it several times count as often.
        miss: The nearest miss; None if no design that has it is feasible.
        broken: Limits that stand in the way, if none is feasible; the most broken first.
        n_looked_at: Designs that ``broken`` was read from.
    """

    choice: FrontChoice
    value: Value
    n_designs: int
    miss: Miss | None
    broken: tuple[Broken, ...] = ()
    n_looked_at: int = 0


@frozen
class _Part:
    """The designs that have a value at one place.

    Attributes:
        front: What of their exact front is nearest, as rows of the whole space; None: nothing is
            feasible.
    """

    variation: Variation
    n_designs: int
    front: ExactFront | None


class Absences:
    """Finds and explains the values that a front does not have.

    Args:
        fronts: Of variations of the problem.
        front: The exact front of the problem itself.
        kept: Points of it that are not folded under a cheaper one.
        measure: Of improvements with respect to these.
    """

    def __init__(self, fronts: Fronts, front: ExactFront, kept: IntArray, measure: Measure) -> None:
        self._fronts = fronts
        self._front = front
        self._kept = kept
        self._measure = measure
        # A value that no listed design of a point has may be on the front all the same.
        is_listed = np.bincount(front.point, minlength=len(front)) == front.counts
        unlisted = front.objectives[~is_listed]
        self._least = float(measure.regret(unlisted).max()) if len(unlisted) else 0.0
        inputs = [measure.front.tolist(), measure.tolerance, self._least]
        self._wanted = WantedPart(f"near {inputs}", partial(_cutoffs, measure, self._least))

    def explain(self, choices: Sequence[FrontChoice]) -> tuple[list[FrontChoice], list[Absence]]:
        """Choices with what was learnt of points with many designs, and every absence.

        Of a point that very many designs share, not all are listed, so a value that no listed
        design has may still be on the front; the front of its part shows that.
        """
        absent_values = [(choice, value) for choice in choices for value in choice.absent]
        places = {
            (c, value): None for choice, value in absent_values for c in self._places(choice, value)
        }
        slices = self._fronts.each(lambda place: self._part(*place), list(places), "absent values")
        part_at = dict(zip(places, slices, strict=True))
        sharing: dict[str, dict[Value, BoolArray]] = {}
        absences = []
        for choice, value in absent_values:
            slices = [part_at[column, value] for column in self._places(choice, value)]
            shared = np.zeros(len(self._front), bool)
            for space_slice in slices:
                if space_slice.front is not None:
                    theirs = space_slice.front.objectives[:, None, :]
                    same = np.isclose(theirs, self._front.objectives[None], rtol=_SAME, atol=0.0)
                    shared |= same.all(axis=2).any(axis=0)
            if shared.any():
                sharing.setdefault(choice.name, {})[value] = shared
            else:
                absences.append(self._absence(choice, value, slices))
        return [choice.extended(sharing.get(choice.name, {})) for choice in choices], absences

    def _places(self, choice: FrontChoice, value: Value) -> IntegerList:
        """Columns in which designs of the space can have the value."""
        space = self._fronts.problem.space
        places = []
        for column in choice.columns.tolist():
            values = (*space.parameters[column].values, None)
            if value in [values[code] for code in possible_codes(space, column)]:
                places.append(column)
        return places

    def _part(self, column: int, value: Value) -> _Part:
        problem = self._fronts.problem
        parameter = problem.space.parameters[column]
        variation = Variation(fixed=((parameter.name, value),))
        front = self._fronts.find(variation, self._wanted)
        space = variation.apply(problem).space
        if front is not None:
            front = replace(front, rows=recoded(front.rows, space, problem.space))
        return _Part(variation, space.size, front)

    def _absence(self, choice: FrontChoice, value: Value, slices: Sequence[_Part]) -> Absence:
        n_designs = sum(space_slice.n_designs for space_slice in slices)
        feasible = [space_slice.front for space_slice in slices if space_slice.front is not None]
        if feasible:
            measure = self._measure
            points = np.concatenate([front.objectives for front in feasible])
            regret = measure.regret(points)
            nearest = measure.nearest(points)
            owner = np.repeat(np.arange(len(feasible)), [len(front) for front in feasible])
            theirs = feasible[owner[nearest]]
            position = nearest - int(np.flatnonzero(owner == owner[nearest])[0])
            objectives = points[nearest]
            rows = theirs.rows[theirs.point == position]
            # The dominating design that differs in the fewest parameters.
            dominating = self._kept[measure.dominating(objectives)]
            candidates = np.flatnonzero(np.isin(self._front.point, dominating))
            differing = (rows[:, None, :] != self._front.rows[None, candidates, :]).sum(axis=2)
            i, j = np.unravel_index(int(differing.argmin()), differing.shape)
            similar = int(candidates[j])
            point = int(self._front.point[similar])
            miss = Miss(
                row=rows[i],
                objectives=objectives,
                regret=float(regret[nearest]),
                alone=measure.alone(objectives[None, :])[0],
                point=point,
                dominator=self._front.rows[similar],
                better=measure.gaps_between(objectives, self._front.objectives[point]),
            )
            return Absence(choice, value, n_designs, miss)
        problem = self._fronts.problem
        samples = [
            _some(problem, space_slice.variation.apply(problem).space) for space_slice in slices
        ]
        broken = broken_limits(problem, np.concatenate(samples))
        return Absence(choice, value, n_designs, None, tuple(broken), sum(map(len, samples)))


def _cutoffs(measure: Measure, least: float, violations: FloatArray) -> FloatArray:
    """Only the designs of a part that are nearest to the front matter."""
    if not len(violations):
        return violations
    nearest = float(measure.regret(violations).min())
    return measure.dominating_points(max(measure.near(nearest), least))


def recoded(rows: IntArray, theirs: DesignSpace, ours: DesignSpace) -> IntArray:
    """Designs of one space as rows of another, whose parameters have all of their values.

    Fixing a parameter leaves it one value, so its codes mean something else.
    """
    columns = []
    for column, parameter in enumerate(theirs.parameters):
        violations = ours.parameters[column]
        codes = [violations.code_of(value) for value in parameter.values]
        columns.append(np.array([*codes, -1], np.int64)[rows[:, column]])
    return np.stack(columns, axis=1)


def _some(problem: Problem, space_slice: DesignSpace) -> IntArray:
    """All designs of a small part of the space, a uniform sample of a large one."""
    if space_slice.size <= LOOKED_AT:
        rows = space_slice.rows(np.arange(space_slice.size))
    else:
        rows = space_slice.sample(np.random.default_rng(_SEED), LOOKED_AT)
    return recoded(rows, space_slice, problem.space)


def broken_limits(problem: Problem, rows: IntArray) -> list[Broken]:
    """Limits that designs break, the most broken first; ties by the larger least violation."""
    observations = problem.evaluate(rows, problem.deciding_metrics)
    violations = {**observations.violations_by_name, **problem.known_violations(rows)}
    broken = [
        Broken(name, float((values > 0).mean()), float(np.nanmin(values)))
        for name, values in violations.items()
        if not np.isnan(values).all() and (values > 0).any()
    ]
    if observations.failed.any():
        broken.append(Broken("an evaluation that succeeds", float(observations.failed.mean()), 0.0))
    return sorted(broken, key=lambda limit: (-limit.share, -limit.least))
