"""Designs on the front of a problem with moved limits.

The exact front covers tighter limits on its objectives. A
:class:`~codesign.search.enumeration.KeptFront` also covers tighter limits on its stored metrics.
For other limits, a Pareto local search finds the best *known* designs at each position. Their front
is proven only if it equals the exact front. If the evaluator chooses within a limit, such as the
largest batch within a time per token, the evaluator gets the moved limit. A design then has one
point per position.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from codesign.base.columns import (
    BoolArray,
    Fields,
    FloatArray,
    FloatList,
    IntArray,
    IntegerPair,
    IntegerSequence,
)
from codesign.base.loop_progress import counted
from codesign.base.metrics import Metric
from codesign.base.records import drop_keys, frozen
from codesign.base.units import round_step
from codesign.insight.explanation.movable_limits import Limit, limits_of, metric_amount
from codesign.insight.explanation.variation import Variation
from codesign.search.enumeration import ExactFront, KeptFront
from codesign.search.pareto import distinct_front, non_dominated
from codesign.search.problem import Objective, Problem
from codesign.space import DesignSpace

COSTS = ("area_mm2", "unit_cost_usd")
"""Metrics that a page limits even if the question does not."""
_LOOSER, _LOOSER_OF_SHARE = 0.25, 0.05
"""Shares by which a limit can be loosened: on an amount, and on a share such as accuracy. [ours]"""
_TIGHTEST = 0.2
"""Share of a limit to which it can be tightened if the evaluator chooses within it. [ours]"""
POSITIONS, _LOOSER_POSITIONS = 10, 4
"""Approximate number of tighter and of looser positions. [ours]"""
_ROUNDS, _CENTERS = 4, 24
"""Rounds of the search at a position, and designs whose neighbors one round evaluates. [ours]"""
_MOST_EVALUATED = 1_000_000
"""Evaluations after which the search stops. [ours]"""


@frozen
class LimitHandle:
    """A limit that can be moved.

    Attributes:
        objective: The limited metric with its sense.
        bounds: Positions from the loosest to the tightest, minimized.
        place: Position of the question's limit. 0, which excludes nothing, without one.
        limit: The question's limit.
        is_choosing: True if the evaluator chooses within it, such as a batch size.
    """

    objective: Objective
    bounds: tuple[float, ...]
    place: int = 0
    limit: Limit | None = None
    is_choosing: bool = False

    @property
    def metric(self) -> Metric:
        """The limited metric."""
        return self.objective.metric


@frozen
class Switch:
    """A change of the question beside its limits, such as a memory that is left out.

    Attributes:
        title: Words for the switch.
        problems: The problem by the words of each position; None as asked.
        fronts: Stored exact fronts of these problems.
    """

    title: str
    problems: Mapping[str, Problem | None]
    fronts: Mapping[str, ExactFront]

    @property
    def place(self) -> int:
        """Position of the question as asked."""
        return list(self.problems.values()).index(None)


@frozen
class LimitPoints:
    """Points of designs with all metrics that can be limited.

    Attributes:
        problem: The campaign's, with limited metrics as further objectives.
        n_objectives: How many of these are the campaign's.
        objectives: (p, m) minimized.
        rows: (p, d) a design of each.
        handles: The limits.
        setting: (p, 2) index and position of the moved handle within which the evaluator chose,
            or of the moved switch; -1 for the stated limits.
        is_proven: (p,) True for points of the exact front, or of the front that keeps metrics.
        stored_metrics: Metrics whose tighter limits the proven points answer exactly.
        switches: Other changes of the question; their numbers follow those of the handles.
    """

    problem: Problem
    n_objectives: int
    objectives: FloatArray
    rows: IntArray
    handles: tuple[LimitHandle, ...]
    setting: IntArray
    is_proven: BoolArray
    stored_metrics: frozenset[str]
    switches: tuple[Switch, ...]

    def designs(self, positions: IntegerSequence) -> list[Fields]:
        """Designs of points, each in the space of its position."""
        designs: list[Fields] = []
        for row, (i, place) in zip(
            self.rows[positions, None], self.setting[positions].tolist(), strict=True
        ):
            problem: Problem | None = None
            if i >= len(self.handles):
                problem = list(self.switches[i - len(self.handles)].problems.values())[place]
            designs += (problem or self.problem).space.decode(row)
        return designs

    @cached_property
    def codes(self) -> IntArray:
        """(p, h) number of positions of each limit that a point meets."""
        columns = [self.problem.objective_names.index(x.metric.name) for x in self.handles]
        codes = [
            np.searchsorted(-np.array(handle.bounds), -self.objectives[:, column], "right")
            for handle, column in zip(self.handles, columns, strict=True)
        ]
        return np.stack(codes, axis=1) if codes else np.empty((len(self.rows), 0), np.int64)

    @cached_property
    def equal(self) -> IntArray:
        """(p,) the same number for points that are equal in the campaign's objectives."""
        return np.unique(self.objectives[:, : self.n_objectives], axis=0, return_inverse=True)[1]

    def front(self, positions: IntArray) -> IntArray:
        """Positions of the non-dominated points among some; of equal points the first."""
        return positions[distinct_front(self.objectives[positions, : self.n_objectives])]

    def select(self, places: Mapping[int, int]) -> tuple[BoolArray, bool]:
        """(p,) points within moved limits, and True if their front is proven to be exact.

        Args:
            places: Position by the number of the moved handle or switch; the others stay as asked.
        """
        switched = [pair for pair in places.items() if pair[0] >= len(self.handles)]
        places = {i: place for i, place in places.items() if i < len(self.handles)}
        inside = np.ones(len(self.rows), bool)
        for i, handle in enumerate(self.handles):
            place = places.get(i, handle.place)
            if place or handle.limit is not None:
                inside &= self.codes[:, i] > place
        choosing = [(i, p) for i, p in places.items() if self.handles[i].is_choosing]
        choices = switched or choosing or [(-1, -1)]
        inside &= np.any([(self.setting == choice).all(axis=1) for choice in choices], axis=0)
        if any(place < self.handles[i].place for i, place in places.items()):
            return inside, False
        proven = inside & self.is_proven
        stored = self.stored_metrics
        if switched:  # the stored front of a varied problem keeps no further metrics
            stored &= {*self.problem.objective_names[: self.n_objectives]}
        others = {i for i in places if self.handles[i].metric.name not in stored}
        if others and self.is_proven.any():
            before, _ = self.select(drop_keys(places, others) | dict(switched))
            points = self.equal[self.front(np.flatnonzero(before & self.is_proven))]
            others = set() if np.isin(points, self.equal[proven]).all() else others
        is_setting = (self.setting == (switched or [(-1, -1)])[0]).all(axis=1)
        is_exact = bool(self.is_proven[is_setting].any()) and not others
        return (proven if is_exact else inside), is_exact


