"""The first screen in HTML: the recommendation with its reason, and the other choices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from codesign.base.columns import Fields, FloatDict, FloatMap, IntArray, StringList, Strings
from codesign.base.metrics import Metric
from codesign.insight.evaluated_design import EvaluatedDesign
from codesign.report import palette
from codesign.report.campaign_charts import PICK_TITLES
from codesign.report.labels import (
    format_metric,
    metric_of,
    metric_title,
    percent,
)  # fmt: skip
from codesign.report.page.recommendations import RESIDUAL
from codesign.report.pass_account import pass_account
from codesign.report.system_picture import limit_words
from codesign.search.campaign import Results

if TYPE_CHECKING:
    from rich.table import Table


_FAR = 2.0
_UNSEEN = 0.001
_NEARLY_ALL = 0.995
_MOST_FIGURES = 8
_SCOPE = (
    "Intervals of speeds: from the share of the off-chip bandwidth that kernels of five GPUs "
    f"sustain to all of it, ±{percent(RESIDUAL, 2)} of the closed form against our simulation. No "
    "chip of this architecture was measured."
)
_LONG, LEFT = "\0", "\1"
"""Marks of a row that a phone leaves out, and of the head of a column of words."""


def signed(share: float) -> str:
    """A relative change in percent.

    >>> signed(0.123), signed(-0.004)
    ('+12 %', '−0.4 %')
    """
    size = abs(100 * share)
    text = f"{size:.0f}" if size >= 9.5 else f"{size:.1g}"
    return f"{'+' if share >= 0 else '−'}{text} %"


def table_html(head: Strings, rows: Iterable[Strings], label: str, name: str = "") -> str:
    """A table; the first column heads its rows, the others hold numbers. Cells are HTML."""
    cells = "".join(
        f'<th scope="col"{" class=number" if place and text[0] != LEFT else ""}>'
        f"{text.removeprefix(LEFT)}</th>"
        if text
        else "<td></td>"
        for place, text in enumerate(head)
    )
    body = "".join(
        f'<tr{" class=long" if first.startswith(_LONG) else ""}><th scope="row">'
        f"{first.removeprefix(_LONG)}</th>"
        + "".join(
            text if text.startswith("<td") else f"<td class=number>{text}</td>" for text in rest
        )
        + "</tr>"
        for first, *rest in rows
    )
    mark = f' id="{name}"' if name else ""
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(label)}">'
        f"<table{mark}><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def rich_html(table: Table) -> str:
    """A table of the terminal in HTML."""
    columns = [[escape(str(cell)) for cell in column.cells] for column in table.columns]
    head = [escape(str(column.header).replace("\n", " ")) for column in table.columns]
    return table_html(head, zip(*columns, strict=True), str(table.title or ""))


def change_cell(metric: Metric, share: float | None) -> str:
    """A cell with a relative change, colored by its direction."""
    if share is None:
        return "<td class=number>–</td>"
    if abs(share) < 0.0005:
        return "<td class=number>=</td>"
    is_worse = (share < 0) == (metric.sense == "maximize")
    return f'<td class="number {"worse" if is_worse else "better"}">{signed(share)}</td>'


def words_cell(text: str) -> str:
    """A cell with words."""
    return f'<td class="words">{escape(text)}</td>'


def _metric(results: Results, name: str) -> Metric:
    return metric_of(name, results.problem.metrics)


def _interval_html(pick: Fields, metric: Metric, value: float) -> str:
    """The interval of a metric of a recommended design, if it is worth a word."""
    ends = pick.get("ranges", {}).get("intervals", {}).get(metric.name, (value, value))
    if metric.name in pick.get("speeds", {}):
        ends = [value * share for share in pick["speeds"][metric.name]]
    low, high = sorted(ends)
    if abs(high - low) <= 0.005 * abs(value):
        return ""
    low_text, high_text = (format_metric(end, metric, 3) for end in (low, high))
    number, _, unit = low_text.partition(" ")
    low_text = number if high_text.partition(" ")[2] == unit else low_text
    return f'<br><span class="quiet">{escape(f"{low_text} to {high_text}")}</span>'


def bound_words(evaluated: EvaluatedDesign | None) -> str:
    """The resources that a design's time goes to, from its account."""
    if evaluated is None:
        return ""
    if evaluated.pools:
        return limit_words(evaluated.explanation.timeline)
    one_pass = pass_account(evaluated)
    if one_pass:
        units = {"array and memories": one_pass["matrix_s"], "vector unit": one_pass["vector_s"]}
        bounds = {k: x for k, x in one_pass["bounds"].items() if x > 0.02 * one_pass["matrix_s"]}
        busy = [
            f"{name} busy {percent(time / one_pass['pass_s'])} of the pass"
            + (f" (bound by {', '.join(bounds)})" if name.startswith("array") and bounds else "")
            for name, time in sorted(units.items(), key=lambda unit: -unit[1])
            if time > 0
        ]
        return ", ".join(busy)
    sums: FloatDict = {}
    for row in evaluated.operators:
        if row.get("time_s") and row.get("bound"):
            sums[row["bound"]] = sums.get(row["bound"], 0.0) + row["time_s"]
    total = sum(sums.values())
    shares = [
        f"{bound} {percent(time / total, 2)}"
        for bound, time in sorted(sums.items(), key=lambda bound: -bound[1])
        if time > 0.02 * total
    ]
    return f"time: {', '.join(shares)}" if shares else ""


