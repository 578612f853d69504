"""The designs of a front that are named: frugal, knee, fastest, and the recommended one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from codesign.base.columns import FloatArray, IntArray, IntegerSequence
from codesign.base.records import frozen
from codesign.insight.decisions.recommendation import Rule, recommend
from codesign.insight.explanation.choices import knees_of
from codesign.insight.plateaus import FoldedFront
from codesign.report.labels import metric_title
from codesign.search.campaign import Results
from codesign.search.problem import Objective, cost_column


@frozen
class Pick:
    """A design with a name.

    Attributes:
        key: ``frugal``, ``knee``, ``fastest``, or ``recommended`` if that is none of these;
            ``best`` of a single objective.
        reason: Rule that gives the design its name, in words.
        place: Position on the whole front, from 0.
        is_recommended: True for the one design that is recommended.
    """

    key: str
    reason: str
    place: int
    is_recommended: bool = False


def picks_of(results: Results, folded: FoldedFront) -> list[Pick]:
    """Named designs of a folded front, each once."""
    points = results.objectives[folded.positions]
    return recommended(results.problem.objectives, points, folded.kept)


def recommended(
    objectives: Sequence[Objective], front: FloatArray, kept_places: IntArray
) -> list[Pick]:
    """The frugal, the knee, the recommended and the fastest design of a front, each once.

    One of them is recommended, by the rule of :mod:`codesign.insight.decisions.recommendation`.
    *Frugal* is best in the objective by which designs are called cheaper, *fastest* in the first
    of the others. The *knee* is the sharpest one. A front without a knee names instead the design
    whose worst objective, as a share of the front's range, is best.

    Args:
        front: (n, m) minimized objectives of the whole front.
        kept_places: (k,) places of the designs that are not folded under a cheaper one.
    """
    if not len(kept_places):
        return []
    points = front[kept_places]
    if len(objectives) == 1:
        return [
            Pick("best", best_words(objectives[0]), int(kept_places[points[:, 0].argmin()]), True)
        ]
    cost = cost_column(objectives)
    speed = next(column for column in range(len(objectives)) if column != cost)
    ends = {"frugal": cost, "fastest": speed}
    places = {key: int(np.lexsort((*points.T, points[:, j]))[0]) for key, j in ends.items()}
    cheap = metric_title(objectives[cost].metric)
    middle, reason = _middle(points, list(places.values()), cheap)
    senses = tuple(objective.sense for objective in objectives)
    recommendation = recommend(points, senses, cost)
    place = int(kept_places[recommendation.point])
    picks = [
        Pick("frugal", best_words(objectives[cost]), int(kept_places[places["frugal"]])),
        *([Pick("knee", reason, int(kept_places[middle]))] if middle is not None else []),
        Pick("fastest", best_words(objectives[speed]), int(kept_places[places["fastest"]])),
    ]
    distinct = {pick.place: pick for pick in reversed(picks)}
    if len(distinct) == 1:
        return [Pick("best", "best in every objective", picks[0].place, True)]
    if place not in distinct:
        picks.insert(-1, Pick("recommended", reason_words(objectives, recommendation.rule), place))
        distinct[place] = picks[-2]
    return [
        replace(pick, is_recommended=pick.place == place)
        for pick in picks
        if distinct[pick.place] is pick
    ]


def reason_words(objectives: Sequence[Objective], rule: Rule) -> str:
    """The rule of a recommendation in words for these objectives."""
    titles = {sense: [metric_title(x.metric) for x in objectives if x.sense == sense]
              for sense in ("maximize", "minimize")}  # fmt: skip
    if rule == "most even":
        return "its worst objective, as a share of the front's range, is best"
    if len(objectives) == 2 and all(titles.values()):
        return f"the most {titles['maximize'][0]} per {titles['minimize'][0]}"
    return "the best compromise, as any other design loses more percent than it gains"


def _middle(points: FloatArray, ends: IntegerSequence, cheap: str) -> tuple[int | None, str]:
    """The sharpest knee that is no end of the front, or the design in its place."""
    for knee in knees_of(points):
        if knee.point not in ends:
            return knee.point, f"the best value for its {cheap}"
    inner = np.setdiff1d(np.arange(len(points)), ends)
    if not len(inner):
        return None, ""
    spans = np.ptp(points, axis=0)
    shares = (points - points.min(axis=0)) / np.where(spans > 0, spans, 1.0)
    return int(inner[shares[inner].max(axis=1).argmin()]), "the most even, as the front has no knee"


def best_words(objective: Objective) -> str:
    """``highest throughput`` or ``lowest TDP``."""
    word = "highest" if objective.sense == "maximize" else "lowest"
    return f"{word} {metric_title(objective.metric)}"
