"""Noise, failures and orders without meaning that belong to a design, so that every run repeats.

All are drawn from a hash of the design's levels (splitmix64 [Steele2014]_) and not from a random
generator: the same design has the same noise on every machine, whatever was evaluated before.

.. [Steele2014] Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014,
   Fig. 16.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from codesign.base.columns import FloatArray, IntArray, IntegerTuple

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_SHIFT_1 = np.uint64(30)
_SHIFT_2 = np.uint64(27)
_SHIFT_3 = np.uint64(31)
_FACTOR_1 = np.uint64(0xBF58476D1CE4E5B9)
_FACTOR_2 = np.uint64(0x94D049BB133111EB)
_UNUSED_BITS = np.uint64(11)
"""Bits of 64 that are dropped, so that 53 are left, as many as a float has."""


def uniform(levels: IntArray, stream: int) -> FloatArray:
    """(n,) numbers above 0 and below 1, one for each row of (n, d) ``levels``.

    Args:
        levels: Whole numbers that tell designs apart.
        stream: Another one gives other numbers.
    """
    with np.errstate(over="ignore"):
        state = np.full(len(levels), stream, np.uint64)
        for column in levels.T:
            state = _mixed(state + _GAMMA + _mixed(column.astype(np.uint64)))
    return ((state >> _UNUSED_BITS).astype(np.float64) + 0.5) / 2.0**53


def normal(levels: IntArray, stream: int) -> FloatArray:
    """(n,) numbers of the standard normal distribution, as :func:`uniform`."""
    from scipy.special import ndtri

    return np.asarray(ndtri(uniform(levels, stream)))


@cache
def shuffled(n: int, stream: int) -> IntegerTuple:
    """The numbers below ``n`` in an order without meaning."""
    keys = uniform(np.arange(n, dtype=np.int64)[:, None], stream)
    return tuple(np.argsort(keys, kind="stable").tolist())


def _mixed(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    state = (state ^ (state >> _SHIFT_1)) * _FACTOR_1
    state = (state ^ (state >> _SHIFT_2)) * _FACTOR_2
    return state ^ (state >> _SHIFT_3)