def _joined(
    pools: Mapping[IntegerPair, _CandidateSet],
    handles: tuple[LimitHandle, ...],
    stored_metrics: frozenset[str],
    switches: Sequence[Switch],
) -> LimitPoints:
    """The points that are on the front within some positions.

    Args:
        pools: Designs by the setting of their points, those of the question first.
    """
    base = pools[-1, -1]
    points = LimitPoints(
        base.problem, base.n, np.concatenate([pool.points for pool in pools.values()]),
        np.concatenate([pool.rows for pool in pools.values()]), handles,
        np.concatenate([np.full((len(pool.rows), 2), key) for key, pool in pools.items()]),
        np.concatenate([np.arange(len(pool.rows)) < pool.n_proven for pool in pools.values()]),
        stored_metrics, tuple(switches),
    )  # fmt: skip
    # Among points within the same limits, only those on their own front can be on another.
    labels = np.hstack([points.codes, points.setting])
    cells = np.unique(labels, axis=0, return_inverse=True)[1].ravel()
    order = np.argsort(cells, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(cells[order])) + 1)
    proven = np.flatnonzero(points.is_proven)
    same = np.column_stack([points.equal, labels])[proven]
    first = proven[np.unique(same, axis=0, return_index=True)[1]]
    needed = np.unique(np.concatenate([first, *map(points.front, groups)]))
    return replace(
        points,
        objectives=points.objectives[needed],
        rows=points.rows[needed],
        setting=points.setting[needed],
        is_proven=points.is_proven[needed],
    )


