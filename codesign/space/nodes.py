"""The nodes of a parsed expression: plain records that compute over a batch of designs.

A number evaluates to its value, a condition to its violation: ``<= 0`` is met, and the
further above zero, the further from being met. Values are floats in coherent SI units and
broadcast; a parameter that is compared by name is an array of its level codes, -1 if absent.

A node is a leaf, a combination of a few operands, or a fold over many. Designs are counted by
walking these (see ``residuals.py``): a fold whose first operands are known is one number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeAlias

import numpy as np

from codesign.base.columns import Arrays, BoolArray, FloatArray

Values: TypeAlias = Arrays

TOLERANCE = 1e-9
"""Relative difference below which two numbers are equal: six edges of 11 mm fill 66 mm."""

_JUST_VIOLATED = 1e-12
"""The violation of a strict comparison, or of a negated one, that is missed by nothing."""


class Node(Protocol):
    """A part of an expression."""

    is_condition: ClassVar[bool]
    """Whether it evaluates to a violation, of which only the sign decides."""

    @property
    def operands(self) -> tuple[Node, ...]:
        """The nodes that it is computed from."""
        ...

    def evaluate(self, values: Values) -> FloatArray:
        """A number's value or a condition's violation, for each design."""
        ...


class Leaf:
    """A node without operands."""

    is_condition: ClassVar[bool] = False
    operands: tuple[Node, ...] = ()


class Combination:
    """A node whose value follows from those of its operands."""

    is_condition: ClassVar[bool] = False

    @property
    def operands(self) -> tuple[Node, ...]:
        raise NotImplementedError

    def combine(self, *operands: FloatArray) -> FloatArray:
        """The value for given values of the operands."""
        raise NotImplementedError

    def evaluate(self, values: Values) -> FloatArray:
        return self.combine(*(operand.evaluate(values) for operand in self.operands))


class Fold:
    """A node that takes its operands one after the other into a running value."""

    is_condition: ClassVar[bool] = False
    start: float

    @property
    def operands(self) -> tuple[Node, ...]:
        raise NotImplementedError

    def step(self, total: FloatArray, position: int, operand: FloatArray) -> FloatArray:
        """The running value with the operand of that position taken in."""
        raise NotImplementedError

    def evaluate(self, values: Values) -> FloatArray:
        total: FloatArray = np.asarray(self.start)
        for position, operand in enumerate(self.operands):
            total = self.step(total, position, operand.evaluate(values))
        return np.asarray(total)


@dataclass(frozen=True)
class Constant(Leaf):
    """A number that was written down."""

    value: float

    def evaluate(self, values: Values) -> FloatArray:
        return np.asarray(self.value, dtype=np.float64)


@dataclass(frozen=True)
class Name(Leaf):
    """A named number, given in a unit of ``scale`` coherent SI units."""

    key: str
    scale: float = 1.0

    def evaluate(self, values: Values) -> FloatArray:
        return np.asarray(values[self.key], dtype=np.float64) * self.scale


@dataclass(frozen=True)
class Sum(Fold):
    """Terms with their signs. Flat, so that a long sum is not a deep tree."""

    terms: tuple[tuple[float, Node], ...]
    start = 0.0

    @property
    def operands(self) -> tuple[Node, ...]:
        return tuple(term for _, term in self.terms)

    def step(self, total: FloatArray, position: int, operand: FloatArray) -> FloatArray:
        return total + self.terms[position][0] * operand


@dataclass(frozen=True)
class Product(Fold):
    """Factors, each multiplied or divided by."""

    factors: tuple[tuple[bool, Node], ...]
    start = 1.0

    @property
    def operands(self) -> tuple[Node, ...]:
        return tuple(factor for _, factor in self.factors)

    def step(self, total: FloatArray, position: int, operand: FloatArray) -> FloatArray:
        return np.asarray(total / operand if self.factors[position][0] else total * operand)


_FOLDED: dict[str, tuple[float, Callable[[FloatArray, FloatArray], FloatArray]]] = {
    "min": (np.inf, np.minimum),
    "max": (-np.inf, np.maximum),
    "sum": (0.0, np.add),
}
_OF_ONE_NUMBER: dict[str, Callable[[FloatArray], FloatArray]] = {
    "abs": np.abs,
    "ceil": np.ceil,
    "floor": np.floor,
}
FUNCTIONS = (*_FOLDED, *_OF_ONE_NUMBER)
"""Functions of numbers by name."""


def call(function: str, arguments: tuple[Node, ...]) -> Node:
    """The node of a function of numbers; ``abs``, ``ceil`` and ``floor`` take one."""
    if function in _OF_ONE_NUMBER:
        return Call(function, *arguments)
    return FoldedCall(function, arguments)


@dataclass(frozen=True)
class Call(Combination):
    """A function of one number."""

    function: str
    argument: Node

    @property
    def operands(self) -> tuple[Node, ...]:
        return (self.argument,)

    def combine(self, *operands: FloatArray) -> FloatArray:
        (number,) = operands
        return _OF_ONE_NUMBER[self.function](number)


@dataclass(frozen=True)
class FoldedCall(Fold):
    """The least, the largest or the sum of numbers."""

    function: str
    arguments: tuple[Node, ...]

    @property
    def start(self) -> float:  # type: ignore[override] # it depends on the function
        return _FOLDED[self.function][0]

    @property
    def operands(self) -> tuple[Node, ...]:
        return self.arguments

    def step(self, total: FloatArray, position: int, operand: FloatArray) -> FloatArray:
        return _FOLDED[self.function][1](total, operand)


@dataclass(frozen=True)
class Count(Fold):
    """The number of conditions that are met."""

    conditions: tuple[Node, ...]
    start = 0.0

    @property
    def operands(self) -> tuple[Node, ...]:
        return self.conditions

    def step(self, total: FloatArray, position: int, operand: FloatArray) -> FloatArray:
        return total + (operand <= 0)


@dataclass(frozen=True)
class Compare(Combination):
    """Two numbers; the violation is the relative excess.

    The excess is relative to the side that was written as a constant, and otherwise to the
    larger of the two.
    """

    operator: str
    left: Node
    right: Node
    is_condition = True

    @property
    def operands(self) -> tuple[Node, ...]:
        return self.left, self.right

    def combine(self, *operands: FloatArray) -> FloatArray:
        left, right = operands
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


def verdict(is_met: BoolArray) -> FloatArray:
    """The violation of a condition that is met or not, and has no degrees."""
    return np.where(is_met, -1.0, 1.0)


@dataclass(frozen=True)
class HasLevel(Combination):
    """Whether a parameter is at one of some levels (-1: absent, -2: a value it cannot take)."""

    key: str
    codes: tuple[int, ...]
    is_condition = True

    @property
    def operands(self) -> tuple[Node, ...]:
        return (Name(self.key),)

    def combine(self, *operands: FloatArray) -> FloatArray:
        (codes,) = operands
        return verdict(np.isin(codes, self.codes))


@dataclass(frozen=True)
class SameValue(Combination):
    """Whether two parameters have the same value; two absent ones have.

    Attributes:
        translation: For each level of ``right``, then for its absence, the code in ``left``.
    """

    left: str
    right: str
    translation: tuple[int, ...]
    is_condition = True

    @property
    def operands(self) -> tuple[Node, ...]:
        return Name(self.left), Name(self.right)

    def combine(self, *operands: FloatArray) -> FloatArray:
        left, right = operands
        translated = np.asarray(self.translation, dtype=np.float64)[right.astype(np.int64)]
        return verdict(np.equal(left, translated))


@dataclass(frozen=True)
class AllOf(Fold):
    """Conditions that must all be met: the largest violation."""

    conditions: tuple[Node, ...]
    start = -np.inf
    is_condition = True

    @property
    def operands(self) -> tuple[Node, ...]:
        return self.conditions

    def step(self, total: FloatArray, position: int, operand: FloatArray) -> FloatArray:
        return np.maximum(total, operand)


@dataclass(frozen=True)
class AnyOf(Fold):
    """Conditions of which one must be met: the smallest violation."""

    conditions: tuple[Node, ...]
    start = np.inf
    is_condition = True

    @property
    def operands(self) -> tuple[Node, ...]:
        return self.conditions

    def step(self, total: FloatArray, position: int, operand: FloatArray) -> FloatArray:
        return np.minimum(total, operand)


@dataclass(frozen=True)
class Not(Combination):
    """A condition that must not be met."""

    condition: Node
    is_condition = True

    @property
    def operands(self) -> tuple[Node, ...]:
        return (self.condition,)

    def combine(self, *operands: FloatArray) -> FloatArray:
        (violation,) = operands
        return negated(violation)
