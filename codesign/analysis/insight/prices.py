"""What a constraint costs: its shadow price.

The exact front is found again with one limit looser and tighter by a stated step, everything
else as it is. The price is the difference in hypervolume over the difference in the limit, the
reference point being the same for all. Designs are discrete, so a front changes in jumps: the
price belongs to the step, and a smaller step may show nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from codesign.analysis.insight.limits import Limit, in_metric_unit, used
from codesign.analysis.insight.variation import Fronts
from codesign.columns import BoolArray, FloatArray
from codesign.enumeration import ExactFront
from codesign.problem import Problem

State: TypeAlias = Literal["binds", "binds beyond the step", "not within the step", "free"]
"""Whether loosening changes the front: by the step; only by more; not by the step (more was not
tried); not even if the limit is dropped."""

_SAME = 1e-12
_BEYOND = 0.1
"""Share of the range, as in ``runs/problem-zdt1.yaml``: so that its ends count [ours]."""


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class Price:
    """The shadow price of a limit.

    Attributes:
        limit: The limit.
        state: Whether loosening it changes the front.
        used: Least and largest of the quantity over the front's listed designs.
        next_point: (m,) where the limit bounds an objective and binds only beyond the step, the
            point that comes next on the front without it, minimized.
        looser: By the step.
        tighter: By the step.
    """

    limit: Limit
    state: State
    used: tuple[float, float]
    next_point: FloatArray | None
    looser: Move
    tighter: Move


@dataclass(frozen=True)
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
    for j, objective in enumerate(problem.objectives):
        for limit in limits:
            is_bad_side = limit.is_upper == (objective.sense == "minimize")
            if limit.quantity == objective.metric.name and is_bad_side:
                bound = objective.sign * in_metric_unit(
                    limit, limit.bound_loosened_by(step), objective.metric
                )
                beyond = _BEYOND * (bound - front.objectives[:, j].min())
                wide[j] = max(wide[j], bound + beyond)
    return wide


def prices_of(
    fronts: Fronts, front: ExactFront, limits: Sequence[Limit], reference: FloatArray, step: float
) -> Prices:
    """Shadow prices.

    Args:
        fronts: Of variations of the problem.
        front: Of the problem as it is.
        limits: To be priced.
        reference: (m,) the campaign's reference point, minimized.
        step: Share of each limit by which it is moved, above 0 and below 1.
    """
    wide = shared_reference(fronts.problem, front, limits, reference, step)
    fronts.progress.expect(3 * len(limits))
    pricing = _Pricing(fronts, front, wide, step)
    items = tuple(pricing.price(limit) for limit in limits)
    return Prices(step, wide, front.hypervolume(wide), items)


class _Pricing:
    def __init__(
        self, fronts: Fronts, front: ExactFront, reference: FloatArray, step: float
    ) -> None:
        self.fronts, self.front, self.reference, self.step = fronts, front, reference, step
        self.observed = fronts.problem.evaluate(front.rows)

    def price(self, limit: Limit) -> Price:
        """The price of one limit."""
        looser = self.fronts.of(limit.moved(self.step), f"{limit.text}, looser")
        state, following = self._state(limit, looser)
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

    def _state(self, limit: Limit, looser: ExactFront | None) -> tuple[State, FloatArray | None]:
        if not _is_same(looser, self.front):
            self.fronts.progress.end()
            return "binds", None
        if limit.source == "evaluator":
            # Without it designs would count that the evaluator's model does not cover.
            self.fronts.progress.end()
            return "not within the step", None
        without = self.fronts.of(limit.moved(None), f"without {limit.text}")
        if without is None or _is_same(without, self.front):
            return "free", None
        return "binds beyond the step", self._next(limit, without)

    def _next(self, limit: Limit, without: ExactFront) -> FloatArray | None:
        """Exact where the limit bounds an objective from its bad side: under any such limit the
        front is what keeps it of the front without it."""
        for j, objective in enumerate(self.fronts.problem.objectives):
            if limit.quantity == objective.metric.name:
                worst = self.front.objectives[:, j].max()
                beyond = without.objectives[without.objectives[:, j] > worst]
                return beyond[beyond[:, j].argmin()] if len(beyond) else None
        return None

    def _tighter(self, limit: Limit) -> ExactFront | None:
        variation = limit.moved(-self.step)
        varied = variation.of(self.fronts.problem)
        rows = self.front.rows
        kept: BoolArray = varied.admits(rows)
        kept[kept] = varied.evaluate(rows[kept], varied.deciding_metrics).feasible
        if len(np.unique(self.front.point[kept])) == len(self.front):
            # Of fewer designs no more can be non-dominated, and every point is still there.
            self.fronts.progress.end()
            return self.front
        return self.fronts.of(variation, f"{limit.text}, tighter")

    def _move(self, limit: Limit, front: ExactFront | None, step: float) -> Move:
        number = limit.bound_loosened_by(step)
        by = abs(number - limit.number)
        m = self.front.objectives.shape[1]
        volume = 0.0 if front is None else front.hypervolume(self.reference)
        change = volume - self.front.hypervolume(self.reference)
        best = np.full(m, np.nan) if front is None else front.objectives.min(axis=0)
        return Move(
            number=number,
            hypervolume=volume,
            change=change,
            price=abs(change) / by,
            best=best,
            best_change=(self.front.objectives.min(axis=0) - best) / by,
            n_points=0 if front is None else len(front),
        )


def _is_same(first: ExactFront | None, second: ExactFront) -> bool:
    return (
        first is not None
        and first.objectives.shape == second.objectives.shape
        and bool(np.allclose(first.objectives, second.objectives, rtol=_SAME, atol=0.0))
    )
