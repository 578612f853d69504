"""Figures of one design: roofline, and where time and power go.

See ``drawing.py`` for what all figures share.
"""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from codesign.base.columns import FloatArray
from codesign.base.errors import InputError
from codesign.report import palette
from codesign.report.callouts import name_line, write_names
from codesign.report.drawing import (
    COLORS,
    USUAL_WIDTH_MM,
    drawing_style,
    is_column,
    letters_that_fit,
    new_figure,
    save_figure,
    scale_ticks,
)
from codesign.report.labels import format_value, row_title
from codesign.report.roofline_picture import operator_documents, roofline

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from codesign.report.chosen import ChosenDesign

BOUND_COLORS = palette.paper(palette.BOUNDS)
_HATCHES = {
    "compute": "", "off-chip": "//", "on-chip port": "..", "vector": "xx", "power": "--", "none": ""
}  # fmt: skip
"""Bounds are told apart without color too."""
_LEVEL_COLORS = palette.paper(palette.LEVELS)
_MARKERS = ("o", "s", "^", "D", "v", "P")


def save_roofline(chosen: ChosenDesign, path: Path, width_mm: float | None = None) -> Path:
    """Draw every operator with multiply-accumulates under the roofs of compute and memories.

    An operator has a point per memory level, in the level's color, at the work that it does per
    byte that crosses the level; the area of a point is its share of the time. A roof is broken
    where the evaluator lets less of it be used, which is drawn beside it.

    Raises:
        InputError: The evaluator reports no operators with work and traffic.
    """
    _need(chosen, chosen.evaluated.operators, ("traffic_bytes", "time_s"))
    operators = operator_documents(chosen.evaluated)
    picture = roofline(operators, chosen.evaluated)
    if picture is None:
        raise InputError("no operator has both arithmetic and traffic", chosen.title)
    with drawing_style(width_mm):
        width, n_columns = width_mm or USUAL_WIDTH_MM, 1 if is_column(width_mm) else 2
        foot = textwrap.wrap(_off_roof_words(picture), letters_that_fit(width))
        n_lines = len(foot) + -(-len(picture["ceilings"]) // n_columns)
        slope = 0.8 if is_column(width_mm) else 0.62  # names need room
        figure = figure_of(chosen, "roofline", width_mm, slope * width + 12.0 + 5.0 * n_lines)
        axes = figure.subplots()
        ends = _ends(picture)
        axes.set(xscale="log", yscale="log", xlim=ends[0], ylim=ends[1])
        flat_roofs = _draw_roofs(axes, picture, ends[0])
        _draw_points(axes, picture, sum(row.get("time_s", 0.0) for row in operators))
        axes.set_xlabel(
            "\n".join([f"Work per byte that crosses the level ({picture['unit']}/B)", *foot])
        )
        axes.set_ylabel(f"Performance ({picture['unit']}/s)")
        figure.legend(
            loc="outside lower center", ncols=n_columns, fontsize="small", markerscale=0.6
        )
        for words, rate in flat_roofs:
            name_line(axes, words, "#333333", y=rate)
        names = [point["operator"] for point in picture["named"]]
        write_names(axes, _places(picture["named"]), names, "#333333", reach=6.0)
        return save_figure(figure, path)


def _off_roof_words(picture: Mapping[str, Any]) -> str:
    """Operators that the roofline cannot show, with their share of the time."""
    rows = picture["off_roof"]
    listed = ", ".join(f"{row['operator']} {100 * row['time_share']:.3g} %" for row in rows)
    return (
        f"Without a point (no matrix products): {listed} of the {picture['shares_of']}"
        if rows
        else ""
    )


def _places(points: Sequence[Mapping[str, Any]]) -> FloatArray:
    return np.array([[point["flop_per_byte"], point["flop_per_s"]] for point in points])


def _ends(picture: Mapping[str, Any]) -> FloatArray:
    """(2, 2) ends of both axes."""
    peak = picture["peak_flop_per_s"]
    corners = [[peak / item["bytes_per_s"], peak] for item in picture["ceilings"]]
    corners += [[np.nan, peak], [np.nan, picture["vector_per_s"] or np.nan]]
    drawn = np.concatenate([_places(picture["points"]), corners])
    return np.array([np.nanmin(drawn, axis=0) / 5, np.nanmax(drawn, axis=0) * 5]).T


def _draw_roofs(
    axes: Axes, picture: Mapping[str, Any], ends: FloatArray
) -> list[tuple[str, float]]:
    """Draw them; returns words and rate of those without a slope."""
    peak, usable = picture["peak_flop_per_s"], picture["usable_flop_per_s"]
    vector = picture["vector_per_s"]
    line = np.geomspace(ends[0], ends[1], 200)
    for ceiling in picture["ceilings"]:
        color, own = _level_color(ceiling["level"]), ceiling["usable_bytes_per_s"]
        top = np.minimum(line * ceiling["bytes_per_s"], peak)
        axes.plot(line, top, color=color, linewidth=1.1, linestyle="--" if own else "-")
        if own:
            axes.plot(line, np.minimum(line * own, usable or peak), color=color, linewidth=1.4)
    roofs = [
        ("peak", peak, "black", "--" if usable else "-"),
        ("usable", usable, "black", "-"),
        ("vector unit", vector, BOUND_COLORS["vector"], ":"),
    ]
    roofs = [roof for roof in roofs if roof[1]]
    unit = f"{picture['unit']}/s"
    for _, rate, color, style in roofs:
        axes.axhline(rate, color=color, linewidth=1.4, linestyle=style)
    return [(f"{name} {format_value(rate, unit, 3)}", rate) for name, rate, _, _ in roofs]


def _draw_points(axes: Axes, picture: Mapping[str, Any], total_s: float) -> None:
    ceilings = {item["level"]: item for item in picture["ceilings"]}
    levels = dict.fromkeys(point["level"] for point in picture["points"])
    for level, marker in zip(levels, itertools.cycle(_MARKERS)):
        points = [point for point in picture["points"] if point["level"] == level]
        x, y = _places(points).T
        axes.scatter(
            x,
            y,
            s=[20 + 200 * point["time_s"] / total_s for point in points],
            marker=marker,
            color=_level_color(level),
            alpha=0.8,
            edgecolors="white",
            linewidths=0.6,
            zorder=3,
            label=_ceiling_words(ceilings[level]) if level in ceilings else level,
        )


def _ceiling_words(ceiling: Mapping[str, Any]) -> str:
    """Such as "tier 1: 4 TB/s, 3 TB/s usable"."""
    own = ceiling["usable_bytes_per_s"]
    words = f"{ceiling['title']}: {format_value(ceiling['bytes_per_s'], 'B/s', 3)}"
    return f"{words}, {format_value(own, 'B/s', 3)} usable" if own else words


def _level_color(name: str) -> str:
    return _LEVEL_COLORS.get(name, palette.PAPER["orange"])


def save_breakdown(chosen: ChosenDesign, path: Path, width_mm: float | None = None) -> Path:
    """Draw the time of each operator by what bounds it, and the power of each component.

    Raises:
        InputError: The evaluator reports no times or powers.
    """
    rows, power = chosen.evaluated.operators, chosen.evaluated.power
    _need(chosen, rows, ("name", "time_s", "bound"))
    _need(chosen, power, ("name", "tdp_watts", "average_watts"))
    with drawing_style(width_mm):
        times, watts = _BAR_MM * len(rows) + 22.0, 1.8 * _BAR_MM * len(power) + 22.0
        if is_column(width_mm):
            figure = figure_of(chosen, "time and power", width_mm, times + watts + 10.0)
            first, second = figure.subplots(2, 1, height_ratios=(times, watts))
        else:
            figure = figure_of(chosen, "time and power", width_mm, max(times, watts) + 10.0)
            first, second = figure.subplots(1, 2, width_ratios=(3, 2))
        _draw_times(first, rows)
        _draw_power(second, power)
        return save_figure(figure, path)


_BAR_MM = 6.0


def _draw_times(axes: Axes, rows: Sequence[Any]) -> None:
    total = sum(row["time_s"] for row in rows)
    names = [str(row["name"]).replace("_", " ") for row in rows]
    bounds = [row["bound"] for row in rows if row["time_s"] > 0]
    for bound in dict.fromkeys(bounds):
        positions = [i for i, row in enumerate(rows) if row["bound"] == bound]
        axes.barh(
            positions,
            [rows[i]["time_s"] for i in positions],
            color=BOUND_COLORS.get(bound, "#9A9A9A"),
            hatch=_HATCHES.get(bound, ""),
            edgecolor="white",
            label=bound,
        )
    for i, row in enumerate(rows):
        axes.annotate(
            _time_words(row["time_s"], total),
            (row["time_s"], i), xytext=(3, 0), textcoords="offset points", va="center",
            fontsize="small",
        )  # fmt: skip
    axes.set_yticks(range(len(names)), names, fontsize="small")
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)
    axes.set_xlim(0, 1.6 * max(row["time_s"] for row in rows) or 1.0)
    axes.set_xlabel(f"Time of one pass, all instances ({scale_ticks(axes.xaxis, 's')})")
    axes.legend(
        title="bound", ncols=len(set(bounds)), fontsize="small", title_fontsize="small",
        loc="lower center", bbox_to_anchor=(0.5, 1.0), borderaxespad=0.1,
    )  # fmt: skip


