"""The map of memories over two constants: a figure, and a file of its strips."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import chain, groupby, repeat
from pathlib import Path
from typing import TYPE_CHECKING

from codesign.base.columns import StringTuple
from codesign.base.files import replacing, write_text
from codesign.base.units import parse_unit
from codesign.insight.decisions.plane import constant_name
from codesign.report import palette
from codesign.report.chart import Axis, Box, Chart, Label, Mark, Panel, Points
from codesign.report.decisions import memory_words, number_title, plane_note, quantity_unit
from codesign.report.labels import evaluator_words
from codesign.report.page.html_page import NARROW as _NARROW
from codesign.report.page.html_page import WIDE as _WIDE
from codesign.report.page.html_page import style_text
from codesign.report.svg import draw, hatch_patterns

if TYPE_CHECKING:
    from codesign.insight.decisions.plane import DecisionPlane
    from codesign.insight.uncertainty.uncertainty_results import RangedNumber
    from codesign.search.campaign import Results


def plane_chart(plane: DecisionPlane, hues: Mapping[StringTuple, str] | None = None) -> Chart:
    """The plane with an area for each choice of memories, and the typical constants.

    Args:
        hues: Hue of each choice; without it, areas have hues of their own and labels.
    """
    (x_title, x_scale), (y_title, y_scale) = _axis(plane.x), _axis(plane.y)
    n = len({strip.x for strip in plane.strips}) - 1
    half = (plane.x.high - plane.x.low) / n / 2
    labeled = plane.shares if hues is None else ()
    hues = hues or _hues(plane.shares)
    marks: list[Mark] = []
    columns = {x: tuple(strips) for x, strips in groupby(plane.strips, lambda strip: strip.x)}

    def outline(x: float) -> tuple[object, ...]:
        """Return what equal neighbors have in common."""
        return tuple((s.y_low, s.y_high, plane.memories_at(s)) for s in columns[x])

    for _, group in groupby(columns, outline):
        xs = list(group)
        left = max(xs[0] - half, plane.x.low)
        right = min(xs[-1] + half, plane.x.high)
        marks += [
            Box(
                (left / x_scale, right / x_scale),
                (strip.y_low / y_scale, strip.y_high / y_scale),
                hues[plane.memories_at(strip)],
                edge="",
                text=memory_words(plane.memories_at(strip)),
            )
            for strip in columns[xs[0]]
        ]
    for memories in labeled:
        strips = [strip for strip in plane.strips if plane.memories_at(strip) == memories]
        widest = max(strip.y_high - strip.y_low for strip in strips)
        middles = [strip for strip in strips if strip.y_high - strip.y_low > 0.95 * widest]
        middle = middles[len(middles) // 2]
        y = (middle.y_low + middle.y_high) / 2
        words = memory_words(memories)
        marks.append(Label(middle.x / x_scale, y / y_scale, words, is_line=True, is_bold=True))
    x = plane.x.typical / x_scale
    y = plane.y.typical / y_scale
    marks.append(Points([x], [y], shape="diamond", is_open=True, name="typical constants"))
    ends = [
        (number.low / scale, number.high / scale)
        for number, scale in ((plane.x, x_scale), (plane.y, y_scale))
    ]
    panel = Panel(Axis(ends[0], x_title), Axis(ends[1], y_title), marks, height=320.0)
    areas = ", ".join(f"{memory_words(m)} in {100 * a:.3g} %" for m, a in plane.shares.items())
    return Chart(
        [panel],
        f"Recommended memories by {x_title} and {y_title}: {areas}.",
        "Memories of the recommended design",
    )


def _hues(choices: Iterable[StringTuple]) -> dict[StringTuple, str]:
    return dict(zip(choices, chain(palette.SERIES, repeat("gray")), strict=False))


def _axis(number: RangedNumber) -> tuple[str, float]:
    """The title of an axis, and the unit of its ticks in coherent SI units."""
    unit = quantity_unit(number.number, number.typical)
    return f"{number_title(number)}{f' ({unit})' if unit else ''}", parse_unit(unit).scale


def write_page(planes: Sequence[DecisionPlane], path: Path, results: Results) -> None:
    """Write maps as one HTML page that opens offline."""
    name = results.definition.name
    evaluator = evaluator_words(results.reading)
    hues = _hues(dict.fromkeys(memories for plane in planes for memories in plane.shares))
    legend = ", ".join(
        f'<span style="color: var(--{hue})" aria-hidden="true">■</span> '
        f"{escape(memory_words(memories))}"
        for memories, hue in hues.items()
    )
    blocks = []
    for plane in planes:
        chart = plane_chart(plane, hues)
        charts = "".join(
            f'<div class="{size}">{draw(chart, width)}</div>'
            for size, width in (("wide", _WIDE), ("narrow", _NARROW))
        )
        title = " and ".join(map(number_title, (plane.x, plane.y)))
        blocks.append(
            f'<section class="front"><h2>{escape(title)}</h2><figure>{charts}<figcaption '
            f'class="hint">{escape(plane_note(plane))}.</figcaption></figure></section>'
        )
    description = escape(results.definition.description)
    write_text(
        path,
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
        'content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light '
        f'dark"><title>{escape(name)}: maps</title><link rel="icon" href="data:,"><style>'
        f'{style_text()}</style></head><body><svg width="0" height="0" style="position:absolute" '
        f'aria-hidden="true">{hatch_patterns()}</svg><header><p class="campaign">{description}</p>'
        "<h1>Which memories does the recommended design have?</h1></header><main>"
        f'<p class="hint">Campaign {escape(name)}, evaluated by {escape(evaluator)}. Each map '
        "varies two constants over their ranges; the diamond marks the typical values. The pair "
        f"whose changes flip a decision first comes first.</p>"
        f"<p>{legend}</p>{''.join(blocks)}</main></body></html>\n",
    )


def write_csv(plane: DecisionPlane, path: Path) -> None:
    """Write the strips with their designs, in coherent SI units."""
    problem = plane.problem
    designs = problem.space.decode(plane.rows)
    with replacing(path) as unfinished, unfinished.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        names = [constant_name(plane.x), constant_name(plane.y)]
        header = [names[0], *(f"{names[1]} {end}" for end in ("from", "to")), "memories", "lead"]
        writer.writerow([*header, *problem.space.names])
        for strip in plane.strips:
            values = designs[strip.design].values() if strip.design >= 0 else ()
            memories = " + ".join(plane.memories_at(strip))
            writer.writerow([strip.x, strip.y_low, strip.y_high, memories, strip.lead, *values])