def close_words(pick: Fields) -> StringList:
    """The limits near which a recommended design is, each with the share that is left."""
    return [
        f"{x['words']}: {percent(x['left'], 2)} left" if x["left"] > 0.0005
        else f"{x['words']}: at the limit"
        for x in pick["close"]
    ]  # fmt: skip


def _ratio_words(results: Results, ratios: FloatMap) -> str:
    """Changes of metrics under another model: "TDP 3× higher, throughput −12 %"."""
    words = []
    for name, ratio in ratios.items():
        if abs(ratio - 1) <= _UNSEEN:
            continue
        factor = max(ratio, 1 / ratio) if ratio > 0 else 0.0
        side = "higher" if ratio > 1 else "lower"
        change = f"{factor:.2g}× {side}" if factor >= _FAR else signed(ratio - 1)
        words.append(f"{metric_title(_metric(results, name))} {change}")
    return ", ".join(words)


def sure_words(results: Results, pick: Fields, omitted: Strings) -> StringList:
    """Sentences on how sure a recommendation is: over ranges of constants, and by other models."""
    lines = []
    ranges = pick.get("ranges")
    if ranges:
        beyond = ranges["beyond"]
        limit = ranges["limit"]
        worst = (
            f"there is no value for {limit}" if beyond is None
            else f"{limit} is exceeded by {percent(beyond, 2)}" if beyond > 0
            else "all limits are kept"
        )  # fmt: skip
        lines.append(f"Worst case of all {ranges['numbers']} uncertain constants: {worst}.")
        within = "all" if ranges["kept"] > _NEARLY_ALL else percent(ranges["kept"])
        beaten = ranges["kept"] - ranges["best"]
        worse = percent(beaten) if beaten > 1.0 - _NEARLY_ALL else "none"
        lines.append(
            f"Of {ranges['samples']} samples of their ranges, {within} meet all limits; another "
            f"choice dominates in {worse}."
        )
    for verdict in pick.get("verdicts", ()):
        name = verdict["reading"][:1].upper() + verdict["reading"][1:]
        changes = _ratio_words(results, verdict["ratios"]) or "the same numbers"
        choice = (
            "the choice changes, because it breaks a limit" if not verdict["feasible"]
            else "the choice holds" if verdict["best"]
            else f"the choice changes: one of {verdict['n']:,} others is better in everything"
        )  # fmt: skip
        assumes = f" It assumes that {verdict['assumes']}." if verdict["assumes"] else ""
        lines.append(f"{name}: {choice}; {changes}.{assumes}")
    lines += [_SCOPE] if pick.get("speeds") else []
    return lines + [f"Not answered: {text}." for text in omitted]


