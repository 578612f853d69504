"""The rule by which one design of a front is recommended.

A percent of one objective counts as much as a percent of any other. So the recommended design is
that with the least product of burdens. A burden is the value of a minimized objective, or the
reciprocal of a maximized one. For throughput against power, the design has the most throughput per
watt. The rule needs no range and no reference point: another end of the front, or twice the number
of devices, changes nothing. Every other point loses more percent in some objectives than it gains
in the rest. Of designs that are equal within the tolerance, the cheapest is taken.

Where an objective is not positive, percents have no meaning. Then the recommended design is that
whose worst objective, as a share of the front's range, is best.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from codesign.base.columns import FloatArray
from codesign.base.metrics import Sense, flipped_columns
from codesign.base.records import frozen
from codesign.search.pareto import TOLERANCE, fold
from codesign.search.problem import Problem, cost_column

Rule = Literal["product", "most even"]
"""Least product of the burdens, or least share of the front's range in the worst objective."""


@frozen
class Recommendation:
    """The recommended point of a front of ``p`` points.

    Attributes:
        point: Its position.
        rule: The rule that chose it.
        regret: (p,) loss of every point by the rule, as a share: 0.1 is a product larger by 10 %,
            or a worst objective worse by a tenth of the range. It is 0 for the recommended
            point, or within the tolerance if a more expensive point is slightly better.
    """

    point: int
    rule: Rule
    regret: FloatArray


def is_positive(objectives: FloatArray, senses: tuple[Sense, ...]) -> bool:
    """True if every objective is positive, so that percents have a meaning."""
    return bool((flipped_columns(objectives, senses) > 0).all())


def burdens_of(objectives: FloatArray, senses: tuple[Sense, ...]) -> FloatArray:
    """(n, m) burdens: the value of a minimized objective, the reciprocal of a maximized one.

    The given objectives are in minimized form; minus infinity is an objective without a bound. The
    burden of a maximized objective is 0 without a bound, and infinite if it is not positive.
    """
    is_maximized = np.array([sense == "maximize" for sense in senses])
    with np.errstate(divide="ignore"):
        reciprocal = np.where(objectives < 0, -1.0 / objectives, np.inf)
    return np.where(is_maximized, reciprocal, objectives)


def recommend(
    objectives: FloatArray,
    senses: tuple[Sense, ...],
    cost: int,
    tolerance: float = TOLERANCE,
) -> Recommendation:
    """The recommended point of (p, m) minimized objectives of a front.

    Args:
        cost: The column by which a design is called cheaper.
        tolerance: Share within which points are equal by the rule.
    """
    rule: Rule = "product"
    if is_positive(objectives, senses):
        logarithm = np.log(burdens_of(objectives, senses)).sum(axis=1)
        regret = np.expm1(logarithm - logarithm.min())
    else:
        rule = "most even"
        span = np.ptp(objectives, axis=0)
        shares = (objectives - objectives.min(axis=0)) / np.where(span > 0, span, 1.0)
        regret = shares.max(axis=1) - shares.max(axis=1).min()
    equal = np.flatnonzero(regret <= tolerance)
    cheapest = equal[np.lexsort((regret[equal], objectives[equal, cost]))[0]]
    return Recommendation(int(cheapest), rule, regret)


def recommended_point(problem: Problem, points: FloatArray, tolerance: float) -> int:
    """Position of the recommended one of the (p, m) points of a front, after folding."""
    cost = cost_column(problem.objectives)
    listed = np.flatnonzero(fold(points, cost, tolerance) == np.arange(len(points)))
    return int(listed[recommend(points[listed], problem.senses, cost, tolerance).point])
