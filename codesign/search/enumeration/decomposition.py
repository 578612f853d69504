"""A space as a tree: what is decided at once, then one component after the other.

A design space is every combination of one row per independent component. Rows that no metric
can tell apart are one class, visited once and counted as many times as it has members.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable
from dataclasses import replace

import numpy as np

from codesign.base.columns import Columns, Domains, IntArray, StringTuple
from codesign.base.errors import InputError
from codesign.base.records import frozen
from codesign.search.enumeration.front import MOST_LISTED
from codesign.search.problem import Problem

_LARGEST = 1 << 62
"""Designs that a 64-bit number can tell apart."""


@frozen
class EnumerationAxis:
    """One component of the space, its ``s`` rows in ``g`` classes.

    Attributes:
        columns: (p,) entries of a design's row that it sets.
        rows: (s, p) what it may set them to.
        first: (g,) position of each class's first row.
        counts: (g,) rows in each class.
        class_of: (s,) class of each row.
        stride: What one step in ``rows`` adds to a design's number.
    """

    columns: IntArray
    rows: IntArray
    first: IntArray
    counts: IntArray
    class_of: IntArray
    stride: int

    def __len__(self) -> int:
        return len(self.first)

    @property
    def size(self) -> int:
        """Rows, each counted."""
        return len(self.rows)

    def members(self, number: int) -> IntArray:
        """Offsets of a design's number for each row of its class."""
        position = number // self.stride % self.size
        return (np.flatnonzero(self.class_of == self.class_of[position]) - position) * self.stride


@frozen
class Part:
    """``n`` partial designs: some columns are decided.

    Attributes:
        rows: (n, d) codes; of what is undecided, those of the first class.
        numbers: (n,) the number of that design.
        weights: (n,) designs that each stands for, what is undecided not counted.
    """

    rows: IntArray
    numbers: IntArray
    weights: IntArray

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, positions: IntArray | slice) -> Part:
        """The partial designs at these positions."""
        return Part(self.rows[positions], self.numbers[positions], self.weights[positions])


class Decomposition:
    """The order in which a problem's space is walked.

    Args:
        problem: Its evaluator may state parameters that it can bound or cannot distinguish.
        always_decided: Parameters that every partial design has, whatever the evaluator can bound.

    Attributes:
        decided: Axes that every partial design has.
        undecided: Axes in the order in which they are decided.

    Raises:
        InputError: The space is too large to be listed.
    """

    def __init__(self, problem: Problem, always_decided: Collection[str] = ()) -> None:
        self.space = problem.space
        if self.space.size >= _LARGEST:
            raise InputError(
                f"the {self.space.size:,} designs of {self.space.name} are too many to list: "
                f"fix some of its {len(self.space.parameters)} parameters"
            )
        order: StringTuple = ()
        if problem.has_bounds:
            order = problem.evaluator.undecided_parameters
            order = tuple(name for name in order if name not in always_decided)
        decided = []
        undecided = []
        stride = 1
        for component in reversed(self.space.components):
            axis = _axis(problem, component.columns, component.rows, stride)
            stride *= axis.size
            if axis.size > 1 and all(name in order for name in component.names):
                axis = _competitive_axis(problem, axis)
                undecided.append((min(map(order.index, component.names)), axis))
            else:
                decided.append(axis)
        self.decided = tuple(reversed(decided))
        self.undecided = tuple(axis for _, axis in sorted(undecided, key=lambda item: item[0]))

    @property
    def n_roots(self) -> int:
        """Partial designs from which all others come."""
        return math.prod(map(len, self.decided))

    def roots(self, places: IntArray) -> Part:
        """The partial designs of these places, which are below ``n_roots``."""
        n = len(places)
        rows = np.zeros((n, len(self.space.parameters)), np.int64)
        for axis in self.undecided:
            rows[:, axis.columns] = axis.rows[0]
        partials = Part(rows, np.zeros(n, np.int64), np.ones(n, np.int64))
        digits = np.unravel_index(places, [len(axis) for axis in self.decided])
        for axis, digit in zip(self.decided, digits, strict=True):
            _set(partials, axis, digit)
        return partials

    def decide(self, partials: Part, level: int) -> Part:
        """Every partial design with every class of the axis of that level."""
        axis = self.undecided[level]
        extended = partials.take(np.repeat(np.arange(len(partials)), len(axis)))
        _set(extended, axis, np.tile(np.arange(len(axis)), len(partials)))
        return extended

    def remaining(self, level: int) -> int:
        """Designs that a partial design of that level stands for, besides its weight."""
        return math.prod(axis.size for axis in self.undecided[level:])

    def columns(self, partials: Part, level: int) -> tuple[Columns, Domains]:
        """Decided parameters at a level, and the values of all others."""
        columns = dict(self.space.columns(partials.rows))
        undecided = {}
        for axis in self.undecided[level:]:
            for place, column in enumerate(axis.columns.tolist()):
                parameter = self.space.parameters[column]
                codes = np.unique(axis.rows[axis.first, place]).tolist()
                values = (*parameter.values, None)
                undecided[parameter.name] = [values[code] for code in codes]
                del columns[parameter.name]
        return columns, undecided

    def members(self, numbers: IntArray) -> IntArray:
        """(k,) the lowest ``MOST_LISTED`` numbers of the designs that these stand for."""
        lowest = np.empty(0, np.int64)
        for number in numbers.tolist():
            if len(lowest) == MOST_LISTED and number > lowest[-1]:
                break
            group = np.array([number])
            for axis in (*self.decided, *self.undecided):
                group = (group[:, None] + axis.members(number)[None, :]).ravel()
                group = np.sort(group)[:MOST_LISTED]
            lowest = np.sort(np.concatenate([lowest, group]))[:MOST_LISTED]
        return lowest


