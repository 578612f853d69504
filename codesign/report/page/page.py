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

import numpy as np

from codesign.analysis.insight.choices import knees_of
from codesign.errors import MissingExtraError
from codesign.evaluators.base import Explains
from codesign.files import replacing
from codesign.pareto import TOLERANCE
from codesign.problem import cost_column
from codesign.report.labels import evaluator_words
from codesign.report.page import facts
from codesign.report.page.designs import (
    Carried,
    Named,
    carry,
    design_document,
    evenly,
    metric_documents,
)
from codesign.report.page.explained import Explained, Explainer, parse_design_numbers
from codesign.report.page.optimizers import optimizer_document
from codesign.report.page.packing import packed
from codesign.report.plain import to_json_text
from codesign.report.plateaus import FoldedFront, fold_positions, within_words

if TYPE_CHECKING:
    from codesign.campaign import CampaignStatus, Results

MOST_BYTES = 5_900_000
"""[ours] Of a page, so that it stays below 6 MB. A design's diagram and breakdowns take 1.5 kB of
it; those that do not fit are left out, and the page says of how many designs."""
_MOST_EXACT = 2_000
_MOST_PLAIN = 25
_PROGRAM = (
    "format.js", "state.js", "charts.js", "front.js", "lines.js", "table.js", "diagram.js",
    "breakdown.js", "system.js", "chosen.js", "optimizers.js", "keys.js", "main.js",
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
) -> Path:
    """Write a campaign as one HTML page.

    Args:
        path: Of the page.
        results: Of the campaign.
        status: Of the campaign.
        named: Designs to mark by name.
        explainer: How designs are explained; without it there are no diagrams and breakdowns.
        every_s: A page that is written anew this often reloads itself while the campaign runs.
        requested_designs: Numbers on the page, or names, of designs that must have diagrams.
        tolerance: Share within which designs of the front are folded under a cheaper one.

    Raises:
        MissingExtraError: Plotly is not installed.
        InputError: The file cannot be written, or there is no such design.
    """
    carried = carry(results)
    folded = fold_positions(results, carried.positions[: carried.n_front], tolerance)
    numbers = parse_design_numbers(requested_designs, carried, named)
    document = page_document(results, carried, status, named, every_s, folded)
    explained = Explained(results, carried, named, numbers, document["knees"], explainer)
    text = page_html(results, carried, status, document, explained, folded)
    with replacing(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8", newline="\n")
    return path


def page_document(
    results: Results,
    carried: Carried,
    status: CampaignStatus,
    named: Named | None = None,
    every_s: float | None = None,
    folded: FoldedFront | None = None,
) -> dict[str, Any]:
    """All that the page's program draws, but the accounts of designs, as plain values."""
    if folded is None:
        folded = fold_positions(results, carried.positions[: carried.n_front], TOLERANCE)
    return {
        "name": results.definition.name,
        "state": status.state,
        "explains": isinstance(results.problem.evaluator, Explains),
        "every_s": every_s if status.state == "running" else None,
        "metrics": metric_documents(results),
        "objectives": [objective.metric.name for objective in results.problem.objectives],
        "designs": design_document(results, carried, named),
        "under": folded.under,
        "within": within_words(folded.tolerance),
        "cost": results.problem.objectives[cost_column(results.problem.objectives)].metric.name,
        "knees": _knees(results, folded),
        "exact": _exact(results),
        "optimizers": optimizer_document(results),
    }


def _knees(results: Results, folded: FoldedFront) -> list[int]:
    """Of what one chooses from; none where that is two designs or fewer."""
    kept = folded.kept
    front = results.objectives[folded.positions[kept]]
    return [int(kept[knee.point]) for knee in knees_of(front)] if len(front) > 2 else []


def _exact(results: Results) -> list[list[float]] | None:
    """Points of the exact front by objective, as metrics; at most so many, evenly spaced."""
    if results.exact is None:
        return None
    points = results.exact.objectives
    kept = points[evenly(np.arange(len(points)), _MOST_EXACT)]
    signs = [objective.sign for objective in results.problem.objectives]
    return [(sign * column).tolist() for sign, column in zip(signs, kept.T, strict=True)]


def page_html(
    results: Results,
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
        "question": escape(definition.description or definition.name),
        "summary": escape(facts.summary_text(results, carried, folded)),
        "state": facts.paragraphs_html(state_sentences, "status"),
        "counts": facts.pairs_html(facts.counts(results, carried, folded)),
        "facts": facts.pairs_html(facts.facts(results, status)),
        "dependencies": facts.paragraphs_html(facts.dependencies(results, carried)),
        "plain_front": facts.front_html(results, _MOST_PLAIN, folded.tolerance),
        "style": _static("page.css"),
        "program": "".join(_static(name) for name in _PROGRAM),
        "data": packed(to_json_text(document, indent=None)),
        "library": packed(_library()),
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


def _library() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise MissingExtraError("a page", "page") from error
    return str(get_plotlyjs())