def main_figures(results: Results, document: Fields, position: int) -> list[tuple[Metric, float]]:
    """The main metrics of a recommended design that are not 0, with their values."""
    values = [
        (metric, float(results.metrics[metric.name][position]))
        for metric in (_metric(results, name) for name in document["figures"])
    ]
    return [pair for pair in values if pair[1] and not np.isnan(pair[1])][:_MOST_FIGURES]


def answer_html(
    results: Results, document: Fields, explained: Mapping[int, EvaluatedDesign]
) -> str:
    """The recommended design in full, then all recommended designs side by side."""
    picks = document["picks"]
    if not picks:
        return ""
    first = next(pick for pick in picks if pick["is_recommended"])
    hue = palette.PICKS.get(first["key"], "blue")
    limits = [bound_words(explained.get(first["id"])), *close_words(first)]
    reasons = "".join(f"<li>{escape(x)}</li>" for x in filter(None, limits))
    sure = "".join(
        f"<li>{escape(x)}</li>" for x in sure_words(results, first, document.get("omitted", ()))
    )
    instead = "".join(f"<li>{escape(x)}</li>" for x in document["alternatives"])
    cells = []
    for metric, value in main_figures(results, document, first["position"]):
        interval = _interval_html(first, metric, value)
        style = ' class="main-figure"' if metric.name in results.problem.objective_names else ""
        cells.append(
            f"<div{style}><dt>{escape(metric_title(metric))}</dt>"
            f"<dd>{escape(format_metric(value, metric, 3))}{interval}</dd></div>"
        )
    return (
        f'<article class="recommendation" style="--pick: var(--{hue})">'
        f'<h2>Recommended: {escape(document["rule"])}</h2><p class="words">Take <a href="#design" '
        f'data-take="{first["id"]}">design #{first["id"] + 1}</a>: '
        f"{escape(first['words']).replace('; ', ';<br>')}.</p>"
        f'<dl class="figures">{"".join(cells)}</dl>'
        + (f"<h3>Limited by</h3><ul>{reasons}</ul>" if reasons else "")
        + (f"<h3>Alternatives</h3><ul>{instead}</ul>" if instead else "")
        + "</article>"
        + (f'<aside class="sure"><h3>How sure</h3><ul>{sure}</ul></aside>' if sure else "")
    )


def picks_html(results: Results, document: Fields, explained: Mapping[int, EvaluatedDesign]) -> str:
    """The recommended designs side by side: words, metrics, limits; empty if there is one."""
    picks = document["picks"]
    if len(picks) < 2:
        return ""
    positions = [pick["position"] for pick in picks]
    head = ["", *(
        f'<a href="#design" data-take="{pick["id"]}" style="--pick: var(--'
        f'{palette.PICKS.get(pick["key"], "blue")})">{PICK_TITLES[pick["key"]]}</a>'
        f'<br><span class="quiet">{escape(pick["reason"])}'
        f"{', recommended' * pick['is_recommended']}</span>"
        for pick in picks
    )]  # fmt: skip
    rows = [[_LONG + "design", *(words_cell(pick["words"]) for pick in picks)]]
    for name in document["figures"]:
        metric = _metric(results, name)
        amounts = [float(results.metrics[name][p]) for p in positions]
        values = [format_metric(amount, metric, 3) for amount in amounts]
        if len(set(values)) > 1 or name in results.problem.objective_names:
            cells = [
                escape(text) + _interval_html(pick, metric, amount)
                for text, pick, amount in zip(values, picks, amounts, strict=True)
            ]
            rows.append([escape(metric_title(metric)), *cells])
    limits = [
        "; ".join(filter(None, [bound_words(explained.get(pick["id"])), *close_words(pick)]))
        for pick in picks
    ]
    if any(limits):
        rows.append([_LONG + "limited by", *map(words_cell, limits)])
    return table_html(head, rows, "Recommended designs side by side", "picks")


