"""The few operations in which the models' inner formulas are written, element by element.

A formula of these and of ``+ - * /`` is one Python function with two lives: on NumPy arrays,
which broadcast, and on single numbers inside a compiled loop (``evaluators/npu/compiled.py``),
where each operation below stands for one or two machine instructions. As all of them are
correctly rounded, both give the same bits. ``**``, ``exp`` and ``log`` are not, and stay outside.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from codesign.columns import BoolArray, FloatArray

Floats: TypeAlias = FloatArray | float
"""An array, or a number that broadcasts against one."""


def where(condition: BoolArray | bool, if_true: Floats, if_false: Floats) -> FloatArray:
    """``if_true`` where the condition holds, else ``if_false``."""
    return np.where(condition, if_true, if_false)


def larger(first: Floats, second: Floats) -> FloatArray:
    """The larger of two numbers, neither of them NaN."""
    return np.asarray(np.maximum(first, second))


def smaller(first: Floats, second: Floats) -> FloatArray:
    """The smaller of two numbers, neither of them NaN."""
    return np.asarray(np.minimum(first, second))


def rounded_up(value: Floats) -> FloatArray:
    """The least whole number that is not smaller."""
    return np.asarray(np.ceil(value))


def square_root(value: Floats) -> FloatArray:
    """The root of a number that is not negative."""
    return np.asarray(np.sqrt(value))


def inverse(value: Floats) -> FloatArray:
    """1/x, and 0 where x is 0: a level that does not exist takes no time for its zero bytes."""
    value = np.asarray(value, dtype=np.float64)
    return np.divide(1.0, value, out=np.zeros_like(value), where=value > 0)
