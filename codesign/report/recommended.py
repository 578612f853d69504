"""The recommended design of a front in one sentence, with the regret of the alternatives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from codesign.insight.decisions.recommendation import Recommendation, recommend
from codesign.insight.plateaus import folded_front
from codesign.report.labels import format_metric, metric_title
from codesign.report.picks import picks_of
from codesign.search.problem import cost_column

if TYPE_CHECKING:
    from codesign.insight.plateaus import FoldedFront
    from codesign.search.campaign import Results
    from codesign.search.problem import Problem


def recommendation_of(results: Results, folded: FoldedFront) -> Recommendation:
    """The recommended design; its point, and those of the regret, are places in ``folded.kept``."""
    problem = results.problem
    points = results.objectives[folded.positions[folded.kept]]
    cost = cost_column(problem.objectives)
    return recommend(points, problem.senses, cost, folded.tolerance)


def recommendation_words(results: Results, tolerance: float) -> str:
    """``Take #25: 4,085 token/s, 431.3 W: the most throughput per TDP. Instead, ...``."""
    folded = folded_front(results, tolerance)
    recommendation = recommendation_of(results, folded)
    kept = folded.kept
    place = int(kept[recommendation.point])
    problem = results.problem
    metrics = [objective.metric for objective in problem.objectives]
    natural = problem.flipped(results.objectives[folded.positions])
    values = ", ".join(
        format_metric(float(value), metric)
        for value, metric in zip(natural[place], metrics, strict=True)
    )
    alternatives = []
    for pick in picks_of(results, folded):
        regret = float(recommendation.regret[np.flatnonzero(kept == pick.place)[0]])
        if pick.place == place:
            continue
        changes = " and ".join(
            f"{_share(float(theirs / ours))} {metric_title(metric)}"
            for theirs, ours, metric in zip(
                natural[pick.place], natural[place], metrics, strict=True
            )
        )
        if recommendation.rule == "most even":
            changes = f"{100 * regret:.2g} % of the range more in its worst objective"
        else:
            changes = f"{changes}, {100 * regret / (1 + regret):.2g} % worse in all"
        alternatives.append(f"{pick.key} #{pick.place + 1}: {changes}")
    instead = f" Instead, {'; '.join(alternatives)}." if alternatives else ""
    return f"Take #{place + 1}: {values}; {reason_words(problem, recommendation)}.{instead}"


def _share(factor: float) -> str:
    if factor >= 2.0:
        return f"{factor:.2g} times the"
    return f"{abs(100 * (factor - 1)):.2g} % {'more' if factor > 1 else 'less'}"


def reason_words(problem: Problem, recommendation: Recommendation) -> str:
    """The rule in words for these objectives."""
    if len(problem.objectives) == 1:
        return f"the best {metric_title(problem.objectives[0].metric)}"
    if recommendation.rule == "most even":
        return "its worst objective, as a share of the front's range, is best"
    gains = [x for x in problem.objectives if x.sense == "maximize"]
    costs = [x for x in problem.objectives if x.sense == "minimize"]
    if len(gains) == len(costs) == 1:
        return f"the most {metric_title(gains[0].metric)} per {metric_title(costs[0].metric)}"
    return "every other point loses more percent in some objectives than it gains in the others"