def changes_html(results: Results, document: Fields) -> str:
    """Single changes of each recommended design with what they lose, the smallest loss first."""
    names = [
        name for name in document["figures"]
        if name in (*results.problem.objective_names, "area_mm2", "unit_cost_usd",
                    "energy_joules_per_token")
    ]  # fmt: skip
    metrics = [_metric(results, name) for name in names]
    objectives = [objective.metric for objective in results.problem.objectives]

    def loss(change: Fields) -> float:
        shares = ((x, change["change"].get(x.name)) for x in objectives)
        return max([0.0, *(metric.flipped(float(x)) for metric, x in shares if x is not None)])

    blocks = []
    for pick in document["picks"]:
        ordered = sorted(
            pick.get("changes", ()), key=lambda x: (not x["feasible"], loss(x), x["words"])
        )
        best = {change["subject"]: change for change in reversed(ordered)}
        rows = []
        for change in sorted(best.values(), key=ordered.index):
            broken = ", ".join(
                f"{name} by {percent(by, 2)}" for name, by in change["broken"].items()
            )
            limits = "kept" if change["feasible"] else f"breaks {broken or 'a limit'}"
            cells = [change_cell(metric, change["change"].get(metric.name)) for metric in metrics]
            rows.append([escape(change["words"]), *cells, words_cell(limits)])
        if rows:
            title = PICK_TITLES[pick["key"]]
            titles = (escape(metric_title(metric)) for metric in metrics)
            head = [f"change of {title}", *titles, f"{LEFT}limits"]
            opened = " open" if pick["is_recommended"] else ""
            blocks.append(
                f'<details class="inner" name="changes"{opened}><summary>{title}: {len(rows)} '
                f"changes</summary>{table_html(head, rows, f'Changes of {title}')}</details>"
            )
    if not blocks:
        return ""
    return (
        '<p class="hint">One change of a recommended design, everything else as it is. For '
        f"each parameter, the change that loses least is listed.</p>{''.join(blocks)}"
    )


def steps_html(results: Results, limits: Fields) -> str:
    """Changes of the best value of each objective as one limit moves by a step."""
    metrics = [objective.metric for objective in results.problem.objectives]
    rows = []
    idle = []
    for step in limits.get("steps", ()):
        certainty = "exact" if step["is_exact"] else "best known"
        if np.allclose(step["change"], 0.0, atol=0.0005):
            idle.append(f"{step['limit']} ({certainty})")
            continue
        cells = (change_cell(metric, share) if np.isfinite(share) else "no design"
                 for metric, share in zip(metrics, step["change"], strict=True))  # fmt: skip
        rows.append([escape(step["limit"]), *cells, certainty])
    unchanged = escape(f"The best values stay the same with {' or '.join(idle)}.") if idle else ""
    text = f'<p class="hint" id="steps-same">{unchanged}</p>' if idle else ""
    if not rows:
        return text
    head = ["one limit moved", *(f"best {escape(metric_title(metric))}" for metric in metrics), ""]
    return table_html(head, rows, "One limit moved by a step", "steps") + text


def misses_html(results: Results, document: Fields) -> str:
    """Named designs that are not on the front, each against the design to choose instead."""
    objectives = [objective.metric for objective in results.problem.objectives]
    head = [
        "",
        *(escape(metric_title(metric)) for metric in objectives),
        "instead",
        f"{LEFT}remark",
    ]
    rows = [
        [
            escape(entry["name"]),
            *(change_cell(m, entry["shares"].get(m.name)) for m in objectives),
            "–" if (number := entry["id"]) is None
            else f'<a href="#design" data-take="{number}">#{number + 1}</a>',
            words_cell(entry["words"]),
        ]
        for entry in document["named_rows"]
    ]  # fmt: skip
    if not rows:
        return ""
    hint = "Compared with the front design that dominates it by the largest margin."
    return f'<p class="hint">{hint}</p>{table_html(head, rows, "Named designs")}'


def front_html(document: Fields, places: IntArray) -> str:
    """Designs of the front as a plain table, for readers without JavaScript."""
    columns = document["designs"]
    objectives = [x for x in document["metrics"] if x["objective"]]
    rows = (
        [
            str(place + 1),
            words_cell(columns["words"][place]),
            *(columns["texts"][x["name"]][place] for x in objectives),
        ]
        for place in places.tolist()
    )
    head = ["", f"{LEFT}design", *(escape(x["title"]) for x in objectives)]
    return table_html(head, rows, "The front")
