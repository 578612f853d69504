"""The answer about the decisions of a recommended design."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from codesign.answers.answer import Answer, Design, Entry, Number, Numbers
from codesign.answers.campaigns import Reading
from codesign.base.columns import FloatSequence, Strings
from codesign.base.records import drop_none
from codesign.insight.decisions.breakeven import PRECISION, Goal
from codesign.insight.decisions.decide import Verdict
from codesign.insight.decisions.plane import PRECISION as PLANE_PRECISION
from codesign.insight.decisions.plane import Strip
from codesign.insight.uncertainty.uncertainty_results import RangedNumber

if TYPE_CHECKING:
    from codesign.insight.decisions.breakeven import Breakeven, ValueFront
    from codesign.insight.decisions.decide import Change, DecidedDesign, Flip
    from codesign.insight.decisions.memory_kinds import KindRegret
    from codesign.insight.decisions.plane import DecisionPlane
    from codesign.search.problem import Problem


class AxisEntry(Entry):
    """A constant with a range, in coherent SI units."""

    technology: str
    number: str
    low: float
    typical: float
    high: float


class ChangeEntry(AxisEntry):
    """A constant moved from its typical value, in coherent SI units."""

    value: float

    @classmethod
    def describe(cls, change: Change) -> Self:
        """The entry of a change."""
        return cls.read(change.number, value=change.value)


class FlipEntry(Entry):
    """A change of constants at which another design is preferred.

    Attributes:
        share: Distance moved: 0 is the typical values, 1 the ends of the ranges.
        objectives: Objectives of the other design after the changes.
        beaten: Objectives of the recommended design after the changes.
    """

    changes: Sequence[ChangeEntry]
    share: float
    design: Design
    objectives: Numbers
    beaten: Numbers

    @classmethod
    def describe(cls, flip: Flip, problem: Problem) -> Self:
        """The entry of a flip."""
        return cls.read(
            flip,
            changes=[ChangeEntry.describe(change) for change in flip.changes],
            design=problem.space.design(flip.row),
            objectives=problem.natural_values(flip.objectives),
            beaten=problem.natural_values(flip.beaten),
        )


class DecisionEntry(Entry):
    """A decision of the design.

    Attributes:
        name: Parameter; of a repeated part its members, such as "tier technology".
        as_good: Values with which some design has the same objectives at the typical constants.
        verdict: Effect of the constants on the decision.
        share: Share of all ranges around the typical values over which it is proven to hold; 1 is
            all. It is squared for constants that improve one metric and worsen another.
        flip: The smallest change that flips the decision; null if none was found. Changes of two
            constants compare listed designs.
        flips_by_one: Flips by one constant, the smallest change first.
        n_rivals: Number of designs without the decision that bounds could not exclude.
    """

    name: str
    value: Any
    as_good: Sequence[Any]
    verdict: Verdict
    share: float
    flip: FlipEntry | None
    flips_by_one: Sequence[FlipEntry]
    n_rivals: int


class LimitBreakEntry(Entry):
    """A limit that the design breaks as a constant moves.

    Attributes:
        share: Distance moved: 0 is the typical value, 1 the end of the range.
    """

    limit: str
    change: ChangeEntry
    share: float


class DecideAnswer(Answer):
    """The decisions of the recommended design over the ranges of all constants.

    Attributes:
        tolerance: Share within which designs count as equal to the recommended one.
        regret: Share by which another design must be preferred.
        n_constants: Constants with a range that matter.
        unmoved: Constants held at typical values: their effect on metrics has no single direction.
        share: Share of each range around its typical value over which all rivals are listed.
        untied: Constants in which the comparison is not linear: proofs take the best value for a
            rival, and the worst for a design that matches it.
        unlisted: Constants along whose ranges some rivals are not listed: too many, or the search
            was stopped. Along all other constants, flips by one constant are those of the whole
            space.
        is_partial: True if the time limit was reached: the same command continues the search.
        n_searches: Number of boxes of constants that were searched for rivals.
        n_rivals: Number of designs that bounds could not exclude.
        seconds: Wall time of this command; stored parts are not computed again.
    """

    campaign: str
    design: Design
    objectives: Numbers
    tolerance: float
    regret: float
    decisions: Sequence[DecisionEntry]
    limits: Sequence[LimitBreakEntry]
    n_constants: int
    unmoved: Strings
    share: float
    untied: Strings
    unlisted: Strings
    is_partial: bool
    n_searches: int
    n_rivals: int
    seconds: float
    evaluator: Reading

    @classmethod
    def describe(cls, decided: DecidedDesign, **fields: Any) -> Self:
        """The answer; objectives in natural sign."""
        problem = decided.problem
        rivals = decided.rivals
        return cls.read(
            decided,
            design=problem.space.design(decided.row),
            objectives=problem.natural_values(decided.objectives),
            decisions=[
                DecisionEntry.read(
                    decision,
                    flip=decision.flip and FlipEntry.describe(decision.flip, problem),
                    flips_by_one=[FlipEntry.describe(flip, problem) for flip in decision.breaks],
                )
                for decision in decided.decisions
            ],
            limits=[
                LimitBreakEntry.read(limit, change=ChangeEntry.describe(limit.change))
                for limit in decided.limits
            ],
            n_constants=len(rivals.box),
            unmoved=[str(number) for number in rivals.box.unmoved],
            share=rivals.share,
            untied=[str(number) for number in rivals.box.untied],
            unlisted=[str(number) for number in rivals.unlisted],
            is_partial=rivals.is_partial,
            n_searches=rivals.n_searches,
            n_rivals=len(rivals.rows) - 1,
            **fields,
        )


class KindEntry(Entry):
    """The exact front without one kind of memory; an empty ``memory_kind`` excludes none.

    Attributes:
        n_points: Points of the front; 0 if no design without it is feasible.
        design: The recommended design.
        best: Best value of each objective.
        regret: Relative loss of this design against the one recommended with all kinds of memory.
    """

    memory_kind: str
    n_points: int
    design: Design | None
    objectives: Numbers
    best: Numbers
    regret: Number


class MemoriesAnswer(Answer):
    """The exact front of a campaign without each kind of memory.

    Attributes:
        kinds: The front with all kinds, then those without one kind, the largest regret first.
        seconds: Wall time of this command; stored fronts are not computed again.
    """

    campaign: str
    kinds: Sequence[KindEntry]
    seconds: float
    evaluator: Reading

    @classmethod
    def describe(cls, kinds: Sequence[KindRegret], problem: Problem, **fields: Any) -> Self:
        """The answer; objectives in natural sign."""
        entries = [
            KindEntry.read(
                regret,
                design=None if regret.row is None else problem.space.design(regret.row),
                objectives=problem.natural_values(regret.objectives),
                best=problem.natural_values(regret.best),
            )
            for regret in kinds
        ]
        return cls(kinds=entries, **fields)


class ValueFrontEntry(Entry):
    """The exact front at one value of the free quantity.

    Attributes:
        n_with: Points that only designs with the technology have.
        share: Share of the points listed after folding that such designs have.
        is_recommended: True if the recommended design has the technology.
        design: The best design of the front with the technology; null if none is on it.
    """

    value: float
    n_points: int
    n_with: int
    share: float
    is_recommended: bool
    design: Design | None
    objectives: Numbers

    @classmethod
    def describe(cls, front: ValueFront, problem: Problem) -> Self:
        """The entry of a front."""
        design = front.design and drop_none(front.design)
        return cls.read(front, design=design, objectives=problem.natural_values(front.objectives))


class ReachEntry(Entry):
    """Values at which the technology reaches a goal.

    Attributes:
        intervals: First and last value of each interval, ascending; empty if no value reaches the
            goal.
    """

    goal: Goal
    intervals: Sequence[FloatSequence]


class BreakevenAnswer(Answer):
    """Values that a quantity of a memory technology must reach.

    Attributes:
        quantity: Key in the technology's file.
        stated: Typical value of the file, in coherent SI units, as all values.
        precision: Relative precision of the ends of intervals.
        is_monotone: True if the quantity moves all sampled designs one way; else an interval
            between two values may be missed.
        values: The exact front at every value, ascending.
        seconds: Wall time of this command; stored fronts are not computed again.
    """

    campaign: str
    technology: str
    quantity: str
    stated: float
    precision: float
    is_monotone: bool
    reaches: Sequence[ReachEntry]
    values: Sequence[ValueFrontEntry]
    seconds: float
    evaluator: Reading

    @classmethod
    def describe(cls, result: Breakeven, **fields: Any) -> Self:
        """The answer; objectives in natural sign."""
        return cls.read(
            result,
            technology=result.technology.key,
            precision=PRECISION,
            reaches=[
                ReachEntry(
                    goal=reach.goal,
                    intervals=[[low.value, high.value] for low, high in reach.intervals],
                )
                for reach in result.reaches
            ],
            values=[ValueFrontEntry.describe(front, result.problem) for front in result.values],
            **fields,
        )


class PlaneDesign(Entry):
    """A recommended design of the plane."""

    memories: Strings
    design: Design


class MemoryShare(Entry):
    """The share of the plane in which memories are recommended."""

    memories: Strings
    share: float


class MapAnswer(Answer):
    """Memories of the recommended design over the ranges of two constants.

    Attributes:
        shares: The largest share first; no memories where no design is feasible.
        strips: Rectangles of the plane, in order of x, then of y.
        precision: Share by which no other design is better at any node, if the products are linear.
        is_linear: True if products are linear in both constants, wherever that was checked.
        n_fronts: Number of exact fronts.
        seconds: Wall time of this command; stored fronts are not computed again.
        files: Paths of the files that were written.
    """

    campaign: str
    x: RangedNumber
    y: RangedNumber
    shares: Sequence[MemoryShare]
    designs: Sequence[PlaneDesign]
    strips: Sequence[Strip]
    precision: float
    is_linear: bool
    n_fronts: int
    seconds: float
    evaluator: Reading
    files: Strings | None = None

    @classmethod
    def describe(cls, plane: DecisionPlane, **fields: Any) -> Self:
        """The answer."""
        return cls.read(
            plane,
            shares=[MemoryShare(memories=key, share=area) for key, area in plane.shares.items()],
            designs=[
                PlaneDesign(memories=memories, design=plane.problem.space.design(row))
                for memories, row in zip(plane.memories, plane.rows, strict=True)
            ],
            precision=PLANE_PRECISION,
            **fields,
        )


class MapsAnswer(Answer):
    """Maps of memories over the pairs of constants that matter most.

    Attributes:
        maps: The pair that matters most first.
        notes: Pairs that have no map, with the reason.
        files: Paths of the files that were written.
    """

    campaign: str
    maps: Sequence[MapAnswer]
    notes: Strings
    files: Strings
