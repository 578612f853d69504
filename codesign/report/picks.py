"""The designs of a front that are recommended first: frugal, knee, fastest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from codesign.base.columns import FloatArray, IntArray
from codesign.insight.explanation.choices import knees_of
from codesign.report.labels import metric_title
from codesign.search.problem import Objective, cost_column

if TYPE_CHECKING:
    from codesign.insight.plateaus import FoldedFront
    from codesign.search.campaign import Results


@dataclass(frozen=True)
class Pick:
    """A recommended design.

    Attributes:
        key: ``frugal``, ``knee``, ``fastest``; ``best`` of a single objective.
        reason: Rule of the recommendation, in words.
        place: Position on the whole front, from 0.
    """

    key: str
    reason: str
    place: int


def picks_of(results: Results, folded: FoldedFront) -> list[Pick]:
    """The frugal, the knee and the fastest design of those to choose from; none twice."""
    points = results.objectives[folded.positions]
    return recommended(results.problem.objectives, points, folded.kept)


def recommended(
    objectives: Sequence[Objective], front: FloatArray, kept_places: IntArray
) -> list[Pick]:
    """The frugal, the knee and the fastest design of a front; none twice.

    *Frugal* is best in the objective by which designs are called cheaper, *fastest* in the first
    of the others. The *knee* is the sharpest one. A front without a knee has in its place the
    design whose worst objective, as a share of the front's range, is best.

    Args:
        front: (n, m) minimized objectives of the whole front.
        kept_places: (k,) places of the designs that are not folded under a cheaper one.
    """
    if not len(kept_places):
        return []
    points = front[kept_places]
    if len(objectives) == 1:
        return [Pick("best", _best_words(objectives[0]), int(kept_places[points[:, 0].argmin()]))]
    cost = cost_column(objectives)
    speed = next(column for column in range(len(objectives)) if column != cost)
    ends = {"frugal": cost, "fastest": speed}
    places = {key: int(np.lexsort((*points.T, points[:, j]))[0]) for key, j in ends.items()}
    cheap = metric_title(objectives[cost].metric)
    middle, reason = _middle(points, list(places.values()), cheap)
    picks = [
        Pick("frugal", _best_words(objectives[cost]), int(kept_places[places["frugal"]])),
        *([Pick("knee", reason, int(kept_places[middle]))] if middle is not None else []),
        Pick("fastest", _best_words(objectives[speed]), int(kept_places[places["fastest"]])),
    ]
    distinct = {pick.place: pick for pick in reversed(picks)}
    if len(distinct) == 1:
        return [Pick("best", "best in every objective", picks[0].place)]
    return [pick for pick in picks if distinct[pick.place] is pick]


def _middle(points: FloatArray, ends: Sequence[int], cheap: str) -> tuple[int | None, str]:
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


def _best_words(objective: Objective) -> str:
    word = "highest" if objective.sense == "maximize" else "lowest"
    return f"{word} {metric_title(objective.metric)}"
