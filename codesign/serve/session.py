"""Answers to a served page: the outcome of a design, and the nearest valid one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import field

import numpy as np

from codesign.answers.designs import FrontDistance
from codesign.api import PreparedEvaluator, load_compiled_loop, prepare_campaign
from codesign.base.columns import (
    FloatArray,
    IntArray,
    IntegerMap,
    IntegerSequence,
    JsonObject,
    JsonRows,
)
from codesign.base.errors import InputError, JobError
from codesign.base.records import frozen, select_keys
from codesign.insight.evaluated_design import EvaluatedDesign
from codesign.insight.plateaus import folded_front
from codesign.report.chart import Axis, Chart, Line, Mark, Panel, Points
from codesign.report.chosen import PICK_KEYS
from codesign.report.design_charts import scales_of
from codesign.report.labels import (
    format_metric,
    metric_of,
    metric_title,
    setting_words,
    spoken_design,
    spoken_designs,
)  # fmt: skip
from codesign.report.limit_lines import limit_words
from codesign.report.page.design_html import WIDTH, Account, design_html
from codesign.report.picks import picks_of
from codesign.report.svg import axis_unit, draw, hatch_patterns, place_on
from codesign.search.campaign import Campaign
from codesign.search.enumeration import stored_front
from codesign.search.problem import Objective
from codesign.serve.pass_line import line_chart
from codesign.space import DesignSpace, Parameter

MOST_POINTS = 400
"""[ours] Points of a front that the page draws."""
WIDE = 700.0
"""Pixels of the chart of the front."""
_MORE = (
    "batch_size", "time_to_first_token_s", "time_per_output_token_s", "energy_joules_per_token",
    "area_mm2", "unit_cost_usd",
)  # fmt: skip
_HINTS = {
    True: "Nothing in the space is better than this front. Click a point to take it.",
    False: "The best that was found so far; “codesign enumerate” gives the exact front.",
}
_USUAL_AXES = ("throughput_tokens_per_s", "tdp_watts")
_ROUNDS = 3
"""[ours] Changes after which no valid design counts as near."""
_FOLLOWED = 8
"""[ours] Designs of which the neighbors are looked at in every further round."""


@frozen
class FrontPoints:
    """The front that designs are compared with.

    Attributes:
        rows: (p, d) a design of each point, in the order of its number.
        objectives: (p, m) minimized.
        is_exact: True if nothing in the space is better.
        picks: Places of the recommended designs by their names.
    """

    rows: IntArray
    objectives: FloatArray
    is_exact: bool
    picks: IntegerMap = field(default_factory=dict)


class Session:
    """Answers about designs of one space; it keeps nothing between two answers.

    Args:
        front: The front that designs are compared with; None if there is none.
    """

    def __init__(
        self, prepared: PreparedEvaluator, title: str, front: FrontPoints | None = None
    ) -> None:
        self._prepared = prepared
        self._title = title
        self._front = front
        self._space = prepared.problem.space
        self._axes = _axes(prepared)
        self._chart = None if front is None else _place_chart(front, self._axes, self._space)

    def start(self) -> JsonObject:
        """Data that the page needs once: parameters, the front, designs to begin with."""
        problem = self._prepared.problem
        limits = ", ".join(limit_words(problem, constraint) for constraint in problem.constraints)
        within = f", within {limits}" if limits else ""
        parameters = []
        for column, parameter in enumerate(self._space.parameters):
            prefixes = (name for name in self._space.pools if parameter.name.startswith(f"{name}_"))
            pool = next(prefixes, "")
            title = parameter.name.removeprefix(f"{pool}_")
            words = [setting_words(title, value) for value in parameter.values]
            parameters.append({
                "name": parameter.name,
                "title": words[0][0],
                "pool": pool,
                "values": [text for _, text in words],
                "is_ordered": parameter.kind != "categorical",
                "can_be_absent": bool(self._space.structure.has_absence[column]),
            })  # fmt: skip
        return {
            "name": self._title,
            "campaign": f"{self._title}, evaluated by {problem.evaluator_name}{within}",
            "parameters": parameters,
            "starts": self._starts(),
            "front": None if self._front is None else {
                "codes": self._front.rows.tolist(),
                "svg": draw(self._chart, WIDE) if self._chart else "",
                "hint": _HINTS[self._front.is_exact],
            },
            "hatches": hatch_patterns(),
        }  # fmt: skip

    def answer(self, codes: IntegerSequence) -> JsonObject:
        """One design in full, or the reason for its failure; with the nearest valid one.

        Args:
            codes: Position of each parameter's value; -1 if it is absent.

        Raises:
            InputError: Not a position of each parameter.
        """
        began = time.perf_counter()
        row = self._row(codes)
        answer: JsonObject = {"codes": row[0].tolist()}
        try:
            evaluated = self._prepared.explain_row(row)
        except JobError as error:
            answer |= {"broken": [str(error)], "figures": [], "words": "", "charts": "", "at": None}
        else:
            answer |= self._evaluated(evaluated)
        if answer["broken"]:
            answer["nearest"] = self._nearest(row)
        return answer | {"milliseconds": 1e3 * (time.perf_counter() - began)}

    def warm_up(self) -> None:
        """Load what the first answer needs."""
        self.answer(self._starts()[0]["codes"])

    def _evaluated(self, evaluated: EvaluatedDesign) -> JsonObject:
        metrics = evaluated.metrics
        metrics_by_name = self._prepared.problem.metrics
        axes = {axis.metric.name: axis for axis in self._axes}
        names = [
            name
            for name in dict.fromkeys([*axes, *_MORE])
            if np.isfinite(metrics.get(name, np.nan))
        ]
        line = line_chart(evaluated)
        charts = design_html(Account(evaluated), (), scales_of([evaluated]))
        if line is not None:
            charts += f"<h4>Time line of one pass</h4>{draw(line, WIDTH)}"
        place = None
        words = ""
        if self._front is not None and not evaluated.broken:
            points = self._front.objectives
            rows = self._front.rows
            words = FrontDistance.describe(self._prepared.problem, points, rows, metrics).words
        if self._chart is not None and evaluated.metrics:
            y, x = (float(metrics[self._axes[k].metric.name]) for k in (0, -1))
            place = place_on(self._chart, WIDE, x, y)
        return {
            "words": spoken_design(self._space, evaluated.design),
            "figures": [
                {
                    "title": metric_title(metric_of(name, metrics_by_name)),
                    "text": format_metric(metrics[name], metric_of(name, metrics_by_name)),
                    "value": float(metrics[name]),
                    "sense": axes[name].sense if name in axes else "",
                }
                for name in names
            ],
            "broken": evaluated.broken,
            "place": words,
            "charts": charts,
            "at": place,
        }

    def _row(self, codes: IntegerSequence) -> IntArray:
        """(1, d) the canonical design; what a choice brings to life takes its first value."""
        structure = self._space.structure
        n = len(self._space.parameters)
        if len(codes) != n:
            raise InputError(f"expected {n} positions, got {len(codes)}", "codes")
        for column, parameter in enumerate(self._space.parameters):
            if not -1 <= codes[column] < len(parameter.values):
                raise InputError(
                    f"expected -1 to {len(parameter.values) - 1}, got {codes[column]}",
                    parameter.name,
                )
        row = structure.canonical(np.array([codes], np.int64))
        for column in range(n):
            if structure.is_lacking(row, column)[0]:
                row[0, column] = 0
        return structure.canonical(row)

    def _nearest(self, row: IntArray) -> JsonObject | None:
        """The valid design that takes the fewest changes; of several the one most like it."""
        space = self._space
        seen = {row.tobytes()}
        frontier = row
        for _ in range(_ROUNDS):
            rows = np.concatenate([space.neighbors(neighbor) for neighbor in frontier])
            rows = np.unique(rows, axis=0) if len(rows) else rows
            rows = rows[[neighbor.tobytes() not in seen for neighbor in rows]]
            if not len(rows):
                return None
            seen |= {neighbor.tobytes() for neighbor in rows}
            problem = self._prepared.problem
            observed = problem.evaluate(rows, problem.deciding_metrics)
            objectives = np.maximum(observed.violations, 0.0).sum(axis=1)
            of_space = [np.maximum(values, 0.0) for values in self._space.violations(rows).values()]
            total = objectives + np.sum(of_space, axis=0) if of_space else objectives
            excess = np.nan_to_num(total, nan=np.inf)
            valid = np.flatnonzero(excess <= 0)
            changed = (rows != row).sum(axis=1)
            order = np.argsort(changed * 1000.0 + np.abs(rows - row).sum(axis=1), kind="stable")
            if len(valid):
                nearest = rows[next(i for i in order if excess[i] <= 0)]
                before = row[0]
                changes = [
                    f"{setting_words(parameter.name, parameter.values[0])[0]} "
                    f"{_text(parameter, before[k])} → {_text(parameter, nearest[k])}"
                    for k, parameter in enumerate(self._space.parameters)
                    if before[k] != nearest[k]
                ]
                return {"codes": nearest.tolist(), "text": ", ".join(changes)}
            frontier = rows[np.argsort(excess, kind="stable")[:_FOLLOWED]]
        return None

    def _starts(self) -> JsonRows:
        """Recommended designs, named ones of the space, points of the front between its ends."""
        starts = []
        for name, design in self._space.designs.items():
            with suppress(InputError):  # a campaign may fix a parameter otherwise
                codes = self._space.encode(design)[0].tolist()
                starts.append({"name": name, "codes": codes})
        if self._front is not None and len(self._front.rows):
            n = len(self._front.rows)
            spread = np.unique(np.linspace(0, n - 1, 5).astype(np.int64)).tolist()
            picks = {place: name for name, place in self._front.picks.items()}
            front = [
                {
                    "name": f"{picks[k]}: front {k + 1}" if k in picks else f"front {k + 1} of {n}",
                    "codes": self._front.rows[k].tolist(),
                }
                for k in dict.fromkeys([*picks, *spread])
            ]
            starts = front[: len(picks)] + starts + front[len(picks) :]
        if not starts:
            row = self._space.sample(np.random.default_rng(0), 1)
            starts = [{"name": "a random design", "codes": row[0].tolist()}]
        return starts


def _place_chart(front: FrontPoints, axes: Sequence[Objective], space: DesignSpace) -> Chart | None:
    """The front that designs stand against; both axes begin at zero."""
    places = np.unique(
        np.linspace(0, len(front.rows) - 1, min(len(front.rows), MOST_POINTS)).astype(int)
    )
    if len(axes) < 2 or not len(places):
        return None
    y, x = ((axes[k], axes[k].flipped(front.objectives[places, k])) for k in (0, -1))
    words = spoken_designs(space, space.decode(front.rows[places]))
    texts = [
        f"front {number + 1}\n{text}\n"
        + "\n".join(
            f"{metric_title(neighbor.metric)}: {format_metric(values[k], neighbor.metric)}"
            for neighbor, values in (y, x)
        )
        for k, (number, text) in enumerate(zip(places.tolist(), words, strict=True))
    ]
    order = np.argsort(x[1], kind="stable")
    step = "hv" if x[0].sense == "minimize" else "vh"
    marks: list[Mark] = []
    if len(axes) == 2:
        marks.append(Line(x[1][order], y[1][order], "gray", 1.3, step=step))
    marks.append(Points(x[1], y[1], "gray", size=7.0, texts=texts, ids=places.tolist(),
                        name="exact front" if front.is_exact else "front so far"))  # fmt: skip
    drawn = []
    for (neighbor, values), arrows in ((x, "→←"), (y, "↑↓")):
        ends = (0.0, 1.15 * float(values.max()) or 1.0)
        unit = axis_unit(ends, neighbor.metric.unit)
        arrow = arrows[neighbor.sense != "maximize"]
        title = metric_title(neighbor.metric) + (f" ({unit})" if unit else "")
        drawn.append(Axis(ends, f"{title}  {arrow} better", neighbor.metric.unit))
    return Chart([Panel(drawn[0], drawn[1], marks)], "Designs against the front")


def session_of_campaign(campaign: Campaign) -> Session:
    """A campaign's problem, with its exact front if that is stored, or the one that was found.

    Points have the numbers that designs have everywhere else.
    """
    prepared = load_compiled_loop(prepare_campaign(campaign))
    problem = campaign.problem
    name = campaign.definition.name
    if stored_front(problem, campaign.folder) is None and not campaign.store_path.exists():
        return Session(prepared, name)
    results = campaign.front_results()
    positions = results.front()
    places = {pick.key: pick.place for pick in picks_of(results, folded_front(results))}
    front = FrontPoints(
        results.rows[positions],
        results.objectives[positions],
        results.exact is not None,
        select_keys(places, PICK_KEYS),
    )
    return Session(prepared, name, front if len(problem.objectives) > 1 else None)


def _axes(prepared: PreparedEvaluator) -> tuple[Objective, ...]:
    """The objectives, or the usual ones where there is only one."""
    problem = prepared.problem
    metrics_by_name = {metric.name: metric for metric in problem.metrics}
    if len(problem.objectives) > 1 or not set(_USUAL_AXES) <= set(metrics_by_name):
        return problem.objectives
    return tuple(
        Objective(metrics_by_name[name], metrics_by_name[name].sense) for name in _USUAL_AXES
    )


def _text(parameter: Parameter, code: int) -> str:
    return "none" if code < 0 else setting_words(parameter.name, parameter.values[code])[1]
