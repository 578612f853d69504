"""A campaign as one HTML page."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codesign.cli.campaigns import Folder, Name, shown_path
from codesign.cli.output import AsJson, report, say
from codesign.cli.tolerance import Tolerance, share

if TYPE_CHECKING:
    from codesign.analysis.uncertainty_results import Swing
    from codesign.campaign import Campaign
    from codesign.evaluated_design import EvaluatedDesign
    from codesign.problem import Problem
    from codesign.report.page.designs import Named
    from codesign.report.page.explained import Explainer

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
    design: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NUMBER|NAME",
            help="A design that must have its diagram and breakdowns: its number on the page, or "
            "its name in the space. Repeatable. [those of the front, the knees, the named ones]",
        ),
    ] = None,
    tolerance: Tolerance = None,
    folder: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Write a campaign as one HTML page that opens offline."""
    from codesign import api
    from codesign.report.tables import text_line

    campaign = api.load_campaign(name, folder)
    path = output or campaign.folder / "report.html"
    state = _write(campaign, path, every, design or [], share(tolerance))
    while every is not None and state == "running":
        say(f"wrote {shown_path(path)}; again in {every:g} s while the campaign runs")
        time.sleep(every)
        state = _write(campaign, path, every, design or [], share(tolerance))
    written, size = shown_path(path), path.stat().st_size
    report(
        "report",
        as_json,
        lambda: {"files": [written], "bytes": size, "state": state},
        lambda: [text_line(f"wrote {written} ({size / 1e6:.1f} MB)")],
    )


def _write(
    campaign: Campaign,
    path: Path,
    every: float | None,
    requested_designs: list[str],
    tolerance: float,
) -> str:
    """Write the page once; returns the state that it shows."""
    from codesign.report.page.page import write_page

    # The state first: what is stored after it was asked for does no harm.
    status = campaign.status()
    results = campaign.results()
    problem = results.problem
    named, explainer = _named(problem), _explainer(problem)
    write_page(path, results, status, named, explainer, every, requested_designs, tolerance)
    return status.state


def _named(problem: Problem) -> Named | None:
    from codesign import api
    from codesign.report.page.designs import Named

    marked = api.evaluate_named(problem)
    if marked is None:
        return None
    return Named(marked.names, marked.designs, marked.metrics, marked.feasible)


def _explainer(problem: Problem) -> Explainer | None:
    """How designs of the problem are explained; None if its evaluator cannot."""
    import numpy as np

    from codesign import api
    from codesign.analysis.uncertainty import design_swings
    from codesign.evaluators.base import Explains, VariesTechnology
    from codesign.report.page.explained import Explainer

    if not isinstance(problem.evaluator, Explains):
        return None

    def explain(design: Mapping[str, Any]) -> EvaluatedDesign:
        return api.evaluate(design=design, space=problem.space, evaluator=problem.evaluator)

    def vary(designs: Sequence[Mapping[str, Any]]) -> list[dict[str, tuple[Swing, ...]]]:
        rows = np.concatenate([problem.space.encode(design) for design in designs])
        metrics = [objective.metric.name for objective in problem.objectives]
        return design_swings(problem, rows, metrics)

    return Explainer(explain, vary if isinstance(problem.evaluator, VariesTechnology) else None)


report_page.__name__ = "report"
COMMANDS: list[Callable[..., Any]] = [report_page]
