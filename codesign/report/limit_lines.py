"""The limits of a campaign in words, and as the lines that figures and pages draw."""

from __future__ import annotations

from codesign.base.columns import StringDict
from codesign.base.records import frozen
from codesign.report.labels import format_metric, metric_of, metric_title, spoken_codes
from codesign.search.problem import Constraint, Problem


@frozen
class LimitLine:
    """A limit on one metric.

    Attributes:
        bound: Of the metric.
        words: Such as ``TDP at most 700 W``.
    """

    metric: str
    bound: float
    words: str


def limit_lines(problem: Problem) -> list[LimitLine]:
    """Limits on single metrics, which charts draw."""
    return [
        LimitLine(name, constraint.bound, limit_words(problem, constraint))
        for constraint in problem.constraints
        if constraint.bound is not None
        for name in constraint.expression.names
    ]


def limit_titles(problem: Problem) -> StringDict:
    """Words for the limits that the campaign sets, by the names of their violations."""
    return {constraint.text: limit_words(problem, constraint) for constraint in problem.constraints}


def limit_words(problem: Problem, constraint: Constraint) -> str:
    """``TDP at most 700 W``; a condition that is no limit on one metric as it is written."""
    limit = constraint.expression.limit
    if constraint.bound is None or limit is None:
        return spoken_codes(constraint.text)
    metric = metric_of(limit.quantity, problem.metrics)
    if limit.quantity == "worst_limit_excess" and not constraint.bound:
        return "limits of each workload kept"
    side = "at most" if limit.is_upper else "at least"
    amount = format_metric(constraint.bound, metric)
    return f"{metric_title(metric)} {side} {amount}"