def _switch_pools(
    base: _CandidateSet, n_handles: int, switches: Sequence[Switch]
) -> dict[IntegerPair, _CandidateSet]:
    """Designs at every position of switches: the stored exact front, and known designs.

    Known are those of the question's front and their neighbors. Systems have stored fronts only.
    """
    pools = {}
    front = base.rows[distinct_front(base.points[: base.n_proven, : base.n])]
    for i, switch in enumerate(switches, n_handles):
        for place, (text, varied) in enumerate(switch.problems.items()):
            if varied is None:
                continue
            problem = replace(varied, objectives=base.problem.objectives)
            pool = pools[i, place] = _CandidateSet(problem, base.n)
            if text in switch.fronts:
                pool.add_proven(switch.fronts[text].rows)
            if not varied.space.pools:
                pool.add(_recoded(front, base.problem.space, varied.space))
                pool.improve(np.full(pool.points.shape[1], np.inf), 1, _CENTERS // 6)
    return pools


def _recoded(rows: IntArray, space: DesignSpace, varied: DesignSpace) -> IntArray:
    """(n, d) rows in a varied space, whose fixed parameters may have other values."""
    columns = []
    for parameter, new, codes in zip(space.parameters, varied.parameters, rows.T, strict=True):
        places = {str(value): place for place, value in enumerate(new.values)}
        default = 0 if len(places) == 1 else -2
        table = [places.get(str(value), default) for value in parameter.values]
        columns.append(np.array([*table, -1])[codes])  # -1: absent
    recoded = np.stack(columns, axis=1)
    return recoded[(recoded > -2).all(axis=1)]


def stored_limit_points(front: KeptFront, switches: Sequence[Switch] = ()) -> LimitPoints:
    """Points of a front that keeps metrics, for tighter limits on these."""
    points = front.front.objectives
    names = front.problem.objective_names
    handles = []
    for objective in front.limitable:
        values = np.unique(points[:, names.index(objective.metric.name)])
        bounds = positions_of(objective, float(values[-1]), float(values[0]), 2 * POSITIONS)
        handles.append(LimitHandle(objective, tuple(bounds)))
    movable = tuple(x for x in handles if len(x.bounds) > 1)
    base = _CandidateSet(front.problem, front.n_objectives)
    base.rows = front.front.representatives()
    base.points = points
    base.n_proven = len(points)
    pools = {(-1, -1): base, **_switch_pools(base, len(movable), switches)}
    return _joined(pools, movable, frozenset(x.metric.name for x in front.limitable), switches)


def searched_limit_points(
    problem: Problem, front: KeptFront, switches: Sequence[Switch] = ()
) -> LimitPoints:
    """Points for looser and tighter limits of a question, by a search around its front.

    Args:
        front: The exact front, with the metrics that it keeps if there are some.
    """
    search = _Search(problem, front)
    search.run()
    pools = search.pools | _switch_pools(search.pool, len(search.handles), switches)
    return _joined(pools, search.handles, search.stored_metrics, switches)


def positions_of(objective: Objective, loosest: float, tightest: float, n: int) -> FloatList:
    """About ``n`` round bounds on a metric, all minimized; the first is no tighter than asked."""
    least = max((loosest - tightest) / n, objective.step)
    if least <= 0:
        return []
    step = round_step(least)
    places = np.arange(np.ceil(loosest / step * (1 - 1e-12)), np.floor(tightest / step), -1.0)
    amounts = places[places * step >= tightest - 1e-12 * abs(tightest)] * step
    digits = max(0, -int(np.floor(np.log10(step))))
    return [round(float(amount), digits) for amount in amounts]


def _looser_by(limit: Limit) -> float:
    """Share by which a limit can be loosened."""
    return _LOOSER if limit.unit else _LOOSER_OF_SHARE


class _CandidateSet:
    """Feasible designs that were evaluated with one choice of the evaluator."""

    def __init__(self, problem: Problem, n_objectives: int) -> None:
        self.problem = problem
        self.n = n_objectives
        self.rows = np.empty((0, len(problem.space.parameters)), np.int64)
        self.points = np.empty((0, len(problem.objectives)))
        self.n_evaluated = self.n_proven = 0
        self._seen: set[int] = set()
        self._explored: set[int] = set()

    def add(self, rows: IntArray) -> None:
        """Evaluate designs that are new."""
        keys = self.problem.space.keys(rows)
        first = np.sort(np.unique(keys, return_index=True)[1])
        first = first[[key not in self._seen for key in keys[first].tolist()]]
        self._seen.update(keys[first].tolist())
        fresh = rows[first]
        fresh = fresh[self.problem.admits(fresh)]
        observed = self.problem.evaluate(fresh, self.problem.deciding_metrics)
        self.n_evaluated += len(fresh)
        usable = observed.feasible & np.isfinite(observed.objectives).all(axis=1)
        self.rows = np.concatenate([self.rows, fresh[usable]])
        self.points = np.concatenate([self.points, observed.objectives[usable]])

    def add_proven(self, rows: IntArray) -> None:
        """Evaluate the designs of an exact front, before all others."""
        self.add(rows)
        # A design that lacks a further metric is no point, and then nothing is proven.
        self.n_proven = len(rows) * (len(self.rows) == len(rows))

    def improve(self, bounds: FloatArray, rounds: int = _ROUNDS, centers: int = _CENTERS) -> None:
        """Search around the front within (m,) bounds, until nothing is new."""
        for _ in range(rounds):
            inside = np.flatnonzero((self.points <= bounds).all(axis=1))
            best = inside[distinct_front(self.points[inside, : self.n])]
            keys = self.problem.space.keys(self.rows[best]).tolist()
            fresh = [i for i, key in zip(best.tolist(), keys, strict=True)
                     if key not in self._explored]  # fmt: skip
            if not fresh:
                return
            spread = np.linspace(0, len(fresh) - 1, min(len(fresh), centers)).astype(np.int64)
            rows = self.rows[[fresh[i] for i in np.unique(spread)]]
            self._explored.update(self.problem.space.keys(rows).tolist())
            self.add(np.concatenate([self.problem.space.neighbors(row) for row in rows]))


class _Search:
    """A search at each position of each limit."""

    def __init__(self, problem: Problem, front: KeptFront) -> None:
        self.campaign_problem = problem
        self.front = front
        self.stored_metrics = frozenset(x.metric.name for x in front.limitable)
        metrics = {metric.name: metric for metric in problem.metrics}
        self.limits = {
            limit.quantity: limit for limit in limits_of(problem).movable
            if limit.source == "campaign" and limit.quantity in metrics
            and limit.is_upper == (metrics[limit.quantity].sense == "minimize")
        }  # fmt: skip
        optimized = {x.metric.name: x for x in front.problem.objectives}
        names = dict.fromkeys([*optimized, *self.limits, *(x for x in COSTS if x in metrics)])
        self.objectives = tuple(
            optimized.get(name) or Objective(metrics[name], metrics[name].sense) for name in names
        )
        self.names = list(names)
        choosing = problem.evaluator.choosing_metrics(problem.space.names)
        self.choosing = [name for name in self.limits if name in choosing]
        self.stated = np.full(len(names), np.inf)
        self.loosest = self.stated.copy()
        for name, limit in self.limits.items():
            j = self.names.index(name)
            for bounds, step in ((self.stated, 0.0), (self.loosest, _looser_by(limit))):
                amount = metric_amount(limit, limit.bound_loosened_by(step), metrics[name])
                bounds[j] = self.objectives[j].flipped(amount)
        self.pools = {(-1, -1): self._pool(self._loosened())}
        self.pool.add_proven(front.front.rows)

    @property
    def pool(self) -> _CandidateSet:
        """Designs with the choices of the question."""
        return self.pools[-1, -1]

    @property
    def n_evaluated(self) -> int:
        """Evaluations so far."""
        return sum(pool.n_evaluated for pool in self.pools.values())

    def _loosened(self) -> Variation:
        """The problem with all limits but those of choices at their loosest."""
        variations = [limit.moved(_looser_by(limit)) for name, limit in self.limits.items()
                      if name not in self.choosing]  # fmt: skip
        return Variation(constraints=tuple(pair for x in variations for pair in x.constraints))

    def _pool(self, variation: Variation) -> _CandidateSet:
        varied = variation.apply(self.campaign_problem)
        problem = replace(varied, objectives=self.objectives)
        return _CandidateSet(problem, len(self.campaign_problem.objectives))

    def run(self) -> None:
        """Search at all positions, in order of the limits."""
        self.pool.improve(self.stated, 2, 8 * _CENTERS)
        self.handles = tuple(x for x in map(self._handle, self.names) if len(x.bounds) > 1)
        targets = [
            (i, place)
            for i, handle in enumerate(self.handles)
            for place in range(len(handle.bounds))
            if place < handle.place
            or (place > handle.place and handle.metric.name not in self.stored_metrics)
        ]
        for i, place in counted(targets, "positions of limits"):
            handle = self.handles[i]
            bounds = self.stated.copy()
            bounds[self.names.index(handle.metric.name)] = handle.bounds[place]
            pool = self._set(i, place) if handle.is_choosing else self.pool
            if self.n_evaluated < _MOST_EVALUATED:
                pool.improve(bounds)

    def _set(self, i: int, place: int) -> _CandidateSet:
        """Designs with the choices of the evaluator within a moved limit."""
        handle = self.handles[i]
        assert handle.limit is not None
        ratio = handle.bounds[place] / handle.bounds[handle.place]
        step = ratio - 1.0 if handle.limit.is_upper else 1.0 - ratio
        moved = handle.limit.moved(step).constraints + self._loosened().constraints
        pool = self.pools[i, place] = self._pool(Variation(constraints=moved))
        for key in ((-1, -1), (i, place - 1)):
            if near := self.pools.get(key):
                inside = (near.points <= self.stated).all(axis=1)
                pool.add(near.rows[inside][non_dominated(near.points[inside, : pool.n])])
        return pool

    def _handle(self, name: str) -> LimitHandle:
        """A limit with its positions."""
        j = self.names.index(name)
        objective = self.objectives[j]
        limit = self.limits.get(name)
        tightest = float(self.pool.points[(self.pool.points <= self.stated).all(axis=1), j].min())
        if limit is None:
            loosest = float(self.pool.points[: self.pool.n_proven or None, j].max())
            return LimitHandle(
                objective, tuple(positions_of(objective, loosest, tightest, POSITIONS))
            )
        stated = self.stated[j]
        loosest = self.loosest[j]
        is_choosing = name in self.choosing
        if is_choosing:
            tightest = stated * _TIGHTEST if limit.is_upper else stated / _TIGHTEST
        slack = 1e-9 * abs(stated)
        looser = positions_of(objective, loosest, stated, _LOOSER_POSITIONS)
        looser = [x for x in looser if stated + slack < x <= loosest + slack]
        tighter = positions_of(objective, stated, tightest, POSITIONS)
        bounds = (*looser, float(stated), *(x for x in tighter if x < stated - slack))
        return LimitHandle(objective, bounds, len(looser), limit, is_choosing)
