"""Test functions whose exact front is known in closed form: ZDT [ZDT2000]_ and DTLZ2 [DTLZ2005]_.

On a grid that contains the optimal value of the distance variables (0 for ZDT, 1/2 for DTLZ2), the
front is the published curve at the grid's position variables, because each objective grows with
the distance function ``g`` while the position is kept: :func:`exact_front`.

.. [ZDT2000] Zitzler, Deb, Thiele, "Comparison of multiobjective evolutionary algorithms:
   empirical results", Evolutionary Computation 8(2), 2000, section 4.
.. [DTLZ2005] Deb, Thiele, Laumanns, Zitzler, "Scalable test problems for evolutionary
   multiobjective optimization", 2005, equation 6.9.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from codesign.base.columns import FloatArray, Floats
from codesign.base.errors import check_known
from codesign.evaluators.functions.function import Values


def exact_front(function: str, positions: FloatArray) -> FloatArray:
    """(p, m) distinct non-dominated points of a grid, in lexicographic order.

    Limiting assumption: the grid contains the optimum of the distance variables. DTLZ2 with more
    than two objectives meets a point of the axes by many positions; it is given once.

    Args:
        function: Name in :data:`CLOSED_FORM`.
        positions: (p, m - 1) every combination of the position variables on the grid.

    Raises:
        UnknownNameError: No such function.
    """
    check_known("function", function, CLOSED_FORM)
    if function == "dtlz2":
        points = _sphere(positions, 1.0)
    else:
        points = _zdt(function, positions[:, 0], np.ones(len(positions)))
    at_most = np.asarray((points[None, :, :] <= points[:, None, :]).all(axis=2))
    better = np.asarray((points[None, :, :] < points[:, None, :]).any(axis=2))
    is_dominated = np.asarray((at_most & better).any(axis=1))
    return np.unique(points[~is_dominated], axis=0)


def _zdt1_to_3(name: str, x: FloatArray, m: int) -> Values:
    # g = 1 + 9 * mean of the distance variables.
    return list(_zdt(name, x[:, 0], 1.0 + 9.0 * x[:, 1:].mean(axis=1)).T), []


def _zdt(name: str, first: FloatArray, g: FloatArray) -> FloatArray:
    share = first / g
    if name == "zdt2":
        shape = 1.0 - share**2
    else:
        shape = 1.0 - np.sqrt(share)
        if name == "zdt3":
            shape = shape - share * np.sin(10.0 * np.pi * first)
    return np.stack([first, g * shape], axis=1)


def dtlz2(x: FloatArray, m: int) -> Values:
    distance = ((x[:, m - 1 :] - 0.5) ** 2).sum(axis=1)
    return list(_sphere(x[:, : m - 1], 1.0 + distance).T), []


def _sphere(positions: FloatArray, radius: Floats) -> FloatArray:
    """(n, m) points of the positive part of a sphere, from angles as shares of a right angle."""
    m = positions.shape[1] + 1
    # The cosine as a sine, so that it is exactly 0 at 1 and points of the axes coincide.
    cosine = np.sin((1.0 - positions) * np.pi / 2)
    sine = np.sin(positions * np.pi / 2)
    columns = []
    for j in range(m):
        value = cosine[:, : m - 1 - j].prod(axis=1)
        columns.append(radius * (value * sine[:, m - 1 - j] if j else value))
    return np.stack(columns, axis=1)


zdt1, zdt2, zdt3 = (partial(_zdt1_to_3, name) for name in ("zdt1", "zdt2", "zdt3"))
CLOSED_FORM = ("zdt1", "zdt2", "zdt3", "dtlz2")
"""Functions whose exact front is known."""
