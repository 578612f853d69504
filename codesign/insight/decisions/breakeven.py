"""Values that a quantity of a memory technology must reach, by exact fronts.

The front of the designs without the technology is found once. At each value only designs with the
technology are searched, and only those that this front does not dominate: together they have the
exact front. Values are sampled in equal ratios, and every change between two of them is bisected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from itertools import chain, groupby, pairwise
from typing import Literal, get_args

import numpy as np

from codesign.base.columns import Fields, FloatArray, IntegerList, ValueMap
from codesign.base.errors import InfeasibleError, InputError, check_known
from codesign.base.loop_progress import counted
from codesign.base.records import frozen
from codesign.insight.decisions.box import product_of, relative_change
from codesign.insight.decisions.memory_kinds import technology_columns
from codesign.insight.decisions.recommendation import recommended_point
from codesign.models.memtech import MemoryTechnology, Range
from codesign.models.memtech.technology_library import TechnologyLibrary
from codesign.search.enumeration import ExactFront, WantedPart
from codesign.search.enumeration.composition import compose_front, pool_problem
from codesign.search.pareto import TOLERANCE, fold, non_dominated
from codesign.search.problem import Problem, cost_column
from codesign.space import DesignSpace

Goal = Literal["on the front", "half of the front", "recommended"]
"""*Half of the front* counts the points that are listed after folding."""

QUANTITIES = {
    "bandwidth": "bandwidth",
    "latency": "latency",
    "idle-power": "background_power",
    "price": "price",
    "endurance": "endurance",
    "capacity": "capacity",
}
"""Quantities that can be freed, and their keys in a technology's file."""
WIDEST = 16.0
"""Largest factor from the stated value, to both sides. [ours]"""
PRECISION = 0.01
"""Ratio, less 1, to which a change is bisected. [ours]"""
_VALUES = 9
_SAMPLE = 128
_SEED = 0

Find = Callable[[Problem, WantedPart | None], ExactFront]
"""Function that returns the exact front of a problem, or a part of it."""


@frozen
class ValueFront:
    """The exact front at one value of the quantity.

    Attributes:
        n_points: Points of the front.
        n_with: Points that only designs with the technology have.
        share: Share of the listed points that such designs have.
        is_recommended: True if the recommended design has the technology.
        design: The design with the technology that is best by the rule; None if none is on the
            front.
        objectives: (m,) its minimized objectives.
    """

    value: float
    n_points: int
    n_with: int
    share: float
    is_recommended: bool
    design: ValueMap | None
    objectives: FloatArray

    def meets(self, goal: Goal) -> bool:
        """True if a goal is reached at the value."""
        if goal == "on the front":
            return self.n_with > 0
        return self.share >= 0.5 if goal == "half of the front" else self.is_recommended


@frozen
class Reach:
    """Values at which the technology reaches a goal.

    Attributes:
        intervals: Fronts at the ends of each interval of values, ascending.
    """

    goal: Goal
    intervals: tuple[tuple[ValueFront, ValueFront], ...]


@frozen
class Breakeven:
    """Values of one quantity at which a technology reaches each goal.

    Attributes:
        problem: The problem with the technology as stated.
        quantity: Key in the technology's file.
        is_monotone: True if all sampled designs with the technology improve, or all get worse, as
            the quantity grows. Then *on the front* and *recommended* change once.
        values: The front at every value, ascending.
    """

    problem: Problem
    technology: MemoryTechnology
    quantity: str
    stated: float
    is_monotone: bool
    reaches: tuple[Reach, ...]
    values: tuple[ValueFront, ...]


