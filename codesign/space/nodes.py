"""The nodes of a parsed expression: plain records that compute over a batch of designs.

A number evaluates to its value, a condition to its violation: ``<= 0`` is met, and the
further above zero, the further from being met. Values are floats in coherent SI units and
broadcast; a parameter that is compared by name is an array of its level codes, -1 if absent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from codesign.columns import BoolArray, FloatArray

Values: TypeAlias = Mapping[str, FloatArray]

TOLERANCE = 1e-9
"""Relative difference below which two numbers are equal: six edges of 11 mm fill 66 mm."""

_JUST_VIOLATED = 1e-12
"""The violation of a strict comparison, or of a negated one, that is missed by nothing."""


class Node(Protocol):
    """A part of an expression."""

    def evaluate(self, values: Values) -> FloatArray:
        """A number's value or a condition's violation, for each design."""
        ...


@dataclass(frozen=True)
class Constant:
    """A number that was written down."""

    value: float

    def evaluate(self, values: Values) -> FloatArray:
        return np.asarray(self.value, dtype=np.float64)


@dataclass(frozen=True)
class Name:
    """A named number, given in a unit of ``scale`` coherent SI units."""

    key: str
    scale: float = 1.0

    def evaluate(self, values: Values) -> FloatArray:
        return np.asarray(values[self.key], dtype=np.float64) * self.scale


@dataclass(frozen=True)
class Sum:
    """Terms with their signs. Flat, so that a long sum is not a deep tree."""

    terms: tuple[tuple[float, Node], ...]

    def evaluate(self, values: Values) -> FloatArray:
        total: FloatArray = np.zeros(())
        for sign, term in self.terms:
            total = total + sign * term.evaluate(values)
        return total


@dataclass(frozen=True)
class Product:
    """Factors, each multiplied or divided by."""

    factors: tuple[tuple[bool, Node], ...]

    def evaluate(self, values: Values) -> FloatArray:
        total: FloatArray = np.ones(())
        for is_divisor, factor in self.factors:
            value = factor.evaluate(values)
            total = total / value if is_divisor else total * value
        return np.asarray(total)


def _extreme(function: Callable[[FloatArray, FloatArray], FloatArray]) -> Callable[..., FloatArray]:
    def over(*arguments: FloatArray) -> FloatArray:
        result = arguments[0]
        for argument in arguments[1:]:
            result = function(result, argument)
        return result

    return over


FUNCTIONS: dict[str, Callable[..., FloatArray]] = {
    "min": _extreme(np.minimum),
    "max": _extreme(np.maximum),
    "sum": _extreme(np.add),
    "abs": np.abs,
    "ceil": np.ceil,
    "floor": np.floor,
}


@dataclass(frozen=True)
class Call:
    """A function of numbers."""

    function: str
    arguments: tuple[Node, ...]

    def evaluate(self, values: Values) -> FloatArray:
        return FUNCTIONS[self.function](*(part.evaluate(values) for part in self.arguments))


@dataclass(frozen=True)
class Count:
    """The number of conditions that are met."""

    conditions: tuple[Node, ...]

    def evaluate(self, values: Values) -> FloatArray:
        met: FloatArray = np.zeros(())
        for condition in self.conditions:
            met = met + (condition.evaluate(values) <= 0)
        return met


@dataclass(frozen=True)
class Compare:
    """Two numbers; the violation is the relative excess.

    The excess is relative to the side that was written as a constant, and otherwise to the
    larger of the two.
    """

    operator: str
    left: Node
    right: Node

    def evaluate(self, values: Values) -> FloatArray:
        left, right = self.left.evaluate(values), self.right.evaluate(values)
        difference = left - right
        scale = self._scale(left, right)
        nonzero = np.where(scale > 0, scale, 1.0)
        excess = np.where(difference == 0, 0.0, difference / nonzero)
        excess = np.where(np.abs(excess) <= TOLERANCE, 0.0, excess)
        return _COMPARISONS[self.operator](excess)

    def _scale(self, left: FloatArray, right: FloatArray) -> FloatArray:
        for node, value in ((self.right, right), (self.left, left)):
            if isinstance(node, Constant) and node.value != 0:
                return np.abs(value)
        return np.maximum(np.abs(left), np.abs(right))


def negated(violation: FloatArray) -> FloatArray:
    """The violation of the opposite condition."""
    return np.where(violation == 0, _JUST_VIOLATED, -violation)


_COMPARISONS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "<=": lambda excess: excess,
    ">=": lambda excess: -excess,
    "<": lambda excess: negated(-excess),
    ">": lambda excess: negated(excess),
    "==": lambda excess: np.abs(excess),
    "!=": lambda excess: negated(np.abs(excess)),
}


def _verdict(is_met: BoolArray) -> FloatArray:
    return np.where(is_met, -1.0, 1.0)


@dataclass(frozen=True)
class HasLevel:
    """Whether a parameter is at one of some levels (-1: absent, -2: a value it cannot take)."""

    key: str
    codes: tuple[int, ...]

    def evaluate(self, values: Values) -> FloatArray:
        return _verdict(np.isin(values[self.key], self.codes))


@dataclass(frozen=True)
class SameValue:
    """Whether two parameters have the same value; two absent ones have.

    Attributes:
        translation: For each level of ``right``, then for its absence, the code in ``left``.
    """

    left: str
    right: str
    translation: tuple[int, ...]

    def evaluate(self, values: Values) -> FloatArray:
        codes = np.asarray(values[self.right], dtype=np.int64)
        translated = np.asarray(self.translation, dtype=np.float64)[codes]
        return _verdict(np.equal(values[self.left], translated))


@dataclass(frozen=True)
class AllOf:
    """Conditions that must all be met: the largest violation."""

    conditions: tuple[Node, ...]

    def evaluate(self, values: Values) -> FloatArray:
        return _extreme(np.maximum)(*(part.evaluate(values) for part in self.conditions))


@dataclass(frozen=True)
class AnyOf:
    """Conditions of which one must be met: the smallest violation."""

    conditions: tuple[Node, ...]

    def evaluate(self, values: Values) -> FloatArray:
        return _extreme(np.minimum)(*(part.evaluate(values) for part in self.conditions))


@dataclass(frozen=True)
class Not:
    """A condition that must not be met."""

    condition: Node

    def evaluate(self, values: Values) -> FloatArray:
        return negated(self.condition.evaluate(values))
