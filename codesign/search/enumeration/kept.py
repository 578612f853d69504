"""The exact front under any tighter limits: a filter of designs that are enumerated once.

Beside the objectives f, metrics g are kept: the designs stored are those that are non-dominated in
(f, g) together, metrics of ``STEPS`` in whole steps. Let x be any feasible design that also keeps
tighter limits f <= v and g <= u, everything minimized. The space is finite, so a stored design s
has f(s) <= f(x) and g(s) <= g(x); then s keeps these limits, too. So the front of the designs
within the limits is the front of the stored designs within them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from codesign.base.columns import FloatMap, IntArray, Strings, StringTuple
from codesign.base.errors import InputError, check_known
from codesign.base.records import frozen
from codesign.search.enumeration.front import ExactFront
from codesign.search.pareto import distinct_front
from codesign.search.problem import Objective, Problem
from codesign.search.problem_builder import absent_problems

USUAL_METRICS = (
    "shoreline_mm",
    "area_mm2",
    "unit_cost_usd",
    "time_to_first_token_s",
    "time_per_output_token_s",
    "request_latency_s",
    "junction_temperature_celsius",
)
"""Default kept metrics: die edge, area, cost, latency and temperature."""

STEPS = {"junction_temperature_celsius": 1.0}
"""Kept metrics that are rounded up to whole steps [ours]. A temperature trades with everything in
small parts of a degree, far below the accuracy of its account, and would bring many thousand
designs to the front. The filter is exact for limits in whole steps."""


@frozen
class KeptFront:
    """Designs that are non-dominated in objectives and kept metrics together.

    Attributes:
        problem: With the kept metrics as further objectives.
        n_objectives: How many of these objectives are those of the campaign.
    """

    problem: Problem
    front: ExactFront
    n_objectives: int

    def __len__(self) -> int:
        return len(self.front)

    @property
    def kept(self) -> StringTuple:
        """The kept metrics by name."""
        return tuple(
            objective.metric.name for objective in self.problem.objectives[self.n_objectives :]
        )

    @property
    def limitable(self) -> tuple[Objective, ...]:
        """Objectives and kept metrics whose tighter limits the filter is exact for."""
        choosing = _choosing_metrics(self.problem)
        return tuple(x for x in self.problem.objectives if x.metric.name not in choosing)

    def positions(self, limits: FloatMap) -> IntArray:
        """Positions of the points of the exact front under limits; of equal points the first.

        The first is the least in the kept metrics, one after the other. A limit that is looser
        than the problem's own changes nothing; one between whole steps is the tighter of both.

        Args:
            limits: By metric the largest value, or the least of one to maximize.

        Raises:
            UnknownNameError: A metric that is not kept, or that decides what a design chooses.
        """
        limitable = {limit.metric.name: limit for limit in self.limitable}
        names = self.problem.objective_names
        bounds = np.full(len(names), np.inf)
        for name, bound in limits.items():
            check_known("kept metric", name, limitable)
            bounds[names.index(name)] = limitable[name].flipped(bound)
        inside = np.flatnonzero((self.front.objectives <= bounds).all(axis=1))
        return inside[distinct_front(self.front.objectives[inside, : self.n_objectives])]


def keeping(problem: Problem, names: Strings, where: str | None = None) -> Problem:
    """The problem whose exact front is that of :class:`KeptFront`.

    Args:
        names: Metrics to keep, in any order; objectives among them are left out.
        where: Begins every message.

    Raises:
        InputError: An unknown metric, one that some designs do not have, one whose limit decides
            what a design chooses, or nothing to keep.
    """
    metrics = {metric.name: metric for metric in problem.metrics}
    for name in names:
        check_known("metric", name, metrics, where)
    choosing = _choosing_metrics(problem)
    problems = [
        f"{name}: a tighter limit on it changes the batch size that a design chooses, and so its "
        "metrics; expected a batch size in the workload or as a parameter, or another metric"
        for name in sorted(choosing & set(names))
    ]
    of_campaign = set(problem.objective_names)
    limit_names = [
        Objective(metric, metric.sense, step=STEPS.get(metric.name, 0.0))
        for metric in problem.metrics
        if metric.name in names and metric.name not in of_campaign
    ]
    problems += absent_problems(problem.space, problem.evaluator, limit_names, (), problem.derived)
    if problems:
        raise InputError([f"{where}: {text}" if where else text for text in problems])
    if not limit_names:
        raise InputError("expected metrics that are no objectives, got none", where)
    return replace(problem, objectives=(*problem.objectives, *limit_names))


def usual_metrics(problem: Problem) -> StringTuple:
    """Metrics with a limit, then those of ``USUAL_METRICS``, that can be kept."""
    names = []
    limits = [constraint.expression.limit for constraint in problem.constraints]
    limited = [limit.quantity for limit in limits if limit is not None]
    for name in dict.fromkeys([*limited, *USUAL_METRICS]):
        try:
            keeping(problem, [name])
        except InputError:
            continue
        names.append(name)
    return tuple(names)


def _choosing_metrics(problem: Problem) -> frozenset[str]:
    return problem.evaluator.choosing_metrics(problem.space.names)
