"""Explain the exact front of a campaign."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from codesign.base.errors import InputError
from codesign.cli.campaigns import Folder, Name, Workers, shown_path
from codesign.cli.output import AsJson, check_page, report, say
from codesign.cli.tolerance import Tolerance, share

if TYPE_CHECKING:
    from rich.console import RenderableType

    from codesign.answers.front_explanation import ExplainFrontAnswer
    from codesign.insight.explanation import FrontExplanation
    from codesign.search.campaign import Campaign

VARIATIONS = "variations"
"""Folder of the exact fronts of variations, in the campaign's."""


def explain_front(
    name: Name,
    step: Annotated[
        float, typer.Option(help="By how many percent each limit is moved to find its price.")
    ] = 5.0,
    output: Annotated[
        Path | None, typer.Option(help="Also write the explanation as Markdown: .md.")
    ] = None,
    tolerance: Tolerance = None,
    workers: Workers = None,
    thorough: Annotated[
        bool,
        typer.Option(
            "--thorough",
            help="For a system: also find the fronts of variations, which takes hours.",
        ),
    ] = False,
    folder: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Say what the exact front of a campaign means for a design.

    What its designs share; which values never appear and what they lack; what each limit costs;
    the knees. It finds the exact fronts of variations of the problem, which takes minutes where
    the front takes seconds, and stores them: a second call is fast.
    """
    from functools import partial

    from codesign import api
    from codesign.base import resources
    from codesign.base.processes import n_cores
    from codesign.cli.progress import EnumerationBar, FrontsBar
    from codesign.insight.explanation import Fronts
    from codesign.insight.explanation import explain_front as explain
    from codesign.search.campaign.campaign_definition import load_problem
    from codesign.search.campaign.reference import minimized

    if not 0.0 < step < 100.0:
        raise InputError(f"expected a percentage above 0 and below 100, got {step:g}", "--step")
    check_page(output)
    campaign = api.load_campaign(name, folder)
    is_thorough = thorough or not campaign.problem.space.pools
    if not is_thorough:
        say("note: why values are absent and what limits cost was not asked; --thorough asks it")
    front = campaign.exact_front(workers, EnumerationBar())
    reference = campaign.exact_results(front).reference_point
    fronts = Fronts(
        campaign.problem,
        folder=campaign.folder / VARIATIONS,
        workers=workers or campaign.definition.workers or n_cores(),
        rebuild=partial(load_problem, resources.find("runs", name).resolve()),
        progress=FrontsBar(),
    )
    explanation = explain(
        fronts,
        front,
        minimized(campaign.problem, reference),
        step / 100.0,
        share(tolerance),
        is_thorough,
    )
    _report(explanation, campaign, output, as_json)


def _report(
    explanation: FrontExplanation, campaign: Campaign, output: Path | None, as_json: bool
) -> None:
    from codesign.base.files import write_text
    from codesign.report import front_explanation
    from codesign.report.tables import text_line

    name, reading = campaign.definition.name, campaign.reading
    files = []
    if output is not None:
        write_text(output, front_explanation.markdown(explanation, name, reading))
        files.append(shown_path(output))

    def tables() -> list[RenderableType]:
        sections = front_explanation.tables(explanation, name, reading)
        return [*sections, *(text_line(f"wrote {file}") for file in files)]

    def answer() -> ExplainFrontAnswer:
        from codesign.answers.front_explanation import ExplainFrontAnswer

        more = {"files": files} if files else {}
        return ExplainFrontAnswer.describe(explanation, name, evaluator=reading, **more)

    report(as_json, answer, tables)


explain_front.__name__ = "explain-front"
