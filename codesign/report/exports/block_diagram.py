"""A design as a block diagram in SVG: compute dies, layers on them, memories and their links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

from codesign.report import palette
from codesign.report.labels import format_value

if TYPE_CHECKING:
    from codesign.report.machine import Bank, Machine

_WIDTH, _MARGIN = 920, 20
_DIE_WIDTH, _LINK_WIDTH = 380, 220
_ROW, _GAP = 44, 8
_MOST_LAYERS = 4
"""Layers that are drawn one by one; of more, these and their number."""
_COLORS = {role: palette.LIGHT[hue] for role, hue in palette.PARTS.items()}
_PLAIN = "#EEEEEE"


def interface_words(bank: Bank) -> str:
    """Such as "2048 bit × 7.81 Gbit/s" of one unit; empty if nobody states its width."""
    pins = bank.technology.data_pins
    if pins is None:
        return ""
    rate = 8.0 * bank.technology.value_at("bandwidth", bank.level) / pins
    return f"{pins} bit × {rate / 1e9:.3g} Gbit/s"


def block_diagram(machine: Machine, costs: Sequence[Mapping[str, Any]], title: str) -> str:
    """The diagram as SVG text; sizes and places are not to scale.

    Args:
        costs: Area by block, as an explanation has it; may be empty.
    """
    areas = {str(row["part"]): row.get("area_mm2") for row in costs}
    counts = {str(row["part"]): row.get("n_dies") for row in costs}
    top = 60
    layers, top = _layers(machine, areas.get("stacked layers"), top)
    die, bottom = _base_die(machine, areas, counts.get("array"), top)
    tiers, tiers_bottom = _tiers(machine, top)
    height = max(bottom, tiers_bottom) + _MARGIN
    return "".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
            f'width="{_WIDTH}" height="{height}" font-family="sans-serif" font-size="13">\n',
            f'<rect width="{_WIDTH}" height="{height}" fill="white"/>\n',
            _text(_MARGIN, 24, title, weight="bold"),
            _text(_MARGIN, 42, "Not to scale. Areas are of all dies of one device, typical."),
            *layers,
            *die,
            *tiers,
            "</svg>\n",
        )
    )


def _layers(machine: Machine, area_mm2: float | None, top: int) -> tuple[list[str], int]:
    banks = machine.on_chip.banks if machine.on_chip else ()
    stacked = [bank for bank in banks if bank.technology.unit == "layer"]
    if not stacked:
        return [], top
    (bank,) = stacked
    shapes = []
    for number in range(min(bank.count, _MOST_LAYERS), 0, -1):
        words = f"layer {number}: {bank.technology.name}"
        if number == _MOST_LAYERS < bank.count:
            words = f"layers {number} to {bank.count}: {bank.technology.name}"
        shapes.append(_box(_MARGIN, top, _DIE_WIDTH, 26, _COLORS["on_chip"], words))
        top += 26
    capacity = format_value(bank.capacity_bytes, "B", 3)
    rate = format_value(bank.bandwidth_bytes_per_s, "B/s", 3)
    area = "" if area_mm2 is None else f", {format_value(area_mm2, 'mm²', 4)}"
    shapes.append(
        _text(_MARGIN + 4, top + 17, f"stacked on the dies: {capacity}, {rate} together{area}")
    )
    return shapes, top + 26


def _base_die(
    machine: Machine, areas: Mapping[str, float | None], n_dies: float | None, top: int
) -> tuple[list[str], int]:
    blocks = [
        ("array", f"matrix array {machine.array_rows} × {machine.array_columns}",
         format_value(machine.peak_flop_per_s, "FLOP/s", 3)),
        ("vector", "vector unit", f"{machine.vector_lanes} lanes"),
    ]  # fmt: skip
    planar = [
        bank
        for bank in (machine.on_chip.banks if machine.on_chip else ())
        if bank.technology.unit != "layer"
    ]
    blocks += [
        ("on_chip", bank.words, format_value(bank.capacity_bytes, "B", 3)) for bank in planar
    ]
    blocks += [
        (name, name, "")
        for name in areas
        if name in ("links", "uncore", "die to die", "filler") or name.endswith("interface")
    ]
    height = _ROW + len(blocks) * (_ROW - 12 + _GAP)
    many = "compute die" if n_dies in (None, 1.0) else f"{n_dies:g} compute dies side by side"
    shapes = [_box(_MARGIN, top, _DIE_WIDTH, height, "white", "")]
    shapes.append(_text(_MARGIN + 10, top + 22, many, weight="bold"))
    y = top + 34
    for name, words, amount in blocks:
        area = areas.get(name)
        label_parts = [words, amount, "" if area is None else format_value(area, "mm²", 4)]
        color = _COLORS.get(name, _PLAIN)
        label = ", ".join(filter(None, label_parts))
        shapes.append(_box(_MARGIN + 10, y, _DIE_WIDTH - 20, _ROW - 12, color, label))
        y += _ROW - 12 + _GAP
    return shapes, top + height


def _tiers(machine: Machine, top: int) -> tuple[list[str], int]:
    left_px = _MARGIN + _DIE_WIDTH + _LINK_WIDTH
    shapes = []
    for level in machine.tiers:
        (bank,) = level.banks
        middle = top + 38
        for behind in range(min(bank.count, 3) - 1, -1, -1):
            shift = 5 * behind
            place = (left_px + shift, top - shift + 10, _WIDTH - left_px - _MARGIN - 10, 56)
            shapes.append(_box(*place, _COLORS[level.name], "" if behind else f"{bank.words}"))
        words = f"{level.title}: {format_value(level.capacity_bytes, 'B', 4)}"
        width = interface_words(bank) or "width not known"
        begin = _MARGIN + _DIE_WIDTH
        shapes += [
            f'<line x1="{begin}" y1="{middle}" x2="{left_px}" y2="{middle}" stroke="black" '
            'stroke-width="2"/>\n',
            _text(begin + 8, middle - 8, f"{bank.count} × {width}"),
            _text(begin + 8, middle + 18, format_value(level.bandwidth_bytes_per_s, "B/s", 4)),
            _text(left_px, top + 84, ", ".join(filter(None, (words, level.edge_words)))),
        ]
        top += 104
    return shapes, top


def _box(x: int, y: int, width: int, height: int, color: str, words: str) -> str:
    # The palette's hues are for lines; pale, they bear black letters.
    opacity = "1" if color in ("white", _PLAIN) else "0.35"
    shape = f'<rect x="{x}" y="{y}" width="{width}" height="{height}"'
    box = (
        f'{shape} fill="white"/>\n'
        f'{shape} fill="{color}" fill-opacity="{opacity}" stroke="black" stroke-width="1"/>\n'
    )
    return box + (_text(x + 8, y + height // 2 + 5, words) if words else "")


def _text(x: int, y: int, words: str, weight: str = "normal") -> str:
    return f'<text x="{x}" y="{y}" font-weight="{weight}">{escape(words)}</text>\n'
