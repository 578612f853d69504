"""The meeting sheet: one A4 page with the question, one recommendation and its reasons.

Beside the words stand the front, the die with its memories to scale, and time and power as bars.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path

import numpy as np

from codesign.base.columns import Fields
from codesign.base.files import ending_of
from codesign.report import palette
from codesign.report.campaign_charts import PICK_TITLES, front_chart, front_picture
from codesign.report.chart import Chart
from codesign.report.design_charts import power_panel, scales_of, time_panel
from codesign.report.edge import edge_words
from codesign.report.labels import (
    evaluator_words,
    format_metric,
    format_value,
    metric_of,
    metric_title,
    row_title,
)  # fmt: skip
from codesign.report.machine_charts import die_chart
from codesign.report.marked_designs import MarkedDesigns
from codesign.report.page.answer_html import bound_words, signed, sure_words
from codesign.report.page.design_html import Account
from codesign.report.page.explained import Explainer
from codesign.report.page.facts import question_text
from codesign.report.page.recommendations import Judge, recommendation_document
from codesign.report.page.tighter_limits import limit_document
from codesign.report.paper import height_of, load_pptx, save_slide, save_svg, sized
from codesign.report.svg import FONT, draw, wrap
from codesign.report.tables import constant_words
from codesign.search.campaign import Results

_WIDTH, _HEIGHT = 1122.0, 793.0
"""A4 across, in pixels of 96 an inch."""
_MARGIN, _COLUMN, _GAP = 28.0, 340.0, 23.0
_SCALE = 0.72
"""Size of the charts of the design, which stand in the narrow column."""
_MOST_FIGURES, _MOST_CONSTANTS = 9, 3

_Line = tuple[str, float, str]
"""A text with the size of its letters and its hue."""


def write_sheet(
    path: Path,
    results: Results,
    marked: MarkedDesigns | None,
    explainer: Explainer | None,
    tolerance: float,
    judge: Judge | None,
) -> Path:
    """Write the sheet of a campaign as PDF, SVG, PNG or PPTX.

    Args:
        results: Results of the campaign, with the exact front if that is known.
        marked: Designs to show by name.
        explainer: Explains the recommended design; without it there is no die.
        tolerance: Share within which a design is folded under a cheaper one.
        judge: Further questions about the recommended designs.

    Raises:
        InputError: The file cannot be written.
        MissingExtraError: The writer of the format is not installed.
    """
    is_slide = ending_of(path) == "pptx"
    if is_slide:
        load_pptx()
    picture = front_picture(results, tolerance, marked)
    answer = recommendation_document(results, picture.folded, judge)
    picks = answer["picks"]
    first = next((pick for pick in picks if pick["is_recommended"]), None)
    account = None
    if first is not None and explainer is not None:
        design = results.design(first["position"])
        swings = explainer.vary([design])[0] if explainer.vary else {}
        account = Account(explainer.explain(design), swings)
    front = draw(front_chart(picture, is_narrow=False), _COLUMN + 40.0)
    source = (
        f"exact front of {results.exact.n_designs:,} designs"
        if results.exact
        else f"best of {len(results):,} evaluated designs"
    )
    source = f"{results.definition.name}: {source}, {evaluator_words(results.reading)}"
    head = [(question_text(results), 17.0, "ink"), (source, 10.5, "quiet")]
    title, height = _texts(head, _WIDTH - 2 * _MARGIN)
    pieces, top = [(title, _MARGIN, 14.0)], max(78.0, height + 26.0)
    if first is not None:
        words = [
            *_reasons(results, answer, first, account),
            *_block("Worth of each limit", _worth(results, judge is not None)),
        ]
        pieces.append((_fitted(words, _COLUMN - 20.0, top), _MARGIN, top))
    middle_x = _MARGIN + _COLUMN
    pieces.append((front, middle_x, top))
    below = top + height_of(front) + 6.0
    last = list(_alternatives(results, answer, account))
    pieces.append((_fitted(last, _COLUMN + 20.0, below), middle_x + 8.0, below))
    if account is not None:
        right = middle_x + _COLUMN + 40.0 + _GAP
        room, evaluated = _WIDTH - right - _MARGIN, account.evaluated
        scales = scales_of([evaluated])
        panels = (time_panel(evaluated, scales), power_panel(evaluated, scales))
        bars = (Chart([panel], "Time and power") for panel in panels if panel is not None)
        for chart in filter(None, [die_chart(evaluated), *bars]):
            drawing = sized(draw(chart, room / _SCALE))
            pieces.append((f'<g transform="scale({_SCALE})">{drawing}</g>', right, top))
            top += _SCALE * height_of(drawing) + 4.0
    if is_slide:
        return save_slide(pieces, path, _WIDTH, _HEIGHT)
    return save_svg(pieces, path, _WIDTH, is_print=True, height=_HEIGHT)


def _worth(results: Results, is_searched: bool) -> Iterator[str]:
    """The change of the best value of each objective as one limit moves by a step."""
    for step in limit_document(results, None, {}, is_searched=is_searched).get("steps", ()):
        changes = [
            f"best {metric_title(objective.metric)} {signed(share)}"
            for objective, share in zip(results.problem.objectives, step["change"], strict=True)
            if np.isfinite(share) and abs(share) > 0.0005
        ]
        certainty = "" if step["is_exact"] else " (best known)"
        yield f"{step['limit']}: {', '.join(changes) or 'no change'}{certainty}"


def _reasons(
    results: Results, answer: Fields, pick: Fields, account: Account | None
) -> Iterator[_Line]:
    """The recommendation: its words, figures, limits, confidence, and the constants behind it."""
    position, metrics = pick["position"], results.problem.metrics
    title = PICK_TITLES[pick["key"]]
    yield f"{title}: {pick['reason']}", 14.0, palette.PICKS.get(pick["key"], "blue")
    yield f"#{pick['id'] + 1}: {pick['words']}", 10.5, "ink"
    yield answer["sentence"], 10.0, "ink"
    for name in answer["figures"][:_MOST_FIGURES]:
        value = format_metric(float(results.metrics[name][position]), metric_of(name, metrics), 3)
        if value != "–":
            yield f"{metric_title(metric_of(name, metrics))}: {value}", 10.5, "ink"
    bound = bound_words(account.evaluated) if account else ""
    close = [f"{limit['words']}: {100 * limit['left']:.2g} % left" for limit in pick["close"]]
    edge = edge_words(account.evaluated) if account else ""
    used = [f"die edge for memory: {edge}"] if edge else []
    yield from _block("Limited by", [bound, *close, *used])
    yield from _block("How sure", sure_words(results, pick, ()))
    if account is not None:
        values = account.evaluated.metrics
        swings = [
            (abs(swing.at_high - swing.at_low) / abs(values[name]), metric_of(name, metrics), swing)
            for name in results.problem.objective_names
            for swing in account.swings.get(name, ())
        ]
        swings.sort(key=lambda entry: -entry[0])
        yield from _block("Constants that move it most", (
            f"{constant_words(swing.technology, swing.number)}: {metric_title(metric)} "
            f"{format_metric(swing.at_low, metric, 3)} to {format_metric(swing.at_high, metric, 3)}"
            for _, metric, swing in swings[:_MOST_CONSTANTS]
        ))  # fmt: skip


def _block(title: str, lines: Iterable[str]) -> Iterator[_Line]:
    listed = [line for line in lines if line]
    if listed:
        yield title, 11.5, "accent"
    for line in listed:
        yield line, 10.0, "ink"


def _alternatives(results: Results, answer: Fields, account: Account | None) -> Iterator[_Line]:
    """The other recommended designs in a paragraph each, then the bill of one device's materials.

    The dearest part comes first.
    """
    metrics = [objective.metric for objective in results.problem.objectives]
    for pick in answer["picks"]:
        if pick["is_recommended"]:
            continue
        values = ", ".join(
            f"{metric_title(metric)} "
            f"{format_metric(float(results.metrics[metric.name][pick['position']]), metric, 3)}"
            for metric in metrics
        )
        hue = palette.PICKS.get(pick["key"], "blue")
        yield f"{PICK_TITLES[pick['key']]}: {pick['reason']}", 11.5, hue
        yield f"{values}. #{pick['id'] + 1}: {pick['words']}", 10.0, "ink"
    rows = [row for row in (account.evaluated.costs if account else ()) if row.get("usd")]
    if rows:
        rows.sort(key=lambda row: -row["usd"])
        total = format_value(sum(row["usd"] for row in rows), "USD", 4)
        prices = results.definition.evaluator.options.get("prices", "the memories' files")
        yield f"Bill of materials: {total}, memories at prices of {prices}", 11.5, "accent"
        listed = (f"{row_title(row)} {format_value(row['usd'], 'USD', 3)}" for row in rows)
        yield "; ".join(listed), 9.5, "ink"


def _fitted(lines: Sequence[_Line], width: float, top: float) -> str:
    """Lines of text below a height, in smaller letters if the page has no room for them."""
    scale = 1.0
    while True:
        text, height = _texts(lines, width / scale)
        if scale * height <= _HEIGHT - _MARGIN - top or scale < 0.5:
            return f'<g transform="scale({scale:.2f})">{text}</g>'
        scale -= 0.02


def _texts(lines: Sequence[_Line], width: float) -> tuple[str, float]:
    """Lines of text, wrapped to a width, one below the other; and their height."""
    y, spans = 0.0, []
    for text, size, hue in lines:
        y += 0.45 * size if hue == "accent" else 0.0
        is_bold = size > 11.0
        weight = ' font-weight="600"' if is_bold else ""
        for line in wrap(text, width, size * (1.08 if is_bold else 1.0)).split("\n"):
            y += 1.28 * size
            spans.append(
                f'<text y="{y:.1f}" font-size="{size:g}" fill="var(--{hue})"{weight}>'
                f"{escape(line)}</text>"
            )
    return f'<g font-family="{FONT}">{"".join(spans)}</g>', y
