"""The choices that designs are made of, in the order in which they are made.

A choice is a parameter, or one repetition of a part. The order is that of the file, except that
what a condition names comes before what it governs, so that a family of accelerators is known
before the parameters that only this family has.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from codesign.base.columns import IntArray, IntegerList, IntegerSequence
from codesign.space.parameters import RepeatedPart
from codesign.space.structure import Structure


@dataclass(frozen=True, eq=False)
class ComponentAxis:
    """One choice: a parameter, or one repetition of a part.

    Attributes:
        columns: (p,) the row's entries that it sets.
        choices: (v, p) what it may set them to, in the order in which designs are numbered.
        part: The repeated part of which it is a repetition.
    """

    columns: IntArray
    choices: IntArray
    part: RepeatedPart | None = None

    def __len__(self) -> int:
        return len(self.choices)

    @cached_property
    def _weights(self) -> IntArray:
        """(p,) weights that tell any two choices apart."""
        lengths = (self.choices.max(axis=0) + 2).tolist()
        weights = [math.prod(lengths[place + 1 :]) for place in range(len(lengths))]
        return np.array(weights, np.int64)

    @cached_property
    def _sorted(self) -> tuple[IntArray, IntArray]:
        """(v,) the choices as numbers, increasing, and the position of each."""
        numbers: IntArray = (self.choices + 1) @ self._weights
        order = np.argsort(numbers)
        return numbers[order], order

    def positions(self, rows: IntArray) -> IntArray:
        """(n,) which choice each of (n, d) rows has made; -1 where it is none of them."""
        numbers, order = self._sorted
        wanted_rows: IntArray = (rows[:, self.columns] + 1) @ self._weights
        places = np.minimum(np.searchsorted(numbers, wanted_rows), len(numbers) - 1)
        position = order[places]
        is_choice = (self.choices[position] == rows[:, self.columns]).all(axis=1)
        return np.where(is_choice, position, -1)


def axes_of(structure: Structure, columns: IntegerSequence) -> tuple[ComponentAxis, ...]:
    """The choices that set these columns, in the file's order if conditions allow it."""
    axes = list(_axes(structure, columns))
    earlier = _prerequisites(structure, axes)
    ordered: dict[int, None] = {}

    def visit(place: int) -> None:
        for before in sorted(earlier[place]):
            visit(before)
        ordered.setdefault(place)

    for place in range(len(axes)):
        visit(place)
    return tuple(axes[place] for place in ordered)


def regrouped(
    structure: Structure, axes: Sequence[ComponentAxis], scopes: Sequence[frozenset[int]]
) -> tuple[ComponentAxis, ...]:
    """The choices in an order in which few of those made are remembered for those to come.

    The next choice is always the one after which the remembered ones have the fewest
    combinations; of several, the first. What a condition names still comes before what it governs.

    Args:
        scopes: For each rule, the places of the choices that it joins.
    """
    earlier = _prerequisites(structure, axes)
    unmade = [set(scope) for scope in scopes]
    rules_at = [
        [r for r, scope in enumerate(scopes) if place in scope] for place in range(len(axes))
    ]
    open_rules = [len(rules) for rules in rules_at]
    ordered: IntegerList = []

    def growth(place: int) -> float:
        closing = [rule for rule in rules_at[place] if len(unmade[rule]) == 1]
        weight = math.log(len(axes[place])) if len(closing) < open_rules[place] else 0.0
        released = Counter(member for rule in closing for member in scopes[rule] - {place})
        for member, n_rules in released.items():
            if n_rules == open_rules[member]:
                weight -= math.log(len(axes[member]))
        return weight

    while len(ordered) < len(axes):
        ready = [p for p in range(len(axes)) if p not in ordered and earlier[p] <= set(ordered)]
        place = min(ready, key=growth)
        ordered.append(place)
        for rule in rules_at[place]:
            unmade[rule].discard(place)
            if not unmade[rule]:
                for member in scopes[rule]:
                    open_rules[member] -= 1
    return tuple(axes[place] for place in ordered)


def _prerequisites(structure: Structure, axes: Sequence[ComponentAxis]) -> list[set[int]]:
    """For each choice, the places of those that its conditions name."""
    place_of = {int(column): place for place, axis in enumerate(axes) for column in axis.columns}
    return [
        {
            place_of[root]
            for column in axis.columns.tolist()
            if column in structure.conditions
            for root in structure.roots(structure.conditions[column].names)
        }
        - {place}
        for place, axis in enumerate(axes)
    ]


def _axes(structure: Structure, columns: IntegerSequence) -> Iterator[ComponentAxis]:
    done = set()
    for column in columns:
        part = structure.columns_in_parts.get(column)
        if part is None:
            can_be_absent = structure.has_absence[column] or column in structure.conditions
            first = -1 if can_be_absent else 0
            codes = np.arange(first, structure.n_levels[column], dtype=np.int64)
            yield ComponentAxis(np.array([column]), codes[:, None])
        elif part.name not in done:
            done.add(part.name)
            yield from _part_axes(structure, part)


def _part_axes(structure: Structure, part: RepeatedPart) -> Iterator[ComponentAxis]:
    """The repetitions; only the last ones can be absent, as absence comes last in the order."""
    for repetition, columns in enumerate(part.columns):
        ranks = part.legal
        for member, column in enumerate(columns.tolist()):
            if not structure.has_absence[column] and column not in structure.conditions:
                ranks = ranks[(part.variants[ranks, member] >= 0) | (member == 0)]
        if repetition >= part.minimum:
            ranks = np.append(ranks, part.absent)
        yield ComponentAxis(columns, part.variants[ranks], part)
