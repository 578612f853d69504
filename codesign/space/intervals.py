"""Between which numbers an expression is, if each of its names is between two numbers.

The ends come from the arithmetic of ``nodes.py`` itself, and rounding keeps the order of numbers:
so no finite value of the expression is beyond them, not even in the last bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from codesign.base.columns import ArrayPair, BoolArray, FloatArray
from codesign.space.nodes import FUNCTIONS, Constant, FoldedCall, Name, Node, Product, Sum

Interval = ArrayPair
"""(n,) the lowest and the highest value that a number may have; both ends may be infinite."""

_ANYTHING: Interval = (np.asarray(-np.inf), np.asarray(np.inf))


def interval_of(node: Node, names: Mapping[str, Interval]) -> Interval:
    """Between which numbers the finite values of a node are; never too narrow.

    Args:
        names: The interval of each name, without NaN.

    Examples:
        >>> ratio = Product((Name("tokens"), Name("area")), (False, True))
        >>> tokens, area = (np.array(0.0), np.array(8.0)), (np.array(2.0), np.array(np.inf))
        >>> low, high = interval_of(ratio, {"tokens": tokens, "area": area})
        >>> float(low), float(high)
        (0.0, 4.0)
    """
    with np.errstate(all="ignore"):
        return _interval(node, names)


def _interval(node: Node, names: Mapping[str, Interval]) -> Interval:
    if isinstance(node, Constant):
        return np.asarray(node.value), np.asarray(node.value)
    if isinstance(node, Name):
        low, high = names[node.key]
        return low * node.scale, high * node.scale
    operands = [_interval(operand, names) for operand in node.operands]
    if isinstance(node, Product):
        return _product(node.are_divisors, operands)
    if not isinstance(node, Sum | FoldedCall) or (
        isinstance(node, FoldedCall) and node.function not in FUNCTIONS
    ):
        return _ANYTHING
    # Sums, minima and maxima grow with each operand; a sum shrinks with what it subtracts.
    low = high = np.asarray(node.start)
    for position, (lowest, highest) in enumerate(operands):
        is_subtracted = isinstance(node, Sum) and node.signs[position] < 0
        first, last = (highest, lowest) if is_subtracted else (lowest, highest)
        low = node.step(low, position, first)
        high = node.step(high, position, last)
    return _defined(low, high)


def _product(divisors: Sequence[bool], operands: Sequence[Interval]) -> Interval:
    low = high = np.asarray(1.0)
    for is_divisor, (lowest, highest) in zip(divisors, operands, strict=True):
        if not is_divisor:
            low, high = _corners([low * lowest, low * highest, high * lowest, high * highest])
            continue
        changes_sign: BoolArray = (lowest < 0) & (highest >= 0) | (highest == 0)
        lowest = lowest + 0.0  # -0 as 0: a divisor that may be small is positive here
        corners = [low / lowest, low / highest, high / lowest, high / highest]
        quotient_low, quotient_high = _corners(corners)
        low = np.where(changes_sign, -np.inf, quotient_low)
        high = np.where(changes_sign, np.inf, quotient_high)
    return low, high


def _corners(values: Sequence[FloatArray]) -> Interval:
    """The least and the largest of numbers.

    What is undefined, such as 0 times infinity, stands for numbers that are between the others: a
    value is finite, however large.
    """
    together = np.stack(np.broadcast_arrays(*values))
    return _defined(np.fmin.reduce(together), np.fmax.reduce(together))


def _defined(low: FloatArray, high: FloatArray) -> Interval:
    """The interval; what is undefined may be anything."""
    return np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)


Trend = tuple[int | None, bool]
"""Direction of a number's change, and whether it is certainly not negative.

1: it never falls; -1: it never grows; 0: it stays; None: it is not certain.
"""


def trend_of(node: Node, names: Mapping[str, Trend]) -> Trend:
    """The trend of an expression whose names all change at once, each by its own trend.

    Examples:
        >>> ratio = Product((Name("tokens"), Name("watts")), (False, True))
        >>> trend_of(ratio, {"tokens": (1, True), "watts": (-1, True)})
        (1, True)
    """
    if isinstance(node, Constant):
        return 0, node.value >= 0
    if isinstance(node, Name):
        return names[node.key]
    operands = [trend_of(operand, names) for operand in node.operands]
    are_amounts = all(is_amount for _, is_amount in operands)
    if isinstance(node, Sum):
        are_added = [sign > 0 for sign in node.signs]
        return _joint(operands, are_added), are_amounts and all(are_added)
    if isinstance(node, FoldedCall) and node.function in FUNCTIONS:
        return _joint(operands, [True] * len(operands)), are_amounts
    if isinstance(node, Product) and are_amounts:
        return _joint(operands, [not is_divisor for is_divisor in node.are_divisors]), True
    return None, False


def _joint(operands: Sequence[Trend], are_upright: Sequence[bool]) -> int | None:
    """The one trend of all operands, some of them turned round; None if they differ."""
    trends = {
        None if trend is None else trend if is_upright else -trend
        for (trend, _), is_upright in zip(operands, are_upright, strict=True)
    } - {0}
    return trends.pop() if len(trends) == 1 else None if trends else 0
