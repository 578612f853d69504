"""Charts of what is built: the die to scale with its memories, and a system of machines.

The blocks of a die have the areas of the account of costs, and an interface has the length that it
takes along an edge. What no block covers is the uncore. Memories stand outside, along the length
of their interfaces; how far they reach outward is not to scale.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from codesign.report import palette
from codesign.report.chart import Axis, Bars, Box, Chart, Label, Line, Mark, Panel
from codesign.report.edge import edge_words
from codesign.report.labels import bank_words, format_value, memory_words, row_title
from codesign.report.svg import axis_unit
from codesign.report.system_picture import SystemPicture, TimelineBar, system_picture

if TYPE_CHECKING:
    from codesign.insight.evaluated_design import EvaluatedDesign

_DIE_ASPECT = 33.0 / 26.0
"""Height over width, as the reticle field has them [MemExplorer, section 2.1]."""
_DEPTH_MM, _GAP_MM = 7.0, 1.2
_HATCHES = {
    "tier2": "/",
    "tier3": ".",
    "tier4": "x",
    "decode": ".",
    "hand-over": "/",
    "exchange": "x",
}
_KINDS = {"kv": "KV cache", "weight": "weights", "activation": "activations"}
_BETWEEN = ("uncore", "filler below layers")
"""Parts that fill the silicon between blocks."""
_CORES = ("array", "vector", "on_chip")


@dataclass(frozen=True)
class Rectangle:
    """A block on or beside a die, in millimetres from the die's lower left corner."""

    name: str
    title: str
    x: tuple[float, float]
    y: tuple[float, float]

    @property
    def area_mm2(self) -> float:
        """Drawn area."""
        return (self.x[1] - self.x[0]) * (self.y[1] - self.y[0])


@dataclass(frozen=True)
class DiePlan:
    """Blocks of a die and the memories beside it.

    Attributes:
        width_mm: Width of the die.
        height_mm: Height of the die; its sides carry the memory interfaces.
        blocks: Blocks on the die with the areas of the account.
        memories: Stacks outside, by the name of their level.
        is_edge_to_scale: Interfaces have the lengths that they take; otherwise they fill the side.
        n_dies: Dies that the silicon is cut into, side by side.
        layers: Number of SRAM layers that are stacked on the dies; empty without any.
        layer_mm2: Area of one layer over all dies.
    """

    width_mm: float
    height_mm: float
    blocks: tuple[Rectangle, ...]
    memories: tuple[Rectangle, ...]
    is_edge_to_scale: bool
    n_dies: int = 1
    layers: tuple[int, ...] = ()
    layer_mm2: float = 0.0


def level_words(level: Mapping[str, Any]) -> str:
    """A memory level in one line: what it is, its capacity, bandwidth, edge, and use."""
    words = [
        memory_words(bank_words(level)),
        format_value(level.get("capacity_bytes"), "B", 3),
        format_value(level.get("bandwidth_bytes_per_s"), "B/s", 3),
    ]
    for key, note in (("shoreline_mm", ""), ("uncharged_shoreline_mm", ", not charged")):
        if level.get(key):
            words.append(f"{level[key]:.3g} mm of edge{note}")
    if level.get("utilization") is not None:
        words.append(f"port busy {100 * level['utilization']:.3g} %")
    held = [
        f"{100 * share:.3g} % of {_KINDS.get(operand, operand)}"
        for operand, share in (level.get("holds_share") or {}).items()
        if share > 0
    ]
    words += [f"holds {', '.join(held)}"] if held else []
    return " · ".join(word for word in words if word and word != "–")


