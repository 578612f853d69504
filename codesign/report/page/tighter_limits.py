"""Answers under tighter limits, worked out for every position of the page's sliders.

The front under tighter limits is a filter of the points of
:class:`~codesign.search.enumeration.KeptFront`. Its front, what is folded and what is recommended
are computed here for each position of each slider, and for each pair of positions of two sliders.
The page looks them up, so it can tighten two limits at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np

from codesign.base.columns import Fields, IntArray, JsonObject
from codesign.base.metrics import Metric
from codesign.report.exchange import changed_settings
from codesign.report.labels import (
    format_metric,
    format_setting,
    metric_of,
    metric_title,
    spoken_design,
    varying_names,
)
from codesign.report.picks import recommended
from codesign.search.campaign import Results
from codesign.search.enumeration.kept import KeptFront, usual_metrics
from codesign.search.pareto import TOLERANCE, fold, non_dominated
from codesign.search.problem import cost_column

MOST_POINTS = 20_000
"""[ours] Points that a page carries."""
_MOST_PAIRS = 2_500
"""[ours] Pairs of positions that are worked out, some seconds of one processor."""
_MOST_STEPS = 24


@dataclass(frozen=True)
class Slider:
    """A limit that the page can tighten.

    Attributes:
        column: Column of the kept objectives.
        bounds: Positions from the loosest to the tightest; the first one limits nothing.
    """

    metric: Metric
    column: int
    bounds: tuple[float, ...]

    @property
    def is_most(self) -> bool:
        """True if the limit is an upper one."""
        return self.metric.sense == "minimize"

    @property
    def title(self) -> str:
        """The metric and the side on which it is limited."""
        return f"{metric_title(self.metric)} at {'most' if self.is_most else 'least'}"

    def words(self, bound: float) -> str:
        """The limit in words."""
        return f"{'≤' if self.is_most else '≥'} {format_metric(bound, self.metric)}"


def kept_points(results: Results, kept_front: KeptFront | None) -> KeptFront | None:
    """Points that tighter limits may bring to the front; None if they are not known."""
    if kept_front is None and results.exact is not None:
        kept_front = KeptFront(results.problem, results.exact, len(results.problem.objectives))
    return None if kept_front is None or len(kept_front) > MOST_POINTS else kept_front


def limit_document(
    results: Results,
    kept_front: KeptFront | None,
    numbers: Mapping[Any, int],
    tolerance: float = TOLERANCE,
) -> JsonObject:
    """Sliders with an answer for every position, and every point that an answer names.

    Args:
        results: Results of the campaign; its exact front alone serves limits on the objectives.
        kept_front: Points as stored by ``codesign enumerate --keep``; None if they were not.
        numbers: Numbers of the page's designs by their keys in the space.
        tolerance: Share within which a design is folded under a cheaper one.
    """
    points = kept_points(results, kept_front)
    if points is None:
        return {"hint": _hint(results, kept_front), "sliders": []}
    sliders = _sliders(results, points)
    answers = _Answers(results, points, tolerance)
    table = {"": answers.number(points.front.objectives[:, 0] < np.inf)}
    for key, inside in _positions(points, sliders):
        table[key] = answers.number(inside)
    used = sorted({int(i) for answer in answers.listed for i in answer["front"]})
    place = {i: k for k, i in enumerate(used)}
    for answer in answers.listed:
        answer["front"] = [place[i] for i in answer["front"]]
        answer["picks"] = [pick | {"point": place[pick["point"]]} for pick in answer["picks"]]
    names = points.problem.objective_names
    values = points.problem.flipped(points.front.objectives[used])
    metrics = [metric_of(name, results.problem.metrics) for name in names]
    return {
        "hint": "" if points.kept else _hint(results, kept_front),
        "sliders": [
            {
                "name": slider.metric.name,
                "title": slider.title,
                "texts": [slider.words(bound) for bound in slider.bounds],
            }
            for slider in sliders
        ],
        "table": table,
        "answers": answers.listed,
        "points": {
            "words": [answers.words(i) for i in used],
            "ids": [
                numbers.get(key) for key in results.problem.space.keys(answers.rows[used]).tolist()
            ],
            "values": dict(zip(names, values.T, strict=True)),
            "titles": [metric_title(metric) for metric in metrics],
            "texts": [
                [format_metric(float(v), m, 3) for v in column]
                for column, m in zip(values.T, metrics, strict=True)
            ],
            "commands": [answers.command(i) for i in used],
        },
    }


def _sliders(results: Results, kept_front: KeptFront) -> list[Slider]:
    """A slider for every metric that can be limited and that varies."""
    names = kept_front.problem.objective_names
    varying = [
        objective for objective in kept_front.limitable
        if np.ptp(kept_front.front.objectives[:, names.index(objective.metric.name)]) > 0
    ]  # fmt: skip
    pairs = len(varying) * (len(varying) - 1) // 2
    steps = min(_MOST_STEPS, int((_MOST_PAIRS / pairs) ** 0.5)) if pairs else _MOST_STEPS
    sliders = []
    for limitable in varying:
        column = names.index(limitable.metric.name)
        values = np.unique(kept_front.front.objectives[:, column])
        least = max(float(np.ptp(values)) / steps, limitable.step)
        power = 10.0 ** np.floor(np.log10(least))
        step = next(k * power for k in (1.0, 2.0, 5.0, 10.0) if k * power >= least * (1 - 1e-9))
        places = np.arange(np.ceil(values[-1] / step), np.floor(values[0] / step), -1.0)
        places = places[places * step >= values[0] * (1 - 1e-12)]
        digits = max(0, -int(np.floor(np.log10(step))))
        bounds = [round(float(limitable.flipped(float(place * step))), digits) for place in places]
        if len(bounds) > 1:
            sliders.append(Slider(metric_of(limitable.metric.name, results.problem.metrics), column,
                                  tuple(bounds)))  # fmt: skip
    return sliders


def _positions(kept_front: KeptFront, sliders: Sequence[Slider]) -> Iterator[tuple[str, Any]]:
    """Each position, and pair of positions, with a mask of the points within."""
    objectives = kept_front.problem.objectives
    points = kept_front.front.objectives
    masks = [
        [points[:, s.column] <= objectives[s.column].flipped(b) for b in s.bounds] for s in sliders
    ]
    for i, masks_of_slider in enumerate(masks):
        for p in range(1, len(masks_of_slider)):
            yield f"{i}:{p}", masks_of_slider[p]
    for (i, first), (j, second) in combinations(enumerate(masks), 2):
        for p, q in product(range(1, len(first)), range(1, len(second))):
            yield f"{i}:{p},{j}:{q}", first[p] & second[q]


class _Answers:
    """Answers by the front that they have, each worked out once."""

    def __init__(self, results: Results, kept_front: KeptFront, tolerance: float) -> None:
        self.results, self.kept, self.tolerance = results, kept_front, tolerance
        self.points = kept_front.front.objectives[:, : kept_front.n_objectives]
        self.rows = kept_front.front.representatives()
        self.listed: list[JsonObject] = []
        self._numbers: dict[bytes, int] = {}
        self._designs: dict[int, Fields] = {}
        # Of points that are equal in the objectives, the first one stands for all.
        _, self._class = np.unique(self.points, axis=0, return_inverse=True)

    def number(self, inside: Any) -> int:
        """The number of the answer for the points within some limits."""
        positions = np.flatnonzero(inside)
        best = positions[non_dominated(self.points[positions])] if len(positions) else positions
        front = best[np.unique(self._class[best], return_index=True)[1]]
        key = front.tobytes()
        if key not in self._numbers:
            objectives, points = self.results.problem.objectives, self.points[front]
            under = np.empty(0, dtype=np.int64)
            if len(front):
                under = fold(points, cost_column(objectives), self.tolerance)
            is_kept = under == np.arange(len(front))
            picks = recommended(objectives, points, np.flatnonzero(is_kept))
            text = self._text(front, picks)
            self._numbers[key] = len(self.listed)
            self.listed.append({
                "front": front.tolist(),
                "folded": np.flatnonzero(~is_kept).tolist(),
                "picks": [
                    {"key": pick.key, "reason": pick.reason, "point": int(front[pick.place])}
                    for pick in picks
                ],
                "text": text,
            })  # fmt: skip
        return self._numbers[key]

    def _text(self, front: IntArray, picks: Sequence[Any]) -> str:
        """The cost of the limits: the fastest design within them against the one without."""
        if not len(front):
            return "No design keeps these limits together."
        if not self.listed:
            return ""
        objectives = self.results.problem.objectives
        cost = cost_column(objectives)
        column = next((k for k in range(len(objectives)) if k != cost), cost)
        metric = objectives[column].metric
        old, new = self.listed[0]["picks"][-1]["point"], int(front[picks[-1].place])
        n_all = len(self.listed[0]["front"])
        count = f"The front has {len(front):,} points, {n_all:,} without tighter limits."
        values = [
            format_metric(float(objectives[column].flipped(float(self.points[i, column]))), metric)
            for i in (old, new)
        ]
        title = metric_title(metric)
        if values[0] == values[1]:
            return f"The best {title} stays {values[1]}. {count}"
        changes = changed_settings(self.results.problem.space, self._design(old), self._design(new))
        listed = "; ".join(f"{name} {before} → {after}" for name, before, after in changes)
        return f"The best {title} is {values[1]} instead of {values[0]} ({listed}). {count}"

    def _design(self, point: int) -> Fields:
        if point not in self._designs:
            space = self.results.problem.space
            self._designs[point] = space.decode(self.rows[[point]])[0]
        return self._designs[point]

    def words(self, point: int) -> str:
        """The design of a point in words."""
        return spoken_design(self.results.problem.space, self._design(point))

    def command(self, point: int) -> str:
        """The command that explains the design of a point."""
        design = self._design(point)
        varying = varying_names(self.results.problem.space)
        settings = "".join(
            f" --set {name}={format_setting(value)}"
            for name, value in design.items()
            if name in varying and value is not None
        )
        return f"codesign evaluate --campaign {self.results.definition.name}{settings}"


def _hint(results: Results, kept_front: KeptFront | None) -> str:
    """The command that gives sliders, or more of them, in one line."""
    command = f"codesign enumerate {results.definition.name}"
    if kept_front is not None and len(kept_front) > MOST_POINTS:
        return (
            f"{len(kept_front):,} designs may come to the front under tighter limits, more than "
            f"the {MOST_POINTS:,} that a page carries. Keep fewer metrics with “{command} --keep”."
        )
    usual = usual_metrics(results.problem)
    if usual:
        metrics = {metric.name: metric for metric in results.problem.metrics}
        titles = ", ".join(metric_title(metrics[name]) for name in usual)
        return f"Sliders for {titles} come with “{command} --keep usual”."
    return "" if kept_front is not None else f"Sliders for tighter limits come with “{command}”."
