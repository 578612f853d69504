"""The limits of a problem that are numbers, and the problem with one of them moved.

Three kinds: constraints of the campaign and of the space on one quantity, such as
``tdp_watts <= 700`` or ``shoreline <= 66 mm``, and limits that the evaluator reports as a
relative excess. A quantity may be limited twice, by the space and by the evaluator: then either
hides the other, so they are moved together.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from codesign.base.columns import ArrayDict, FloatArray, IntArray, StringPair, StringTuple
from codesign.base.metrics import Metric
from codesign.base.records import drop_keys, frozen
from codesign.base.units import parse_unit
from codesign.insight.explanation.variation import Variation
from codesign.search.observations import Observations
from codesign.search.problem import Problem
from codesign.space import Expression

Source = Literal["campaign", "space", "evaluator"]

_SAMPLE = 4096
_SEED = 0
_SAME = 1e-9
"""Difference of relative excesses below which two limits are one."""


@frozen
class Limit:
    """A bound on one quantity of every design.

    Attributes:
        text: As written; of an evaluator, its name.
        source: Who sets it.
        comparison: ``<=``, ``<``, ``>=`` or ``>``.
        number: The bound in ``unit``; of an evaluator 100 %.
        unit: As written, or the metric's own.
        written_unit: As written.
        tied: Limits of the evaluator on the same quantity.
    """

    text: str
    source: Source
    quantity: str
    comparison: str
    number: float
    unit: str
    written_unit: str = ""
    tied: StringTuple = ()

    @property
    def is_upper(self) -> bool:
        """Whether it bounds from above."""
        return self.comparison.startswith("<")

    @property
    def is_strict(self) -> bool:
        """Whether the bound itself breaks it."""
        return "=" not in self.comparison

    def bound_loosened_by(self, step: float) -> float:
        """The bound, looser by a share ``step`` of itself; tighter if that is negative.

        A lower limit on a share, which has no unit, is at most 1.
        """
        if self.is_upper:
            return self.number * (1.0 + step)
        is_share = not self.unit and self.number <= 1.0
        return min(self.number * (1.0 - step), 1.0 if is_share else np.inf)

    def moved(self, step: float | None) -> Variation:
        """The problem with the limit looser by that share; None: without it."""
        slack = np.inf if step is None else step
        names = (self.quantity,) if self.source == "evaluator" else self.tied
        variation = Variation(slack=tuple((name, slack) for name in names))
        if self.source == "evaluator":
            return variation
        text = None
        if step is not None:
            unit = f" {self.written_unit}" if self.written_unit else ""
            text = f"{self.quantity} {self.comparison} {self.bound_loosened_by(step)!r}{unit}"
        change = ((self.text, text),)
        if self.source == "campaign":
            return replace(variation, constraints=change)
        return replace(variation, space_constraints=change)


_OF_POOL = "bounds the machines of a pool; the front of the pool's own space prices it"


@frozen
class Limits:
    """Limits that can be priced, and limits that cannot.

    Attributes:
        movable: Limits on one quantity, whose bound can be moved.
        others: Other conditions, with the reason.
    """

    movable: tuple[Limit, ...]
    others: tuple[StringPair, ...]


def limits_of(problem: Problem) -> Limits:
    """The limits of a problem."""
    movable = []
    others = []
    conditions: list[tuple[Source, Expression]] = [
        ("campaign", constraint.expression) for constraint in problem.constraints
    ]
    rules = (rule for rule in problem.space.constraints if rule.description != "fixed")
    conditions += [("space", rule.expression) for rule in rules]
    for source, condition in conditions:
        # A pool's own front prices the bounds of its machines.
        is_of_pool = problem.space.pools and source != "campaign"
        limit = _OF_POOL if is_of_pool else _read(problem, source, condition)
        if isinstance(limit, Limit):
            movable.append(limit)
        else:
            others.append((condition.text, limit))
    if problem.space.pools:
        return Limits(tuple(movable), tuple(others))
    rows = problem.space.sample(np.random.default_rng(_SEED), _SAMPLE)
    observed = problem.evaluate(rows)
    excess = _evaluator_limits(problem, rows, observed)
    for position, limit in enumerate(movable):
        relative_excess = used(problem, limit, rows, observed) / limit.number - 1.0
        same = [
            name
            for name, values in excess.items()
            if limit.is_upper and _is_same(relative_excess, values)
        ]
        movable[position] = replace(limit, tied=tuple(same))
        for name in same:
            del excess[name]
    for name, values in excess.items():
        if np.ptp(values) > 0:
            movable.append(Limit(name, "evaluator", name, "<=", 100.0, "%"))
        else:
            others.append((name, "does not differ between designs"))
    return Limits(tuple(movable), tuple(others))


def used(problem: Problem, limit: Limit, rows: IntArray, observed: Observations) -> FloatArray:
    """(n,) the quantity of designs in the limit's unit; of an evaluator's, in percent of it."""
    if limit.source == "evaluator":
        return 100.0 * (1.0 + _evaluator_limits(problem, rows, observed)[limit.quantity])
    if limit.quantity in observed.metrics:
        values = observed.metrics[limit.quantity]
        if limit.unit == _metric_unit(problem, limit.quantity):
            return values
        return values * parse_unit(_metric_unit(problem, limit.quantity)).scale / _scale(limit)
    return problem.space.values(rows)[limit.quantity] / _scale(limit)


def metric_amount(limit: Limit, number: float, metric: Metric) -> float:
    """A bound in the unit of the metric that it bounds."""
    if limit.unit == metric.unit:
        return number
    return number * _scale(limit) / parse_unit(metric.unit).scale


def _scale(limit: Limit) -> float:
    return parse_unit(limit.unit).scale


def _read(problem: Problem, source: Source, condition: Expression) -> Limit | str:
    """The limit, or why it is none."""
    written = condition.limit
    metrics = set(problem.metric_names)
    if written is None or written.quantity not in {*metrics, *problem.space.units}:
        return "is not of the form 'quantity <= number'"
    if written.amount is None:
        return "is not bounded by a number"
    (number, unit), quantity = written.amount, written.quantity
    if number <= 0:
        return "has no positive bound that a share could be taken of"
    excess = _metric_unit(problem, quantity) if quantity in metrics else ""
    return Limit(condition.text, source, quantity, written.comparison, number, unit or excess, unit)


def _metric_unit(problem: Problem, name: str) -> str:
    return next(metric.unit for metric in problem.metrics if metric.name == name)


def _evaluator_limits(problem: Problem, rows: IntArray, observed: Observations) -> ArrayDict:
    """(n,) relative excess by limit of the evaluator."""
    written = {constraint.text for constraint in problem.constraints}
    violations = {**observed.violations_by_name, **problem.known_violations(rows)}
    return drop_keys(violations, written)


def _is_same(relative_excess: FloatArray, excess: FloatArray) -> bool:
    valid = ~(np.isnan(relative_excess) | np.isnan(excess))
    if not valid.any() or np.ptp(relative_excess[valid]) == 0:
        return False
    return bool(np.allclose(relative_excess[valid], excess[valid], rtol=_SAME, atol=_SAME))
