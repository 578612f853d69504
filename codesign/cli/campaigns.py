"""Campaigns: run, look at, export, draw."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from codesign.cli.output import AsJson, report, say
from codesign.cli.sampling import Samples, Seed, sampling
from codesign.cli.tolerance import Tolerance, share
from codesign.errors import InputError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from codesign.analysis.uncertainty_results import RobustFront
    from codesign.campaign import Campaign, Results

Name: TypeAlias = Annotated[
    str, typer.Argument(help="A campaign in runs/, or the path of its file.")
]
Folder: TypeAlias = Annotated[
    Path | None, typer.Option(help="Where campaigns have their folders. [runs]")
]


def run(
    name: Name,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes; one per core if not given.")
    ] = None,
    tolerance: Tolerance = None,
    folder: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Run a campaign, or continue it where it stopped."""
    from codesign import api
    from codesign.cli.progress import make_progress

    campaign = api.load_campaign(name, folder)
    campaign.run(make_progress(campaign), workers)
    results = campaign.results()
    written = [campaign.store_path, *_write_all(results, campaign.folder)]
    _report_results("run", campaign, results, written, None, share(tolerance), as_json)


def _write_all(results: Results, folder: Path) -> list[Path]:
    """The files that every finished campaign has, as far as the libraries are there."""
    from codesign import api
    from codesign.errors import MissingExtraError
    from codesign.report import exports, figures

    written = [
        exports.to_csv(results, folder / "front.csv", "front"),
        exports.to_yaml(results, folder / "front.yaml", "front"),
    ]
    try:
        written.append(figures.save_convergence(results, folder / "convergence.png"))
        marked = api.evaluate_named(results.problem)
        written.append(figures.save_front(results, folder / "front.png", marked))
    except MissingExtraError as error:
        say(f"no figures: {error}")
    return written


def _report_results(
    command: str,
    campaign: Campaign,
    results: Results,
    written: Sequence[Path],
    limit: int | None,
    tolerance: float,
    as_json: bool,
    robust: RobustFront | None = None,
) -> None:
    from codesign.problem import most_broken
    from codesign.report import results as results_report
    from codesign.report import uncertainty
    from codesign.report.tables import pairs_table, text_line

    paths = [shown_path(path) for path in written]

    def document() -> dict[str, Any]:
        files = {"files": paths} if paths else {}
        more = {"uncertainty": uncertainty.front_document(robust, results, limit)} if robust else {}
        return results_report.front_document(results, limit, tolerance) | files | more

    def tables() -> list[RenderableType]:
        parts: list[RenderableType] = [
            results_report.front_table(results, limit, tolerance=tolerance),
            text_line(""),
            results_report.optimizers_table(results),
            text_line(results_report.reference_text(results)),
        ]
        if paths:
            parts += [text_line(""), pairs_table("Written", dict.fromkeys(paths, ""))]
        return parts + (uncertainty.front_tables(robust, results, limit) if robust else [])

    report(command, as_json, document, tables)
    if len(results) and not len(results.front()):
        done = ~results.failed
        blame = most_broken({name: each[done] for name, each in results.violations.items()})
        raise InputError(
            f"none of {len(results):,} evaluated designs keeps every limit"
            + (f" ({blame})" if blame else "")
            + f"; all are stored in {shown_path(campaign.store_path)}",
            campaign.definition.name,
        )


def shown_path(path: Path) -> str:
    """A path as the user would write it: from the working folder if it is in there."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def pareto(
    name: Name,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many designs.")] = None,
    tolerance: Tolerance = None,
    robust: Annotated[
        bool,
        typer.Option(
            "--robust", help="Designs that stay on the front over the ranges of the technologies."
        ),
    ] = False,
    samples: Samples = None,
    seed: Seed = None,
    folder: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Print the Pareto front and each optimizer's hypervolume.

    The table folds plateaus; the JSON document has every design and says which are folded.
    """
    from codesign import api

    draws = sampling("--robust", robust, samples, seed)
    campaign = api.load_campaign(name, folder)
    results = campaign.results()
    robust_analysis = None
    if robust:
        from codesign.analysis.uncertainty import robust_front

        robust_analysis = robust_front(results, **draws)
    _report_results(
        "pareto", campaign, results, [], limit, share(tolerance), as_json, robust_analysis
    )


def status(name: Name, folder: Folder = None, as_json: AsJson = False) -> None:
    """Show how far a campaign has come."""
    from codesign import api
    from codesign.report import progress

    campaign = api.load_campaign(name, folder)
    campaign_status, reading = campaign.status(), campaign.reading
    report(
        "status",
        as_json,
        lambda: progress.document(campaign_status) | {"evaluator": reading},
        lambda: progress.status_tables(campaign_status, reading),
    )


def runs(folder: Folder = None, as_json: AsJson = False) -> None:
    """List all campaigns, also those not yet started."""
    from codesign.campaign import list_campaigns
    from codesign.report import progress

    campaigns = list_campaigns(folder)
    report(
        "runs",
        as_json,
        lambda: {"campaigns": [progress.document(campaign) for campaign in campaigns]},
        lambda: progress.campaigns_tables(campaigns),
    )


def plot(
    name: Name,
    form: Annotated[str, typer.Option("--format", help="png, svg or pdf.")] = "png",
    output: Annotated[
        Path | None, typer.Option(help="Folder for the figures. [the campaign's]")
    ] = None,
    folder: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Draw hypervolume against evaluations, and the front."""
    from codesign import api
    from codesign.report import figures
    from codesign.report.drawing import check_format
    from codesign.report.tables import text_line

    check_format(form)
    campaign = api.load_campaign(name, folder)
    results = campaign.results()
    place = output or campaign.folder
    written = [
        figures.save_convergence(results, place / f"convergence.{form}"),
        figures.save_front(results, place / f"front.{form}", api.evaluate_named(results.problem)),
    ]
    paths = [shown_path(path) for path in written]
    report(
        "plot",
        as_json,
        lambda: {"files": paths},
        lambda: [text_line(f"wrote {path}") for path in paths],
    )


COMMANDS: list[Callable[..., Any]] = [run, status, runs, pareto, plot]
