"""A campaign as one HTML page."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codesign.cli.campaigns import Folder, Name, shown_path
from codesign.cli.output import AsJson, report, say

if TYPE_CHECKING:
    from codesign.campaign import Campaign
    from codesign.problem import Problem
    from codesign.report.page.accounts import Account
    from codesign.report.page.designs import Named

_LEAST_PERIOD_S = 1.0


def report_page(
    name: Name,
    output: Annotated[
        Path | None, typer.Option(help="The page. [report.html in the campaign's folder]")
    ] = None,
    every: Annotated[
        float | None,
        typer.Option(
            min=_LEAST_PERIOD_S,
            metavar="SECONDS",
            help="Write it anew this often for as long as the campaign runs.",
        ),
    ] = None,
    folder: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Write a campaign as one HTML page that opens offline."""
    from codesign import api
    from codesign.report.tables import text_line

    campaign = api.load_campaign(name, folder)
    path = output or campaign.folder / "report.html"
    state = _write(campaign, path, every)
    while every is not None and state == "running":
        say(f"wrote {shown_path(path)}; again in {every:g} s while the campaign runs")
        time.sleep(every)
        state = _write(campaign, path, every)
    written, size = shown_path(path), path.stat().st_size
    report(
        as_json,
        lambda: {"files": [written], "bytes": size, "state": state},
        lambda: [text_line(f"wrote {written} ({size / 1e6:.1f} MB)")],
    )


def _write(campaign: Campaign, path: Path, every: float | None) -> str:
    """Write the page once; returns the state that it shows."""
    from codesign.report.page.page import write_page

    # The state first: what is stored after it was asked for does no harm.
    status = campaign.status()
    results = campaign.results()
    problem = results.problem
    write_page(path, results, status, _named(problem), _explainer(problem), every)
    return status.state


def _named(problem: Problem) -> Named | None:
    from codesign import api
    from codesign.report.page.designs import Named

    marked = api.evaluate_named(problem)
    if marked is None:
        return None
    return Named(marked.names, marked.designs, marked.metrics, marked.feasible)


def _explainer(problem: Problem) -> Callable[[Mapping[str, Any]], Account] | None:
    """How to explain a design of the problem; None if its evaluator cannot."""
    from codesign import api
    from codesign.evaluators.base import Explains, VariesTechnology
    from codesign.report.page.accounts import Account
    from codesign.uncertainty import design_uncertainty

    if not isinstance(problem.evaluator, Explains):
        return None
    varies = isinstance(problem.evaluator, VariesTechnology)

    def explain(design: Mapping[str, Any]) -> Account:
        evaluated = api.evaluate(design=design, space=problem.space, evaluator=problem.evaluator)
        # The ends of the ranges are all that a page shows of them; they take no draws.
        swings = design_uncertainty(evaluated, samples=1).tornado if varies else {}
        return Account(evaluated, swings)

    return explain


report_page.__name__ = "report"
COMMANDS: list[Callable[..., Any]] = [report_page]
