"""Charts of one design: roofline, time, power, traffic, and what moves its objectives.

Charts of several designs share their scales, so that two of them can be compared side by side.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from codesign.base.columns import Fields, FloatDict, FloatPair, Strings
from codesign.base.metrics import Metric
from codesign.base.records import frozen
from codesign.insight.evaluated_design import EvaluatedDesign
from codesign.insight.uncertainty.uncertainty_results import Swing
from codesign.report import palette
from codesign.report.chart import Axis, Bars, Chart, Label, Line, Mark, Panel, Points, row_axis
from codesign.report.labels import (
    format_metric,
    format_value,
    metric_title,
    percent,
    row_title,
    spaced_name,
)  # fmt: skip
from codesign.report.pass_account import pass_account
from codesign.report.roofline_picture import operator_documents, roofline
from codesign.report.svg import axis_unit, wrap
from codesign.report.tables import constant_words

_MOST_ROWS = 12
_ROW = 21.0
_SHAPES = ("circle", "square", "triangle", "diamond", "cross")
HATCHES = {"off-chip": "/", "on-chip port": ".", "vector": "x", "power": "-", "memory": "|"}
"""Bounds are told apart without color too."""


@frozen
class Scales:
    """Ends of the axes that the charts of several designs share.

    Attributes:
        time_s: The longest time of one side of an operator, where only sides are known.
        watts: The largest power of a component.
        traffic_bytes: The least and the most bytes that cross a memory level.
        roofline: Ends of both axes of the roofline.
    """

    time_s: float
    watts: float
    traffic_bytes: FloatPair
    roofline: tuple[FloatPair, FloatPair]


def scales_of(designs: Iterable[EvaluatedDesign]) -> Scales:
    """The scales on which all these designs can be drawn; of systems, of their machines."""
    machines = [m for design in designs for m in (design.pools.values() or [design])]
    times, watts, moved, work, rates = [0.0], [0.0], [], [], []
    for machine in machines:
        rows = operator_documents(machine)
        times += [row.get(key, 0.0) for row in rows for key in ("compute_s", "memory_s")
                  if not row.get("time_s")]  # fmt: skip
        watts += [
            row.get(k) or 0.0 for row in machine.power for k in ("tdp_watts", "average_watts")
        ]
        moved += [
            amount for _, amounts in _traffic_rows(machine) for _, amount in amounts if amount
        ]
        picture = roofline(rows, machine)
        if picture:
            work += [point["flop_per_byte"] for point in picture["points"]]
            work += [picture["peak_flop_per_s"] / x["bytes_per_s"] for x in picture["ceilings"]]
            rates += [point["flop_per_s"] for point in picture["points"]]
            rates += [picture["peak_flop_per_s"], picture["vector_per_s"] or np.nan]
    ends = [
        (float(np.nanmin(values)) / 3, float(np.nanmax(values)) * 3) if values else (1.0, 10.0)
        for values in (work, rates)
    ]
    traffic = (min(moved, default=1.0), max(moved, default=10.0))
    return Scales(max(times), max(watts), traffic, (ends[0], ends[1]))


def roofline_chart(evaluated: EvaluatedDesign, scales: Scales) -> Chart | None:
    """Operators under the roofs of compute and memories; None without work and traffic.

    An operator has a point per memory level, at its work per byte that crosses the level; the
    area of a point is its share of the time. A roof is dashed where the evaluator lets less of it
    be used, and that lower roof is drawn too.
    """
    picture = roofline(operator_documents(evaluated), evaluated)
    if picture is None:
        return None
    unit = f"{picture['unit']}/s"
    x0, x1 = scales.roofline[0]
    marks: list[Mark] = []
    for ceiling in picture["ceilings"]:
        hue = palette.PARTS.get(ceiling["level"], "orange")
        usable = ceiling["usable_bytes_per_s"]
        roofs = [(ceiling["bytes_per_s"], picture["peak_flop_per_s"], "dash" if usable else "")]
        if usable:
            roofs.append((usable, picture["usable_flop_per_s"] or picture["peak_flop_per_s"], ""))
        for rate, top, dash in roofs:
            text = f"{ceiling['title']} {format_value(rate, 'B/s', 3)}"
            marks.append(Line([x0, top / rate], [x0 * rate, top], hue, 1.6, dash, text=text))
    flat = [
        ("peak", picture["peak_flop_per_s"], "ink", "dash" if picture["usable_flop_per_s"] else ""),
        ("usable", picture["usable_flop_per_s"], "ink", ""),
        ("vector unit", picture["vector_per_s"], palette.BOUNDS["vector"], "dot"),
    ]
    for name, rate, hue, dash in flat:
        if rate:
            marks.append(Line([x0, x1], [rate, rate], hue, 1.6, dash))
            words = f"{name} {format_value(rate, unit, 3)}"
            marks.append(Label(x0, rate, words, "quiet", is_line=True, size=10))
    marks += _roofline_points(picture)
    marks += [
        Label(point["flop_per_byte"], point["flop_per_s"], spaced_name(point["operator"]), size=10)
        for point in picture["named"]
    ]
    off = ", ".join(
        f"{spaced_name(row['operator'])} {100 * row['time_share']:.3g} %"
        for row in picture["off_roof"]
    )
    foot = f"Without a point (no matrix products): {off} of the {picture['shares_of']}"
    title = f"Work per byte that crosses the level ({picture['unit']}/B)"
    panel = Panel(
        Axis(scales.roofline[0], "\n".join([title, *([wrap(foot, 300.0)] if off else [])]),
             is_log=True),
        Axis(scales.roofline[1], unit, is_log=True), marks, height=250.0,
    )  # fmt: skip
    return Chart([panel], "Roofline: operators under the roofs of compute and memories")


def _roofline_points(picture: Fields) -> Iterable[Mark]:
    total = sum({p["operator"]: p["time_s"] for p in picture["points"]}.values())
    titles = {x["level"]: x["title"] for x in picture["ceilings"]}
    levels = list(dict.fromkeys(point["level"] for point in picture["points"]))
    for place, level in enumerate(levels):
        points = [point for point in picture["points"] if point["level"] == level]
        title = titles.get(level, level.replace("_", " "))
        yield Points(
            [p["flop_per_byte"] for p in points], [p["flop_per_s"] for p in points],
            palette.PARTS.get(level, "orange"), _SHAPES[place % len(_SHAPES)],
            [5.0 + 13.0 * float(np.sqrt(p["time_s"] / total)) for p in points],
            opacity=0.85, name=f"at {title}",
            texts=[
                f"{p['operator']}: {100 * p['time_s'] / total:.3g} % of the time\n"
                f"{p['flop_per_byte']:.3g} {picture['unit']}/B at {title}, "
                f"{format_value(p['flop_per_s'], picture['unit'] + '/s', 3)}"
                for p in points
            ],
        )  # fmt: skip


def time_panel(evaluated: EvaluatedDesign, scales: Scales) -> Panel | None:
    """Time of the slowest operators by what bounds it; None if operators have no time."""
    rows = [row for row in operator_documents(evaluated) if row.get("time_s", 0.0) > 0]
    rows = sorted(rows, key=lambda row: -row["time_s"])
    if not rows:
        return _sides_panel(evaluated, scales)
    if len(rows) > _MOST_ROWS:
        rest = rows[_MOST_ROWS - 1 :]
        rest_s = sum(row["time_s"] for row in rest)
        others = {"name": f"{len(rest)} others", "bound": "several", "time_s": rest_s}
        rows = [*rows[: _MOST_ROWS - 1], others]
    one_pass = pass_account(evaluated)
    total = one_pass["pass_s"] if one_pass else sum(row["time_s"] for row in rows)
    marks = []
    for bound in dict.fromkeys(str(row["bound"]) for row in rows):
        places = [i for i, row in enumerate(rows) if row["bound"] == bound]
        shares = [rows[i]["time_s"] / total for i in places]
        texts = [
            f"{rows[i]['name']}: {format_value(rows[i]['time_s'], 's')}, bound by {bound}"
            + (f", {format_value(joules, 'J')}" if (joules := rows[i].get("energy_joules")) else "")
            for i in places
        ]
        labels = [percent(share, 2) for share in shares]
        marks.append(Bars(
            places, [100 * share for share in shares], hue=palette.BOUNDS.get(bound, "gray"),
            hatch=HATCHES.get(bound, ""), name=bound, texts=texts, labels=labels,
        ))  # fmt: skip
    side = "; vector unit in parallel" if one_pass and one_pass["is_side_by_side"] else ""
    share = "one pass" if one_pass else f"all {counted_rows(evaluated)}s"
    title = f"% of the time of {share}, {format_value(total, 's', 3)}{side}"
    axis = Axis((0.0, 112.0), title, ticks=[(x, str(x)) for x in (0, 20, 40, 60, 80, 100)])
    return _rows_panel(axis, [row_title(row) for row in rows], marks, _ROW + 6.0 / len(rows))


def counted_rows(evaluated: EvaluatedDesign) -> str:
    """The rows of a machine's time: operators, or the workloads of a mix."""
    is_mix = any(row.get("kind") == "workload" for row in evaluated.operators)
    return "workload" if is_mix else "operator"


