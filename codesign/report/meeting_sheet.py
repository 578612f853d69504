"""The meeting sheet: one A4 page with the question, one recommendation and its reasons.

Beside the words stand the front, the die with its memories to scale, and time and power as bars.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from codesign.answers.decisions import DecideAnswer
from codesign.base.columns import Fields, StringList, Strings
from codesign.base.files import ending_of
from codesign.insight.evaluated_design import EvaluatedDesign
from codesign.models.memtech import load_library
from codesign.report import palette
from codesign.report.campaign_charts import PICK_TITLES, front_chart, front_picture
from codesign.report.chart import Chart
from codesign.report.decisions import change_words, moved_words
from codesign.report.design_charts import power_panel, scales_of, time_panel
from codesign.report.edge import edge_words
from codesign.report.labels import (
    bank_words,
    evaluator_words,
    format_metric,
    format_value,
    memory_words,
    metric_title,
    row_title,
    spaced_name,
)  # fmt: skip
from codesign.report.machine_charts import die_chart
from codesign.report.marked_designs import MarkedDesigns
from codesign.report.page.answer_html import (
    bound_words,
    close_words,
    main_figures,
    signed,
    sure_words,
)
from codesign.report.page.explained import Explainer
from codesign.report.page.facts import question_text
from codesign.report.page.recommendations import Judge, recommendation_document
from codesign.report.page.tighter_limits import limit_document
from codesign.report.paper import (
    Piece,
    TextBlock,
    height_of,
    load_pptx,
    save_slide,
    save_svg,
    sized,
)  # fmt: skip
from codesign.report.svg import draw
from codesign.search.campaign import Results

_WIDTH, _HEIGHT = 1122.0, 793.0
"""A4 across, in pixels of 96 an inch."""
_MARGIN = 28.0
_COLUMN = 340.0
_GAP = 23.0
_SCALE = 0.86
"""Largest size of the charts of the design, which stand in the narrow column."""
_LARGEST_TEXT = 1.26
_STEP = 0.02
"""Step by which a column gets smaller until it fits."""
_MOST_CONSTANTS = 3
_MOST_PANELS = 2
_SMALL = 0.01
"""Share of a bill below which its rows are joined."""
_DATE = re.compile(r"(?:\d+ )?(?:[A-Z][a-z]+ )?20\d\d(?:-Q\d)?")

_Line = tuple[str, float, str]
"""A text with the size of its letters and its hue."""


def write_sheet(
    path: Path,
    results: Results,
    marked: MarkedDesigns | None,
    explainer: Explainer | None,
    tolerance: float,
    judge: Judge | None,
    flips: Strings,
) -> Path:
    """Write the sheet of a campaign as PDF, SVG, PNG or PPTX.

    Args:
        results: Results of the campaign, with the exact front if that is known.
        marked: Designs to show by name.
        explainer: Explains the recommended design; without it there is no die.
        tolerance: Share within which a design is folded under a cheaper one.
        judge: Further questions about the recommended designs.
        flips: Lines of :func:`flip_lines`.

    Raises:
        InputError: The file cannot be written.
        MissingExtraError: The writer of the format is not installed.
    """
    if is_slide := ending_of(path) == "pptx":
        load_pptx()
    picture = front_picture(results, tolerance, marked)
    answer = recommendation_document(results, picture.folded, judge)
    picks = answer["picks"]
    first = next((pick for pick in picks if pick["is_recommended"]), None)
    account = None
    if first is not None and explainer is not None:
        account = explainer.explain(results.design(first["position"]))
    chart = front_chart(picture, is_narrow=False)
    front = draw(replace(chart, panels=chart.panels[:_MOST_PANELS]), _COLUMN + 40.0)
    source = (
        f"exact front of {results.exact.n_designs:,} designs"
        if results.exact
        else f"best of {len(results):,} evaluated designs"
    )
    source = f"{results.definition.name}: {source}, {evaluator_words(results.reading)}"
    head = [(question_text(results), 17.0, "ink"), (source, 10.5, "quiet")]
    title = TextBlock(head, _WIDTH - 2 * _MARGIN)
    pieces: list[Piece] = [(title, _MARGIN, 14.0)]
    top = max(64.0, title.drawn()[1] + 26.0)
    words: list[_Line] = []
    if first is not None:
        if not flips and explainer is not None and explainer.vary:
            flips = [f"“codesign explain decide {results.definition.asked_as}” finds them."]
        prices = list(_shadow_prices(results, judge is not None)) or [
            f"“codesign enumerate {results.definition.asked_as}” finds them."
        ]
        prices *= bool(results.problem.constraints)
        words += _reasons(results, answer, first, account, flips)
        words += _block("Shadow prices of limits", prices)
    middle_x, below = _MARGIN + _COLUMN, top + height_of(front) + 6.0
    pieces.append((front, middle_x, top))
    outer = (words, _COLUMN - 20.0, _MARGIN, top)
    columns = [outer, (list(_alternatives(answer)), _COLUMN + 20.0, middle_x + 8.0, below)]
    # Bills go where there is more room.
    lines, *_ = min(columns, key=lambda column: TextBlock(*column[:2]).drawn()[1] + column[3])
    lines += _bills(account) if account else ()
    pieces += [(_fitted(lines, width, y), x, y) for lines, width, x, y in columns]
    if account is not None:
        right = middle_x + _COLUMN + 40.0 + _GAP
        room = _WIDTH - right - _MARGIN
        scales = scales_of([account])
        panels = (time_panel(account, scales), power_panel(account, scales))
        bars = (Chart([panel], "Time and power") for panel in panels if panel is not None)
        charts = list(filter(None, [die_chart(account, has_legend=True), *bars]))
        scale, height = _SCALE + _STEP, _HEIGHT
        while height > _HEIGHT - _MARGIN - top:
            scale -= _STEP
            drawings = [sized(draw(chart, room / scale)) for chart in charts]
            height = scale * sum(map(height_of, drawings))
        for drawing in drawings:
            pieces.append((f'<g transform="scale({scale:.2f})">{drawing}</g>', right, top))
            top += scale * height_of(drawing) + 4.0
    if is_slide:
        return save_slide(pieces, path, _WIDTH, _HEIGHT)
    return save_svg(pieces, path, _WIDTH, is_print=True, height=_HEIGHT)


def _shadow_prices(results: Results, is_searched: bool) -> Iterator[str]:
    """The change of the best value of each objective as one limit moves by a step."""
    same = []
    for step in limit_document(results, None, {}, is_searched=is_searched).get("steps", ()):
        changes = [
            f"best {metric_title(objective.metric)} {signed(share)}"
            for objective, share in zip(results.problem.objectives, step["change"], strict=True)
            if np.isfinite(share) and abs(share) > 0.0005
        ]
        certainty = "" if step["is_exact"] else " (best known)"
        if changes:
            yield f"{step['limit']}: {', '.join(changes)}{certainty}"
        else:
            same.append(f"{step['limit']}{certainty}")
    if same:
        yield f"No change of the best values: {'; '.join(same)}"


def _reasons(
    results: Results,
    answer: Fields,
    pick: Fields,
    account: EvaluatedDesign | None,
    flips: Strings,
) -> Iterator[_Line]:
    """The recommendation: its words, figures, limits, confidence, and what would flip it."""
    yield f"Recommended: {answer['rule']}", 14.0, palette.PICKS.get(pick["key"], "blue")
    yield f"Take #{pick['id'] + 1}: {pick['words']}.", 10.5, "ink"
    for metric, value in main_figures(results, answer, pick["position"]):
        yield f"{metric_title(metric)}\t{format_metric(value, metric, 3)}", 10.5, "ink"
    edge = edge_words(account) if account else ""
    yield from _block(
        "Limited by",
        [bound_words(account), *close_words(pick), f"die edge for memory: {edge}" * bool(edge)],
    )
    yield from _block("How sure", sure_words(results, pick, ()))
    yield from _block("Constants that would flip the choice", flips)


def flip_lines(decided: DecideAnswer, results: Results) -> StringList:
    """The smallest changes of constants at which another design is preferred, in words."""
    space = results.problem.space
    (old,) = space.decode(space.encode(decided.design))
    flips: dict[str, tuple[float, str]] = {}
    for decision in decided.decisions:
        for flip in filter(None, [decision.flip, *decision.flips_by_one]):
            words = " and ".join(change_words(x, x.value) for x in flip.changes)
            (new,) = space.decode(space.encode(flip.design))
            flips[words] = flip.share, f"{words}: {moved_words(space, old, new)}"
    for limit in decided.limits:
        words = change_words(limit.change, limit.change.value)
        flips.setdefault(words, (limit.share, f"{words}: breaks {limit.limit}"))
    lines = [words for _, words in sorted(flips.values())[:_MOST_CONSTANTS]]
    return lines or ["No constant within its range flips a decision."]


def _block(title: str, lines: Iterable[str]) -> Iterator[_Line]:
    listed = [line for line in lines if line]
    if listed:
        yield title, 11.5, "accent"
    for line in listed:
        yield line, 10.0, "ink"


def _alternatives(answer: Fields) -> Iterator[_Line]:
    """The other recommended designs in a paragraph each."""
    picks = [pick for pick in answer["picks"] if not pick["is_recommended"]]
    for pick, changes in zip(picks, answer["alternatives"], strict=True):
        hue = palette.PICKS.get(pick["key"], "blue")
        yield f"{PICK_TITLES[pick['key']]}: {pick['reason']}", 11.5, hue
        yield f"{changes.partition(': ')[2]}. #{pick['id'] + 1}: {pick['words']}", 10.0, "ink"


def _bills(account: EvaluatedDesign) -> Iterator[_Line]:
    """The bill of one device's materials, or of a device of each pool; the largest price first."""
    for name, machine in (account.pools or {"": account}).items():
        rows = sorted((x for x in machine.costs if x.get("usd")), key=lambda x: -x["usd"])
        total = sum(row["usd"] for row in rows)
        if rows:
            title = f"Bill of materials{name and f' of one {spaced_name(name)} machine'}"
            yield f"{title}\t{format_value(total, 'USD', 4)}", 11.5, "accent"
        large = [row for row in rows if row["usd"] > _SMALL * total]
        for row in large:
            words = f"{_cost_words(machine, row)}\t{format_value(row['usd'], 'USD', 3)}"
            yield words, 10.0, "ink"
        if rest := rows[len(large) :]:
            usd = format_value(sum(row["usd"] for row in rest), "USD", 3)
            yield f"{len(rest)} others, each below {100 * _SMALL:g} %\t{usd}", 10.0, "ink"


