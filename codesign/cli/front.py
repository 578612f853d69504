"""What the exact front of a campaign says."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codesign.cli.campaigns import Folder, Name, shown_path
from codesign.cli.enumeration import make_enumeration_progress
from codesign.cli.output import AsJson, make_console, report
from codesign.cli.tolerance import Tolerance, share
from codesign.errors import InputError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from codesign.analysis.insight import FrontExplanation, FrontsProgress
    from codesign.campaign import Campaign

_VARIATIONS = "variations"
"""Folder of the exact fronts of variations, in the campaign's."""


def explain_front(
    name: Name,
    step: Annotated[
        float, typer.Option(help="Percent by which a limit is moved for its price.")
    ] = 5.0,
    output: Annotated[
        Path | None, typer.Option(help="Also write the explanation as Markdown: .md.")
    ] = None,
    tolerance: Tolerance = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes; one per core if not given.")
    ] = None,
    folder: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Say what the exact front of a campaign means for a design.

    What its designs share; which values never appear and what they lack; what each limit costs;
    the knees. Finds the exact fronts of variations of the problem, which are kept, so that a
    second look takes no time.
    """
    from functools import partial

    from codesign import api, resources
    from codesign.analysis import insight
    from codesign.campaign.definition import load_problem
    from codesign.campaign.reference import minimized
    from codesign.processes import n_cores

    _check(step, output)
    campaign = api.load_campaign(name, folder)
    front = campaign.exact_front(workers, make_enumeration_progress())
    reference = campaign.exact_results(front).reference_point
    fronts = insight.Fronts(
        campaign.problem,
        folder=campaign.folder / _VARIATIONS,
        workers=workers or campaign.definition.workers or n_cores(),
        rebuild=partial(load_problem, resources.find("runs", name).resolve()),
        progress=make_fronts_progress(),
    )
    explanation = insight.explain_front(
        fronts,
        front,
        minimized(campaign.problem, reference),
        step / 100.0,
        share(tolerance),
    )
    _report(explanation, campaign, output, as_json)


def _check(step: float, output: Path | None) -> None:
    if not 0.0 < step < 100.0:
        raise InputError(f"expected a percentage above 0 and below 100, got {step:g}", "--step")
    if output is not None and output.suffix != ".md":
        raise InputError(f"expected a file that ends in .md, got {str(output)!r}", "--output")


def _report(
    explanation: FrontExplanation, campaign: Campaign, output: Path | None, as_json: bool
) -> None:
    from codesign.files import replacing
    from codesign.report import front_explanation
    from codesign.report.front_document import document
    from codesign.report.tables import text_line

    name, reading = campaign.definition.name, campaign.reading
    files = []
    if output is not None:
        with replacing(output) as unfinished:
            unfinished.write_text(
                front_explanation.markdown(explanation, name, reading), encoding="utf-8"
            )
        files.append(shown_path(output))

    def tables() -> list[RenderableType]:
        parts = front_explanation.tables(explanation, name, reading)
        return [*parts, *(text_line(f"wrote {file}") for file in files)]

    more = {"evaluator": reading} | ({"files": files} if files else {})
    report("explain-front", as_json, lambda: document(explanation, name) | more, tables)


def make_fronts_progress() -> FrontsProgress:
    """A bar on standard error if that is a terminal, else nothing."""
    from codesign.analysis.insight.variation import QuietFronts

    if not sys.stderr.isatty():
        return QuietFronts()
    from codesign.cli.progress import FrontsBar

    return FrontsBar(make_console(to_stderr=True))


explain_front.__name__ = "explain-front"
COMMANDS: list[Callable[..., Any]] = [explain_front]
