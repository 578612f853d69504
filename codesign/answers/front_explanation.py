"""The answer about an explained front, with every digit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

from codesign.answers.answer import Answer, Design, Entry, Number, Numbers
from codesign.answers.campaigns import Reading
from codesign.base.columns import FloatArray, FloatDict, FloatMap, StringMap, Strings
from codesign.insight.explanation import FrontExplanation
from codesign.insight.explanation.absence import Absence, Broken, Miss
from codesign.insight.explanation.prices import Move, Price


class Dominator(Entry):
    """A design of the front that dominates another design.

    Attributes:
        better_by: Lead by objective; see ``improvement``.
    """

    design: Design
    objectives: Numbers
    better_by: Numbers


class MissEntry(Entry):
    """The design with a value that comes nearest to the front.

    Attributes:
        regret: Distance to the front; see ``improvement``.
        lacks_alone: Gain by objective that would suffice alone; see ``improvement``.
    """

    design: Design
    objectives: Numbers
    regret: Number
    lacks_alone: Numbers
    dominated_by: Dominator


class MoveEntry(Entry):
    """The front after a limit was moved.

    Attributes:
        limit: New limit in its unit.
        n_points: Points of the front.
        hypervolume: Hypervolume of the front; 0 if nothing is feasible.
        hypervolume_per_unit: Gain of a looser limit, or loss of a tighter one.
        best: Best value of each objective; null if nothing is feasible.
    """

    limit: Number
    n_points: int
    hypervolume: Number
    hypervolume_change: Number
    hypervolume_per_unit: Number
    best: Numbers
    best_improvement_per_unit: Numbers


class ValueEntry(Entry):
    """Points of the front with one value of a parameter.

    Attributes:
        share: Share of the points.
    """

    value: Any
    points: int
    share: float
    kept_points: int


class ChoiceEntry(Entry):
    """Values of a parameter on the front.

    Attributes:
        shared_by_all: True if all points have one value.
    """

    parameter: str
    shared_by_all: bool
    values: Sequence[ValueEntry]


class DerivedEntry(Entry):
    """Range of a derived quantity over the front.

    Attributes:
        shown_in: Unit that tables use.
    """

    low: Number
    high: Number
    shown_in: str


class AbsentEntry(Entry):
    """A value that the front does not have.

    Attributes:
        n_designs: Designs with the value.
        nearest_miss: Nearest design; null if none is feasible.
        n_looked_at: Designs that ``broken_limits`` was read from.
        broken_limits: Limits that exclude the value, the most broken first.
    """

    parameter: str
    value: Any
    n_designs: int
    nearest_miss: MissEntry | None
    n_looked_at: int
    broken_limits: Sequence[Broken]


class LimitEntry(Entry):
    """The price of a limit.

    Attributes:
        moved_with: Limits that are moved with it.
        state: Effect of a looser limit on the front.
        most_used: Largest use over the front, in the unit.
    """

    limit: str
    set_by: Literal["campaign", "space", "evaluator"]
    moved_with: Strings
    unit: str
    state: Literal["binds", "binds beyond the step", "not within the step", "free"]
    least_used: Number
    most_used: Number
    next_point: Numbers | None
    looser: MoveEntry
    tighter: MoveEntry


class KneeEntry(Entry):
    """A knee of the front."""

    distance: Number
    objectives: Numbers
    design: Design


class BoundPoint(Entry):
    """A kept point with the resources and limits that bind it.

    Attributes:
        busy: Busy share of each resource, the largest first; then limits used to 98 % or more.
    """

    objectives: Numbers
    busy: FloatMap


class RangeEndEntry(Entry):
    """A numeric parameter that stands at an end of its range on the front.

    Attributes:
        parameter: Name, such as "tier stacks", or "pe_array[0]" of an entry.
        end: The least or the largest value.
        n_points: Kept points with that value.
        beyond: The next value by the parameter's steps; null if the range cannot be widened.
        n_feasible: Designs of the front with the next value instead that keep all limits.
        n_new: Points that they add to the front.
        best: Best value of each objective with them.
    """

    parameter: str
    end: float
    n_points: int
    beyond: Number
    n_feasible: int
    n_new: int
    best: Numbers


class ExplainFrontAnswer(Answer):
    """The exact front of a campaign explained.

    Attributes:
        n_points: Points of the front.
        tolerance: Share within which a design is folded under a cheaper one.
        n_kept_points: Points that are not folded.
        n_front_designs: Designs with those objectives.
        n_unlisted_designs: Designs of the front that were not looked at.
        n_designs: Designs of the space.
        derived: Ranges of derived quantities over the front, in SI units.
        improvement: Measure of differences: factors (1: none), or shares of the range of the front
            (0: none).
        absent: Values that the front does not have.
        step: Share by which each limit is moved.
        limits: Prices of the limits.
        unpriced: Reasons by limit without a price.
        knees: Knees, the sharpest first.
        binding: Kept points with the resources and limits that bind them.
        range_ends: Ends of ranges that stand on the front, the most frequent first.
        n_enumerated: Fronts that were enumerated now.
        seconds: Wall time.
        files: Paths of the files that were written.
    """

    campaign: str
    n_points: int
    tolerance: float
    n_kept_points: int
    n_front_designs: int
    n_unlisted_designs: int
    n_designs: int
    choices: Sequence[ChoiceEntry]
    derived: Mapping[str, DerivedEntry]
    improvement: Literal["factor", "share of range"]
    absent: Sequence[AbsentEntry]
    step: float
    reference_point: Numbers
    hypervolume: Number
    limits: Sequence[LimitEntry]
    unpriced: StringMap
    knees: Sequence[KneeEntry]
    binding: Sequence[BoundPoint]
    range_ends: Sequence[RangeEndEntry]
    n_enumerated: int
    seconds: float
    evaluator: Reading
    files: Strings | None = None

    @classmethod
    def describe(cls, explanation: FrontExplanation, name: str, **fields: Any) -> Self:
        """The answer; objectives in natural sign, derived quantities in coherent SI units."""
        entries = _Entries(explanation)
        problem = explanation.problem
        front = explanation.front
        prices = explanation.prices
        representatives = front.representatives()
        return cls.read(
            explanation,
            campaign=name,
            n_points=len(front),
            n_kept_points=len(explanation.kept),
            n_front_designs=int(front.counts.sum()),
            n_unlisted_designs=explanation.n_unlisted,
            n_designs=front.n_designs,
            choices=[
                ChoiceEntry(
                    parameter=choice.name,
                    shared_by_all=choice.is_shared,
                    values=[
                        ValueEntry(value=value, points=n, share=n / len(front), kept_points=n_kept)
                        for value, n, n_kept in zip(
                            choice.values, choice.points, choice.kept_points, strict=True
                        )
                    ],
                )
                for choice in explanation.choices
            ],
            derived={
                quantity.name: DerivedEntry(
                    low=quantity.low, high=quantity.high, shown_in=quantity.unit
                )
                for quantity in explanation.derived
            },
            improvement=explanation.measure.kind,
            absent=[entries.absence(absence) for absence in explanation.absences],
            step=prices.step,
            reference_point=problem.natural_values(prices.reference),
            hypervolume=prices.hypervolume,
            limits=[entries.price(price) for price in prices.items],
            binding=[
                BoundPoint(objectives=problem.natural_values(front.objectives[point]), busy=busy)
                for point, busy in zip(explanation.kept, explanation.binding, strict=True)
            ],
            range_ends=[
                RangeEndEntry.read(end, best=problem.natural_values(end.best))
                for end in explanation.range_ends
            ],
            knees=[
                KneeEntry(
                    distance=knee.distance,
                    objectives=problem.natural_values(front.objectives[knee.point]),
                    design=problem.space.design(representatives[knee.point]),
                )
                for knee in explanation.knees
            ],
            **fields,
        )


class _Entries:
    """Entries of one explanation."""

    def __init__(self, explanation: FrontExplanation) -> None:
        self.problem = explanation.problem
        self.front = explanation.front

    def objective_values(self, values: FloatArray) -> FloatDict:
        """Numbers by objective."""
        return dict(zip(self.problem.objective_names, values.tolist(), strict=True))

    def absence(self, absence: Absence) -> AbsentEntry:
        """A value that the front does not have."""
        return AbsentEntry.read(
            absence,
            parameter=absence.choice.name,
            nearest_miss=None if absence.miss is None else self.miss(absence.miss),
            broken_limits=absence.broken,
        )

    def miss(self, miss: Miss) -> MissEntry:
        """The design that comes nearest to the front."""
        return MissEntry(
            design=self.problem.space.design(miss.row),
            objectives=self.problem.natural_values(miss.objectives),
            regret=miss.regret,
            lacks_alone=self.objective_values(miss.alone),
            dominated_by=Dominator(
                design=self.problem.space.design(miss.dominator),
                objectives=self.problem.natural_values(self.front.objectives[miss.point]),
                better_by=self.objective_values(miss.better),
            ),
        )

    def price(self, price: Price) -> LimitEntry:
        """A limit."""
        return LimitEntry(
            limit=price.limit.text,
            set_by=price.limit.source,
            moved_with=price.limit.tied,
            unit=price.limit.unit,
            state=price.state,
            least_used=price.used[0],
            most_used=price.used[1],
            next_point=None
            if price.next_point is None
            else self.problem.natural_values(price.next_point),
            looser=self.move(price.looser),
            tighter=self.move(price.tighter),
        )

    def move(self, move: Move) -> MoveEntry:
        """The front after a limit was moved."""
        return MoveEntry(
            limit=move.number,
            n_points=move.n_points,
            hypervolume=move.hypervolume,
            hypervolume_change=move.change,
            hypervolume_per_unit=move.price,
            best=self.problem.natural_values(move.best),
            best_improvement_per_unit=self.objective_values(move.best_change),
        )