def breakeven(
    problem: Problem,
    technology: MemoryTechnology,
    free: str,
    find: Find,
    tolerance: float = TOLERANCE,
) -> Breakeven:
    """Find the values of a quantity at which a technology reaches each goal.

    Args:
        technology: A technology of the space, or a new one, which every tier may then have.
        free: A name of ``QUANTITIES``.
        find: Function that returns an exact front.
        tolerance: Share within which points are folded, and equal by the rule.

    Raises:
        InputError: The technology does not state the quantity, nothing depends on it, or the space
            has no choice of such a memory.
    """
    check_known("quantity", free, QUANTITIES, "--free")
    quantity = QUANTITIES[free]
    stated: Range | None = getattr(technology, quantity)
    if stated is None or stated.typical <= 0:
        names = [name for name, key in QUANTITIES.items() if getattr(technology, key) is not None]
        raise InputError(
            f"{technology.key} states no {free} above 0; expected a quantity of its file, such as "
            f"{' or '.join(names)}"
        )
    rivals = _Rivals(problem, technology, tolerance, find)
    grid = stated.typical * np.geomspace(1 / WIDEST, WIDEST, _VALUES)
    moved, is_monotone = rivals.effect(quantity, grid)
    if not moved:
        effective = [
            name
            for name, key in QUANTITIES.items()
            if (ranged := getattr(technology, key)) is not None
            and rivals.effect(key, ranged.typical * np.array([1 / WIDEST, 1, WIDEST]))[0]
        ]
        raise InputError(
            f"no objective or limit depends on the {free} of {technology.key}; expected "
            f"{' or '.join(effective) or 'a technology that the objectives depend on'}",
            "--free",
        )
    fronts = {
        value: rivals.front_at(quantity, value) for value in counted(grid.tolist(), "exact fronts")
    }

    def reach(goal: Goal) -> Reach:
        """Find the ends of the intervals in which a goal is met."""
        for low, high in pairwise(grid.tolist()):
            is_met = fronts[low].meets(goal)
            if fronts[high].meets(goal) == is_met:
                continue
            while high / low > 1 + PRECISION:
                middle = float(np.sqrt(low * high))
                if middle not in fronts:
                    fronts[middle] = rivals.front_at(quantity, middle)
                low, high = (
                    (middle, high) if fronts[middle].meets(goal) == is_met else (low, middle)
                )
        runs = groupby((fronts[value] for value in sorted(fronts)), lambda front: front.meets(goal))
        met = (list(run) for is_met, run in runs if is_met)
        return Reach(goal, tuple((run[0], run[-1]) for run in met))

    goals = get_args(Goal)
    for goal in goals:
        reach(goal)
    reaches = tuple(map(reach, goals))
    return Breakeven(
        rivals.problem_at(quantity, stated.typical),
        technology,
        quantity,
        stated.typical,
        is_monotone,
        reaches,
        tuple(fronts[value] for value in sorted(fronts)),
    )


