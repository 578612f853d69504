"""Charts of what is built: the die to scale with its memories, and a system of machines.

The blocks of a die lie where the account of costs places them. What no block covers is uncore,
links between dies, and filler. Memories stand outside, along the length of their interfaces. On an
interposer they cover the area of the account; how far memories of a board reach outward is not to
scale. An interposer is drawn as an equal margin around all that stands on it, with the area of the
account.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

import numpy as np

from codesign.base.columns import FieldRows, Fields, FloatPair, IntegerPair, StringMap
from codesign.base.records import frozen
from codesign.insight.evaluated_design import EvaluatedDesign
from codesign.models.accounts.price import INTERPOSER_MARGIN
from codesign.report import palette
from codesign.report.chart import Axis, Bars, Box, Chart, Line, Mark, Panel, row_axis
from codesign.report.edge import edge_words
from codesign.report.labels import (
    OPERANDS,
    bank_words,
    counted,
    format_value,
    memory_words,
    row_title,
    spaced_name,
)
from codesign.report.svg import axis_unit
from codesign.report.system_picture import SystemPicture, TimelineBar, system_picture

_DEPTH_MM = 7.0
_GAP_MM = 0.5
_ROOM_MM = 4.0
"""Most that an interposer reaches beyond what stands on it; its margin is a fraction of that."""
_HALVINGS = 20
"""Steps of the bisection for the margin, which begins with ``_ROOM_MM`` and ends at 4 nm."""
_HATCHES = {
    "tier2": "/",
    "tier3": ".",
    "tier4": "x",
    "decode": ".",
    "hand-over": "/",
    "exchange": "x",
}


@frozen
class Rectangle:
    """A block on or beside a die, in millimetres from the die's lower left corner."""

    name: str
    title: str
    x: FloatPair
    y: FloatPair

    @property
    def area_mm2(self) -> float:
        """Drawn area."""
        return (self.x[1] - self.x[0]) * (self.y[1] - self.y[0])


_Rectangles = tuple[Rectangle, ...]


@frozen
class DiePlan:
    """Blocks of a die and the memories beside it.

    Attributes:
        width_mm: Width of the silicon.
        height_mm: Height of the silicon.
        blocks: Rectangles of the floorplan, without what lies between the blocks.
        memories: Stacks outside, by the name of their level.
        grid: Columns and rows of the dies that the silicon is cut into.
        layers: Stacked layers.
        notes: Density and temperature of the blocks, by the name of the block.
        interposer: Overlapping rectangles that cover it; none on a substrate.
    """

    width_mm: float
    height_mm: float
    blocks: _Rectangles
    memories: _Rectangles
    grid: IntegerPair = (1, 1)
    layers: _Rectangles = ()
    notes: StringMap = field(default_factory=dict)
    interposer: _Rectangles = ()

    @property
    def span_mm(self) -> float:
        """Width of a panel with the silicon in its middle and all memories."""
        ends = (abs(x - self.width_mm / 2) for stack in self.memories for x in stack.x)
        return 2 * max([self.width_mm / 2, *ends]) + 2


def level_words(level: Fields) -> str:
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
        f"{100 * share:.3g} % of {OPERANDS.get(operand, operand)}"
        for operand, share in (level.get("holds_share") or {}).items()
        if share > 0
    ]
    words += [f"holds {', '.join(held)}"] if held else []
    return " · ".join(word for word in words if word and word != "–")


def die_plan(evaluated: EvaluatedDesign) -> DiePlan | None:
    """The floorplan of a design's die; None if the evaluator gives none."""
    rows = evaluated.floorplan
    if not rows:
        return None
    titles = {str(row.get("part")): row_title(row) for row in evaluated.costs}
    drawn = [
        Rectangle(
            str(row["name"]), titles.get(row["name"]) or row["name"],
            (row["x_mm"], row["x_mm"] + row["width_mm"]),
            (row["y_mm"], row["y_mm"] + row["height_mm"]),
        )
        for row in rows
    ]  # fmt: skip
    width = max(block.x[1] for block in drawn)
    height = max(block.y[1] for block in drawn)
    pairs = list(zip(rows, drawn, strict=True))
    beside = [(block, float(row["stacks"])) for row, block in pairs if row.get("stacks")]
    n_dies = max((int(row.get("n_dies") or 1) for row in evaluated.costs[:1]), default=1)
    # Equal dies: the longer side is halved again and again.
    n_columns = 1
    n_rows = 1
    while n_columns * n_rows < n_dies:
        if width / n_columns >= height / n_rows:
            n_columns *= 2
        else:
            n_rows *= 2
    memories = tuple(_memories(beside, evaluated.levels, (width, height)))
    packaged = {level["name"] for level in evaluated.levels if level.get("package_mm2")}
    on_package = [stack for stack in memories if stack.name in packaged]
    on_package += [Rectangle("die", "die", (0.0, width), (0.0, height))]
    return DiePlan(
        width,
        height,
        tuple(block for row, block in pairs if not row["layer"] and block.name != "base"),
        memories,
        (n_columns, n_rows),
        tuple(block for row, block in pairs if row["layer"]),
        {
            str(row["name"]): f"; {row['w_per_mm2']:.3g} W/mm², {row['celsius']:.0f} °C"
            for row in rows
            if row.get("celsius") is not None
        },
        _interposer(on_package) if len(on_package) > 1 or n_dies > 1 else (),
    )