def _time_words(time_s: float, total_s: float) -> str:
    if time_s <= 0:
        return "0 s"
    share = 100 * time_s / total_s
    return f"{format_value(time_s, 's', 3)} ({'< 0.1' if share < 0.1 else f'{share:.1f}'} %)"


def _draw_power(axes: Axes, power: Sequence[Any]) -> None:
    names = [row_title(row) for row in power]
    positions = np.arange(len(names))
    for key, shift, color, hatch in (
        ("average_watts", -0.2, COLORS[0], ""),
        ("tdp_watts", 0.2, "#B9D3E6", "//"),
    ):
        values = [row[key] for row in power]
        label = "average over the phase" if key == "average_watts" else "TDP"
        total = format_value(sum(values), "W", 3)
        axes.barh(
            positions + shift, values, 0.38, color=color, hatch=hatch, edgecolor="white",
            label=f"{label}: {total}",
        )  # fmt: skip
        for i, value in enumerate(values):
            axes.annotate(
                format_value(value, "W", 3), (value, i + shift), xytext=(3, 0),
                textcoords="offset points", va="center", fontsize="small",
            )  # fmt: skip
    axes.set_yticks(positions, names, fontsize="small")
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)
    axes.set_xlim(0, 1.3 * max(max(row["average_watts"], row["tdp_watts"]) for row in power) or 1.0)
    axes.set_xlabel(f"Power ({scale_ticks(axes.xaxis, 'W')})")
    axes.legend(
        fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1.0), borderaxespad=0.1,
    )  # fmt: skip


def figure_of(
    chosen: ChosenDesign, subject: str, width_mm: float | None, height_mm: float
) -> Figure:
    """An empty figure that says of which design it is, and whether that breaks a limit."""
    broken = " (breaks a limit)" if chosen.evaluated.broken else ""
    title = f"{chosen.title}: {subject}{broken}\n{chosen.words}"
    return new_figure(width_mm, height_mm, title, chosen.results)


def _need(chosen: ChosenDesign, rows: Sequence[Any], keys: Sequence[str]) -> None:
    """Raises InputError if an evaluator's explanation lacks what is to be drawn."""
    missing = [key for key in keys if not rows or key not in rows[0]]
    if missing:
        name = chosen.evaluated.inputs["evaluator"]
        raise InputError(
            f"evaluator {name!r} reports no {', '.join(missing)} of a design; npu and "
            "simulation do",
            chosen.title,
        )
