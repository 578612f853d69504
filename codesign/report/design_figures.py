"""Figures of one design: roofline, and where time and power go.

See ``drawing.py`` for what all figures share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from codesign.columns import FloatArray
from codesign.errors import InputError
from codesign.report import palette
from codesign.report.callouts import write_names
from codesign.report.drawing import (
    COLORS,
    USUAL_WIDTH_MM,
    drawing_style,
    is_column,
    new_figure,
    save_figure,
    scale_ticks,
)
from codesign.report.labels import format_value

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from codesign.report.chosen import ChosenDesign

BOUND_COLORS = palette.paper(palette.BOUNDS)
_HATCHES = {
    "compute": "", "off-chip": "//", "on-chip port": "..", "vector": "xx", "power": "--", "none": ""
}  # fmt: skip
"""Bounds are told apart without color too."""
_MARKERS = {"compute": "o", "off-chip": "s", "on-chip port": "^", "vector": "D", "none": "x"}


def save_roofline(chosen: ChosenDesign, path: Path, width_mm: float | None = None) -> Path:
    """Draw every operator with multiply-accumulates under the roofs of compute and bandwidth.

    Intensity counts the bytes that cross between off-chip and on-chip memory, so the roofs are
    those of the off-chip tiers; the area of a point is its share of the time.

    Args:
        chosen: The design.
        path: PNG, SVG or PDF.
        width_mm: How wide it will be printed; both columns of a page if None.

    Raises:
        MissingExtraError: matplotlib is not installed.
        InputError: The evaluator reports no operators with work and traffic, or the file cannot
            be written.
    """
    points = _points(chosen)
    peak = float(chosen.evaluated.metrics["peak_flop_per_s"])
    tiers = [
        level
        for level in chosen.evaluated.levels
        if level["name"] != "on_chip" and level["bandwidth_bytes_per_s"] > 0
    ]
    with drawing_style(width_mm):
        n_lines = len(tiers) + len({point.bound for point in points})
        slope = 0.8 if is_column(width_mm) else 0.62  # names need room
        height = slope * (width_mm or USUAL_WIDTH_MM) + 10.0 + 5.0 * -(-n_lines // 2)
        figure = figure_of(chosen, "roofline", width_mm, height)
        axes = figure.subplots()
        xs = [point.intensity for point in points]
        ys = [point.flop_per_s for point in points]
        ridges = [peak / level["bandwidth_bytes_per_s"] for level in tiers]
        ends = (min([*xs, *ridges]) / 4, max([*xs, *ridges]) * 4)
        roofs = _draw_roofs(axes, tiers, peak, ends)
        # Below the lowest point there is room for its name.
        axes.set(xscale="log", yscale="log", xlim=ends, ylim=(min(ys) / 12, peak * 4))
        _draw_points(axes, points)
        axes.set_xlabel("Operational intensity (FLOP per off-chip byte)")
        axes.set_ylabel("Performance (FLOP/s)")
        figure.legend(loc="outside lower center", ncols=2, fontsize="small", markerscale=0.6)
        _name_points(axes, points, roofs)
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
    so that ``x_1 = t_1 - t_2 + t_3 - ...``; in parallel every tier sends its own.

    Args:
        traffic_bytes: By level, the tiers in the order in which they are used.
        is_staged: Whether bytes pass from tier to tier.

    Examples:
        >>> crossing_bytes({"on_chip": 9.0, "tier1": 5.0, "tier2": 2.0}, True)
        3.0
    """
    tiers = [moved for level, moved in traffic_bytes.items() if level != "on_chip"]
    return sum(tiers[::2]) - sum(tiers[1::2]) if is_staged else sum(tiers)


def _draw_roofs(
    axes: Axes, tiers: Sequence[Any], peak: float, ends: tuple[float, float]
) -> FloatArray:
    """Draw them; returns (j, 2) points on them."""
    axes.axhline(peak, color="black", linewidth=1.4)
    text = f"peak {format_value(peak, 'FLOP/s', 3)}"
    axes.annotate(
        text, (ends[0], peak), xytext=(4, 3), textcoords="offset points", fontsize="small"
    )
    line = np.geomspace(*ends, 200)
    roofs = [np.full_like(line, peak)]
    for number, level in enumerate(tiers):
        rate = float(level["bandwidth_bytes_per_s"])
        roofs.append(np.minimum(line * rate, peak))
        title = str(level["name"]).replace("tier", "tier ")
        axes.plot(
            line,
            roofs[-1],
            color="#555555",
            linestyle=("-", "--", ":")[number % 3],
            linewidth=1.1,
            label=f"{title}: {format_value(rate, 'B/s', 3)}",
        )
    return np.concatenate([np.column_stack([line, roof]) for roof in roofs])


def _draw_points(axes: Axes, points: Sequence[_Point]) -> None:
    for bound in dict.fromkeys(point.bound for point in points):
        listed = [point for point in points if point.bound == bound]
        axes.scatter(
            [point.intensity for point in listed],
            [point.flop_per_s for point in listed],
            s=[30 + 250 * point.share for point in listed],
            marker=_MARKERS.get(bound, "o"),
            color=BOUND_COLORS.get(bound, "#9A9A9A"),
            alpha=0.75,
            edgecolors="white",
            linewidths=0.6,
            label=f"bound: {bound}",
            zorder=3,
        )


def _name_points(axes: Axes, points: Sequence[_Point], roofs: FloatArray) -> None:
    """The operators' names; the longest-running come first to the best places."""
    listed = sorted(points, key=lambda point: -point.share)
    places = np.array([[point.intensity, point.flop_per_s] for point in listed])
    names = [point.name.replace("_", " ") for point in listed]
    write_names(axes, places, names, "#333333", reach=6.0, lines=roofs)


def save_breakdown(chosen: ChosenDesign, path: Path, width_mm: float | None = None) -> Path:
    """Draw the time of each operator by what bounds it, and the power of each component.

    Args:
        chosen: The design.
        path: PNG, SVG or PDF.
        width_mm: How wide it will be printed; both columns of a page if None.

    Raises:
        MissingExtraError: matplotlib is not installed.
        InputError: The evaluator reports no times or powers, or the file cannot be written.
    """
    rows, power = chosen.evaluated.operators, chosen.evaluated.power
    _need(chosen, rows, ("name", "time_s", "bound"))
    _need(chosen, power, ("component", "tdp_watts", "average_watts"))
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
    names = [str(row["component"]).replace("_", "-").replace("tier", "tier ") for row in power]
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
