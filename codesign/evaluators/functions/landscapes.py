"""Test functions whose landscape misleads or hides: traps, stairs, a narrow band, exact rules.

Shapes are published; scales and numbers are ours. Ranges are chosen so that a variable is its
level, which makes every design and its results easy to check by hand.

.. [Deb1993] Deb, Goldberg, "Analyzing deception in trap functions", Foundations of Genetic
   Algorithms 2, 1993: fitness falls towards the optimum except at the optimum itself.
.. [Koopmans1957] Koopmans, Beckmann, "Assignment problems and the location of economic
   activities", Econometrica 25(1), 1957: the quadratic assignment problem.
"""

from __future__ import annotations

import numpy as np

from codesign.base.columns import FloatArray
from codesign.evaluators.functions.function import Values

_TRAP_LEVELS, _SUM_LEVELS, _N_PLACES = 9, 12, 7
_TRAPS = np.array([[1, 7, 4, 0, 8, 5], [6, 2, 9, 3, 0, 7]], np.float64)
"""(2, 6) optimal levels of each objective [ours]."""
_SCATTER = np.array([1.9, 0.2, 0.7, 2.6, 0.3, 1.1, 0.8])
"""Weights without a pattern [ours]."""


def trap(x: FloatArray, m: int) -> Values:
    """Deceptive: of every variable, values get better away from the best one [Deb1993]_."""
    objectives = []
    for optimum in _TRAPS:
        distance = np.abs(x - optimum)
        costs = np.where(distance == 0, 0.0, np.where(distance == 1, 0.4, 1.0 - 0.08 * distance))
        objectives.append(1.0 + costs.sum(axis=1))
    # Ties are broken so that the front has more than few points.
    return [objectives[0] + 0.01 * x[:, 0], objectives[1] + 0.01 * (_TRAP_LEVELS - x[:, 1])], []


def stairs(x: FloatArray, m: int) -> Values:
    """Two bowls that are rounded up to a twelfth: most single steps change nothing."""
    shares = x / _TRAP_LEVELS
    weights = _SCATTER[: x.shape[1]]
    bowls = [
        (weights * (shares - 0.2) ** 2).sum(axis=1) + 0.3 * shares[:, 0] * shares[:, 1],
        (weights[::-1] * (shares - 0.8) ** 2).sum(axis=1),
    ]
    return [1.0 + np.ceil(12.0 * bowl) / 12.0 for bowl in bowls], []


def band(x: FloatArray, m: int) -> Values:
    """Two limits leave one design in 500 between them, along a curved surface."""
    first, second, third, fourth, fifth = x.T
    level = np.sin(5.0 * first) + 2.0 * second * third - fourth + 0.5 * fifth**2
    objectives = [
        1.0 + first + second**2 + 0.3 * fifth,
        1.0 + (1.0 - first) ** 2 + 0.5 * third + 0.5 * (1.0 - second) + 0.2 * fourth,
    ]
    middle = 0.4
    width = 0.0023
    return objectives, [(level - middle) / width - 1.0, (middle - level) / width - 1.0]


def assignment(x: FloatArray, m: int) -> Values:
    """Cost of flows between places [Koopmans1957]_, and of setting up each of seven machines."""
    place = x.astype(np.int64)
    steps = np.arange(_N_PLACES)
    flow = (17 * steps[:, None] ** 2 + 29 * steps + 5 * steps[:, None] * steps) % 53
    length = 2 * np.abs(steps[:, None] - steps) + (11 * steps[:, None] * steps) % 7
    setup = (37 * steps[:, None] * steps + 11 * steps[:, None] ** 2 + 5 * steps) % 97
    flows = sum(
        flow[i, j] * length[place[:, i], place[:, j]]
        for i in range(_N_PLACES)
        for j in range(_N_PLACES)
        if i != j
    )
    setups = sum(setup[i, place[:, i]] for i in range(_N_PLACES))
    return [np.asarray(flows, np.float64), 1.0 + np.asarray(setups, np.float64)], []


def shares(x: FloatArray, m: int) -> Values:
    """Delays of seven jobs that fall with their shares of one budget, and the unevenness of the
    shares."""
    delay = (_SCATTER[: x.shape[1]] / (1.0 + x)).sum(axis=1)
    even = _SUM_LEVELS / 3.0
    uneven = (_SCATTER[::-1][: x.shape[1]] * np.sqrt(1.0 + (x - even) ** 2)).sum(axis=1)
    return [delay + 0.02 * np.sqrt(x[:, 0] * x[:, 1]), uneven + 0.2 * np.abs(x[:, 2] - x[:, 3])], []
