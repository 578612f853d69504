"""The page: one HTML file with its data, its program and the plotting library inside.

Plotly comes whole from its Python package, compressed: of 4.8 MB it takes 2. The browser unpacks
it (``DecompressionStream``; Chrome 80, Firefox 113, Safari 16.4 or later). The small bundles of
Plotly are not in any Python package, and a copy in this repository would have to be kept fresh
by hand. The same results give the same bytes under the same versions of Plotly and zlib.
"""

from __future__ import annotations

import gzip
from base64 import b64encode
from collections.abc import Callable, Mapping
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from codesign.errors import JobError, MissingExtraError
from codesign.files import replacing
from codesign.insight.choices import knees_of
from codesign.report.page import facts
from codesign.report.page.accounts import Account, account_document
from codesign.report.page.designs import (
    Carried,
    Named,
    carry,
    design_document,
    evenly,
    metric_documents,
)
from codesign.report.page.optimizers import optimizer_document
from codesign.report.plain import to_json_text

if TYPE_CHECKING:
    from codesign.campaign import CampaignStatus, Results

MOST_EXPLAINED = 40
"""[ours] Designs of the front with diagram and breakdowns: 10 kB and a fifth of a second each."""
_MOST_NAMED = 12
_MOST_EXACT = 2_000
_MOST_PLAIN = 25
_PROGRAM = (
    "format.js", "state.js", "charts.js", "front.js", "lines.js", "table.js", "diagram.js",
    "breakdown.js", "chosen.js", "optimizers.js", "main.js",
)  # fmt: skip
"""In the order in which they need one another."""

Explain = Callable[[Mapping[str, Any]], Account]
"""From a design by its parameters to its account; may raise ``JobError``."""


def write_page(
    path: Path,
    results: Results,
    status: CampaignStatus,
    named: Named | None = None,
    explain: Explain | None = None,
    every_s: float | None = None,
) -> Path:
    """Write a campaign as one HTML page.

    Args:
        path: Of the page.
        results: Of the campaign.
        status: Of the campaign.
        named: Designs to mark by name.
        explain: How to explain a design; without it there are no diagrams and breakdowns.
        every_s: A page that is written anew this often reloads itself while the campaign runs.

    Raises:
        MissingExtraError: Plotly is not installed.
        InputError: The file cannot be written.
    """
    carried = carry(results)
    document = page_document(results, carried, status, named, explain, every_s)
    text = page_html(results, carried, status, document)
    with replacing(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8", newline="\n")
    return path


def page_document(
    results: Results,
    carried: Carried,
    status: CampaignStatus,
    named: Named | None = None,
    explain: Explain | None = None,
    every_s: float | None = None,
) -> dict[str, Any]:
    """All that the page's program draws, as plain values."""
    knees = _knees(results, carried)
    chosen = _to_explain(results, carried, named, knees)
    names = [objective.metric.name for objective in results.problem.objectives]
    return {
        "name": results.definition.name,
        "state": status.state,
        "every_s": every_s if status.state == "running" else None,
        "metrics": metric_documents(results),
        "objectives": names,
        "designs": design_document(results, carried, named),
        "knees": knees,
        "exact": _exact(results),
        "accounts": _accounts(chosen, explain, names) if explain else {},
        "optimizers": optimizer_document(results),
    }


def _knees(results: Results, carried: Carried) -> list[int]:
    front = results.objectives[carried.positions[: carried.n_front]]
    return [knee.point for knee in knees_of(front)] if len(front) > 2 else []


def _to_explain(
    results: Results, carried: Carried, named: Named | None, knees: list[int]
) -> dict[int, dict[str, Any]]:
    """Designs by their number on the page: some of the front, its knees, the named ones."""
    spread = evenly(np.arange(carried.n_front), MOST_EXPLAINED - len(knees)).tolist()
    numbers = sorted({*spread, *knees})
    found = {number: results.design(int(carried.positions[number])) for number in numbers}
    if named:
        own = results.problem.space.designs
        pairs = list(zip(named.names, named.designs, strict=True))[:_MOST_NAMED]
        for number, (name, design) in enumerate(pairs, start=len(carried.positions)):
            if name in own:  # others are designs of other spaces
                found[number] = {key: value for key, value in design.items() if value is not None}
    return found


def _accounts(
    chosen: Mapping[int, Mapping[str, Any]], explain: Explain, metrics: list[str]
) -> dict[str, Any]:
    found = {}
    for number, design in chosen.items():
        try:
            found[str(number)] = account_document(explain(design), metrics)
        except JobError:
            # The evaluator gives up on it: the page says that it is not explained.
            continue
    return found


def _exact(results: Results) -> list[list[float]] | None:
    """Points of the exact front by objective, as metrics; at most so many, evenly spaced."""
    if results.exact is None:
        return None
    points = results.exact.objectives
    kept = points[evenly(np.arange(len(points)), _MOST_EXACT)]
    signs = [objective.sign for objective in results.problem.objectives]
    return [(sign * column).tolist() for sign, column in zip(signs, kept.T, strict=True)]


def page_html(
    results: Results, carried: Carried, status: CampaignStatus, document: Mapping[str, Any]
) -> str:
    """The file: template, style, program, data and library in one text."""
    definition = results.definition
    said = [facts.state_text(results, status), facts.empty_text(results)]
    parts = {
        "name": escape(definition.name),
        "question": escape(definition.description or definition.name),
        "summary": escape(facts.summary_text(results, carried)),
        "state": facts.paragraphs_html(said, "status"),
        "counts": facts.pairs_html(facts.counts(results, carried)),
        "facts": facts.pairs_html(facts.facts(results, status)),
        "dependencies": facts.paragraphs_html(facts.dependencies(results, carried)),
        "plain_front": facts.front_html(results, _MOST_PLAIN),
        "style": _static("page.css"),
        "program": "".join(_static(name) for name in _PROGRAM),
        "data": packed(to_json_text(document, indent=None)),
        "library": packed(_library()),
    }
    text = _static("template.html")
    for name, part in parts.items():
        text = text.replace("{{" + name + "}}", part)
    return text


def packed(text: str) -> str:
    """Compressed, in letters that HTML leaves alone; equal texts give equal letters."""
    return b64encode(gzip.compress(text.encode("utf-8"), compresslevel=9, mtime=0)).decode("ascii")


def _static(name: str) -> str:
    return (files(__package__) / "static" / name).read_text(encoding="utf-8")


def _library() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise MissingExtraError("a page", "page") from error
    return str(get_plotlyjs())
