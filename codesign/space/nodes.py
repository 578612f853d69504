"""The nodes of a parsed expression: plain records that compute over a batch of designs.

A number evaluates to its value, a condition to its violation: ``<= 0`` is met, and the
further above zero, the further from being met. Values are floats in coherent SI units and
broadcast; a parameter that is compared by name is an array of its level codes, -1 if absent.

A node is a leaf, a combination of a few operands, or a fold over many. Designs are counted by
walking these (see ``residuals.py``): a fold whose first operands are known is one number.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from codesign.base.columns import Arrays, BoolArray, FloatArray, IntegerTuple
from codesign.base.records import frozen

Values = Arrays

TOLERANCE = 1e-9
"""Relative difference below which two numbers are equal: six edges of 11 mm fill 66 mm."""

_JUST_VIOLATED = 1e-12
"""The violation of a strict comparison, or of a negated one, that is missed by nothing."""


class Node:
    """A part of an expression; a leaf if it has no operands."""

    is_condition: bool = False
    """Whether it evaluates to a violation, of which only the sign decides."""
    operands: tuple[Node, ...]

    def evaluate(self, values: Values) -> FloatArray:
        """A number's value or a condition's violation, for each design."""
        raise NotImplementedError


@frozen
class Combination(Node):
    """A node whose value follows from those of its operands."""

    operands: tuple[Node, ...]

    def combine(self, *operands: FloatArray) -> FloatArray:
        """The value for given values of the operands."""
        raise NotImplementedError

    def evaluate(self, values: Values) -> FloatArray:
        return self.combine(*(operand.evaluate(values) for operand in self.operands))


@frozen
class Fold(Node):
    """A node that takes its operands one after the other into a running value."""

    operands: tuple[Node, ...]

    @property
    def start(self) -> float:
        """The running value before any operand."""
        return 0.0

    def step(self, total: FloatArray, position: int, operand: FloatArray) -> FloatArray:
        """The running value with the operand of that position taken in."""
        raise NotImplementedError

    def evaluate(self, values: Values) -> FloatArray:
        total: FloatArray = np.asarray(self.start)
        for position, operand in enumerate(self.operands):
            total = self.step(total, position, operand.evaluate(values))
        return np.asarray(total)


@frozen
class Constant(Node):
    """A number that was written down."""

    value: float
    operands = ()

    def evaluate(self, values: Values) -> FloatArray:
        return np.asarray(self.value, np.float64)


@frozen
class Name(Node):
    """A named number, given in a unit of ``scale`` coherent SI units."""

    key: str
    scale: float = 1.0
    operands = ()

    def evaluate(self, values: Values) -> FloatArray:
        return np.asarray(values[self.key], np.float64) * self.scale


@frozen
class Sum(Fold):
    """Terms with their signs. Flat, so that a long sum is not a deep tree."""

    signs: tuple[float, ...]

    def step(self, total: FloatArray, position: int, operand: FloatArray) -> FloatArray:
        return total + self.signs[position] * operand


@frozen
class Product(Fold):
    """Factors, each multiplied or divided by."""

    are_divisors: tuple[bool, ...]

    @property
    def start(self) -> float:
        return 1.0

    def step(self, total: FloatArray, position: int, operand: FloatArray) -> FloatArray:
        return total / operand if self.are_divisors[position] else total * operand


_FOLDED: dict[str, tuple[float, Callable[[FloatArray, FloatArray], FloatArray]]] = {
    "min": (np.inf, np.minimum),
    "max": (-np.inf, np.maximum),
    "sum": (0.0, np.add),
    "count": (0.0, lambda total, violation: total + (violation <= 0)),
    "and": (-np.inf, np.maximum),
    "or": (np.inf, np.minimum),
}


def negated(violation: FloatArray) -> FloatArray:
    """The violation of the opposite condition."""
    return np.where(violation == 0, _JUST_VIOLATED, -violation)


_CALLED: dict[str, Callable[[FloatArray], FloatArray]] = {
    "abs": np.abs,
    "ceil": np.ceil,
    "floor": np.floor,
    "not": negated,
}
FUNCTIONS = ("min", "max", "sum", "abs", "ceil", "floor")
"""Functions of numbers by name; the last three take one."""


@frozen
class Call(Combination):
    """A function of one number, or the opposite of a condition: ``not``."""

    function: str

    @property
    def is_condition(self) -> bool:  # type: ignore[override] # it depends on the function
        return self.function == "not"

    def combine(self, *operands: FloatArray) -> FloatArray:
        return _CALLED[self.function](*operands)


@frozen
class FoldedCall(Fold):
    """The least, the largest or the sum of numbers; of conditions, the number that is met.

    ``and`` gives the largest violation of conditions, ``or`` the smallest.
    """

    function: str

    @property
    def is_condition(self) -> bool:  # type: ignore[override] # it depends on the function
        return self.function in ("and", "or")

    @property
    def start(self) -> float:
        return _FOLDED[self.function][0]

    def step(self, total: FloatArray, position: int, operand: FloatArray) -> FloatArray:
        return _FOLDED[self.function][1](total, operand)


@frozen
class Compare(Combination):
    """Two numbers; the violation is the relative excess.

    The excess is relative to the side that was written as a constant, and otherwise to the
    larger of the two.
    """

    operator: str
    is_condition = True

    def combine(self, *operands: FloatArray) -> FloatArray:
        left, right = operands
        difference = left - right
        scale = np.maximum(np.abs(left), np.abs(right))
        for node, value in zip(self.operands, operands, strict=True):  # the right one decides
            if isinstance(node, Constant) and node.value != 0:
                scale = np.abs(value)
        nonzero = np.where(scale > 0, scale, 1.0)
        excess = np.where(difference == 0, 0.0, difference / nonzero)
        excess = np.where(np.abs(excess) <= TOLERANCE, 0.0, excess)
        return _COMPARISONS[self.operator](excess)


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


@frozen
class HasLevel(Combination):
    """Whether a parameter is at one of some levels (-1: absent, -2: a value it cannot take)."""

    codes: IntegerTuple
    is_condition = True

    def combine(self, *operands: FloatArray) -> FloatArray:
        return verdict(np.isin(operands[0], self.codes))


@frozen
class SameValue(Combination):
    """Whether two parameters have the same value; two absent ones have.

    Attributes:
        translation: For each level of the second, then for its absence, the code in the first.
    """

    translation: IntegerTuple
    is_condition = True

    def combine(self, *operands: FloatArray) -> FloatArray:
        first, second = operands
        translated = np.asarray(self.translation, np.float64)[second.astype(np.int64)]
        return verdict(first == translated)
