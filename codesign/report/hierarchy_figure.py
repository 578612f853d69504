"""The figure of a design's memories along the edges of its die, to scale.

The die is drawn as the largest that lithography exposes at once, 26 mm x 33 mm [MemExplorer]_
(section 2.1, with Eq. 1): two edges of 33 mm are the 66 mm of edge that it allows for memory. The
figure says how much of it the design needs, as its account of area has it.

.. [MemExplorer] "MemExplorer: memory system synthesis for heterogeneous NPUs", section 2.1 for
   the reticle field and Eq. 1, Table 1 for the edge that each technology takes.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codesign.report import palette
from codesign.report.design_figures import figure_of
from codesign.report.drawing import USUAL_WIDTH_MM, drawing_style, is_column, save_figure
from codesign.report.edge import edge_words
from codesign.report.labels import format_value

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from codesign.insight.evaluated_design import EvaluatedDesign
    from codesign.report.chosen import ChosenDesign
    from codesign.report.machine import Machine, MachineLevel

EDGE_MM, DIE_WIDTH_MM = 33.0, 26.0
"""The long and the short edge of the reticle field."""
_SMALLEST_DEPTH_MM, _LARGEST_DEPTH_MM = 1.5, 22.0
_MM_PER_BYTES_PER_S = 1.0 / 500e9
"""Thickness of a link; a stack of HBM4 with 2 TB/s then takes 4 mm of its 15 mm."""
_GAP_MM = 5.0
"""Between die and memories, where the links are drawn."""
_MARGIN_MM = 2.0
_LEVEL_COLORS = palette.paper(palette.LEVELS)
_DIE_COLORS = ("#CFE2F0", "#F0DAE6", "#CCECE3")
"""Array, vector unit and on-chip memory: tints of the palette."""
_TIER_COLORS = tuple(hue for name, hue in _LEVEL_COLORS.items() if name != "on_chip")
_TIER_HATCHES = ("", "///", "...", "xxx", "|||")
"""Tiers are told apart without color too."""
_ON_SHAPE, _BESIDE = "name-on-", "name-beside-"
"""Marks, with a row of memories, of what :func:`keep_names_that_fit` chooses from."""
_BESIDE_POINTS = 6.0


@dataclass(frozen=True)
class _Block:
    """One interface on an edge."""

    number: int
    name: str
    family: str | None
    edge_mm: float
    is_charged: bool
    capacity_bytes: float
    bandwidth_bytes_per_s: float

    @property
    def short_name(self) -> str:
        """Such as "HBM4" of "HBM4, 12-high stack", and "HBF" of "High Bandwidth Flash"."""
        first = self.name.replace(",", " ").split()[0]
        family = self.family or ""
        return first if first.startswith(family) else family


@dataclass(frozen=True)
class _Placed:
    """Where an interface is drawn: along its edge, and outward from the die."""

    block: _Block
    side: str
    begin_mm: float
    depth_mm: float
    is_deepened: bool

    @property
    def is_vertical(self) -> bool:
        """Whether its edge of the die runs up and down."""
        return self.side in ("left", "right")

    @property
    def row(self) -> str:
        """Memories of a tier side by side, which have one name where each has no room for its."""
        return f"{self.side}-{self.block.number}"

    def rectangle(self, begin: float, end: float, near: float, far: float) -> tuple[float, ...]:
        """x, y, width and height of what is at ``begin`` to ``end`` along the edge."""
        half = (DIE_WIDTH_MM if self.is_vertical else EDGE_MM) / 2
        low, high = half + near, half + far
        if self.side in ("left", "bottom"):
            low, high = -high, -low
        if self.is_vertical:
            return low, begin, high - low, end - begin
        return begin, low, end - begin, high - low


def save_hierarchy(chosen: ChosenDesign, path: Path, width_mm: float | None = None) -> Path:
    """Draw the die with its memories along the edges, to scale in millimetres.

    The length of a memory along the edge is the shoreline of its interface, its area is
    proportional to its capacity (unless it would be too thin to see), the thickness of its link
    is proportional to its bandwidth. Interfaces that the space does not charge are at the short
    edges. What is inside the die is not to scale. The figure says all this.

    Raises:
        InputError: The evaluator models no memory levels.
    """
    machine = chosen.machine
    blocks = _blocks(machine)
    placed = _along_edges(machine)
    without_edge = sorted({block.name for block in blocks} - {item.block.name for item in placed})
    with drawing_style(width_mm):
        width = USUAL_WIDTH_MM if width_mm is None else width_mm
        # Letters need a die of at least a quarter of the width, paper has an end.
        high = width * min(height_share(machine), 0.9)
        notes = _notes(placed, chosen.evaluated, without_edge)
        key = _key(machine, notes, width)
        n_lines = sum(1 + text.count("\n") for _, _, text in key)
        figure = figure_of(chosen, "memory hierarchy", width_mm, high + 4.0 * n_lines + 16.0)
        draw_machine(figure.subplots(), machine, "x-small" if is_column(width_mm) else "small")
        _draw_key(figure, key)
        keep_names_that_fit(figure)
        return save_figure(figure, path)


def draw_machine(axes: Axes, machine: Machine, letters: str = "small") -> None:
    """Draw a die with its memories and a scale of 10 mm; ``letters`` is their size."""
    placed = _along_edges(machine)
    x_ends, y_ends = _extent(placed)
    axes.set_aspect("equal")
    axes.axis("off")
    _draw_die(axes, machine, letters)
    for item in placed:
        _draw_placed(axes, item)
    for row in sorted({item.row for item in placed}):
        _name_row(axes, row, [item for item in placed if item.row == row])
    _draw_scale(axes, placed)
    axes.set(xlim=x_ends, ylim=y_ends)


def _along_edges(machine: Machine) -> list[_Placed]:
    return _placed([block for block in _blocks(machine) if block.edge_mm > 0])


def height_share(machine: Machine) -> float:
    """Height over width of the drawing of a machine."""
    x_ends, y_ends = _extent(_along_edges(machine))
    return (y_ends[1] - y_ends[0]) / (x_ends[1] - x_ends[0])


def _blocks(machine: Machine) -> list[_Block]:
    return [
        _Block(
            number=number,
            name=bank.technology.name,
            family=bank.technology.family,
            edge_mm=bank.technology.value_at("shoreline", bank.level) * 1e3,
            is_charged=level.uncharged_shoreline_m == 0,
            capacity_bytes=bank.technology.value_at("capacity", bank.level),
            bandwidth_bytes_per_s=bank.technology.value_at("bandwidth", bank.level),
        )
        for number, level in enumerate(machine.tiers)
        for bank in level.banks
        for _ in range(bank.count)
    ]


def _placed(blocks: Sequence[_Block]) -> list[_Placed]:
    """Each interface on an edge of its kind, one after the other, centred on the edge."""
    densest = max((b.capacity_bytes / b.edge_mm for b in blocks), default=1.0)
    placements = []
    for is_charged, sides in ((True, ("right", "left")), (False, ("top", "bottom"))):
        halves = split_evenly([b for b in blocks if b.is_charged == is_charged])
        for side, listed in zip(sides, halves, strict=True):
            along = -sum(block.edge_mm for block in listed) / 2
            for block in listed:
                depth = _LARGEST_DEPTH_MM * block.capacity_bytes / block.edge_mm / densest
                drawn_depth = max(depth, _SMALLEST_DEPTH_MM)
                placements.append(_Placed(block, side, along, drawn_depth, drawn_depth > depth))
                along += block.edge_mm
    return placements


def split_evenly(blocks: Sequence[_Block]) -> tuple[list[_Block], list[_Block]]:
    """Interfaces for two edges so that the longer of the two sums is as short as it can be."""
    # By what is on the first edge, in micrometres: there are few lengths, so few sums.
    reached: dict[int, tuple[int, ...]] = {0: ()}
    for index, block in enumerate(blocks):
        step = round(block.edge_mm * 1e3)
        more = {total + step: (*chosen, index) for total, chosen in reached.items()}
        reached = more | reached
    total_length = sum(round(block.edge_mm * 1e3) for block in blocks)
    best = min(reached, key=lambda total: (max(total, total_length - total), total))
    first = set(reached[best])
    return (
        [block for index, block in enumerate(blocks) if index not in first],
        [block for index, block in enumerate(blocks) if index in first],
    )


def _extent(placed: Sequence[_Placed]) -> tuple[tuple[float, float], tuple[float, float]]:
    """Ends of the drawing in x and y, with room for the scale and the tiers' numbers."""
    x = [DIE_WIDTH_MM / 2 + _GAP_MM + 14.0]
    y = [EDGE_MM / 2 + 5.0]
    for item in placed:
        out = _GAP_MM + item.depth_mm + 4.0
        if item.is_vertical:
            x.append(DIE_WIDTH_MM / 2 + out)
            y.append(abs(item.begin_mm) + _MARGIN_MM)
        else:
            y.append(EDGE_MM / 2 + out)
            x.append(abs(item.begin_mm) + _MARGIN_MM)
    return (-max(x), max(x)), (-max(y), max(y))


