"""Figures of one design: roofline, where time and energy go, its memories along the die edge.

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
    from codesign.report.machine import Machine, MachineLevel

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
        figure = _new_figure(chosen, "roofline", (7.2, 4.8))
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
        figure = _new_figure(chosen, "time and power", (10.0, 0.28 * max(len(rows), 8) + 1.6))
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


EDGE_MM = 33.0
"""A long edge of the reticle; two of them carry memory interfaces (MemExplorer §2, Eq. 1)."""
DIE_WIDTH_MM = 26.0
"""The short edge of the reticle field, 26 mm x 33 mm (the limit that MemExplorer's edge is of)."""
_SMALLEST_DEPTH_MM, _LARGEST_DEPTH_MM = 1.5, 30.0
_ON_CHIP_COLOR = "#F6E3C5"
_TIER_COLORS = (COLORS[1], COLORS[2], COLORS[3])


@dataclass(frozen=True)
class _Block:
    """One interface on an edge."""

    level: MachineLevel
    number: int
    name: str
    edge_mm: float
    is_reserved: bool
    capacity_bytes: float
    bandwidth_bytes_per_s: float


def save_hierarchy(chosen: ChosenDesign, path: Path) -> Path:
    """Draw the die with its memories along the edges, to scale in millimetres.

    The length of a memory along the edge is the shoreline of its interface, its area is
    proportional to its capacity (unless it would be too thin to see), the thickness of its link
    is proportional to its bandwidth. Interfaces that take no reserved edge are at the short
    edges. What is inside the die is not to scale.

    Raises:
        MissingExtraError: matplotlib is not installed.
        InputError: The evaluator models no memory levels, or the file cannot be written.
    """
    machine = chosen.machine
    blocks = _blocks(machine)
    with drawing_style():
        figure = _new_figure(chosen, "memory hierarchy", (8.4, 7.0))
        axes = figure.subplots()
        axes.set_aspect("equal")
        axes.axis("off")
        _draw_die(axes, machine)
        sides = _sides(blocks)
        densest = max((b.capacity_bytes / b.edge_mm for b in blocks), default=1.0)
        for side, listed in sides.items():
            _draw_side(axes, side, listed, _LARGEST_DEPTH_MM / densest)
        _draw_scale(axes)
        _draw_key(axes, machine)
        axes.autoscale_view()
        axes.margins(0.04)
        return save_figure(figure, path)


def _blocks(machine: Machine) -> list[_Block]:
    return [
        _Block(
            level=level,
            number=number,
            name=bank.technology.name,
            edge_mm=bank.technology.shoreline.at(bank.level) * 1e3,
            is_reserved=bank.technology.uses_memory_edge,
            capacity_bytes=bank.technology.capacity.at(bank.level),
            bandwidth_bytes_per_s=bank.technology.bandwidth.at(bank.level),
        )
        for number, level in enumerate(machine.tiers)
        for bank in level.banks
        for _ in range(bank.count)
    ]


def _sides(blocks: Sequence[_Block]) -> dict[str, list[_Block]]:
    """Each interface on the edge of its kind that has more room left, the longest first."""
    sides: dict[str, list[_Block]] = {"left": [], "right": [], "top": [], "bottom": []}
    for block in sorted(blocks, key=lambda item: -item.edge_mm):
        pair = ("left", "right") if block.is_reserved else ("top", "bottom")
        used = {side: sum(item.edge_mm for item in sides[side]) for side in pair}
        sides[min(pair, key=lambda side: used[side])].append(block)
    return {side: sorted(listed, key=lambda b: b.number) for side, listed in sides.items()}


_GAP_MM = 5.0
"""Between die and memories, where the links are drawn."""


def _draw_side(axes: Axes, side: str, blocks: Sequence[_Block], mm2_per_byte: float) -> None:
    """Blocks one after the other along an edge, centred; each is a rectangle and its link."""
    along = -sum(block.edge_mm for block in blocks) / 2
    for block in blocks:
        depth = block.capacity_bytes * mm2_per_byte / block.edge_mm
        shown = max(depth, _SMALLEST_DEPTH_MM)
        color = _TIER_COLORS[block.number % len(_TIER_COLORS)]
        half = EDGE_MM / 2 if side in ("top", "bottom") else DIE_WIDTH_MM / 2
        sign = 1 if side in ("right", "top") else -1
        near, far = sorted((sign * (half + _GAP_MM), sign * (half + _GAP_MM + shown)))
        begin, end = along + 0.15, along + block.edge_mm - 0.15
        link = [(sign * half, sign * (half + _GAP_MM)), ((begin + end) / 2,) * 2]
        width = 14.0 * block.bandwidth_bytes_per_s / 2e12
        if side in ("left", "right"):
            _rectangle(axes, near, begin, far - near, end - begin, color)
            axes.plot(link[0], link[1], color=color, linewidth=max(width, 0.6), alpha=0.6,
                      solid_capstyle="butt", zorder=1)  # fmt: skip
        else:
            _rectangle(axes, begin, near, end - begin, far - near, color)
            axes.plot(link[1], link[0], color=color, linewidth=max(width, 0.6), alpha=0.6,
                      solid_capstyle="butt", zorder=1)  # fmt: skip
        along += block.edge_mm


def _rectangle(axes: Axes, x: float, y: float, width: float, height: float, color: str) -> None:
    from matplotlib.patches import Rectangle

    axes.add_patch(
        Rectangle((x, y), width, height, facecolor=color, edgecolor="black", linewidth=0.6,
                  alpha=0.85, zorder=2)
    )  # fmt: skip


def _draw_die(axes: Axes, machine: Machine) -> None:
    half_x, half_y = DIE_WIDTH_MM / 2, EDGE_MM / 2
    _rectangle(axes, -half_x, -half_y, DIE_WIDTH_MM, EDGE_MM, "#F2F2F2")
    parts = [
        f"matrix array\n{machine.array_rows} x {machine.array_columns}\n"
        f"{format_value(machine.peak_flop_per_s, 'FLOP/s', 3)}",
        f"vector unit\n{machine.vector_lanes} lanes",
    ]
    if machine.on_chip is not None:
        level = machine.on_chip
        parts.append(
            f"on-chip memory\n{format_value(level.capacity_bytes, 'B', 3)}\n"
            f"{format_value(level.bandwidth_bytes_per_s, 'B/s', 3)}"
        )
    height = EDGE_MM / len(parts)
    for i, text in enumerate(parts):
        top = half_y - i * height
        color = ("#CFE2F0", "#DDEBD8", _ON_CHIP_COLOR)[i]
        _rectangle(axes, -half_x + 1, top - height + 0.7, DIE_WIDTH_MM - 2, height - 1.4, color)
        axes.text(0, top - height / 2, text, ha="center", va="center", fontsize=8, zorder=3)


def _draw_scale(axes: Axes) -> None:
    """Ten millimetres, left of the die below."""
    x, y = -DIE_WIDTH_MM / 2 - _GAP_MM - 12.0, -EDGE_MM / 2
    axes.plot([x, x + 10.0], [y, y], color="black", linewidth=2, solid_capstyle="butt")
    axes.annotate("10 mm", (x + 5.0, y), xytext=(0, 4), textcoords="offset points", ha="center",
                  fontsize=8)  # fmt: skip


def _draw_key(axes: Axes, machine: Machine) -> None:
    from matplotlib.patches import Patch

    listed = [(_TIER_COLORS[i % len(_TIER_COLORS)], level) for i, level in enumerate(machine.tiers)]
    if machine.on_chip is not None:
        listed.insert(0, (_ON_CHIP_COLOR, machine.on_chip))
    handles = [
        Patch(
            facecolor=color,
            edgecolor="black",
            label=f"{level.title}: {level.words}; {format_value(level.capacity_bytes, 'B', 3)}, "
            f"{format_value(level.bandwidth_bytes_per_s, 'B/s', 3)}"
            + (f", {level.shoreline_m * 1e3:.4g} mm of edge" if level.shoreline_m else ""),
        )
        for color, level in listed
    ]
    used = sum(level.shoreline_m for level in machine.tiers) * 1e3
    lines = (
        f"die edge for memory: {used:.4g} of {2 * EDGE_MM:.4g} mm (the two long edges of "
        f"{EDGE_MM:.4g} mm)\n"
        f"to scale: length along the edge, area of a memory (its capacity; at least "
        f"{_SMALLEST_DEPTH_MM:g} mm deep), thickness of a link (its bandwidth)\n"
        "not to scale: what is inside the die; at the short edges: interfaces without reserved edge"
    )
    axes.legend(
        handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.01), fontsize=8, title=lines,
        title_fontsize=8, ncols=1,
    )  # fmt: skip


def _new_figure(chosen: ChosenDesign, what: str, size: tuple[float, float]) -> Figure:
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
