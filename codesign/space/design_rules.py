"""The rules that tell the designs of a space from other rows, as conditions over its choices.

Three kinds: a constraint holds; a parameter with a condition is present if and only if the
condition is met (an optional one may be absent all the same); the repetitions of a part are in
order. A row that keeps all of them is canonical, complete and feasible, and no other is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from codesign.base.columns import FloatArray
from codesign.base.records import frozen
from codesign.space.axes import ComponentAxis
from codesign.space.nodes import Combination, Node, Values, verdict
from codesign.space.structure import SpaceConstraint, Structure

_PRESENT = 0.0
_ABSENT = 1.0
_FREE = 2.0


@frozen
class Rule:
    """A condition that every design keeps.

    Attributes:
        node: What computes its violation.
        text: What it is, for messages.
        where: Where the file says so.
    """

    node: Node
    text: str
    where: str = ""


@dataclass(frozen=True, eq=False)
class ChoiceTable(Node):
    """A number that depends on one choice.

    Attributes:
        place: Which choice.
        table: (v,) its value for each of them.
    """

    place: int
    table: FloatArray
    operands = ()

    def evaluate(self, values: Values) -> FloatArray:
        return self.table


class Presence(Combination):
    """Whether a parameter's state is present where, and only where, its condition is met."""

    is_condition = True

    def combine(self, *operands: FloatArray) -> FloatArray:
        state, violation = operands
        is_active = violation <= 0
        return verdict(np.where(state == _PRESENT, is_active, (state == _FREE) | ~is_active))


class InOrder(Combination):
    """Whether a repetition's rank in the order of its part is no larger than the next one's."""

    is_condition = True

    def combine(self, *operands: FloatArray) -> FloatArray:
        rank, next_rank = operands
        return verdict(rank <= next_rank)


def rules_of(
    structure: Structure, axes: Sequence[ComponentAxis], constraints: Sequence[SpaceConstraint]
) -> list[Rule]:
    """The rules over these choices; of the constraints, only those that are passed."""
    rules = list(_presences(structure, axes))
    rules += _orders(axes)
    rules += [
        Rule(rule.expression.node, f"constraint {rule.text!r}", rule.where) for rule in constraints
    ]
    return rules


def _presences(structure: Structure, axes: Sequence[ComponentAxis]) -> Iterator[Rule]:
    for place, axis in enumerate(axes):
        for member, column in enumerate(axis.columns.tolist()):
            condition = structure.conditions.get(column)
            if condition is None:
                continue
            absence = _FREE if structure.has_absence[column] else _ABSENT
            state = np.where(axis.choices[:, member] >= 0, _PRESENT, absence)
            if axis.part is not None:
                state[axis.choices[:, 0] < 0] = _FREE  # what it would belong to is not there
            name = structure.parameters[column].name
            yield Rule(
                Presence((ChoiceTable(place, state), condition.node)),
                f"condition {condition.text!r} of {name}",
            )


def _orders(axes: Sequence[ComponentAxis]) -> Iterator[Rule]:
    repetitions: dict[str, list[ChoiceTable]] = {}
    for place, axis in sorted(enumerate(axes), key=lambda item: int(item[1].columns[0])):
        if axis.part is not None:
            ranks = axis.part.ranks[(axis.choices + 1) @ axis.part.strides]
            table = ChoiceTable(place, ranks.astype(np.float64))
            repetitions.setdefault(axis.part.name, []).append(table)
    for name, tables in repetitions.items():
        for table, following in pairwise(tables):
            yield Rule(InOrder((table, following)), f"order of {name}")