def _cost_words(evaluated: EvaluatedDesign, row: Fields) -> str:
    """A part of a bill; of memories their number and the date of their price."""
    level = next((x for x in evaluated.levels if x["name"] == row["part"]), None)
    if level is None or row["part"] == "on_chip" or not level.get("banks"):
        return row_title(row)
    dates = (_price_date(evaluated, bank["technology"]) for bank in level["banks"])
    prices = dict.fromkeys(f"price of {date}" if date else "estimated price" for date in dates)
    return f"{memory_words(bank_words(level))}, {', '.join(prices)}"


def _price_date(evaluated: EvaluatedDesign, technology: str) -> str:
    """The date in the source of a memory's price, or of the memory that it names; or empty."""
    library = {**load_library(), **evaluated.evaluator.technologies()}
    source = library[technology].sources.get("price", "")
    if dates := _DATE.findall(source):
        return str(max(dates, key=len))
    named = re.search(r"memtech/(\w+)\.yaml", source)
    return _price_date(evaluated, named[1]) if named else ""


def _fitted(lines: Sequence[_Line], width: float, top: float) -> TextBlock:
    """Lines of text below a height, in the largest letters for which the page has room."""
    scale = _LARGEST_TEXT
    while True:
        block = TextBlock(lines, width / scale, scale)
        if block.drawn()[1] <= _HEIGHT - _MARGIN - top or scale < 0.5:
            return block
        scale -= _STEP
