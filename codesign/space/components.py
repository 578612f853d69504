"""Independent groups of parameters: what makes counting exact and sampling uniform.

Parameters that share a condition, a constraint or a repeated part form a component. Nothing
relates two components, so the designs of the space are every combination of one row per
component: their number is a product, and a uniform design is one uniform row from each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from codesign.columns import BoolArray, FloatArray, IntArray
from codesign.errors import InputError
from codesign.space.parameters import RepeatedPart
from codesign.space.structure import Step, Structure

MAX_ENUMERATED = 20_000_000
"""Candidates of one component; above, its designs are sampled and not listed."""

_CHUNK = 1 << 16
_POOL = 1 << 16
_TRIES = 1 << 20


@dataclass(frozen=True)
class ComponentAxis:
    """One independent choice: a parameter, or one repetition of a part.

    Attributes:
        columns: (p,) the row's entries that it sets.
        choices: (v, p) what it may set them to.
    """

    columns: IntArray
    choices: IntArray


class Component:
    """Parameters that depend on one another, and every way in which they can be set.

    Args:
        structure: The space.
        columns: The parameters, in increasing order.
    """

    def __init__(self, structure: Structure, columns: Sequence[int]) -> None:
        self.structure = structure
        self.columns = np.array(columns, dtype=np.int64)
        members = set(columns)
        self.parts = [part for part in structure.parts if int(part.columns[0, 0]) in members]
        self.steps: list[Step] = [step for step in structure.steps if _column(step) in members]
        self.constraints = [
            rule
            for rule in structure.constraints
            if structure.roots(rule.expression.names) <= members
        ]
        self.axes = list(_axes(structure, columns))
        self.raw_size = math.prod(len(axis.choices) for axis in self.axes)

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters' names."""
        return tuple(self.structure.parameters[column].name for column in self.columns)

    @property
    def is_enumerated(self) -> bool:
        """Whether its rows can be listed; if not, they are sampled by rejection."""
        return self.raw_size <= MAX_ENUMERATED

    @cached_property
    def rows(self) -> IntArray:
        """(s, p) every feasible canonical row of these parameters.

        Of a component that is too large to list, a fixed random choice of feasible rows.

        Raises:
            InputError: There is none; says how many candidates meet each constraint.
        """
        parts = list(self._enumerated()) if self.is_enumerated else [self._pool]
        rows = np.concatenate(parts)
        if len(rows) == 0:
            raise InputError(self._contradiction())
        return rows

    @cached_property
    def size(self) -> int:
        """Number of rows; an estimate where they cannot be listed."""
        if self.is_enumerated:
            return len(self.rows)
        return max(len(self._pool), round(self.raw_size * self._acceptance))

    def sample(self, rng: np.random.Generator, n: int) -> IntArray:
        """(n, p) rows, uniform over the feasible ones, with replacement."""
        if self.is_enumerated:
            return self.rows[rng.integers(len(self.rows), size=n)]
        _ = self.rows  # an empty component is refused, not searched for ever
        parts: list[IntArray] = []
        while sum(map(len, parts)) < n:
            parts.append(self._accepted(self._random_digits(rng)))
        empty = np.empty((0, len(self.columns)), dtype=np.int64)
        return np.asarray(np.concatenate([empty, *parts])[:n])

    def rows_at(self, u: FloatArray) -> IntArray:
        """(n, p) rows at the quantiles ``u`` in [0, 1)."""
        position = np.clip((u * len(self.rows)).astype(np.int64), 0, len(self.rows) - 1)
        return self.rows[position]

    # Candidates are digits: one per axis, the position in its choices.

    def _chunks(self) -> Iterator[IntArray]:
        lengths = [len(axis.choices) for axis in self.axes]
        for start in range(0, self.raw_size, _CHUNK):
            numbers = np.arange(start, min(start + _CHUNK, self.raw_size), dtype=np.int64)
            yield np.stack(np.unravel_index(numbers, lengths), axis=1).astype(np.int64)

    def _random_digits(self, rng: np.random.Generator) -> IntArray:
        lengths = np.array([len(axis.choices) for axis in self.axes])
        digits: IntArray = rng.integers(lengths, size=(_CHUNK, len(lengths)))
        return digits

    def _enumerated(self) -> Iterator[IntArray]:
        for digits in self._chunks():
            yield self._accepted(digits)

    def _candidates(self, digits: IntArray) -> IntArray:
        """(n, d) the canonical ones among the candidates; other components are at level 0."""
        rows = np.zeros((len(digits), len(self.structure.parameters)), dtype=np.int64)
        for position, axis in enumerate(self.axes):
            rows[:, axis.columns] = axis.choices[digits[:, position]]
        if self.parts:
            rows = rows[self._is_sorted(rows)]
        is_canonical = (self.structure.canonical(rows, self.steps) == rows).all(axis=1)
        rows = rows[is_canonical]
        is_complete = self.structure.is_complete(rows, [int(column) for column in self.columns])
        return np.asarray(rows[is_complete])

    def _is_sorted(self, rows: IntArray) -> BoolArray:
        """A cheap look before the conditions are worked out."""
        is_sorted = np.ones(len(rows), dtype=bool)
        for part in self.parts:
            is_sorted &= (np.diff(part.ranks_in(rows), axis=1) >= 0).all(axis=1)
        return is_sorted

    def _accepted(self, digits: IntArray) -> IntArray:
        rows = self._candidates(digits)
        is_feasible = np.ones(len(rows), dtype=bool)
        for violation in self.structure.violations(rows, self.constraints).values():
            is_feasible &= violation <= 0
        return np.asarray(rows[is_feasible][:, self.columns])

    @cached_property
    def _tried(self) -> tuple[IntArray, int]:
        """Feasible rows among a fixed number of random candidates."""
        rng = np.random.default_rng(0)
        parts = [self._accepted(self._random_digits(rng)) for _ in range(_TRIES // _CHUNK)]
        rows = np.concatenate(parts)
        return rows, len(rows)

    @property
    def _acceptance(self) -> float:
        return self._tried[1] / _TRIES

    @cached_property
    def _pool(self) -> IntArray:
        return np.unique(self._tried[0][:_POOL], axis=0)

    def _contradiction(self) -> str:
        """Which constraint leaves nothing."""
        total, met = 0, dict.fromkeys((rule.text for rule in self.constraints), 0)
        for digits in self._some_chunks():
            rows = self._candidates(digits)
            total += len(rows)
            for text, violation in self.structure.violations(rows, self.constraints).items():
                met[text] += int((violation <= 0).sum())
        listed = "; ".join(f"{text!r} is met by {count:,}" for text, count in met.items())
        sampled = "" if self.is_enumerated else " sampled"
        names = ", ".join(self.names)
        return (
            f"no design meets the constraints on {names}: of {total:,}{sampled} combinations, "
            f"{listed or 'none is complete'}"
        )

    def _some_chunks(self) -> Iterator[IntArray]:
        if self.is_enumerated:
            yield from self._chunks()
        else:
            yield self._random_digits(np.random.default_rng(0))


def _column(step: Step) -> int:
    return int(step.columns[0, 0]) if isinstance(step, RepeatedPart) else step


def _axes(structure: Structure, columns: Sequence[int]) -> Iterator[ComponentAxis]:
    done: set[str] = set()
    for column in columns:
        part = structure.columns_in_parts.get(column)
        if part is None:
            yield _parameter_axis(structure, column)
        elif part.name not in done:
            done.add(part.name)
            yield from _part_axes(part)


def _parameter_axis(structure: Structure, column: int) -> ComponentAxis:
    can_be_absent = structure.has_absence[column] or column in structure.conditions
    first = -1 if can_be_absent else 0
    codes = np.arange(first, structure.n_levels[column], dtype=np.int64)
    return ComponentAxis(np.array([column]), codes[:, None])


def _part_axes(part: RepeatedPart) -> Iterator[ComponentAxis]:
    for repetition, columns in enumerate(part.columns):
        may_be_absent = repetition >= part.minimum
        ranks = np.append(part.legal, part.absent) if may_be_absent else part.legal
        yield ComponentAxis(columns, part.variants[ranks])


def components_of(structure: Structure) -> tuple[Component, ...]:
    """The components, by their first parameter."""
    leader = list(range(len(structure.parameters)))

    def find(column: int) -> int:
        while leader[column] != column:
            column = leader[column]
        return column

    for related in _related(structure):
        first = min((find(column) for column in related), default=0)
        for column in related:
            leader[find(column)] = first
    groups: dict[int, list[int]] = {}
    for column in range(len(structure.parameters)):
        groups.setdefault(find(column), []).append(column)
    return tuple(Component(structure, columns) for columns in groups.values())


def _related(structure: Structure) -> Iterator[frozenset[int]]:
    for column, condition in structure.conditions.items():
        yield structure.roots(condition.names) | {column}
    for rule in structure.constraints:
        yield structure.roots(rule.expression.names)
    for part in structure.parts:
        yield frozenset(int(column) for column in part.columns.flat)
