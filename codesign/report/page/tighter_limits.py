"""Answers under moved limits, worked out for every position of the page's sliders.

Each answer selects the points of :class:`~codesign.insight.explanation.moved_limits.LimitPoints`
within the limits. It has their front, its folded points, its recommendations and whether it is
proven. Answers exist for each position of one slider and each pair of positions of two.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from shlex import quote
from typing import Any

import numpy as np

from codesign.answers.json_values import json_text
from codesign.base.columns import (
    ArrayList,
    Fields,
    IntArray,
    IntegerMap,
    JsonObject,
    JsonRows,
    evenly,
)
from codesign.insight.explanation.moved_limits import (
    LimitHandle,
    LimitPoints,
    Switch,
    searched_limit_points,
    stored_limit_points,
)
from codesign.report.decisions import moved_words
from codesign.report.labels import (
    format_metric,
    format_setting,
    metric_title,
    spoken_designs,
    varying_names,
)
from codesign.report.page.packing import packed
from codesign.report.picks import recommended
from codesign.search.campaign import Results
from codesign.search.enumeration.kept import KeptFront, usual_metrics
from codesign.search.pareto import TOLERANCE, fold
from codesign.search.problem import cost_column

MOST_POINTS = 20_000
"""[ours] Points that a page carries."""
MOST_BYTES = 2_000_000
"""[ours] Most bytes of answers and marks; a page below 6 MB has room for its designs too."""
MOST_DRAWN = 8
"""[ours] Points drawn for a choice, besides the recommended ones. Pairs draw only the latter."""
_MARK_BYTES = 70
"""Size of the mark of a point; each chart has one at a desk and one on a phone."""
_THINNINGS = ((MOST_POINTS, True), (100, True), (20, True), (0, True), (0, False))
"""Points of a front that a page draws, and True with answers for two changes at a time."""


def limit_words(handle: LimitHandle, bound: float) -> str:
    """Bound of a limit as text, such as ``≤ 400 W``."""
    side = "≤" if handle.metric.sense == "minimize" else "≥"
    return f"{side} {_amount(handle, bound)}"


def _amount(handle: LimitHandle, bound: float) -> str:
    return format_metric(handle.objective.flipped(bound), handle.metric)


def limit_points(
    results: Results,
    kept_front: KeptFront | None,
    is_searched: bool,
    switches: Sequence[Switch] = (),
) -> LimitPoints | None:
    """Points that answer under moved limits; None if no front is known."""
    is_large = kept_front is None or len(kept_front) > MOST_POINTS
    if is_large and results.exact is not None:
        kept_front = KeptFront(results.problem, results.exact, len(results.problem.objectives))
    if kept_front is None or len(kept_front) > MOST_POINTS:
        return None
    if is_searched and not results.problem.space.pools:
        return searched_limit_points(results.problem, kept_front, switches)
    return stored_limit_points(kept_front, switches)


def limit_document(
    results: Results,
    kept_front: KeptFront | None,
    numbers: Mapping[Any, int],
    tolerance: float = TOLERANCE,
    is_searched: bool = False,
    switches: Sequence[Switch] = (),
) -> JsonObject:
    """Sliders with an answer for every position, and every point that an answer names.

    Args:
        results: Results of the campaign; its exact front alone serves limits on the objectives.
        kept_front: Points as stored by ``codesign enumerate --keep``; None if they were not.
        numbers: Numbers of the page's designs by their keys in the space.
        tolerance: Share within which a design is folded under a cheaper one.
        is_searched: True to search for designs under limits that no stored front covers.
        switches: Other changes of the question.
    """
    points = limit_points(results, kept_front, is_searched, switches)
    if points is None:
        return {"hint": _hint(results, kept_front), "sliders": []}
    answers = _Answers(results, points, tolerance)
    table = {"": answers.number({})}
    for places in _positions(points):
        key = ",".join(f"{i}:{place}" for i, place in places.items())
        table[key] = answers.number(places)
    is_complete = len(points.problem.objectives) > points.n_objectives
    is_complete |= is_searched and not results.problem.space.pools
    frame: JsonObject = {
        "hint": _hint(results, kept_front, switches, is_complete),
        "is_proven": all(answer["is_exact"] for answer in answers.listed),
        "sliders": [
            {
                "name": handle.metric.name,
                "title": f"{metric_title(handle.metric)} at "
                f"{'most' if handle.metric.sense == 'minimize' else 'least'}",
                "texts": [limit_words(handle, bound) for bound in handle.bounds],
                "bounds": handle.objective.flipped(np.array(handle.bounds)).tolist(),
                "place": handle.place,
            }
            for handle in points.handles
        ] + [
            {"name": "", "title": switch.title, "texts": list(switch.problems), "bounds": [],
             "place": switch.place}
            for switch in points.switches
        ],
        "steps": list(_steps(points, answers, table)),
    }  # fmt: skip
    n_marks = 2 * math.comb(points.n_objectives, 2)
    for most_drawn, has_pairs in _THINNINGS:
        fewer = {key: n for key, n in table.items() if has_pairs or "," not in key}
        document: JsonObject = frame | _stored_answers(
            results, points, numbers, answers.listed, fewer, most_drawn
        )
        n_bytes = n_marks * _MARK_BYTES * len(document["points"]["ids"])
        if n_bytes + len(packed(json_text(document, indent=None))) <= MOST_BYTES:
            break
    if most_drawn < MOST_POINTS:
        drawn = (
            f"at most {most_drawn} points of a front" if most_drawn else "only recommended designs"
        )
        document["hint"] += (
            f" To stay below 6 MB, the page draws {drawn} under moved limits"
            + ("." if has_pairs else ", and answers one change at a time.")
            + " Numbers of points and recommendations are those of the full front."
        )
    return document


def _stored_answers(
    results: Results,
    points: LimitPoints,
    numbers: Mapping[Any, int],
    answers: Sequence[JsonObject],
    table: IntegerMap,
    most_drawn: int,
) -> JsonObject:
    """Answers by position with at most so many points drawn of each, and their points.

    The recommended designs are drawn in any case.
    """
    along = points.objectives[:, 0].__getitem__
    needed = {number: i for i, number in enumerate(sorted({*table.values()}))}
    fronts = [
        np.union1d(
            evenly(np.array(sorted(answers[number]["front"], key=along), np.int64), most_drawn),
            [pick["point"] for pick in answers[number]["picks"]],
        ).astype(np.int64)
        for number in needed
    ]
    used = np.unique(np.concatenate(fronts))
    values = points.problem.flipped(points.objectives[used])
    drawn = values[:, : points.n_objectives].copy()
    is_limit = points.setting[used, 0] < len(points.handles)
    low = drawn[is_limit].min(axis=0)
    high = drawn[is_limit].max(axis=0)
    drawn[((drawn < low) | (drawn > high)).any(axis=1)] = np.nan  # beyond the chart
    space = results.problem.space
    metrics = [objective.metric for objective in points.problem.objectives]
    designs = points.designs(used.tolist())
    keys = space.keys(points.rows[used])
    return {
        "table": {key: needed[number] for key, number in table.items()},
        "answers": [
            answers[number] | {
                "front": np.searchsorted(used, front).tolist(),
                "folded": np.flatnonzero(np.isin(front, answers[number]["folded"])).tolist(),
                "picks": [
                    pick | {"point": int(np.searchsorted(used, pick["point"]))}
                    for pick in answers[number]["picks"]
                ],
            }
            for number, front in zip(needed, fronts, strict=True)
        ],
        "points": {
            "words": spoken_designs(space, designs),
            "ids": [
                numbers.get(key) if is_stated else None
                for key, is_stated in zip(keys.tolist(), is_limit, strict=True)
            ],
            "values": dict(zip(results.problem.objective_names, drawn.T, strict=True)),
            "titles": [metric_title(metric) for metric in metrics],
            "texts": [
                [format_metric(v, m, 3) for v in column]
                for column, m in zip(values.T, metrics, strict=True)
            ],
            "commands": [
                _command(results, design) if is_stated else ""
                for design, is_stated in zip(designs, is_limit, strict=True)
            ],
        },
    }  # fmt: skip


def _positions(points: LimitPoints) -> Iterator[dict[int, int]]:
    """Each position that moves a limit or a switch, then each pair of positions of two.

    A switch goes with tighter limits of the question, except those within which designs choose.
    """
    handles = points.handles
    moved = [[p for p in range(len(x.bounds)) if p != x.place] for x in handles]
    moved += [[p for p in range(len(x.problems)) if p != x.place] for x in points.switches]
    for i, places in enumerate(moved):
        yield from ({i: place} for place in places)
    for (i, first), (j, second) in combinations(enumerate(moved), 2):
        if j >= len(handles):
            is_single = i >= len(handles) or handles[i].is_choosing or handles[i].limit is None
            first = [] if is_single else [p for p in first if p > handles[i].place]
        yield from ({i: p, j: q} for p, q in product(first, second))


def _steps(points: LimitPoints, answers: _Answers, table: IntegerMap) -> Iterator[JsonObject]:
    """The best of each objective with each limit of the question one position moved."""
    for i, handle in enumerate(points.handles):
        for place in (handle.place - 1, handle.place + 1):
            if handle.limit is None or not 0 <= place < len(handle.bounds):
                continue
            number = table[f"{i}:{place}"]
            words = limit_words(handle, handle.bounds[place])
            stated = _amount(handle, handle.bounds[handle.place])
            yield {
                "limit": f"{metric_title(handle.metric)} {words} instead of {stated}",
                "change": (answers.best[number] / answers.best[0] - 1.0).tolist(),
                "is_exact": answers.listed[number]["is_exact"],
            }


class _Answers:
    """Answers by the front that they have, each worked out once."""

    def __init__(self, results: Results, points: LimitPoints, tolerance: float) -> None:
        self.results = results
        self.limits = points
        self.tolerance = tolerance
        self.points = points.objectives[:, : points.n_objectives]
        self.listed: JsonRows = []
        self.best: ArrayList = []
        self._numbers: dict[tuple[bytes, bool], int] = {}

    def number(self, places: Mapping[int, int]) -> int:
        """The number of the answer for limits at some positions."""
        inside, is_exact = self.limits.select(places)
        front = self.limits.front(np.flatnonzero(inside))
        key = front.tobytes(), is_exact
        if key not in self._numbers:
            objectives = self.results.problem.objectives
            points = self.points[front]
            under = np.empty(0, np.int64)
            if len(front):
                under = fold(points, cost_column(objectives), self.tolerance)
            is_kept = under == np.arange(len(front))
            picks = recommended(objectives, points, np.flatnonzero(is_kept))
            text = self._text(front, is_exact)
            handles = self.limits.handles
            if any(i < len(handles) and handles[i].is_choosing for i in places):
                text += " Each design chooses its batch size within the moved limit."
            self.best.append(points.min(axis=0, initial=np.inf))
            self._numbers[key] = len(self.listed)
            drawn = np.arange(len(front))
            if max(places, default=0) >= len(handles):
                drawn = evenly(np.flatnonzero(is_kept), MOST_DRAWN if len(places) == 1 else 0)
                drawn = np.union1d(drawn, [pick.place for pick in picks]).astype(np.int64)
            self.listed.append({
                "front": front[drawn].tolist(),
                "folded": front[~is_kept].tolist(),
                "picks": [
                    {
                        "key": pick.key,
                        "reason": pick.reason + ", recommended" * pick.is_recommended,
                        "point": int(front[pick.place]),
                    }
                    for pick in picks
                ],
                "text": text,
                "is_exact": is_exact,
            })  # fmt: skip
        return self._numbers[key]

    def _text(self, front: IntArray, is_exact: bool) -> str:
        """The cost of the limits: the fastest design within them against the one without."""
        if not len(front):
            return f"No {'' if is_exact else 'known '}design meets all these limits."
        if not self.listed:
            return ""
        objectives = self.results.problem.objectives
        cost = cost_column(objectives)
        column = next((k for k in range(len(objectives)) if k != cost), cost)
        metric = objectives[column].metric
        stated = self.listed[0]["front"]
        old, new = (int(x[self.points[x, column].argmin()]) for x in (np.array(stated), front))
        count = f"The front has {len(front):,} points, {len(stated):,} with the stated limits."
        values = [
            format_metric(objectives[column].flipped(float(self.points[i, column])), metric)
            for i in (old, new)
        ]
        title = metric_title(metric)
        if not is_exact:
            title = f"known {title}"
            count += " Not proven: the best of the designs that were evaluated."
        if values[0] == values[1]:
            return f"The front's best {title} stays {values[1]}. {count}"
        designs = self.limits.designs([old, new])
        listed = moved_words(self.results.problem.space, *designs) or "the same design"
        return f"The front's best {title} is {values[1]} instead of {values[0]} ({listed}). {count}"


def _command(results: Results, design: Fields) -> str:
    """The command that explains a design."""
    varying = varying_names(results.problem.space)
    settings = "".join(
        f" --set {quote(f'{name}={format_setting(value)}')}"
        for name, value in design.items()
        if name in varying and value is not None
    )
    return f"codesign evaluate --campaign {results.definition.asked_as}{settings}"


def _hint(
    results: Results,
    kept_front: KeptFront | None,
    switches: Sequence[Switch] = (),
    is_complete: bool = False,
) -> str:
    """The command that gives proofs, sliders or more of them, in one line."""
    name = results.definition.asked_as
    if any(x.title == "memories" and len(x.fronts) + 1 < len(x.problems) for x in switches):
        return f"“codesign explain memories {name}” proves the answers without a memory."
    command = f"codesign enumerate {name}"
    if kept_front is not None and len(kept_front) > MOST_POINTS:
        return (
            f"{len(kept_front):,} designs may come to the front under tighter limits, more than "
            f"the {MOST_POINTS:,} that a page carries. Keep fewer metrics with “{command} --keep”."
        )
    if is_complete:
        return ""
    if kept_front is None:
        return f"“{command}” adds sliders for limits."
    usual = usual_metrics(results.problem)
    if usual:
        metrics = {metric.name: metric for metric in results.problem.metrics}
        titles = ", ".join(metric_title(metrics[name]) for name in usual)
        return f"“{command} --keep usual” adds sliders for {titles}."
    return ""
