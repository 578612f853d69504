"""The figure of a design's memories along the edges of its die, to scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from codesign.report.design_figures import new_figure
from codesign.report.figures import COLORS, drawing_style, save_figure
from codesign.report.labels import format_value

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from codesign.report.chosen import ChosenDesign
    from codesign.report.machine import Machine, MachineLevel

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
        figure = new_figure(chosen, "memory hierarchy", (8.4, 7.0))
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
