"""Figures of one design: roofline, and where time and power go.

Files are deterministic, as all figures are; see ``figures.py`` for the look.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from codesign.errors import InputError
from codesign.report.figures import COLORS, drawing_style, save_figure
from codesign.report.labels import format_value

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from codesign.report.chosen import ChosenDesign

BOUND_COLORS = {
    "compute": COLORS[0],
    "off-chip": COLORS[1],
    "on-chip port": COLORS[2],
    "vector": COLORS[3],
    "none": "#9A9A9A",
}
_HATCHES = {"compute": "", "off-chip": "//", "on-chip port": "..", "vector": "xx", "none": ""}
"""Bounds are told apart without color too."""
_MARKERS = {"compute": "o", "off-chip": "s", "on-chip port": "^", "vector": "D", "none": "x"}


def save_roofline(chosen: ChosenDesign, path: Path) -> Path:
    """Draw every operator with multiply-accumulates under the roofs of compute and bandwidth.

    Intensity counts the bytes that cross between off-chip and on-chip memory; the area of a
    point is its share of the time.

    Raises:
        MissingExtraError: matplotlib is not installed.
        InputError: The evaluator reports no operators with work and traffic, or the file cannot
            be written.
    """
    points = _points(chosen)
    peak = float(chosen.evaluated.metrics["peak_flop_per_s"])
    with drawing_style():
        figure = new_figure(chosen, "roofline", (7.2, 4.8))
        axes = figure.subplots()
        xs = [point.intensity for point in points]
        levels = [level for level in chosen.evaluated.levels if level["bandwidth_bytes_per_s"] > 0]
        ridges = [peak / level["bandwidth_bytes_per_s"] for level in levels]
        ends = (min([*xs, *ridges]) / 4, max([*xs, *ridges]) * 8)
        _draw_roofs(axes, levels, peak, ends)
        axes.set(xscale="log", yscale="log", xlim=ends)
        _draw_points(axes, points)
        axes.set_xlabel("Operational intensity (FLOP per byte of off-chip traffic)")
        axes.set_ylabel("Performance (FLOP/s)")
        axes.legend(loc="lower right", fontsize=8)
        return save_figure(figure, path)


@dataclass(frozen=True)
class _Point:
    name: str
    bound: str
    intensity: float
    flop_per_s: float
    share: float


def _points(chosen: ChosenDesign) -> list[_Point]:
    _need(chosen, chosen.evaluated.operators, ("multiply_accumulates", "traffic_bytes", "time_s"))
    _need(chosen, chosen.evaluated.levels, ("bandwidth_bytes_per_s",))
    options = getattr(chosen.evaluated.evaluator, "options", None)
    is_staged = getattr(options, "topology", "staged") == "staged"
    points = []
    for row in chosen.evaluated.operators:
        moved = crossing_bytes(row["traffic_bytes"], is_staged)
        work = 2.0 * row["multiply_accumulates"]
        if work > 0 and moved > 0 and row["time_s"] > 0:
            rate = work / row["time_s"]
            points.append(_Point(row["name"], row["bound"], work / moved, rate, row["time_share"]))
    if not points:
        raise InputError("no operator has both arithmetic and off-chip traffic", chosen.title)
    return points


def crossing_bytes(traffic_bytes: Mapping[str, float], is_staged: bool) -> float:
    """Bytes between off-chip and on-chip memory, from the traffic of each tier's port.

    Staged, a tier's port carries what it sends up and what it takes from below, ``x_i + x_{i+1}``,
    so that ``x_1 = t_1 - t_2 + t_3``; in parallel every tier sends its own.

    Examples:
        >>> crossing_bytes({"on_chip": 9.0, "tier1": 5.0, "tier2": 2.0}, True)
        3.0
    """
    tiers = [traffic_bytes.get(f"tier{tier}", 0.0) for tier in (1, 2, 3)]
    return tiers[0] - tiers[1] + tiers[2] if is_staged else sum(tiers)


def _draw_roofs(axes: Axes, levels: Sequence[Any], peak: float, ends: tuple[float, float]) -> None:
    axes.axhline(peak, color="black", linewidth=1.4)
    text = f"peak {format_value(peak, 'FLOP/s', 3)}"
    axes.annotate(
        text, (ends[1], peak), xytext=(-4, 4), textcoords="offset points", ha="right", fontsize=8
    )
    line = np.geomspace(*ends, 200)
    for number, level in enumerate(levels):
        rate = float(level["bandwidth_bytes_per_s"])
        roof = np.minimum(line * rate, peak)
        title = str(level["name"]).replace("_", "-").replace("tier", "tier ")
        axes.plot(
            line,
            roof,
            color="#555555",
            linestyle=("-", "--", "-.", ":")[number % 4],
            linewidth=1.1,
            label=f"{title}: {format_value(rate, 'B/s', 3)}",
        )


def _draw_points(axes: Axes, points: Sequence[_Point]) -> None:
    for bound in dict.fromkeys(point.bound for point in points):
        listed = [point for point in points if point.bound == bound]
        axes.scatter(
            [point.intensity for point in listed],
            [point.flop_per_s for point in listed],
            s=[30 + 500 * point.share for point in listed],
            marker=_MARKERS.get(bound, "o"),
            color=BOUND_COLORS.get(bound, "#9A9A9A"),
            alpha=0.75,
            edgecolors="white",
            linewidths=0.6,
            label=f"bound: {bound}",
            zorder=3,
        )
    _name_points(axes, points)


def _name_points(axes: Axes, points: Sequence[_Point]) -> None:
    """Names below the points, one under the other where points are close together."""
    low, high = np.log10(axes.get_xlim())
    wide = 0.19 * (high - low)  # of a name, in decades
    placed: list[tuple[float, float, int]] = []
    for point in sorted(points, key=lambda item: item.intensity):
        x, y = float(np.log10(point.intensity)), float(np.log10(point.flop_per_s))
        taken = {row for px, py, row in placed if abs(x - px) < wide and abs(y - py) < 0.6}
        near = next(row for row in range(len(points)) if row not in taken)
        placed.append((x, y, near))
        axes.annotate(
            point.name.replace("_", " "),
            (point.intensity, point.flop_per_s),
            xytext=(0, -20 - 10 * near),
            textcoords="offset points",
            ha="center",
            fontsize=7,
            color="#333333",
            arrowprops={"arrowstyle": "-", "color": "#BBBBBB", "linewidth": 0.5},
        )


def save_breakdown(chosen: ChosenDesign, path: Path) -> Path:
    """Draw the time of each operator by what bounds it, and the power of each component.

    Raises:
        MissingExtraError: matplotlib is not installed.
        InputError: The evaluator reports no times or powers, or the file cannot be written.
    """
    rows, power = chosen.evaluated.operators, chosen.evaluated.power
    _need(chosen, rows, ("name", "time_s", "bound"))
    _need(chosen, power, ("component", "tdp_watts", "average_watts"))
    with drawing_style():
        figure = new_figure(chosen, "time and power", (10.0, 0.28 * max(len(rows), 8) + 1.6))
        left, right = figure.subplots(1, 2, width_ratios=(3, 2))
        _draw_times(left, rows)
        _draw_power(right, power)
        return save_figure(figure, path)


def _draw_times(axes: Axes, rows: Sequence[Any]) -> None:
    total = sum(row["time_s"] for row in rows)
    names = [str(row["name"]).replace("_", " ") for row in rows]
    for bound in dict.fromkeys(row["bound"] for row in rows):
        at = [i for i, row in enumerate(rows) if row["bound"] == bound]
        axes.barh(
            at,
            [rows[i]["time_s"] for i in at],
            color=BOUND_COLORS.get(bound, "#9A9A9A"),
            hatch=_HATCHES.get(bound, ""),
            edgecolor="white",
            label=bound,
        )
    for i, row in enumerate(rows):
        share = 100 * row["time_s"] / total if total else 0.0
        axes.annotate(
            f"{format_value(row['time_s'], 's', 3)} ({share:.3g} %)",
            (row["time_s"], i), xytext=(3, 0), textcoords="offset points", va="center", fontsize=7,
        )  # fmt: skip
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("Time (s) in one pass, all instances")
    axes.margins(x=0.3)
    axes.legend(title="Bound", loc="lower right", fontsize=8)


def _draw_power(axes: Axes, power: Sequence[Any]) -> None:
    names = [str(row["component"]).replace("_", "-").replace("tier", "tier ") for row in power]
    at = np.arange(len(names))
    for key, shift, color, hatch in (
        ("average_watts", -0.2, COLORS[0], ""),
        ("tdp_watts", 0.2, "#B9D3E6", "//"),
    ):
        values = [row[key] for row in power]
        label = "average" if key == "average_watts" else "TDP"
        total = format_value(sum(values), "W", 3)
        axes.barh(
            at + shift, values, 0.38, color=color, hatch=hatch, edgecolor="white",
            label=f"{label}, {total}",
        )  # fmt: skip
        for i, value in enumerate(values):
            axes.annotate(
                format_value(value, "W", 3), (value, i + shift), xytext=(3, 0),
                textcoords="offset points", va="center", fontsize=7,
            )  # fmt: skip
    axes.set_yticks(at, names, fontsize=8)
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("Power (W): energy of the phase over its time")
    axes.margins(x=0.2)
    axes.legend(loc="lower right", fontsize=8)


def new_figure(chosen: ChosenDesign, what: str, size: tuple[float, float]) -> Figure:
    """An empty figure that says of which design it is, and whether that breaks a limit."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    broken = " (breaks a limit)" if chosen.broken else ""
    figure.suptitle(f"{chosen.title}: {what}{broken}\n{chosen.words}", fontsize=9)
    return figure


def _need(chosen: ChosenDesign, rows: Sequence[Any], keys: Sequence[str]) -> None:
    """Raises InputError if an evaluator's explanation lacks what is to be drawn."""
    missing = [key for key in keys if not rows or key not in rows[0]]
    if missing:
        name = chosen.evaluated.asked["evaluator"]
        raise InputError(
            f"evaluator {name!r} reports no {', '.join(missing)} of a design; npu and "
            "simulation do",
            chosen.title,
        )