def _set(partials: Part, axis: EnumerationAxis, digit: IntArray) -> None:
    first = axis.first[digit]
    partials.rows[:, axis.columns] = axis.rows[first]
    partials.numbers[:] += first * axis.stride
    partials.weights[:] *= axis.counts[digit]


def _axis(problem: Problem, columns: IntArray, rows: IntArray, stride: int) -> EnumerationAxis:
    keys = rows.copy()
    for place, column in enumerate(columns.tolist()):
        keys[:, place] = _classes(problem, column)[rows[:, place]]
    _, first, class_of, counts = np.unique(
        keys, axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    # Classes in the order of their first rows, so that a class begins with its lowest number.
    order = np.argsort(first, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return EnumerationAxis(
        columns, rows, first[order], counts[order], rank[class_of.ravel()], stride
    )


def _competitive_axis(problem: Problem, axis: EnumerationAxis) -> EnumerationAxis:
    """The axis without classes that another class beats in every design.

    Only of one parameter by itself, which no constraint mentions. Designs that are left out this
    way are dominated by feasible ones, so they count as excluded.
    """
    evaluator = problem.evaluator
    limits = [constraint for constraint in problem.constraints if not constraint.is_known]
    mentioned = _mentioned(problem)
    is_alone = len(axis.columns) == 1 and not mentioned & set(axis.columns.tolist())
    if not (problem.has_bounds and evaluator.offers("superseded") and is_alone):
        return axis
    decides_derived = {derived_metric.metric.name for derived_metric in problem.derived} & {
        *problem.deciding_metrics
    }
    if not all(limit.is_limit for limit in limits) or decides_derived:
        return axis  # a derived metric may get worse where those of the evaluator get better
    if any(objective.sense != objective.metric.sense for objective in problem.objectives):
        return axis  # what is better in every metric is worse in this objective
    wanted_names = [objective.metric.name for objective in problem.objectives]
    parameters = problem.space.parameters
    values = {parameter.name: parameter.values for parameter in parameters}
    beaten = evaluator.superseded(values, wanted_names).get(parameters[axis.columns[0]].name)
    if beaten is None:
        return axis
    undecided = np.flatnonzero(~np.array([*beaten, False])[axis.rows[axis.first, 0]])
    return replace(axis, first=axis.first[undecided], counts=axis.counts[undecided])


def _mentioned(problem: Problem) -> set[int]:
    """Columns of the parameters that a constraint of the problem mentions."""
    structure = problem.space.structure
    return {
        place
        for constraint in problem.constraints
        for place in structure.roots(constraint.expression.names)
    }


def _classes(problem: Problem, column: int) -> IntArray:
    """(levels + 1,) the first code that each code is interchangeable with; absence is last."""
    parameter = problem.space.parameters[column]
    codes = np.arange(len(parameter.values) + 1, dtype=np.int64)
    codes[-1] = -1
    evaluator = problem.evaluator
    if not problem.has_bounds or column in _mentioned(problem):
        return codes
    first: dict[Hashable, int] = {}
    for code, key in enumerate(evaluator.interchangeable(parameter.name, parameter.values)):
        codes[code] = first.setdefault(key, code)
    return codes
