"""Shadow prices of constraints.

The exact front is found again with one limit looser and tighter by a stated step, everything
else as it is. The price is the difference in hypervolume over the difference in the limit, the
reference point being the same for all. Designs are discrete, so a front changes in jumps: the
price belongs to the step, and a smaller step may show nothing.

What is known is not looked for again. A looser limit adds designs that break the limit as it is,
so only those are searched, and of them only what the front does not dominate. A tighter limit on
an objective leaves those points of the front that keep it. Neither holds where the evaluator
chooses otherwise within another limit (``kept_limits``): then all is searched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np

from codesign.base.columns import FloatArray, FloatPair
from codesign.base.records import frozen
from codesign.insight.explanation.movable_limits import Limit, metric_amount, used
from codesign.insight.explanation.variation import Fronts
from codesign.search.enumeration import ExactFront, WantedPart
from codesign.search.pareto import hypervolume, non_dominated
from codesign.search.problem import Problem

State = Literal["binds", "binds beyond the step", "not within the step", "free"]
"""Whether loosening changes the front: by the step; only by more; not by the step (more was not
tried); not even if the limit is dropped."""

_SAME = 1e-12
_FAR = 1e300
_BEYOND = 0.1
"""Share of the range, as in ``runs/problem-zdt1.yaml``: so that its ends count [ours]."""


@frozen
class Move:
    """A limit moved by the step.

    Attributes:
        number: The limit then, in its unit.
        hypervolume: Of the front then; 0 if nothing is feasible.
        change: By how much that differs from the front as it is.
        price: Hypervolume per unit of the limit: gained if looser, lost if tighter, so at least 0.
        best: (m,) best value of each objective, minimized; NaN if nothing is feasible.
        best_change: (m,) how much better (negative: worse) that is, per unit of the limit.
        n_points: Of the front then.
    """

    number: float
    hypervolume: float
    change: float
    price: float
    best: FloatArray
    best_change: FloatArray
    n_points: int


@frozen
class Price:
    """The shadow price of a limit.

    Attributes:
        state: Whether loosening it changes the front.
        used: Least and largest of the quantity over the front's listed designs.
        next_point: (m,) where the limit bounds an objective and binds only beyond the step, the
            point that comes next on the front without it, minimized.
        looser: By the step.
        tighter: By the step.
    """

    limit: Limit
    state: State
    used: FloatPair
    next_point: FloatArray | None
    looser: Move
    tighter: Move


@frozen
class Prices:
    """Shadow prices of all limits, by one step and one reference point.

    Attributes:
        step: Share of each limit.
        reference: (m,) minimized.
        hypervolume: Of the front as it is.
        items: One per limit.
    """

    step: float
    reference: FloatArray
    hypervolume: float
    items: tuple[Price, ...]


def shared_reference(
    problem: Problem, front: ExactFront, limits: Sequence[Limit], reference: FloatArray, step: float
) -> FloatArray:
    """(m,) a reference point behind all that the looser limits let in.

    The campaign's; but where a limit bounds an objective from its bad side, at least a tenth of
    the front's range beyond the looser limit. Else what that limit lets in would count little or
    nothing, and the price would vanish with the step.
    """
    wide = reference.copy()
    for limit in limits:
        j = _bounded_column(problem, limit)
        if j is not None:
            objective = problem.objectives[j]
            amount = metric_amount(limit, limit.bound_loosened_by(step), objective.metric)
            bound = objective.flipped(amount)
            wide[j] = max(wide[j], bound + _BEYOND * (bound - front.objectives[:, j].min()))
    return wide


def _bounded_column(problem: Problem, limit: Limit) -> int | None:
    """The objective that a limit bounds from its bad side."""
    for j, objective in enumerate(problem.objectives):
        is_bad_side = limit.is_upper == (objective.sense == "minimize")
        if limit.quantity == objective.metric.name and is_bad_side:
            return j
    return None


def prices_of(
    fronts: Fronts, front: ExactFront, limits: Sequence[Limit], reference: FloatArray, step: float
) -> Prices:
    """Shadow prices.

    Args:
        fronts: Of variations of the problem.
        front: Of the problem as it is.
        reference: (m,) the campaign's reference point, minimized.
        step: Share of each limit by which it is moved, above 0 and below 1.
    """
    wide = shared_reference(fronts.problem, front, limits, reference, step)
    pricing = _Pricing(fronts, front, wide, step)
    limit_prices = tuple(fronts.each(pricing.price, limits, "limits"))
    return Prices(step, wide, front.hypervolume(wide), limit_prices)


class _Pricing:
    def __init__(
        self, fronts: Fronts, front: ExactFront, reference: FloatArray, step: float
    ) -> None:
        self.fronts = fronts
        self.front = front
        self.reference = reference
        self.step = step
        self.observed = fronts.problem.evaluate(front.rows)

    def price(self, limit: Limit) -> Price:
        """The price of one limit."""
        looser, state, following = self._loosening(limit)
        tighter = self._tighter(limit)
        values = used(self.fronts.problem, limit, self.front.rows, self.observed)
        return Price(
            limit,
            state,
            (float(values.min()), float(values.max())),
            following,
            self._move(limit, looser, self.step),
            self._move(limit, tighter, -self.step),
        )

    def _loosening(self, limit: Limit) -> tuple[FloatArray | None, State, FloatArray | None]:
        """The front with a looser limit, what that says of it, and the next point.

        The front without the limit comes first, because most limits are free. A limit without a
        price is also removed, except a latency limit that sets the batch: the front without it
        takes as long as the first.
        """
        if limit.source == "evaluator" or self._moves_designs(limit):
            # Without it designs would count that the evaluator's model does not cover.
            looser = self._loosened(limit, self.step)
            return looser, "not within the step" if self._is_front(looser) else "binds", None
        without = self._loosened(limit, None)
        if self._is_front(without):
            return self.front.objectives, "free", None
        looser = self._looser_of(limit, without)
        if not self._is_front(looser):
            return looser, "binds", None
        # Exact where the limit bounds an objective from its bad side: under any such limit the
        # front is what keeps it of the front without it.
        j = _bounded_column(self.fronts.problem, limit)
        if j is None or without is None:
            return looser, "binds beyond the step", None
        beyond = without[without[:, j] > self.front.objectives[:, j].max()]
        following = beyond[beyond[:, j].argmin()] if len(beyond) else None
        return looser, "binds beyond the step", following

    def _looser_of(self, limit: Limit, without: FloatArray | None) -> FloatArray | None:
        """The front with a looser limit, from that without it where that tells."""
        j = _bounded_column(self.fronts.problem, limit)
        if j is None or without is None:
            return self._loosened(limit, self.step)
        objective = self.fronts.problem.objectives[j]
        number = metric_amount(limit, limit.bound_loosened_by(self.step), objective.metric)
        column = without[:, j]
        bound = objective.flipped(number)
        return without[column < bound if limit.is_strict else column <= bound]

    def _loosened(self, limit: Limit, step: float | None) -> FloatArray | None:
        """(p, m) the front with a looser limit, or without it."""
        if self._moves_designs(limit):
            return _points(self.fronts.find(limit.moved(step)))
        column = _bounded_column(self.fronts.problem, limit)
        points = self.front.objectives.copy()
        if column is not None:
            points[:, column] = -_FAR
        improvement = WantedPart(f"new of {limit} {step}", partial(_always, points), False)
        variation = replace(limit.moved(step), is_only_new=True)
        fresh = self.fronts.find(variation, improvement)
        if fresh is None:
            return self.front.objectives
        union = np.unique(np.concatenate([self.front.objectives, fresh.objectives]), axis=0)
        return union[non_dominated(union)]

    def _moves_designs(self, limit: Limit) -> bool:
        """Whether designs may have other metrics under another limit, or nobody knows."""
        evaluator = self.fronts.problem.evaluator
        if limit.source != "campaign" or not evaluator.offers("keep_limits"):
            return False
        return evaluator.kept_limits is None or limit.quantity in evaluator.kept_limits

    def _is_front(self, points: FloatArray | None) -> bool:
        """Whether they are the points of the front as it is."""
        objectives = self.front.objectives
        return (
            points is not None
            and points.shape == objectives.shape
            and np.allclose(points, objectives, rtol=_SAME, atol=0.0)
        )

    def _tighter(self, limit: Limit) -> FloatArray | None:
        variation = limit.moved(-self.step)
        varied = variation.apply(self.fronts.problem)
        rows = self.front.rows
        is_admitted = varied.admits(rows)
        is_admitted[is_admitted] = varied.evaluate(
            rows[is_admitted], varied.deciding_metrics
        ).feasible
        points = np.unique(self.front.point[is_admitted])
        is_filter = _bounded_column(
            self.fronts.problem, limit
        ) is not None and not self._moves_designs(limit)
        if len(points) == len(self.front) or (is_filter and len(points)):
            # Of fewer designs no more can be non-dominated, and every point is still there; or what
            # is gone dominated only what is gone as well.
            return self.front.objectives[points]
        return _points(self.fronts.find(variation))

    def _move(self, limit: Limit, front: FloatArray | None, step: float) -> Move:
        number = limit.bound_loosened_by(step)
        by = abs(number - limit.number) or np.inf  # a share of 1 cannot be tighter
        m = self.front.objectives.shape[1]
        volume = 0.0 if front is None else hypervolume(front, self.reference)
        change = volume - self.front.hypervolume(self.reference)
        best = np.full(m, np.nan) if front is None else front.min(axis=0)
        return Move(
            number=number,
            hypervolume=volume,
            change=change,
            price=abs(change) / by,
            best=best,
            best_change=(self.front.objectives.min(axis=0) - best) / by,
            n_points=0 if front is None else len(front),
        )


def _always(points: FloatArray, violations: FloatArray) -> FloatArray:
    return points


def _points(front: ExactFront | None) -> FloatArray | None:
    return None if front is None else front.objectives
