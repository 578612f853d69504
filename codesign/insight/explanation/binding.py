"""Resources and limits that bind a design."""

from __future__ import annotations

from codesign.base.columns import FloatDict, IntArray
from codesign.search.problem import Problem

_UNITS = {
    "array": "compute_s",
    "vector unit": "vector_s",
    "on-chip port": "on_chip_s",
    "memory": "memory_s",
}
"""Resources by the key of their time in the rows of an explanation."""
_NEARLY = 0.98
"""Least used share of a limit that binds: within the tolerance of the front. [ours]"""


def binding_shares(problem: Problem, row: IntArray) -> FloatDict:
    """Busy share of each resource of a design, the largest first, then used shares of limits.

    Busy shares are relative to the time of one pass, in which resources work side by side. In a
    system, they are relative to the time of its slowest pool. The transfers of all off-chip tiers
    count together, under the name of the busiest tier. Limits are listed from 98 % on. The result
    is empty if the evaluator explains nothing.
    """
    explanation = problem.evaluator.explain(problem.space.columns(row[None, :]))
    if explanation is None:
        return {}
    shares = {str(pool["name"]): float(pool["utilization"]) for pool in explanation.timeline}
    total_s = explanation.pass_s or sum(x.get("time_s", 0.0) for x in explanation.operators)
    if not shares and total_s:
        titles = dict(_UNITS)
        tiers = [x for x in explanation.levels if "utilization" in x and x["name"] != "on_chip"]
        if tiers:
            busiest = max(tiers, key=lambda level: level["utilization"])
            titles[str(busiest.get("title", busiest["name"]))] = "off_chip_s"
        for title, key in titles.items():
            busy_s = sum(float(str(x.get(key) or 0.0)) for x in explanation.operators)
            shares |= {title: busy_s / total_s} if busy_s else {}
    observed = problem.evaluate(row[None, :], problem.deciding_metrics)
    limits = {name: 1.0 + float(x[0]) for name, x in observed.violations_by_name.items()}
    # What the evaluator keeps by no margin at all is a condition and no limit.
    stated = {constraint.text for constraint in problem.constraints}
    return dict(sorted(shares.items(), key=lambda resource: -resource[1])) | {
        name: used
        for name, used in limits.items()
        if _NEARLY <= used <= 1.0 and (name in stated or used < 1.0)
    }