def _interposer(blocks: Sequence[Rectangle]) -> _Rectangles:
    """The blocks with the margin that gives the account's area, found by halving."""
    ends = np.array([(block.x, block.y) for block in blocks])
    area = INTERPOSER_MARGIN * sum(block.area_mm2 for block in blocks)
    low, high = 0.0, _ROOM_MM
    for _ in range(_HALVINGS):
        margin = (low + high) / 2
        covered = ends + margin * np.array([-1.0, 1.0])
        # Lines through all sides cut the union into cells.
        lines = np.sort(covered.transpose(1, 0, 2).reshape(2, -1))
        middles = (lines[:, 1:] + lines[:, :-1]) / 2
        is_within = (covered[:, :, :1] < middles) & (middles < covered[:, :, 1:])
        cells = is_within[:, 0].T @ is_within[:, 1]
        widths, heights = np.diff(lines)
        low, high = (low, margin) if widths @ cells @ heights > area else (margin, high)
    title = f"interposer {area:,.0f}\u00a0mm²"
    rectangles = covered.tolist()
    return tuple(Rectangle("interposer", title, tuple(x), tuple(y)) for x, y in rectangles)


def _memories(
    beside: Sequence[tuple[Rectangle, float]],
    levels: FieldRows,
    size_mm: FloatPair,
) -> list[Rectangle]:
    """The stacks beside each interface; a single one where a stack bends around a corner."""
    titles = {
        str(level["name"]): memory_words(
            "".join(bank_words({"banks": level["banks"][:1]}).split(" ×")[:1])
        )
        for level in levels
        if level.get("banks")
    }
    depths_mm = {
        str(level["name"]): level["package_mm2"]
        / (level["shoreline_mm"] + level["uncharged_shoreline_mm"])
        for level in levels
        if level.get("package_mm2")
    }
    stacks = []
    for block, count in beside:
        name = block.name.removesuffix(" interface")
        n = round(count) if round(count) and abs(count - round(count)) < 1e-6 else 1
        axis = 0 if block.x[0] < 1e-6 or abs(block.x[1] - size_mm[0]) < 1e-6 else 1
        across, along = (block.x, block.y) if axis == 0 else (block.y, block.x)
        depth = depths_mm.get(name, _DEPTH_MM)
        near = -_GAP_MM - depth if across[0] < 1e-6 else size_mm[axis] + _GAP_MM
        each = (along[1] - along[0]) / n
        for k in range(n):
            ends = (near, near + depth), (along[0] + k * each, along[0] + (k + 1) * each)
            x, y = ends if axis == 0 else ends[::-1]
            stacks.append(Rectangle(name, titles.get(name, name), x, y))
    return stacks


def die_panel(evaluated: EvaluatedDesign, span_mm: float, title: str) -> Panel | None:
    """The die with its memories, to scale; None if the evaluator gives no areas.

    Args:
        span_mm: Least width of the panel, so that dies of several designs share a scale.
    """
    plan = die_plan(evaluated)
    if plan is None:
        return None
    levels = {str(level["name"]): level for level in evaluated.levels}
    (columns, rows), n_dies = plan.grid, plan.grid[0] * plan.grid[1]
    die = f"{plan.width_mm / columns:.3g} × {plan.height_mm / rows:.3g}\u00a0mm"
    die = f"die {die}" if n_dies == 1 else f"{n_dies} dies, each {die}"
    marks: list[Mark] = [Box(x.x, x.y, "rule", 1, edge="", text=x.title) for x in plan.interposer]
    words = (
        f"{die}, {plan.width_mm * plan.height_mm:.4g} mm²; gray: uncore, links between dies, filler"
    )
    marks.append(Box((0.0, plan.width_mm), (0.0, plan.height_mm), "gray", 0.3, text=words,
                     name="rest of the die"))  # fmt: skip
    # Below the blocks, so that no line crosses a label.
    cuts = [([0.0, plan.width_mm], [k * plan.height_mm / rows] * 2) for k in range(1, rows)]
    cuts += [([k * plan.width_mm / columns] * 2, [0.0, plan.height_mm]) for k in range(1, columns)]
    marks += [Line(*cut, width=1.6) for cut in cuts]
    largest = {block.name: block for block in sorted(plan.blocks, key=lambda x: x.area_mm2)}
    for block in plan.blocks:
        name = block.name.removesuffix(" interface")
        words = f"{block.title}: {block.area_mm2:.3g} mm²{plan.notes.get(block.name, '')}"
        if name in levels and name == block.name:
            words += f"; {level_words(levels[name])}"
        is_labelled = name == block.name and block is largest[block.name]
        marks.append(Box(
            block.x, block.y, palette.PARTS.get(name, "gray"), 0.6,
            "x" if block.name != name else "", label=block.title if is_labelled else "",
            text=words, name=block.title if is_labelled else "interfaces" * (name != block.name),
        ))  # fmt: skip
    for stack in plan.memories:
        level = levels[stack.name]
        marks.append(Box(
            stack.x, stack.y, palette.PARTS.get(stack.name, "orange"), 0.5,
            _HATCHES.get(stack.name, ""), "" if level.get("shoreline_mm") else "dash",
            label=stack.title, text=f"{row_title(level)}: {level_words(level)}",
            name=memory_words(bank_words(level)),
        ))  # fmt: skip
    half = max(span_mm, plan.span_mm) / 2
    middle = plan.width_mm / 2
    ends = [0.0, plan.height_mm, *(y for x in (*plan.memories, *plan.interposer) for y in x.y)]
    low = min(ends) - 2.0
    caption = [", ".join([die, *{x.title for x in plan.interposer}])]
    for layer in plan.layers[:1]:
        words = counted(len(plan.layers), "stacked SRAM layer")
        marks.append(Box(layer.x, layer.y, "green", 0.12, dash="dash", edge="green",
                         text=f"{words}, each of {layer.area_mm2:.4g} mm²"))  # fmt: skip
        caption.append(f"dashed: {words}")
    is_on_board = any(not levels[stack.name].get("package_mm2") for stack in plan.memories)
    caption.append(
        f"bar: 5 mm{'; how far memories of the board reach is not to scale' * is_on_board}"
    )
    marks.append(Line([0.0, 5.0], [low, low], width=2.0))
    x = Axis((middle - half, middle + half), "\n".join(caption), is_hidden=True)
    y = Axis((low, max(ends) + 1.0), is_hidden=True)
    return Panel(x, y, marks, title, height=300.0, is_to_scale=True)


