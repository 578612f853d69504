"""The recommended design of a front in one sentence, with the regret of the alternatives."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from codesign.base.columns import FloatArray, StringList
from codesign.insight.decisions.recommendation import recommend
from codesign.insight.plateaus import FoldedFront
from codesign.report.labels import format_metric, listed_words, metric_of, metric_title, side_word
from codesign.report.picks import picks_of, reason_words
from codesign.search.campaign import Results
from codesign.search.problem import Problem, cost_column


class RecommendationText(NamedTuple):
    """A recommendation in words: the design, the rule, and the alternatives with their regret."""

    design: str
    reason: str
    alternatives: StringList


def recommendation_words(results: Results, folded: FoldedFront) -> str:
    """``Take #25: throughput 4,085 token/s, TDP 431.3 W; the most throughput per TDP. ...``."""
    text = recommendation_text(results, folded)
    instead = f" Instead, {'; '.join(text.alternatives)}." if text.alternatives else ""
    return f"Take {text.design}; {text.reason}.{instead}"


def objective_words(problem: Problem, objectives: FloatArray) -> str:
    """(m,) minimized objectives in their units: ``4,085 token/s, 431.3 W``."""
    values = zip(problem.flipped(objectives), problem.objective_metrics, strict=True)
    return ", ".join(format_metric(value, metric) for value, metric in values)


def recommendation_text(results: Results, folded: FoldedFront) -> RecommendationText:
    """The recommendation of a front in words."""
    problem = results.problem
    kept_places = folded.kept
    points = results.objectives[folded.positions[kept_places]]
    recommendation = recommend(points, problem.senses, cost_column(problem.objectives))
    place = int(kept_places[recommendation.point])
    metrics = problem.objective_metrics
    natural = problem.flipped(results.objectives[folded.positions])
    named = zip(metrics, natural[place].tolist(), strict=True)
    values = ", ".join(f"{metric_title(x)} {format_metric(value, x)}" for x, value in named)
    picks = picks_of(results, folded)
    rule = reason_words(problem.objectives, recommendation.rule)
    reason = picks[0].reason if len(picks) == 1 else rule
    alternatives = []
    for pick in picks:
        regret = float(recommendation.regret[np.flatnonzero(kept_places == pick.place)[0]])
        if pick.place == place:
            continue
        if recommendation.rule == "most even":
            changes = f"{100 * regret:.2g} % of the range more in its worst objective"
        else:
            factors = (natural[pick.place] / natural[place]).tolist()
            changes = listed_words([
                f"{factor:.2g} times the {metric_title(metric)}" if factor >= 2.0
                else f"{abs(100 * (factor - 1)):.2g} % {side_word(metric, factor > 1)} "
                f"{metric_title(metric)}"
                for factor, metric in zip(factors, metrics, strict=True)
            ])  # fmt: skip
            worse = f"{100 * regret / (1 + regret):.2g} %" if regret > 0.0005 else "not"
            measure = reason.removeprefix("the most ")
            words = (
                "worse in the product of all objectives" if measure == reason else f"less {measure}"
            )
            changes = f"{changes}: {worse} {words}"
        alternatives.append(f"{pick.key} #{pick.place + 1}: {changes}")
    return RecommendationText(f"#{place + 1}: {values}", reason, alternatives)


def limit_usage_words(results: Results, folded: FoldedFront) -> str:
    """``The recommended design has TDP 59.3 W (at most 700 W).``; empty without limits."""
    problem = results.problem
    points = results.objectives[folded.positions[folded.kept]]
    point = recommend(points, problem.senses, cost_column(problem.objectives)).point
    position = folded.positions[folded.kept[point]]
    used = []
    for constraint in problem.constraints:
        limit = constraint.expression.limit
        if constraint.bound is None or limit is None or limit.quantity not in results.metrics:
            continue
        metric = metric_of(limit.quantity, problem.metrics)
        amounts = float(results.metrics[limit.quantity][position]), constraint.bound
        amount, bound = (format_metric(x, metric, 4) for x in amounts)
        side = "at most" if limit.is_upper else "at least"
        used.append(f"{metric_title(metric)} {amount} ({side} {bound})")
    return f"The recommended design has {'; '.join(used)}." if used else ""