def _draw_placed(axes: Axes, item: _Placed) -> None:
    block, begin, end = item.block, item.begin_mm + 0.15, item.begin_mm + item.block.edge_mm - 0.15
    number = block.number
    middle, half = (begin + end) / 2, block.bandwidth_bytes_per_s * _MM_PER_BYTES_PER_S / 2
    link = item.rectangle(middle - half, middle + half, 0.0, _GAP_MM)
    _rectangle(axes, link, "#777777", linewidth=0.0)
    far = _GAP_MM + item.depth_mm
    shape = item.rectangle(begin, end, _GAP_MM, far)
    gid = _ON_SHAPE + item.row
    _rectangle(axes, shape, _TIER_COLORS[number], _TIER_HATCHES[number], gid=gid)
    x, y, width, height = item.rectangle(begin, end, _GAP_MM, far)
    axes.text(
        x + width / 2, y + height / 2, block.short_name, gid=gid, ha="center", va="center",
        # Along the longer side, where it has most room.
        rotation=90 if height > width else 0, fontsize="x-small", zorder=4,
        bbox={"facecolor": "white", "alpha": 0.8, "linewidth": 0, "pad": 0.6},
    ).set_in_layout(False)  # fmt: skip


def _name_row(axes: Axes, row: str, items: Sequence[_Placed]) -> None:
    """The name of memories beside them, along their edge."""
    begin, end = items[0].begin_mm, items[-1].begin_mm + items[-1].block.edge_mm
    far = _GAP_MM + max(item.depth_mm for item in items)
    x, y, _, _ = items[0].rectangle((begin + end) / 2, (begin + end) / 2, far, far)
    outward = -_BESIDE_POINTS if items[0].side in ("left", "bottom") else _BESIDE_POINTS
    is_vertical = items[0].is_vertical
    text = f"{len(items)}× " * (len(items) > 1) + items[0].block.short_name
    axes.annotate(
        text, (x, y), xytext=(outward, 0.0) if is_vertical else (0.0, outward),
        textcoords="offset points", gid=_BESIDE + row, ha="center", va="center",
        rotation=90 if is_vertical else 0, fontsize="x-small", annotation_clip=False,
    ).set_in_layout(False)  # fmt: skip


