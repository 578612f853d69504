"""Parts of an expression that have been read, with what is known of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field, replace
from typing import Literal

import numpy as np

from codesign.base.columns import Value
from codesign.base.records import frozen
from codesign.base.units import DIMENSIONLESS, Unit
from codesign.space import nodes
from codesign.space.expression_tokens import problem_at
from codesign.space.expressions import describe_unit
from codesign.space.nodes import Constant, Node

Kind = Literal["number", "condition", "category", "word", "list"]


@frozen
class Operand:
    """A parsed part with what is known of it.

    Attributes:
        kind: What it is: only numbers are computed with, only conditions are joined.
        is_bare: A number written without a unit.
        key: The parameter that it is, if it is one, for comparing it with words.
        carries_unit: Every name in it says its unit.
    """

    kind: Kind
    column: int
    text: str
    node: Node = Constant(0.0)
    unit: Unit = DIMENSIONLESS
    is_bare: bool = False
    key: str = ""
    value: Value = None
    items: tuple[Operand, ...] = ()
    names: frozenset[str] = field(default=frozenset())
    carries_unit: bool = False

    @property
    def is_zero(self) -> bool:
        return isinstance(self.node, Constant) and self.node.value == 0


def condition_of(node: Node, *parts: Operand) -> Operand:
    names = frozenset().union(*(operand.names for operand in parts))
    return Operand("condition", parts[0].column, parts[0].text, node, names=names)


def folded(function: str, conditions: Sequence[Operand]) -> Operand:
    node = nodes.FoldedCall(tuple(condition.node for condition in conditions), function)
    return condition_of(node, *conditions)


def negated(operand: Operand) -> Operand:
    return replace(operand, node=nodes.Call((operand.node,), "not"))


def number_of(node: Node, operands: Sequence[Operand], unit: Unit) -> Operand:
    """A number computed from parts; one without names is a constant."""
    names = frozenset().union(*(operand.names for operand in operands))
    column = operands[0].column
    text = operands[0].text
    if not names:
        with np.errstate(all="ignore"):
            value = float(node.evaluate({}))
        if not math.isfinite(value):
            raise problem_at("the constant is not a finite number", column)
        node = Constant(value)
    is_bare = all(operand.is_bare for operand in operands)
    carries_unit = all(operand.carries_unit or operand.is_bare for operand in operands) and bool(
        names
    )
    return Operand(
        "number", column, text, node, unit, is_bare, names=names, carries_unit=carries_unit
    )


def convert_unit(leader: Operand, number: Operand) -> Operand:
    if number.unit.exponents == leader.unit.exponents:
        if number.is_bare and leader.carries_unit:  # shoreline_percent <= 5
            return _scaled(number, leader.unit)
        return number
    if number.is_bare and number.is_zero:
        return replace(number, unit=leader.unit)
    if number.is_bare and leader.carries_unit:
        return _scaled(number, leader.unit)
    first_unit = describe_unit(leader.unit)
    right = describe_unit(number.unit)
    if number.is_bare:
        raise problem_at(
            f"{leader.text!r} is in {first_unit}: write {number.text!r} with its unit",
            number.column,
        )
    raise problem_at(
        f"{leader.text!r} is in {first_unit} but {number.text!r} is in {right}: they cannot be "
        "compared or added",
        number.column,
    )


def _scaled(number: Operand, unit: Unit) -> Operand:
    node = nodes.Product((number.node, Constant(unit.scale)), (False, False))
    return number_of(node, [replace(number, unit=unit)], unit)