class _Rivals:
    """Designs with a technology against the front of those without it."""

    def __init__(
        self, problem: Problem, technology: MemoryTechnology, tolerance: float, find: Find
    ) -> None:
        self.base = problem
        self.technology = technology
        self.tolerance = tolerance
        self.find = find
        self.library = dict(problem.evaluator.technologies() or {})
        if not self.library or problem.space.with_values is None:
            raise InputError(
                f"space {problem.space.name!r} has no memory technologies to compete with; "
                "expected a campaign of NPUs, with the evaluator npu or system"
            )
        self._rest: dict[str, list[tuple[FloatArray, ValueMap]]] = {}
        self.choices = self._choices(problem.space)
        if not self.choices:
            raise InputError(
                f"space {problem.space.name!r} has no {technology.place} memories that "
                f"{technology.key} could replace; expected a technology parameter with another "
                "value"
            )

    def _choices(self, space: DesignSpace) -> dict[str, IntegerList]:
        """Columns of each technology parameter that the technology fits, by its name."""
        choices: dict[str, IntegerList] = {}
        listed = {*self.library, self.technology.key}
        for name, columns in technology_columns(space, listed).items():
            rest = {str(value) for value in space.parameters[columns[0]].values}
            rest -= {self.technology.key}
            is_new = not any(columns[0] in earlier for earlier in choices.values())
            places = {self.library[x].place for x in rest}
            if is_new and places == {self.technology.place}:
                choices[name] = columns
        return choices

    def _space(self, library: Mapping[str, MemoryTechnology], is_included: bool) -> DesignSpace:
        """The space with the technology among the choices, or without it."""
        catalogs = {"memtech": TechnologyLibrary(library).catalog()}
        key = self.technology.key
        space = self.base.space
        for name, columns in self.choices.items():
            assert space.with_values is not None
            rest = [x for x in space.parameters[columns[0]].values if x != key]
            space = space.with_values(name, [*rest, key] if is_included else rest, catalogs)
        return space

    def problem_at(self, quantity: str, value: float) -> Problem:
        """The problem with the technology among the choices, its quantity at a value."""
        exact = Range(low=value, typical=value, high=value)
        technology = self.technology.model_copy(update={quantity: exact})
        library = {**self.library, technology.key: technology}
        evaluator = self.base.evaluator.replace_library(library)
        return replace(self.base, space=self._space(library, is_included=True), evaluator=evaluator)

    def spaces_of(self, problem: Problem) -> list[DesignSpace]:
        """The designs with the technology, by its place; a design may be in several."""
        spaces = []
        key = self.technology.key
        fixed: Fields = problem.space.provenance().get("fixed", {})
        for column in chain.from_iterable(self._choices(problem.space).values()):
            parameter = problem.space.parameters[column]
            if fixed.get(parameter.name, key) == key:
                with suppress(InputError):  # where the campaign's limits leave it no place
                    spaces.append(problem.space.fix({parameter.name: key}))
        return spaces

    def effect(self, quantity: str, values: FloatArray) -> tuple[bool, bool]:
        """True if a quantity moves sampled designs; then True if it moves all of them one way."""
        rng = np.random.default_rng(_SEED)
        stated = self.problem_at(quantity, float(getattr(self.technology, quantity).typical))
        if not (spaces := self.spaces_of(stated)):
            raise InputError(
                f"no design of space {stated.space.name!r} may have {self.technology.key}; "
                "expected a campaign whose fixed parameters and limits leave it a place"
            )
        designs = [
            design for space in spaces for design in space.decode(space.sample(rng, _SAMPLE))
        ]
        rows = np.concatenate([stated.space.encode(design) for design in designs])
        tables = []
        admitted = []
        for value in values.tolist():
            problem = self.problem_at(quantity, value)
            observed = problem.evaluate(rows, problem.deciding_metrics)
            tables.append(np.column_stack([observed.objectives, observed.violations]))
            admitted.append(problem.admits(rows))
        change = np.stack([relative_change(*pair) for pair in pairwise(tables)])
        is_one_way = bool(change.min() >= 0 or change.max() <= 0)
        is_same_space = all(np.array_equal(admitted[0], mask) for mask in admitted)
        return bool(change.any()) or not is_same_space, is_one_way and is_same_space

    @cached_property
    def base_problem(self) -> Problem:
        """The problem of the designs without the technology."""
        return replace(self.base, space=self._space(self.library, is_included=False))

    def _front(self, problem: Problem) -> ExactFront:
        """The exact front of a problem with the technology; of systems, by fronts of pools."""
        if not problem.space.pools:
            return self._joined(problem, "")
        pools = {id(pool.space): name for name, pool in problem.space.pools.items()}
        return compose_front(
            problem, lambda machines, _: self._joined(machines, pools[id(machines.space)])
        )

    def _joined(self, problem: Problem, pool: str) -> ExactFront:
        """The exact front of single machines, from that of those without the technology.

        Raises:
            InfeasibleError: No design is feasible.
        """
        if pool not in self._rest:
            without = pool_problem(self.base_problem, pool) if pool else self.base_problem
            self._rest[pool] = list(self._designs(without, None))
        rest = self._rest[pool]
        incumbents = np.array([point for point, _ in rest]).reshape(-1, len(problem.objectives))
        key = f"beyond those without {self.technology.key}"
        region = WantedPart(key, lambda _: incumbents, is_sampled=False)
        problems = (replace(problem, space=space) for space in self.spaces_of(problem))
        every = [*rest, *chain.from_iterable(self._designs(varied, region) for varied in problems)]
        if not every:
            raise InfeasibleError(f"no design of space {problem.space.name!r} is feasible")
        points, first = np.unique([point for point, _ in every], axis=0, return_index=True)
        is_best = non_dominated(points)  # of equal points, the first has not the technology
        rows = np.concatenate([problem.space.encode(every[i][1]) for i in first[is_best]])
        number = np.arange(len(rows))
        n_designs = problem.space.size
        return ExactFront(
            points[is_best], np.ones_like(number), rows, number, n_designs, 0, 0, 0, 0
        )

    def _designs(
        self, problem: Problem, region: WantedPart | None
    ) -> Iterator[tuple[FloatArray, ValueMap]]:
        """The points of a front, each with a design; none if no design is feasible."""
        with suppress(InfeasibleError):
            front = self.find(problem, region)
            yield from zip(
                front.objectives, problem.space.decode(front.representatives()), strict=True
            )

    def front_at(self, quantity: str, value: float) -> ValueFront:
        """The exact front with the quantity at a value."""
        problem = self.problem_at(quantity, value)
        nothing = np.full(len(problem.objectives), np.inf)
        try:
            front = self._front(problem)
        except InfeasibleError:
            return ValueFront(value, 0, 0, 0.0, False, None, nothing)
        points = front.objectives
        columns = list(chain.from_iterable(self.choices.values()))
        (code,) = {problem.space.parameters[c].values.index(self.technology.key) for c in columns}
        lacks = (front.rows[:, columns] != code).all(axis=1)
        has = np.bincount(front.point[lacks], minlength=len(points)) == 0
        if not has.any():
            return ValueFront(value, len(points), 0, 0.0, False, None, nothing)
        best = int(np.where(has, product_of(problem, points), np.inf).argmin())
        recommended = recommended_point(problem, points, self.tolerance)
        under = fold(points, cost_column(problem.objectives), self.tolerance)
        best = recommended if has[recommended] else best
        return ValueFront(
            value,
            len(points),
            int(has.sum()),
            float(has[under == np.arange(len(under))].mean()),
            bool(has[recommended]),
            problem.space.decode(front.representatives()[[best]])[0],
            points[best],
        )
