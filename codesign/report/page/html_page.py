"""The page: one HTML file with its charts, its data and its program inside.

Everything is drawn, worded and computed here. The program in ``static/`` lets the reader point at
designs, filter and compare them, and look up the answers under tighter limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

import numpy as np

from codesign.answers.json_values import json_text
from codesign.base.columns import Fields, JsonObject, JsonRows, Strings, evenly
from codesign.base.files import write_text
from codesign.insight.explanation.moved_limits import Switch
from codesign.insight.plateaus import FoldedFront, fold_positions, tolerance_words
from codesign.report import palette
from codesign.report.campaign_charts import FrontPicture, bands_chart, front_chart
from codesign.report.labels import evaluator_words, metric_of
from codesign.report.marked_designs import MarkedDesigns
from codesign.report.page import facts
from codesign.report.page.answer_html import (
    answer_html,
    changes_html,
    front_html,
    misses_html,
    picks_html,
    steps_html,
)  # fmt: skip
from codesign.report.page.carried_designs import (
    SUBJECTS,
    Carried,
    carry,
    design_document,
    metric_document,
)
from codesign.report.page.explained import (
    MOST_CHOICES,
    Explained,
    Explainer,
    parse_design_numbers,
)
from codesign.report.page.optimizers import optimizers_html
from codesign.report.page.packing import packed
from codesign.report.page.recommendations import Judge, recommendation_document
from codesign.report.page.tighter_limits import limit_document
from codesign.report.picks import picks_of
from codesign.report.svg import draw, hatch_patterns
from codesign.search.campaign import CampaignStatus, Results
from codesign.search.campaign.exact_results import joined
from codesign.search.enumeration import KeptFront
from codesign.search.pareto import TOLERANCE

MOST_BYTES = 5_900_000
"""[ours] Of a page, so that it stays below 6 MB. The charts of designs that do not fit are left
out, and the page says of which designs it has them."""
WIDE, NARROW = 760.0, 360.0
"""Pixels of the charts of a campaign at a desk and on a phone."""
_MOST_PLAIN = 25
_PROGRAM = ("page.js", "limits.js", "table.js", "designs.js", "start.js")


def write_page(
    path: Path,
    results: Results,
    status: CampaignStatus,
    marked: MarkedDesigns | None = None,
    explainer: Explainer | None = None,
    every_s: float | None = None,
    requested_designs: Strings = (),
    tolerance: float = TOLERANCE,
    exact: Results | None = None,
    judge: Judge | None = None,
    kept_front: KeptFront | None = None,
    switches: Sequence[Switch] = (),
) -> Path:
    """Write a campaign as one HTML page.

    Args:
        results: Results of the campaign, as searched.
        marked: Designs to mark by name.
        explainer: Explains designs; without it there are no charts of single designs.
        every_s: Period in seconds after which a page of a running campaign reloads itself.
        requested_designs: Numbers on the page, or names, of designs that must have charts.
        tolerance: Share within which designs of the front are folded under a cheaper one.
        exact: The exact front as results, if it is known; then it is the page's front, and
            designs have their numbers along it.
        judge: Further questions about the recommended designs.
        kept_front: Designs that tighter limits may bring to the front, if they were enumerated.
        switches: Other changes of the question that the page offers.

    Raises:
        InputError: The file cannot be written, or there is no such design.
    """
    page_results = results if exact is None else joined(results, exact)
    carried = carry(page_results)
    folded = fold_positions(page_results, carried.positions[: carried.n_front], tolerance)
    numbers = parse_design_numbers(requested_designs, carried, marked)
    answer = recommendation_document(page_results, folded, judge)
    answer["named_rows"] = _named_rows(page_results, carried, marked)
    keys = page_results.problem.space.keys(page_results.rows[carried.positions[: carried.n_front]])
    limits = limit_document(
        page_results,
        kept_front,
        {key: number for number, key in enumerate(keys.tolist())},
        tolerance,
        is_searched=judge is not None,
        switches=switches,
    )
    picture = FrontPicture(
        page_results, carried.positions, carried.n_front, carried.n_feasible, folded,
        picks_of(page_results, folded), marked, limits.get("points", {}).get("values"),
        limits["sliders"],
    )  # fmt: skip
    picks = [pick["id"] for pick in answer["picks"]]
    choices = evenly(folded.kept, MOST_CHOICES).tolist()
    explained = Explained(page_results, carried, marked, numbers, picks + choices, explainer)
    document = {
        "name": results.definition.name,
        "every_s": every_s if status.state == "running" else None,
        **page_document(page_results, carried, folded, marked),
        "limits": limits,
        "start": [
            next(
                (pick["id"] for pick in answer["picks"] if pick["is_recommended"]),
                picks[0] if picks else None,
            ),
            carried.positions.size if marked and marked.names else None,
        ],
    }  # fmt: skip
    text = _page_html(results, status, picture, carried, answer, document, explained)
    return write_text(path, text)


def page_document(
    results: Results, carried: Carried, folded: FoldedFront, marked: MarkedDesigns | None = None
) -> JsonObject:
    """The data that the page's program looks up."""
    declared = results.problem.metrics
    objectives = results.problem.objective_names
    designs = design_document(results, carried, marked)
    return {
        "designs": designs,
        "metrics": [
            metric_document(metric_of(name, declared), name in objectives)
            for name in designs["values"]
        ],
        "subjects": SUBJECTS,
        "under": folded.under,
        "within": tolerance_words(folded.tolerance),
        "missing": "The evaluator explains no designs, or the inputs of the campaign have changed."
        if not results.problem.evaluator.offers("explain")
        else f"The charts of this design are not on this page; “codesign report "
        f"{results.definition.asked_as} --design NUMBER” adds them.",
    }