def die_span_mm(designs: Sequence[EvaluatedDesign]) -> float:
    """The width that the dies of all these designs need, with their memories."""
    machines = [m for design in designs for m in (design.pools.values() or [design])]
    plans = filter(None, map(die_plan, machines))
    return max((plan.span_mm for plan in plans), default=0.0)


def die_chart(
    evaluated: EvaluatedDesign, span_mm: float = 0.0, has_legend: bool = False
) -> Chart | None:
    """The die of a machine, or of each machine of a system."""
    machines = evaluated.pools or {"": evaluated}
    panels = (die_panel(machine, span_mm, spaced_name(name)) for name, machine in machines.items())
    drawn = list(filter(None, panels))
    edge = edge_words(evaluated)
    alt = "Die and memories to scale" + (f"; edge for memory: {edge}" if edge else "")
    return Chart(drawn, alt, columns=len(drawn), has_legend=has_legend) if drawn else None


def system_chart(evaluated: EvaluatedDesign, is_narrow: bool) -> Chart:
    """One machine of every pool, the way of one request, and how busy pools and links are."""
    picture = system_picture(evaluated)
    span = die_span_mm([evaluated])
    dies = (die_panel(machine.evaluated, span, machine.title) for machine in picture.machines)
    panels = list(filter(None, dies))
    columns = 1 if is_narrow else max(len(panels), 2)
    panels += way_panels(picture)
    return Chart(panels, f"System: {picture.limit}", columns=columns, has_legend=False)


def way_panels(picture: SystemPicture) -> list[Panel]:
    """Time lines of one request without queues, and the shares of busy time."""
    bars = picture.bars
    end = max(bar.end_s for bar in bars)
    panels = []
    if picture.second_token_s:
        panels.append(_way_panel(bars, picture.second_token_s, "Up to its second token"))
    panels.append(_way_panel(bars, end, "One request without queues"))
    shares = [
        Bars([i], [100 * bar.utilization], hue=palette.STAGES.get(bar.kind, "gray"),
             hatch=_HATCHES.get(bar.kind, ""), labels=[f"{100 * bar.utilization:.3g} %"])
        for i, bar in enumerate(bars)
    ]  # fmt: skip
    names = row_axis([bar.name for bar in bars])
    busy = Axis((0.0, 112.0), "Share of the time busy (%)")
    return [*panels, Panel(busy, names, shares, picture.limit, height=26.0 * len(bars))]


def _way_panel(bars: Sequence[TimelineBar], end: float, title: str) -> Panel:
    """Bars of one request; a hand-over beside a prefill is pale until nothing else is done."""
    is_first = title.startswith("Up to")
    least = 0.004 * end
    marks = []
    for i, bar in enumerate(bars):
        stop = min(bar.first_step_end_s if is_first else bar.end_s, end)
        begin = max(0.0, min(bar.exposed_s, stop - least))
        hue = palette.STAGES.get(bar.kind, "gray")
        hatch = _HATCHES.get(bar.kind, "")
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
    names = row_axis([bar.name for bar in bars])
    time = Axis((0.0, 1.03 * end), f"Time ({axis_unit((0, end), 's')})", "s")
    return Panel(time, names, marks, title, height=26.0 * len(bars))