def die_plan(evaluated: EvaluatedDesign) -> DiePlan | None:
    """The floor plan of a design's die; None if the evaluator gives no areas."""
    rows = [row for row in evaluated.costs if row.get("area_mm2")]
    layers = [row for row in rows if row.get("part") == "stacked layers"]
    areas = {
        str(row.get("part")): (row_title(row), float(row["area_mm2"]))
        for row in rows
        if row not in layers
    }
    total = sum(area for _, area in areas.values())
    if not total:
        return None
    strips = []
    for level in evaluated.levels:
        title, area = areas.get(f"{level['name']} interface", ("", 0.0))
        length = (level.get("shoreline_mm") or 0.0) + (level.get("uncharged_shoreline_mm") or 0.0)
        if area and length:
            strips.append((level, title, area, length))
    sides: list[list[Any]] = [[], []]
    for strip in sorted(strips, key=lambda side_strip: -side_strip[3]):
        min(sides, key=lambda side: sum(side_strip[3] for side_strip in side)).append(strip)
    longest = max((sum(side_strip[3] for side_strip in side) for side in sides), default=0.0)
    height = max(float(np.sqrt(total * _DIE_ASPECT)), min(longest, float(np.sqrt(total * 2.0))))
    width = total / height
    cores = [(name, *areas[name]) for name in _CORES if name in areas]
    edges = {f"{level['name']} interface" for level, *_ in strips}
    cores += [
        (block, title, area)
        for block, (title, area) in areas.items()
        if block not in (*_CORES, *_BETWEEN, *edges)
    ]
    for is_to_scale in (True, False):
        blocks = [
            *_strips(sides[0], 0.0, 1.0, height, is_to_scale),
            *_strips(sides[1], width, -1.0, height, is_to_scale),
        ]
        inner_left = max((b.x[1] for b in blocks if b.x[0] == 0.0), default=0.0)
        right = min((b.x[0] for b in blocks if b.x[1] == width), default=width)
        inside = right - inner_left
        if (
            inside > 0
            and sum(core[2] for core in cores) / inside <= height
            and (not is_to_scale or longest <= height)
        ):
            break
    gap = max(0.0, height - sum(core[2] for core in cores) / inside) / (len(cores) + 1)
    y = height
    for name, title, area in cores:
        high = area / inside
        y -= gap
        blocks.append(Rectangle(name, title, (inner_left, right), (y - high, y)))
        y -= high
    n_dies = int(rows[0].get("n_dies") or 1)
    return DiePlan(
        width, height, tuple(blocks), tuple(_memories(strips, blocks, width)), is_to_scale, n_dies,
        tuple(int(row["n_dies"]) // n_dies for row in layers)[:1],
        sum(float(row["area_mm2"]) / int(row["n_dies"]) * n_dies for row in layers),
    )  # fmt: skip


def _strips(
    side: Sequence[Any], edge_mm: float, inward: float, height: float, is_to_scale: bool
) -> list[Rectangle]:
    """Interfaces along a side, each with its area: as long as they are, or filling the side."""
    used = sum(length for *_, length in side)
    factor = 1.0 if is_to_scale else height / used if used else 1.0
    y = (height + used * factor) / 2
    blocks = []
    for level, title, area, length in side:
        high = length * factor
        x = sorted((edge_mm, edge_mm + inward * area / high))
        blocks.append(Rectangle(f"{level['name']} interface", title, (x[0], x[1]), (y - high, y)))
        y -= high
    return blocks


def _memories(strips: Sequence[Any], blocks: Sequence[Rectangle], width: float) -> list[Rectangle]:
    """The stacks of each level beside its interface, side by side along the edge."""
    stacks = []
    for level, *_ in strips:
        block = next(b for b in blocks if b.name == f"{level['name']} interface")
        n = sum(bank["count"] for bank in level.get("banks", ())) or 1
        outward = block.x[1] == width
        x = (
            (width + _GAP_MM, width + _GAP_MM + _DEPTH_MM)
            if outward
            else (-_GAP_MM - _DEPTH_MM, -_GAP_MM)
        )
        each = (block.y[1] - block.y[0]) / n
        title = memory_words("".join(bank_words({"banks": level["banks"][:1]}).split(" ×")[:1]))
        stacks += [
            Rectangle(
                str(level["name"]), title, x, (block.y[0] + k * each, block.y[0] + (k + 1) * each)
            )
            for k in range(n)
        ]
    return stacks


def die_panel(evaluated: EvaluatedDesign, span_mm: float = 0.0, title: str = "") -> Panel | None:
    """The die with its memories, to scale; None if the evaluator gives no areas.

    Args:
        span_mm: Least width of the panel, so that dies of several designs share a scale.
    """
    plan = die_plan(evaluated)
    if plan is None:
        return None
    levels = {str(level["name"]): level for level in evaluated.levels}
    die_height = plan.height_mm / plan.n_dies
    die = f"die {plan.width_mm:.3g} × {die_height:.3g} mm" if plan.n_dies == 1 else (
        f"{plan.n_dies} dies, each {plan.width_mm:.3g} × {die_height:.3g} mm"
    )  # fmt: skip
    marks: list[Mark] = [
        Box((0.0, plan.width_mm), (0.0, plan.height_mm), "gray", 0.3,
            text=f"{die}, {plan.width_mm * plan.height_mm:.4g} mm²; gray: uncore")
    ]  # fmt: skip
    for block in plan.blocks:
        name = block.name.removesuffix(" interface")
        words = f"{block.title}: {block.area_mm2:.3g} mm²"
        if name in levels and name == block.name:
            words += f"; {level_words(levels[name])}"
        marks.append(Box(
            block.x, block.y, palette.PARTS.get(name, "gray"), 0.6,
            "x" if block.name != name else "", label=block.title if name == block.name else "",
            text=words,
        ))  # fmt: skip
    marks += [
        Line([0.0, plan.width_mm], [k * die_height] * 2, width=1.6) for k in range(1, plan.n_dies)
    ]
    for layers in plan.layers:
        words = f"{layers} stacked SRAM layer{'' if layers == 1 else 's'}"
        share = float(np.sqrt(plan.layer_mm2 / (plan.width_mm * plan.height_mm)))
        x, y = ((0.5 * (1 - share) * side, 0.5 * (1 + share) * side)
                for side in (plan.width_mm, plan.height_mm))  # fmt: skip
        marks.append(Box(x, y, "green", 0.12, dash="dash", edge="green",
                         text=f"{words}, each of {plan.layer_mm2:.4g} mm²"))  # fmt: skip
        marks.append(Label(0.0, -3.4, f"dashed: {words}", "green", "start", size=10))
    for stack in plan.memories:
        level = levels[stack.name]
        marks.append(Box(
            stack.x, stack.y, palette.PARTS.get(stack.name, "orange"), 0.5,
            _HATCHES.get(stack.name, ""), "" if level.get("shoreline_mm") else "dash",
            label=stack.title, text=f"{row_title(level)}: {level_words(level)}",
        ))  # fmt: skip
    reach = _GAP_MM + _DEPTH_MM
    span = max(span_mm, plan.width_mm + 2 * reach + 2)
    middle = plan.width_mm / 2
    x = (middle - span / 2, middle + span / 2)
    marks += [
        Line([0.0, 5.0], [-1.4, -1.4], width=2.0),
        Label(5.6, -1.4, "5 mm", "quiet", "start", size=10),
        Label(middle, plan.height_mm + 1.4, die, "quiet", "middle", size=10),
    ]  # fmt: skip
    y = (-5.0 if plan.layers else -3.0, plan.height_mm + 2.6)
    hidden = [Axis(ends, is_hidden=True) for ends in (x, y)]
    return Panel(hidden[0], hidden[1], marks, title, height=300.0, is_to_scale=True)


def die_span_mm(designs: Sequence[EvaluatedDesign]) -> float:
    """The width that the dies of all these designs need, with their memories."""
    machines = [m for design in designs for m in (design.pools.values() or [design])]
    plans = [plan for plan in map(die_plan, machines) if plan is not None]
    return max((p.width_mm for p in plans), default=0.0) + 2 * (_GAP_MM + _DEPTH_MM) + 2


def die_chart(evaluated: EvaluatedDesign, span_mm: float = 0.0) -> Chart | None:
    """The die of a machine, or of each machine of a system."""
    machines = evaluated.pools or {"": evaluated}
    panels = [die_panel(machine, span_mm, name) for name, machine in machines.items()]
    drawn = [panel for panel in panels if panel is not None]
    edge = edge_words(evaluated)
    alt = "Die and memories to scale" + (f"; edge for memory: {edge}" if edge else "")
    return Chart(drawn, alt, columns=len(drawn), has_legend=False) if drawn else None


def system_chart(evaluated: EvaluatedDesign, is_narrow: bool) -> Chart:
    """One machine of every pool, the way of one request, and how busy pools and links are."""
    picture = system_picture(evaluated)
    span = die_span_mm([evaluated])
    dies = [
        die_panel(side_strip.evaluated, span, side_strip.title) for side_strip in picture.machines
    ]
    panels = [panel for panel in dies if panel is not None]
    columns = 1 if is_narrow else max(len(panels), 2)
    panels += way_panels(picture)
    return Chart(panels, f"System: {picture.limit}", columns=columns, has_legend=False)


def way_panels(picture: SystemPicture, end_s: float = 0.0) -> list[Panel]:
    """Time lines of one request that waits for nobody, and the shares of busy time.

    Args:
        end_s: Least end of the time axis, so that several systems share a scale.
    """
    bars = picture.bars
    end = max([end_s, *(bar.end_s for bar in bars)])
    panels = []
    if picture.second_token_s:
        panels.append(_way_panel(bars, picture.second_token_s, "To its second token"))
    panels.append(_way_panel(bars, end, "One request that waits for nobody"))
    shares = [
        Bars([i], [100 * bar.utilization], hue=palette.STAGES.get(bar.kind, "gray"),
             hatch=_HATCHES.get(bar.kind, ""), labels=[f"{100 * bar.utilization:.3g} %"])
        for i, bar in enumerate(bars)
    ]  # fmt: skip
    names = Axis((-0.5, len(bars) - 0.5), names=[bar.name for bar in bars])
    busy = Axis((0.0, 112.0), "Share of the time busy (%)")
    return [*panels, Panel(busy, names, shares, picture.limit, height=26.0 * len(bars))]


def _way_panel(bars: Sequence[TimelineBar], end: float, title: str) -> Panel:
    """Bars of one request; a hand-over beside a prefill is pale until nothing else is done."""
    is_first = title.startswith("To")
    least = 0.004 * end
    marks = []
    for i, bar in enumerate(bars):
        stop = min(bar.first_step_end_s if is_first else bar.end_s, end)
        begin = max(0.0, min(bar.exposed_s, stop - least))
        hue, hatch = palette.STAGES.get(bar.kind, "gray"), _HATCHES.get(bar.kind, "")
        words = (
            f"{bar.name}: {format_value(bar.start_s, 's', 3)} to "
            f"{format_value(bar.end_s, 's', 3)}; {bar.text}"
        )
        if bar.exposed_s > bar.start_s:
            marks.append(
                Bars([i], [bar.exposed_s - bar.start_s], bar.start_s, hue=hue, opacity=0.35)
            )
        label = "" if is_first else bar.text
        marks.append(Bars([i], [max(least, stop - begin)], begin, hue=hue, hatch=hatch,
                          texts=[words], labels=[label]))  # fmt: skip
    names = Axis((-0.5, len(bars) - 0.5), names=[bar.name for bar in bars])
    time = Axis((0.0, 1.03 * end), f"Time ({axis_unit((0, end), 's')})", "s")
    return Panel(time, names, marks, title, height=26.0 * len(bars))
