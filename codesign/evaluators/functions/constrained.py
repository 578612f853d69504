"""Test functions with limits: OSY [OsyczkaKundu1995]_ and three of the MW suite [MaWang2019]_.

.. [OsyczkaKundu1995] Osyczka, Kundu, "A new method to solve generalized multicriteria optimization
   problems using the simple genetic algorithm", Structural Optimization 10(2), 1995.
.. [MaWang2019] Ma, Wang, "Evolutionary constrained multiobjective optimization: test suite
   construction and performance comparisons", IEEE Transactions on Evolutionary Computation 23(6),
   2019, section III.
"""

from __future__ import annotations

import numpy as np

from codesign.base.columns import FloatArray
from codesign.evaluators.functions.function import BenchmarkFunction, Values


def osy(x: FloatArray, m: int) -> Values:
    """Six linear and quadratic limits; the front runs along five parts of their borders."""
    x1, x2, x3, x4, x5, x6 = x.T
    first = -(25.0 * (x1 - 2) ** 2 + (x2 - 2) ** 2 + (x3 - 1) ** 2 + (x4 - 4) ** 2 + (x5 - 1) ** 2)
    limits = [
        (2.0 - x1 - x2) / 2.0,
        (x1 + x2 - 6.0) / 6.0,
        (x2 - x1 - 2.0) / 2.0,
        (x1 - 3.0 * x2 - 2.0) / 2.0,
        ((x3 - 3.0) ** 2 + x4 - 4.0) / 4.0,
        (4.0 - (x5 - 3.0) ** 2 - x6) / 4.0,
    ]
    return [first, (x**2).sum(axis=1)], limits


def _distance_3(x: FloatArray, m: int) -> FloatArray:
    """g3 of the suite: each variable's optimum depends on the one before."""
    chain = x[:, m - 1 :] + (x[:, m - 2 : -1] - 0.5) ** 2 - 1.0
    return np.asarray(1.0 + (2.0 * chain**2).sum(axis=1))


def mw1(x: FloatArray, m: int) -> Values:
    """The front is cut into pieces by a sine to the eighth power."""
    d = x.shape[1]
    shifted = x[:, m - 1 :] ** (d - m) - 0.5 - np.arange(m - 1, d) / (2 * d)
    g, first = 1.0 + (1.0 - np.exp(-10.0 * shifted**2)).sum(axis=1), x[:, 0]
    second = g * (1.0 - 0.85 * first / g)
    wave = 0.5 * np.sin(2.0 * np.pi * np.sqrt(2.0) * (second - first)) ** 8
    return [first, second], [first + second - 1.0 - wave]


def mw7(x: FloatArray, m: int) -> Values:
    """Feasible between two wavy circles: part of the front is that without limits."""
    g = _distance_3(x, m)
    first, second = g * x[:, 0], g * np.sqrt(np.maximum(1.0 - x[:, 0] ** 2, 0.0))
    angle, square = np.arctan2(second, first), first**2 + second**2
    outer = (1.2 + np.abs(0.4 * np.sin(4.0 * angle) ** 16)) ** 2
    inner = (1.15 - 0.2 * np.sin(4.0 * angle) ** 8) ** 2
    return [first, second], [square - outer, inner - square]


def mw14(x: FloatArray, m: int) -> Values:
    """Any number of objectives; the front is in pieces, and the limits cut off what is far."""
    position = x[:, : m - 1]
    wave = 1.5 * np.sin(1.1 * np.pi * position**2)
    last = _distance_3(x, m) * (6.0 - np.exp(position) - wave).sum(axis=1) / (m - 1)
    border = (6.1 - 1.0 - position - 0.5 * position**2 - wave).sum(axis=1) / (m - 1)
    return [*position.T, last], [last - border]


_OSY = ((0.0, 10.0), (0.0, 10.0), (1.0, 5.0), (0.0, 6.0), (1.0, 5.0), (0.0, 10.0))

CONSTRAINED: dict[str, BenchmarkFunction] = {
    "osy": BenchmarkFunction("six limits", osy, _OSY, n_limits=6),
    "mw1": BenchmarkFunction("front cut into pieces", mw1, (0.0, 1.0), n_limits=1),
    "mw7": BenchmarkFunction("between wavy circles", mw7, (0.0, 1.0), n_limits=2),
    "mw14": BenchmarkFunction("pieces of a surface", mw14, (0.0, 1.5), (2, 5), n_limits=1),
}