def _named_rows(results: Results, carried: Carried, marked: MarkedDesigns | None) -> JsonRows:
    """Named designs, each against the front design that dominates it by the largest margin."""
    rows = []
    front = results.objectives[carried.positions[: carried.n_front]]
    names = results.problem.objective_names
    for k, name in enumerate(marked.names if marked else ()):
        assert marked is not None
        values = np.array([float(marked.metrics[metric][k]) for metric in names])
        mine = results.problem.flipped(values)
        better = np.flatnonzero((front <= mine).all(axis=1))
        gaps = ((mine - front[better]) / np.abs(front[better])).sum(axis=1)
        best = int(better[gaps.argmax()]) if len(better) else None
        shares = (
            {} if best is None
            else dict(zip(names, values / results.problem.flipped(front[best]) - 1.0, strict=True))
        )  # fmt: skip
        why = (
            "breaks a limit" if not marked.feasible[k]
            else "" if best is not None else "nothing on the front is better in everything"
        )  # fmt: skip
        rows.append({"name": name, "id": best, "words": why, "shares": shares})
    return rows


def _page_html(
    results: Results,
    status: CampaignStatus,
    picture: FrontPicture,
    carried: Carried,
    answer: Fields,
    document: Fields,
    explained: Explained,
) -> str:
    """The file: template, style, charts, program and data in one text."""
    definition = results.definition
    page_results = picture.results
    accounts = explained.accounts(0)
    designs = {number: account.evaluated for number, account in accounts.items()}
    bands = bands_chart(picture)
    limits = document["limits"]
    blocks = {
        "prices": steps_html(page_results, limits),
        "changes": changes_html(page_results, answer),
        "misses": misses_html(page_results, answer),
        "bands": "".join(
            f'<div class="{name}">{draw(bands, width)}</div>'
            for name, width in {"wide": 1.4 * WIDE, "narrow": NARROW}.items()
        )
        if bands
        else "",
        "optimizers": optimizers_html(results, picture),
    }
    hidden = {f"{name}_hidden": "" if text else " hidden" for name, text in blocks.items()}
    hidden["limits_hidden"] = "" if limits["sliders"] or limits["hint"] else " hidden"
    state_sentences = [facts.state_text(results, status), facts.empty_text(results)]
    hint = ""
    if limits["sliders"]:
        has_pairs = any("," in key for key in limits["table"])
        hint = f"Change one {'or two ' * has_pairs}of these. " + (
            "The answers are exact."
            if limits["is_proven"]
            else "An answer that is not proven says so: it is the best of the evaluated designs."
        ) + " “How sure” covers the original question. "  # fmt: skip
    replacements = blocks | hidden | {
        "name": escape(definition.name),
        "evaluator": escape(evaluator_words(results.reading)),
        "question": escape(facts.question_text(results)),
        "description": escape(definition.description),
        "summary": escape(facts.summary_text(results, carried, picture.folded)),
        "folded": escape(f"; {picture.folded.summary}".removesuffix("; ")),
        "state": facts.paragraphs_html(state_sentences, "status"),
        "answer": answer_html(page_results, answer, designs),
        "picks": picks_html(page_results, answer, designs),
        "front_wide": draw(front_chart(picture, False), WIDE),
        "front_narrow": draw(front_chart(picture, True), NARROW),
        "limits_hint": escape(hint + limits["hint"]),
        "filter_example": escape(
            f"{answer['cost'].partition('_')[0]}"
            f"<{results.reference_point[answer['cost']]:.6g}"
        ),
        "facts": facts.pairs_html(facts.facts(results, status)),
        "dependencies": facts.paragraphs_html(facts.dependencies(results, carried)),
        "plain_front": front_html(document, evenly(picture.folded.kept, _MOST_PLAIN)),
        "hatches": hatch_patterns(),
        "style": style_text(),
        "program": "".join(map(_static, _PROGRAM)),
        "data": packed(json_text(document, indent=None)),
    }  # fmt: skip
    # Letters are counted, nearly all of them one byte; the template has a few more.
    used = sum(map(len, replacements.values())) + len(_static("template.html"))
    replacements["accounts"] = explained.packed_charts(MOST_BYTES - used)
    text = _static("template.html")
    for name, replacement in replacements.items():
        text = text.replace("{{" + name + "}}", replacement)
    return text


def _static(name: str) -> str:
    return (files(__package__) / "static" / name).read_text(encoding="utf-8")


def style_text() -> str:
    """The style sheet of pages."""
    return palette.style_sheet() + _static("page.css")
