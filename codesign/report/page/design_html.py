"""One design in HTML: its die, where time and power go, and what else its evaluator tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from html import escape

from codesign.base.columns import Strings
from codesign.base.evaluator import Explanation
from codesign.base.records import frozen
from codesign.insight.evaluated_design import EvaluatedDesign
from codesign.insight.uncertainty.uncertainty_results import Swing
from codesign.report import palette
from codesign.report.accuracy_tables import format_lines
from codesign.report.chart import Chart
from codesign.report.design_charts import (
    Scales,
    counted_rows,
    power_panel,
    roofline_chart,
    swing_chart,
    time_panel,
    traffic_chart,
)  # fmt: skip
from codesign.report.edge import edge_words
from codesign.report.labels import (
    format_value,
    metric_of,
    metric_title,
    row_title,
    spaced_name,
    spoken_codes,
)
from codesign.report.machine_charts import die_chart, level_words, way_panels
from codesign.report.page.answer_html import LEFT, table_html, words_cell
from codesign.report.svg import draw
from codesign.report.system_picture import system_picture

WIDTH = 430.0
"""Pixels of a chart of one design: a phone's width, and half of a desk's."""
_MOST_SWINGS = 6
_ACCURACY = ("measure", *(f"{LEFT}{x}" for x in ("value", "interval", "basis", "source")))
_ROUNDING = 1e-9


@frozen
class Account:
    """One design explained.

    Attributes:
        evaluated: The design with its explanation.
        swings: By metric, the effect of the range of each technology's numbers.
    """

    evaluated: EvaluatedDesign
    swings: Mapping[str, Sequence[Swing]] = field(default_factory=dict)


def design_html(
    account: Account, metrics: Sequence[str], scales: Scales, span_mm: float = 0.0
) -> str:
    """The design's charts and tables; a system has those of each pool's machine.

    Args:
        metrics: Metrics whose swings are shown.
        scales: Axes that all designs of a page share.
        span_mm: Width to which the dies of all designs are drawn.
    """
    evaluated = account.evaluated
    pools = evaluated.pools or {"": evaluated}
    machines = {spaced_name(name): machine for name, machine in pools.items()}.items()
    lines = [
        f'<li><span class="swatch" style="background:var(--'
        f'{palette.PARTS.get(str(level["name"]), "orange")})"></span><span>'
        f"<b>{escape(' '.join(filter(None, [pool, row_title(level)])))}</b> "
        f"{escape(level_words(level))}</span></li>"
        for pool, pool_machine in machines
        for level in pool_machine.levels
    ]
    edges = [
        f"Edge for memory{f' of one {pool} machine' if pool else ''}: {words}."
        for pool, pool_machine in machines
        if (words := edge_words(pool_machine))
    ]
    foot = f'<p class="hint">{escape(" ".join(edges))}</p>' if edges else ""
    blocks = [
        _block(
            "Die and memories",
            die_chart(evaluated, span_mm),
            ((f'<ul class="levels">{"".join(lines)}</ul>' if lines else "") + foot),
        )
    ]
    if evaluated.pools:
        picture = system_picture(evaluated)
        links = "".join(
            f"<li><b>{escape(link.name)}</b> {escape(', '.join(filter(None, link.words)))}</li>"
            for link in picture.links
        )
        way = Chart(way_panels(picture), "The way of one request", has_legend=False)
        blocks.append(_block("One request", way, f"<ul>{links}</ul>" if links else ""))
    finer = []
    for name, machine in machines:
        pool = f": one {name} machine" if name else ""
        panels = {
            f"Time by {counted_rows(machine)} and what bounds it": time_panel(machine, scales),
            "Power by component": power_panel(machine, scales),
        }
        drawn = [_block(x + pool, Chart([panel], x)) for x, panel in panels.items() if panel]
        blocks += [_details(f"Time and power{pool}", drawn)] if pool else drawn
        finer += [
            _block(f"Roofline{pool}", roofline_chart(machine, scales)),
            _block(f"Traffic by memory level{pool}", traffic_chart(machine, scales)),
        ]
        if formats := format_lines(machine):
            title = f"Accuracy of the formats{pool}"
            rows = ([line[0], *map(words_cell, line[1:])] for line in formats)
            finer.append(f"<h4>{title}</h4>{table_html(_ACCURACY, rows, title)}")
    for name in metrics:
        if swings := account.swings.get(name):
            metric = metric_of(name, evaluated.known_metrics)
            chart = swing_chart(metric, evaluated.metrics[name], swings[:_MOST_SWINGS])
            finer.append(_block(f"What moves {metric_title(metric)}", chart))
    warnings = [
        f'<p class="warning">{escape(text)}</p>' for text in above_tdp(evaluated.explanation)
    ]
    notes = "".join(f"<li>{escape(spoken_codes(note))}</li>" for note in evaluated.notes)
    if notes:
        finer.append(f"<h4>Assumptions</h4><ul class=notes>{notes}</ul>")
    return "".join([*blocks, *warnings, _details("Roofline, traffic, assumptions", finer)])


def _details(title: str, blocks: Strings) -> str:
    """Blocks that a reader unfolds; nothing if there are none."""
    text = "".join(blocks)
    return text and f"<details class=inner><summary>{escape(title)}</summary>{text}</details>"


def _block(title: str, chart: Chart | None, after: str = "") -> str:
    if chart is None and not after:
        return ""
    return f"<h4>{escape(title)}</h4>{draw(chart, WIDTH) if chart else ''}{after}"


def above_tdp(explanation: Explanation) -> list[str]:
    """Sentences on components that draw more on average than their TDP.

    A TDP is a component's energy in the time that it needs by itself; an average is over the time
    of the whole work. So the average is above the TDP where the model lets a component work in
    less time than it needs.
    """
    sentences = []
    for row in explanation.power:
        tdp = row.get("tdp_watts")
        average = row.get("average_watts")
        if not tdp or average is None or average <= tdp * (1 + _ROUNDING):
            continue
        why = explanation.timing_notes.get(row["name"])
        numbers = f"{format_value(average, 'W', 3)} on average, {format_value(tdp, 'W', 3)} at TDP"
        reason = f"The evaluator assumes: {why}" if why else "The assumptions below do not say why"
        sentences.append(
            f"{row_title(row)}: {numbers}. Its energy is counted, and spread over less time than "
            f"it needs at its TDP. {reason}."
        )
    return sentences