def _rows_panel(x: Axis, names: Strings, marks: Sequence[Mark], height: float) -> Panel:
    """A panel with a row for each name, as high as that many heights."""
    wrapped = [wrap(name, 130.0, 10.0) for name in names]
    row = max(height, *(13.0 + 13.0 * name.count("\n") for name in wrapped))
    return Panel(x, row_axis(wrapped), marks, height=row * len(names))


def _sides_panel(evaluated: EvaluatedDesign, scales: Scales) -> Panel | None:
    """Compute and memory time, of evaluators in which the sums of both race."""

    def longer(row: Fields) -> float:
        return float(max(row.get("compute_s", 0.0), row.get("memory_s", 0.0)))

    rows = [row for row in operator_documents(evaluated) if longer(row) > 0]
    rows = sorted(rows, key=lambda row: -longer(row))[:_MOST_ROWS]
    if not rows:
        return None
    places = np.arange(len(rows))
    marks = [
        Bars(places + shift, [row.get(f"{side}_s", 0.0) for row in rows], height=0.34,
             hue=palette.BOUNDS[side], hatch=HATCHES.get(side, ""), name=side,
             texts=[
                 f"{row['name']}: {format_value(row.get(f'{side}_s'), 's')} of {side}"
                 for row in rows
             ])
        for side, shift in (("compute", -0.18), ("memory", 0.18))
    ]  # fmt: skip
    title = f"Time ({axis_unit((0, scales.time_s), 's')}); both sides race as sums"
    axis = Axis((0.0, 1.1 * scales.time_s or 1.0), title, "s")
    return _rows_panel(axis, [str(row["name"]) for row in rows], marks, 1.4 * _ROW)


