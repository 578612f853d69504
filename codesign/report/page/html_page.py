"""The page: one HTML file with its data, its program and the plotting library inside.

Plotly comes whole from its Python package, compressed: of 4.8 MB it takes 2. The browser unpacks
it (``DecompressionStream``; Chrome 80, Firefox 113, Safari 16.4 or later). The small bundles of
Plotly are not in any Python package, and a copy in this repository would have to be kept fresh
by hand. The same results give the same bytes under the same versions of Plotly and zlib.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codesign.answers.json_values import to_json_text
from codesign.base.errors import needing_extra
from codesign.base.files import write_text
from codesign.insight.plateaus import FoldedFront, fold_positions, within_words
from codesign.report import palette
from codesign.report.labels import evaluator_words
from codesign.report.page import facts
from codesign.report.page.carried_designs import (
    Carried,
    Named,
    carry,
    design_document,
    metric_documents,
)
from codesign.report.page.explained import Explained, Explainer, parse_design_numbers
from codesign.report.page.optimizers import optimizer_document
from codesign.report.page.packing import packed
from codesign.report.page.recommendations import Judge, recommendation_document
from codesign.report.page.tighter_limits import limit_document
from codesign.search.campaign.exact_results import joined
from codesign.search.pareto import TOLERANCE
from codesign.search.problem import cost_column

if TYPE_CHECKING:
    from codesign.search.campaign import CampaignStatus, Results
    from codesign.search.enumeration import KeptFront

MOST_BYTES = 5_900_000
"""[ours] Of a page, so that it stays below 6 MB. A design's diagram and breakdowns take 1.5 kB of
it; those that do not fit are left out, and the page says of how many designs."""
_MOST_PLAIN = 25
_PROGRAM = (
    "format.js", "state.js", "charts.js", "placing.js", "cards.js", "why.js", "front.js",
    "choices.js", "limits.js", "lines.js", "table.js", "diagram.js", "breakdown.js", "roofline.js",
    "system.js", "compare.js", "chosen.js", "optimizers.js", "keys.js",
)  # fmt: skip
"""In the order in which they need one another."""


def write_page(
    path: Path,
    results: Results,
    status: CampaignStatus,
    named: Named | None = None,
    explainer: Explainer | None = None,
    every_s: float | None = None,
    requested_designs: Sequence[str] = (),
    tolerance: float = TOLERANCE,
    exact: Results | None = None,
    judge: Judge | None = None,
    kept: KeptFront | None = None,
) -> Path:
    """Write a campaign as one HTML page.

    Args:
        results: Of the campaign, as searched.
        named: Designs to mark by name.
        explainer: How designs are explained; without it there are no diagrams and breakdowns.
        every_s: A page that is written anew this often reloads itself while the campaign runs.
        requested_designs: Numbers on the page, or names, of designs that must have diagrams.
        tolerance: Share within which designs of the front are folded under a cheaper one.
        exact: The exact front as results, if it is known; then it is the page's front, and
            designs have their numbers along it.
        judge: What to ask about the recommended designs.
        kept: Designs that tighter limits may bring to the front, if they were enumerated.

    Raises:
        MissingExtraError: Plotly is not installed.
        InputError: The file cannot be written, or there is no such design.
    """
    page_results = results if exact is None else joined(results, exact)
    carried = carry(page_results)
    folded = fold_positions(page_results, carried.positions[: carried.n_front], tolerance)
    numbers = parse_design_numbers(requested_designs, carried, named)
    document = page_document(page_results, carried, status, named, every_s, folded, judge)
    document["optimizers"] = optimizer_document(results)
    document["tighter"] = limit_document(results, kept, 0 if judge is None else judge.samples)
    picks = [item["id"] for item in document["picks"]]
    explained = Explained(page_results, carried, named, numbers, picks, explainer)
    text = page_html(results, page_results, carried, status, document, explained, folded)
    return write_text(path, text)


def page_document(
    results: Results,
    carried: Carried,
    status: CampaignStatus,
    named: Named | None = None,
    every_s: float | None = None,
    folded: FoldedFront | None = None,
    judge: Judge | None = None,
) -> dict[str, Any]:
    """What the page's program draws, but accounts of designs and optimizers, as plain values."""
    if folded is None:
        folded = fold_positions(results, carried.positions[: carried.n_front], TOLERANCE)
    return {
        "name": results.definition.name,
        "state": status.state,
        "explains": results.problem.evaluator.offers("explain"),
        "every_s": every_s if status.state == "running" else None,
        "metrics": metric_documents(results),
        "objectives": results.problem.objective_names,
        "designs": design_document(results, carried, named),
        "under": folded.under,
        "within": within_words(folded.tolerance),
        "cost": results.problem.objectives[cost_column(results.problem.objectives)].metric.name,
        "tolerance": folded.tolerance,
        "is_exact": results.exact is not None,
        "palette": palette.document(),
        **recommendation_document(results, folded, judge),
    }


def page_html(
    results: Results,
    page_results: Results,
    carried: Carried,
    status: CampaignStatus,
    document: Mapping[str, Any],
    explained: Explained,
    folded: FoldedFront,
) -> str:
    """The file: template, style, program, data and library in one text."""
    definition = results.definition
    state_sentences = [facts.state_text(results, status), facts.empty_text(results)]
    parts = {
        "name": escape(definition.name),
        "evaluator": escape(evaluator_words(results.reading)),
        "question": escape(facts.question_text(results)),
        "description": escape(definition.description),
        "summary": escape(facts.summary_text(results, carried, folded)),
        "folded": escape(facts.folded_text(folded)),
        "state": facts.paragraphs_html(state_sentences, "status"),
        "counts": facts.pairs_html(facts.counts(results, carried, folded)),
        "facts": facts.pairs_html(facts.facts(results, status)),
        "dependencies": facts.paragraphs_html(facts.dependencies(results, carried)),
        "plain_front": facts.front_html(page_results, _MOST_PLAIN, folded.tolerance),
        "style": style_text(),
        "program": program_text((*_PROGRAM, "main.js")),
        "data": packed(to_json_text(document, indent=None)),
        "library": packed(library_text()),
    }
    # What is counted is letters, nearly all of them one byte; the template has a few more.
    others = sum(map(len, parts.values())) + len(_static("template.html"))
    parts["accounts"] = explained.within(MOST_BYTES - others)
    text = _static("template.html")
    for name, part in parts.items():
        text = text.replace("{{" + name + "}}", part)
    return text


def _static(name: str) -> str:
    return (files(__package__) / "static" / name).read_text(encoding="utf-8")


def style_text() -> str:
    """The style sheet of pages."""
    return palette.style_sheet() + _static("page.css")


def program_text(names: Sequence[str] = _PROGRAM) -> str:
    """What draws designs, their breakdowns and fronts; without names, all but what begins."""
    return "".join(_static(name) for name in names)


def library_text() -> str:
    """Plotly.

    Raises:
        MissingExtraError: It is not installed.
    """
    with needing_extra("a page", "page"):
        from plotly.offline import get_plotlyjs
    return str(get_plotlyjs())
