"""A campaign as one HTML page."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from codesign.cli.campaigns import Folder, Name, shown_path
from codesign.cli.heartbeat import describe_by
from codesign.cli.output import AsJson, report, say
from codesign.cli.tolerance import Tolerance, share

if TYPE_CHECKING:
    from codesign.base.columns import Fields
    from codesign.insight.uncertainty.uncertainty_results import Swing
    from codesign.report.page.explained import Explainer
    from codesign.report.page.recommendations import Judge
    from codesign.search.campaign import Campaign, Results

_LEAST_PERIOD_S = 1.0


def report_page(
    name: Name,
    output: Annotated[
        Path | None,
        typer.Option(
            help="The page, or a meeting sheet (A4) if the file ends in .pdf, .svg or .png. "
            "[report.html in the campaign's folder]"
        ),
    ] = None,
    every: Annotated[
        float | None,
        typer.Option(
            min=_LEAST_PERIOD_S,
            metavar="SECONDS",
            help="Write the page again after this many seconds, while the campaign runs.",
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
    samples: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Draws over the ranges of technologies, for intervals and how sure a choice is; "
            "200 if not given; 0: none.",
        ),
    ] = None,
    tolerance: Tolerance = None,
    folder: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Write a campaign as one HTML page that opens offline, or as a meeting sheet."""
    from codesign import api
    from codesign.answers.campaigns import ReportAnswer
    from codesign.base.files import check_place
    from codesign.report.tables import text_line

    campaign = api.load_campaign(name, folder)
    path = output or campaign.folder / "report.html"
    check_place(path)

    write = partial(_write, campaign, path, every, design or [], share(tolerance), samples)
    state = write()
    describe_by(lambda: None if every else "")
    while every is not None and state == "running":
        say(f"wrote {shown_path(path)}; again in {every:g} s while the campaign runs")
        time.sleep(every)
        state = write()
    written, size = shown_path(path), path.stat().st_size
    report(
        as_json,
        lambda: ReportAnswer(files=[written], bytes=size, state=state),
        lambda: [text_line(f"wrote {written} ({size / 1e6:.1f} MB)")],
    )


def _write(
    campaign: Campaign,
    path: Path,
    every: float | None,
    requested_designs: list[str],
    tolerance: float,
    samples: int | None,
) -> str:
    """Write the page or the sheet once; returns the state that it shows."""
    from codesign import api
    from codesign.base.files import ending_of
    from codesign.report.drawing import FORMATS
    from codesign.report.meeting_sheet import write_sheet
    from codesign.report.page.html_page import write_page

    # The state first: what is stored after it was asked for does no harm.
    status = campaign.status()
    is_searched = campaign.store_path.exists()
    results = campaign.results() if is_searched else campaign.front_results()
    is_joined = is_searched and results.exact is not None
    marked, explainer = api.evaluate_named(results.problem), _explainer(results)
    exact, judge = campaign.front_results(results) if is_joined else None, _judge(results, samples)
    if ending_of(path) in FORMATS:
        write_sheet(path, exact or results, marked, explainer, tolerance, judge)
    else:
        kept = campaign.stored_kept_front()
        write_page(
            path, results, status, marked, explainer, every, requested_designs, tolerance, exact,
            judge, kept,
        )  # fmt: skip
    if status.state != "running":
        campaign.list_files([path])
    return status.state


_SIMULATORS = {"npu": "simulation"}
"""The evaluator that finds by simulation what another has in closed form."""


def _judge(results: Results, samples: int | None) -> Judge | None:
    """Whoever else can be asked about designs of a campaign: other profiles, a simulation.

    None where hundreds of further designs are too many to ask for: of programs and plug-ins, and
    of results whose inputs are not those of today.
    """
    from codesign import api
    from codesign.base import plugins
    from codesign.base.errors import CodesignError
    from codesign.insight.explanation.neighborhood import Reading
    from codesign.models.machines.device.constants import load_constants
    from codesign.models.machines.device.elementwise import ElementwiseConstants
    from codesign.report.labels import percent
    from codesign.report.page.recommendations import BANDWIDTH, SAMPLES, Judge
    from codesign.search.campaign.stored_inputs import StoredEvaluator
    from codesign.search.derived_metrics import definitions_of
    from codesign.search.execution.guard import is_foreign
    from codesign.search.problem_builder import build_problem

    choice, problem = results.definition.evaluator, results.problem
    if is_foreign(problem.evaluator) or isinstance(problem.evaluator, StoredEvaluator):
        return None
    profile = problem.evaluator.profile
    options = plugins.load("evaluators", choice.name).Options.model_json_schema()["properties"]
    others = [name for name in options.get("profile", {}).get("enum", ()) if name != profile]
    simplified = [(name, f"profile {name}", choice.name, {"profile": name}) for name in others]
    if choice.name == "npu" and profile == "plain" and "offchip_efficiency" not in choice.options:
        share = load_constants("elementwise", ElementwiseConstants, "gpu").memory
        title = f"{percent(share, 2)} of the off-chip bandwidth"
        simplified.append((BANDWIDTH, title, "npu", {"offchip_efficiency": share}))
    if choice.name in _SIMULATORS:
        simplified.append(("simulation", "simulation", _SIMULATORS[choice.name], {}))
    readings, omitted = [], []
    for name, title, evaluator, changes in simplified:
        try:
            built = api.build_evaluator(
                evaluator, results.definition.workload, choice.options | changes
            )
            # Built anew, so that it is told the limits within which it is to choose.
            reading = build_problem(
                problem.space, built, list(map(str, problem.objectives)),
                [constraint.text for constraint in problem.constraints], evaluator,
                metrics=definitions_of(problem.derived),
            )  # fmt: skip
        except CodesignError as error:
            omitted.append(f"{title}: {str(error).splitlines()[0]}")
        else:
            readings.append(Reading(name, title, reading, is_costly=evaluator != choice.name))
    return Judge(readings, SAMPLES if samples is None else samples, omitted)


def _explainer(results: Results) -> Explainer | None:
    """Explainer of the campaign's designs; None if its evaluator has none."""
    import numpy as np

    from codesign import api
    from codesign.insight.uncertainty.uncertainty import design_swings
    from codesign.report.page.explained import Explainer

    problem = results.problem
    if not problem.evaluator.offers("explain"):
        return None

    def vary(designs: Sequence[Fields]) -> list[dict[str, tuple[Swing, ...]]]:
        rows = np.concatenate([problem.space.encode(design) for design in designs])
        return design_swings(problem, rows, problem.objective_names)

    explain = api.prepare_campaign(results).explain
    return Explainer(explain, vary if problem.evaluator.offers("replace_library") else None)


report_page.__name__ = "report"
