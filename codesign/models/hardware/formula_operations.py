"""The few operations in which the models' inner formulas are written, element by element.

A formula of these and of ``+ - * /`` is one Python function with two lives: on NumPy arrays,
which broadcast, and on single numbers inside a compiled loop (``evaluators/npu/compiled_loop.py``),
where each operation below stands for one or two machine instructions. As all of them are
correctly rounded, both give the same bits. ``**``, ``exp`` and ``log`` are not, and stay outside.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import wraps
from itertools import accumulate, repeat

import numpy as np

from codesign.base.columns import ArrayTuple, BoolArray, FloatArray, Floats

Places = ArrayTuple
"""One value for each place, such as each tier of memory."""


def where(condition: BoolArray | bool, if_true: Floats, if_false: Floats) -> FloatArray:
    """``if_true`` where the condition holds, else ``if_false``."""
    return np.where(condition, if_true, if_false)


def is_anywhere(condition: BoolArray | bool) -> bool:
    """True if the condition holds in any place."""
    return bool(np.any(condition))


def larger(first: Floats, second: Floats) -> FloatArray:
    """The larger of two numbers, neither of them NaN."""
    return np.maximum(first, second)


def smaller(first: Floats, second: Floats) -> FloatArray:
    """The smaller of two numbers, neither of them NaN."""
    return np.minimum(first, second)


def rounded_up(value: Floats) -> FloatArray:
    """The least whole number that is not smaller."""
    return np.ceil(value)


def square_root(value: Floats) -> FloatArray:
    """The root of a number that is not negative."""
    return np.sqrt(value)


def inverse(value: Floats) -> FloatArray:
    """1/x, and 0 where x is 0: a level that does not exist takes no time for its zero bytes."""
    value = np.asarray(value, np.float64)
    return np.divide(1.0, value, out=np.zeros_like(value), where=value > 0)


def place_by_place(formula: Callable[..., FloatArray]) -> Callable[..., Places]:
    """The formula applied to tuples, element by element.

    An argument that is no tuple is used for every element. Compiled loops have all elements written
    out, as they have :func:`running_sums`.

    Args:
        formula: A formula of single values.

    Examples:
        >>> place_by_place(larger)((1.0, 4.0), 2.0)
        (np.float64(2.0), np.float64(4.0))
    """

    @wraps(formula)
    def tuple_formula(*arguments: Floats | Places) -> Places:
        placed_levels = [
            argument if isinstance(argument, tuple) else repeat(argument) for argument in arguments
        ]
        return tuple(map(formula, *placed_levels))

    return tuple_formula


differences, products, sums = map(place_by_place, (operator.sub, operator.mul, operator.add))
inverses = place_by_place(inverse)


def running_sums(values: Places) -> Places:
    """The sums of the first value, the first two, and so on.

    Examples:
        >>> running_sums((1.0, 2.0, 4.0))
        (1.0, 3.0, 7.0)
    """
    return tuple(accumulate(values))


def sum_of(values: Places) -> FloatArray:
    """The values added up, one after the other."""
    total = values[0]
    for place in range(1, len(values)):
        total = total + values[place]
    return total
