"""Bounds on the numbers of an expression, which tell when the order of a sum is free.

Floating-point sums depend on the order of their terms, unless all are whole numbers below 2**53.
A running value is kept in another order than the written one only in that case, so that a design
counts as feasible while it is counted if and only if it does when it is looked at by itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from codesign.base.columns import FloatArray
from codesign.base.records import frozen
from codesign.space.nodes import Call, FoldedCall, Node, Product, Sum

WHOLE_BELOW = 2.0**53
"""Whole numbers below this are exact, in whatever order they are added or multiplied."""


@frozen
class MagnitudeBounds:
    """Bounds on a number that hold for every design.

    Attributes:
        is_whole: It is always a whole number.
        is_defined: It is never NaN.
    """

    least: float
    largest: float
    is_whole: bool
    is_defined: bool

    @classmethod
    def tabulated(cls, table: FloatArray) -> MagnitudeBounds:
        """Bounds from all values that a number can have."""
        if not np.isfinite(table).all():
            return cls(0.0, math.inf, False, not np.isnan(table).any())
        size = np.abs(table)
        return cls(float(size.min()), float(size.max()), bool((table % 1 == 0).all()), True)


def is_sum(node: Node) -> bool:
    """True if a node adds its operands."""
    return isinstance(node, Sum) or (isinstance(node, FoldedCall) and node.function == "sum")


def bounds_of(node: Node, operands: Sequence[MagnitudeBounds]) -> MagnitudeBounds:
    """The bounds of a node from those of its operands; never too narrow."""
    is_defined = all(operand.is_defined for operand in operands)
    if node.is_condition:
        return MagnitudeBounds(1.0, 1.0, True, is_defined)
    if isinstance(node, FoldedCall) and node.function == "count":
        return MagnitudeBounds(0.0, float(len(operands)), True, True)
    is_whole = all(operand.is_whole for operand in operands)
    largest = max(operand.largest for operand in operands)
    if isinstance(node, Product):
        return _product_bounds(node, operands, is_defined, is_whole)
    if is_sum(node):
        largest = sum(operand.largest for operand in operands)
    elif isinstance(node, Call):
        largest = largest + 1.0
        is_whole = is_whole or node.function != "abs"
    return MagnitudeBounds(0.0, largest, is_whole, is_defined and math.isfinite(largest))


def _product_bounds(
    node: Product, operands: Sequence[MagnitudeBounds], is_defined: bool, is_whole: bool
) -> MagnitudeBounds:
    least = 1.0
    largest = 1.0
    for is_divisor, operand in zip(node.are_divisors, operands, strict=True):
        if not is_divisor:
            least = least * operand.least
            largest = largest * operand.largest
        elif operand.least > 0:
            least = least / operand.largest
            largest = largest / operand.least
        else:
            return MagnitudeBounds(0.0, math.inf, False, False)
    is_whole = is_whole and not any(node.are_divisors)
    return MagnitudeBounds(least, largest, is_whole, is_defined and math.isfinite(largest))