def power_panel(evaluated: EvaluatedDesign, scales: Scales) -> Panel | None:
    """Power of each component, at TDP and on average; None if the evaluator reports none."""
    rows = evaluated.power
    places = np.arange(len(rows))
    marks = []
    sums = []
    for key, name, shift, opacity, hatch in (
        ("average_watts", "on average", -0.19, 1.0, ""), ("tdp_watts", "at TDP", 0.19, 0.45, "/"),
    ):  # fmt: skip
        values = [row.get(key) for row in rows]
        if not any(value is not None for value in values):
            continue
        watts = [np.nan if value is None else float(value) for value in values]
        words = [format_value(value, "W", 3) for value in values]
        sums.append(f"{format_value(np.nansum(watts), 'W', 3)} {name}")
        marks.append(Bars(
            places + shift, watts, height=0.36, hue="blue", hatch=hatch, opacity=opacity, name=name,
            texts=[f"{row_title(r)}: {w} {name}" for r, w in zip(rows, words, strict=True)],
            labels=words,
        ))  # fmt: skip
    if not marks:
        return None
    work = " of the longest workload" * (counted_rows(evaluated) == "workload")
    title = f"Power{work} ({axis_unit((0, scales.watts), 'W')}): {', '.join(sums)}"
    axis = Axis((0.0, 1.15 * scales.watts or 1.0), title, "W")
    return _rows_panel(axis, list(map(row_title, rows)), marks, 1.5 * _ROW)