def keep_names_that_fit(figure: Figure) -> None:
    """Of memories in a row, the name on each where it has room for it, or else one beside them."""
    figure.draw_without_rendering()  # the layout decides how large shapes are
    for axes in figure.axes:
        for beside in [text for text in axes.texts if str(text.get_gid()).startswith(_BESIDE)]:
            gid = str(beside.get_gid()).replace(_BESIDE, _ON_SHAPE)
            shapes = [item.get_window_extent() for item in axes.patches if item.get_gid() == gid]
            names = [item for item in axes.texts if item.get_gid() == gid]
            boxes = [name.get_window_extent() for name in names]
            fits = all(
                text.width < room.width and text.height < room.height
                for room, text in zip(shapes, boxes, strict=True)
            )
            for text in [beside] if fits else names:
                text.remove()


def _rectangle(
    axes: Axes,
    place: Sequence[float],
    color: str,
    hatch: str = "",
    linewidth: float = 0.6,
    gid: str | None = None,
) -> None:
    from matplotlib.patches import Rectangle

    x, y, width, height = place
    axes.add_patch(
        Rectangle((x, y), width, height, facecolor=color, edgecolor="black", hatch=hatch,
                  linewidth=linewidth, zorder=2, gid=gid)
    )  # fmt: skip


def _draw_die(axes: Axes, machine: Machine, letters: str) -> None:
    half_x, half_y = DIE_WIDTH_MM / 2, EDGE_MM / 2
    _rectangle(axes, (-half_x, -half_y, DIE_WIDTH_MM, EDGE_MM), "#F2F2F2")
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
        place = (-half_x + 1, top - height + 0.5, DIE_WIDTH_MM - 2, height - 1.0)
        _rectangle(axes, place, _DIE_COLORS[i])
        axes.text(0, top - height / 2, text, ha="center", va="center", fontsize=letters, zorder=3)


def _draw_scale(axes: Axes, placed: Sequence[_Placed]) -> None:
    """Ten millimetres in the lower left, between the memories of two edges."""
    short = [abs(item.begin_mm) for item in placed if not item.is_vertical]
    long = [abs(item.begin_mm) for item in placed if item.is_vertical]
    x = -max([DIE_WIDTH_MM / 2, *short]) - 2.0 - 10.0
    y = -max([EDGE_MM / 2, *long]) - 1.5
    axes.plot([x, x + 10.0], [y, y], color="black", linewidth=2, solid_capstyle="butt")
    axes.annotate("10 mm", (x + 5.0, y), xytext=(0, -3), textcoords="offset points", ha="center",
                  va="top", fontsize="small")  # fmt: skip