def breakdown_chart(evaluated: EvaluatedDesign, scales: Scales) -> Chart | None:
    """Time by operator and power by component; None if the evaluator reports neither."""
    panels = list(filter(None, [time_panel(evaluated, scales), power_panel(evaluated, scales)]))
    alt = "Time by operator and what bounds it; power by component"
    return Chart(panels, alt, columns=2) if panels else None


def _traffic_rows(evaluated: EvaluatedDesign) -> list[tuple[str, list[tuple[str, float]]]]:
    """Bytes by memory level: read and written, or moved where only that is known."""
    if any(level.get("read_bytes") is not None for level in evaluated.levels):
        return [
            (row_title(level), [("read", level.get("read_bytes") or 0.0),
                                ("written", level.get("written_bytes") or 0.0)])
            for level in evaluated.levels
        ]  # fmt: skip
    sums: FloatDict = {}
    for row in operator_documents(evaluated):
        for level, moved in row.get("traffic_bytes", {}).items():
            sums[level] = sums.get(level, 0.0) + moved
    return [(level.replace("_", " "), [("moved", moved)]) for level, moved in sums.items()]


def traffic_chart(evaluated: EvaluatedDesign, scales: Scales) -> Chart | None:
    """Bytes that cross each memory level; None if the evaluator does not tell."""
    rows = _traffic_rows(evaluated)
    names = list(
        dict.fromkeys(name for _, amounts in rows for name, amount in amounts if amount > 0)
    )
    if not names:
        return None
    marks = []
    for k, name in enumerate(names):
        moved = [dict(amounts).get(name, 0.0) for _, amounts in rows]
        shift = 0.36 * (k - (len(names) - 1) / 2)
        words = [format_value(amount, "B", 3) if amount > 0 else "" for amount in moved]
        marks.append(Bars(
            np.arange(len(rows)) + shift, [x if x > 0 else np.nan for x in moved], height=0.34,
            hue=("green", "purple")[k % 2], hatch=("", "x")[k % 2], name=name, labels=words,
            texts=[f"{title}: {w} {name}" for (title, _), w in zip(rows, words, strict=True)],
        ))  # fmt: skip
    low, high = scales.traffic_bytes
    axis = Axis((low / 4, high * 8), "Bytes of one pass, log scale", "B", is_log=True)
    panel = _rows_panel(axis, [title for title, _ in rows], marks, 1.5 * _ROW)
    return Chart([panel], "Traffic by memory level")


def swing_chart(metric: Metric, value: float, swings: Sequence[Swing]) -> Chart:
    """Changes of a metric as single constants move over the ranges of their sources."""
    rows = np.arange(len(swings))
    names = [constant_words(swing.technology, swing.number) for swing in swings]
    marks: list[Mark] = []
    ends = np.array([[swing.at_low, swing.at_high] for swing in swings])
    looks = (("low", "blue", ""), ("high", "vermilion", "/"))
    for values, (end, hue, hatch) in zip(ends.T, looks, strict=True):
        words = f"at the {end} end of its range"
        texts = [
            f"{name} {words}: {format_metric(v, metric)}"
            for name, v in zip(names, values, strict=True)
        ]
        marks.append(
            Bars(rows, values - value, value, hue=hue, hatch=hatch, texts=texts, name=words)
        )
    low = min(value, float(ends.min()))
    high = max(value, float(ends.max()))
    margin = 0.05 * (high - low) or 0.05 * abs(value) or 1.0
    marks.append(Line([value] * 2, [-0.5, len(swings) - 0.5], width=1.0))
    limits = (low - margin, high + margin)
    unit = axis_unit(limits, metric.unit)
    title = metric_title(metric) + (f" ({unit})" if unit else "")
    panel = _rows_panel(Axis(limits, title, metric.unit), names, marks, _ROW + 6 / len(names))
    return Chart([panel], f"What moves {metric_title(metric)}")