def _notes(
    placed: Sequence[_Placed], evaluated: EvaluatedDesign, without_edge: Sequence[str]
) -> Iterator[str]:
    """What is to scale, and everything that is not."""
    edge = edge_words(evaluated)
    if edge:
        yield f"die edge reserved for memory: {edge}"
    yield (
        "to scale: lengths along the edge; areas of memories, by capacity (not their footprint); "
        "thickness of links, 1 mm for 500 GB/s"
    )
    deepened = sorted({item.block.number + 1 for item in placed if item.is_deepened})
    if deepened:
        tiers = ", ".join(f"tier {number}" for number in deepened)
        yield f"not to scale: area of {tiers}, raised to be {_SMALLEST_DEPTH_MM:g} mm deep"
    yield "not to scale: distances, and what is inside the die"
    elsewhere = {item.block.name for item in placed if not item.block.is_charged}
    if elsewhere:
        yield f"not charged, so at the short edges: {', '.join(sorted(elsewhere))}"
    if without_edge:
        yield f"takes no die edge, so not drawn: {', '.join(without_edge)}"
    beyond = sorted({side for side in ("left", "right", "top", "bottom") if _over(placed, side)})
    if beyond:
        yield (
            f"longer than their edge of the die: {', '.join(beyond)}; the limit counts the "
            "reserved edges together, and no other"
        )
    yield (
        f"die: drawn as a whole reticle field, {DIE_WIDTH_MM:g} mm × {EDGE_MM:g} mm = "
        f"{DIE_WIDTH_MM * EDGE_MM:g} mm² (MemExplorer, section 2.1); {_area_words(evaluated.costs)}"
    )


def _area_words(costs: Sequence[Mapping[str, Any]]) -> str:
    """The design's dies and layers, as its account of area has them."""
    rows = [row for row in costs if row.get("n_dies") and row.get("area_mm2")]
    layers = [row for row in rows if row["part"] == "stacked layers"]
    blocks = [row for row in rows if row["part"] != "stacked layers"]
    if not blocks or any(row["area_mm2"] is None for row in costs if "area_mm2" in row):
        return "the design's area is not known"
    n_dies = blocks[0]["n_dies"]
    base_mm2 = sum(row["area_mm2"] for row in blocks) / n_dies
    words = (
        f"the design has {n_dies:g} {'die' if n_dies == 1 else 'dies, each'} of {base_mm2:,.0f} mm²"
    )
    for row in layers:
        layer_mm2 = row["area_mm2"] / row["n_dies"]
        words += f", and {row['n_dies']:g} stacked layers of {layer_mm2:,.0f} mm²"
    return words


def _over(placed: Sequence[_Placed], side: str) -> bool:
    edge = EDGE_MM if side in ("left", "right") else DIE_WIDTH_MM
    return sum(item.block.edge_mm for item in placed if item.side == side) > edge + 1e-6


def _key(
    machine: Machine, notes: Iterator[str], width_mm: float
) -> list[tuple[str | None, str, str]]:
    """Color, hatch and text of each line below the drawing; a note has no color."""
    from matplotlib import rcParams

    # A letter of the small size is about 0.45 of the font's size wide.
    n_letters = int((width_mm - 16.0) / 25.4 * 72 / (0.45 * rcParams["font.size"]))
    listed = [(_TIER_COLORS[i], _TIER_HATCHES[i], level) for i, level in enumerate(machine.tiers)]
    if machine.on_chip is not None:
        listed.insert(0, (_DIE_COLORS[-1], "", machine.on_chip))
    level_lines: list[tuple[str | None, str, str]] = [
        (color, hatch, textwrap.fill(level_words(level), n_letters))
        for color, hatch, level in listed
    ]
    return [*level_lines, *((None, "", textwrap.fill(note, n_letters)) for note in notes)]


def level_words(level: MachineLevel) -> str:
    """A memory level with its parts, capacity, bandwidth and edge."""
    words = (
        f"{level.title}: {level.words}; {format_value(level.capacity_bytes, 'B', 3)}, "
        f"{format_value(level.bandwidth_bytes_per_s, 'B/s', 3)}"
    )
    return f"{words}, {level.edge_words}" if level.edge_words else words


def _draw_key(figure: Figure, key: Sequence[tuple[str | None, str, str]]) -> None:
    from matplotlib.patches import Patch

    handles = [
        Patch(facecolor=color or "none", edgecolor="black" if color else "none", hatch=hatch,
              linewidth=0.6, label=text)
        for color, hatch, text in key
    ]  # fmt: skip
    figure.legend(handles=handles, loc="outside lower left", fontsize="small", ncols=1)
