"""Campaigns: run, look at, export, draw."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from codesign.base.errors import InputError, JobError
from codesign.base.records import drop_none, frozen, select_keys
from codesign.base.text import shown_path
from codesign.cli import completion
from codesign.cli.flag_records import flag
from codesign.cli.output import is_json, report, say, terminal_width
from codesign.cli.sampling import Samples, Seed, sampling
from codesign.cli.tolerance import Tolerance, share

if TYPE_CHECKING:
    from codesign.answers.campaigns import ParetoAnswer, RunAnswer
    from codesign.base.columns import JsonObject, StringList
    from codesign.insight.uncertainty.uncertainty_results import RobustFront
    from codesign.report.tables import Tables
    from codesign.search.campaign import Campaign, Results
    from codesign.search.campaign.execution_settings import Execution

Name = Annotated[
    str,
    typer.Argument(
        help="A campaign in runs/, or the path of its file.", autocompletion=completion.campaigns
    ),
]
Folder = Annotated[Path | None, typer.Option(help="Where campaigns have their folders. [runs]")]

Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Replace a value of the campaign's file, such as constraints.0='tdp_watts <= 400'; "
        "repeatable. Stored with the results.",
    ),
]
ExecutorName = Annotated[
    str | None,
    typer.Option(help="Where work is done: local, threads, parsl:FARM.yaml, dask:ADDRESS."),
]
Workers = Annotated[int | None, typer.Option(min=1, help="Processes; one per core if not given.")]


@frozen
class ExecutionFlags:
    """Flags of the execution of designs, and of failures and changes that do not stop a search."""

    executor: ExecutorName = None
    timeout: str | None = flag("Longest time for one design, such as '30 min'. [none]")
    retries: int | None = flag("Further attempts at a design that failed or was lost.", min=0)
    accept_changes: bool = flag(
        "Continue although input files or code have changed; what follows is marked.",
        False,
        "--accept-changes",
    )
    retry_failed: bool = flag(
        "If all initial designs failed in an earlier run, evaluate them again.",
        False,
        "--retry-failed",
    )

    def override(self, execution: Execution, **more: int | None) -> Execution:
        """Execution of a file, overridden by the flags.

        Args:
            more: Further flags by the file's keys; None: not given.

        Raises:
            InputError: A flag is no value of its key.
        """
        from pydantic import ValidationError

        from codesign.base.schema import sentence_of

        record = type(execution)
        stated = drop_none(select_keys({**vars(self), **more}, record.model_fields))
        try:
            return record.model_validate(execution.model_dump() | stated)
        except ValidationError as error:
            lines = [f"--{problem['loc'][0]}: {sentence_of(problem)}" for problem in error.errors()]
            raise InputError(lines) from None


Limit = Annotated[
    int | None,
    typer.Option(min=1, help="Designs to print, from the first on. [a dozen over the whole front]"),
]
ShowAll = Annotated[bool, typer.Option("--all", help="Every design of the front.")]


def limit_of(limit: int | None, show_all: bool) -> int | None:
    """Number of designs by ``--limit`` and ``--all``, or None for a selection."""
    if show_all and limit is not None:
        raise InputError(f"expected no --limit {limit}: --all shows every design", "--all")
    return sys.maxsize if show_all else limit


def load_with(settings: StringList | None, name: str, folder: Path | None) -> Campaign:
    """Campaign of a file, with the settings of the command line."""
    from codesign.search.campaign import Campaign
    from codesign.search.campaign.settings import parse_settings

    return Campaign.load(name, folder, parse_settings(settings or ()))


def run(
    *,
    name: Name,
    settings: Settings = None,
    workers: Workers = None,
    in_flight: Annotated[
        int | None,
        typer.Option(min=1, help="Designs of one run that are evaluated at the same time. [1]"),
    ] = None,
    flags: ExecutionFlags,
    untrusted: bool = False,
    track: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="An installed tracker that receives every result."),
    ] = None,
    tolerance: Tolerance = None,
    folder: Folder = None,
) -> None:
    """Run a campaign, or continue it where it stopped.

    Args:
        untrusted: The file is a stranger's: confine its programs to their folders, without
            network, by bubblewrap.
    """
    if untrusted:
        from codesign.evaluators.command.confinement import UNTRUSTED, check_confinement

        check_confinement()
        os.environ[UNTRUSTED] = "1"  # for workers, too
    # A campaign that is refused needs nothing else imported.
    campaign = load_with(settings, name, folder)
    from codesign.answers.campaigns import RunAnswer
    from codesign.base import plugins
    from codesign.base.errors import MissingExtraError
    from codesign.report import exports
    from codesign.report.campaign_charts import convergence_chart
    from codesign.report.paper import save_chart

    execution = flags.override(campaign.definition.execution, in_flight=in_flight)
    if untrusted and (execution.executor or "local") not in ("local", "threads"):
        raise InputError(
            f"expected executor local or threads, got {execution.executor}", "--untrusted"
        )
    built = (plugins.load("trackers", key, "--track") for key in track or ())
    trackers = [tracker(campaign.definition.name, campaign.problem) for tracker in built]
    campaign.run(workers, execution, flags.accept_changes, flags.retry_failed, trackers)
    results = campaign.results()
    front = campaign.front_results(results)
    written = [
        campaign.store_path,
        exports.write_csv(front, campaign.folder / "front.csv", "front"),
        exports.write_yaml(front, campaign.folder / "front.yaml", "front"),
    ]
    try:
        convergence = convergence_chart(results)
        written.append(save_chart(convergence, campaign.folder / "convergence.png", results))
        written.append(save_front(results, front, campaign.folder / "front.png"))
    except MissingExtraError as error:
        say(f"no figures: {error}")
    campaign.list_files(written)
    _report_results(RunAnswer, campaign, results, front, written, None, share(tolerance))


def front_to_draw(results: Results, front: Results) -> Results:
    """The exact front where it is known; a single objective is drawn as it was searched."""
    return front if len(results.problem.objectives) > 1 else results


def save_front(results: Results, front: Results, path: Path, width_mm: float | None = None) -> Path:
    """Draw a campaign's front with the designs that its space names."""
    from codesign import api
    from codesign.report.campaign_charts import front_chart, front_picture
    from codesign.report.paper import save_chart, width_of

    drawn = front_to_draw(results, front)
    picture = front_picture(drawn, marked=api.evaluate_named(results.problem))
    return save_chart(front_chart(picture, width_of(width_mm)[1]), path, drawn, width_mm)


def _report_results(
    record: type[RunAnswer | ParetoAnswer],
    campaign: Campaign,
    results: Results,
    front: Results,
    written: Sequence[Path],
    limit: int | None,
    tolerance: float,
    robust: RobustFront | None = None,
) -> None:
    from codesign.answers.uncertainty import FrontUncertainty
    from codesign.report import result_tables as results_report
    from codesign.report import uncertainty_tables
    from codesign.report.front_lines import front_lines
    from codesign.report.tables import pairs_table, spaced
    from codesign.search.campaign.reference_range import reference_warnings

    paths = [shown_path(path) for path in written]

    more: JsonObject = {"files": paths} if paths else {}
    if robust:
        more["uncertainty"] = FrontUncertainty.describe(robust, front, limit)

    def tables() -> Tables:
        optimizers = [] if results.is_enumerated else [results_report.optimizers_table(results)]
        sections = spaced(
            front_lines(front, terminal_width(), limit, tolerance=tolerance),
            [*optimizers, results_report.reference_text(results)],
            [pairs_table("Written", dict.fromkeys(paths, ""))] if paths else [],
        )
        return sections + (uncertainty_tables.front_tables(robust, front, limit) if robust else [])

    report(lambda: record.describe_front(results, front, limit, tolerance, **more), tables)
    if is_json():  # a table says it below itself
        for words in reference_warnings(results):
            say(f"Warning: {words}.")
    if len(results) and not len(front.front()):
        stored = shown_path(campaign.store_path)
        raise JobError(f"{campaign.definition.name}: {_nothing_feasible(results)}; see {stored}")


def _nothing_feasible(results: Results) -> str:
    """The limit that most designs break, and the design that comes nearest to all limits."""
    import numpy as np

    from codesign.report.labels import design_words, percent
    from codesign.search.problem import most_broken, nearest_to_limits

    problem = f"none of {len(results):,} evaluated designs keeps every limit"
    done = np.flatnonzero(~results.failed)
    if not len(done):
        return f"{problem}: every evaluation failed"
    violations = {name: values[done] for name, values in results.violations.items()}
    nearest = nearest_to_limits(violations)
    broken = [
        f"{name!r} by {percent(values[nearest])}"
        for name, values in violations.items()
        if values[nearest] > 0
    ]
    space = results.problem.space
    words = design_words(space, space.decode(results.rows[done[[nearest]]]))[0]
    return f"{problem}: {most_broken(violations)}. The nearest breaks {', '.join(broken)}: {words}"


def pareto(
    name: Name,
    limit: Limit = None,
    show_all: ShowAll = False,
    tolerance: Tolerance = None,
    robust: bool = False,
    samples: Samples = None,
    seed: Seed = None,
    folder: Folder = None,
) -> None:
    """Print the Pareto front and each optimizer's hypervolume.

    The table folds plateaus; the JSON document has every design and says which are folded.

    Args:
        robust: Print the designs that stay on the front over the ranges of the technologies.
    """
    from codesign.answers.campaigns import ParetoAnswer
    from codesign.search.campaign import Campaign

    draws = sampling("--robust", robust, samples, seed)
    campaign = Campaign.load(name, folder)
    results = campaign.results() if campaign.store_path.exists() else campaign.front_results()
    front = campaign.front_results(results)
    robust_analysis = None
    if robust:
        from codesign.insight.uncertainty.uncertainty import robust_front

        robust_analysis = robust_front(front, **draws)
    listed = limit_of(limit, show_all)
    _report_results(
        ParetoAnswer, campaign, results, front, [], listed, share(tolerance), robust_analysis,
    )  # fmt: skip


def status(
    name: Name,
    verify: bool = False,
    folder: Folder = None,
) -> None:
    """Show how far a campaign has come.

    Args:
        verify: Check every checksum of the store.
    """
    from codesign.search.campaign import Campaign

    campaign = Campaign.load(name, folder)
    from codesign.answers.campaigns import StatusAnswer
    from codesign.report import progress_tables

    campaign_status = campaign.status()
    reading = campaign.reading
    report(
        lambda: StatusAnswer.describe(campaign_status, evaluator=reading),
        lambda: progress_tables.status_tables(campaign_status, reading),
    )
    if verify:
        damages = campaign.verify()
        if damages:
            raise InputError([f"damaged: {line}" for line in damages], str(campaign.store_path))
        say(f"verified: nothing is damaged in {shown_path(campaign.store_path)}")


def verify(
    name: Annotated[
        str,
        typer.Argument(
            metavar="FOLDER|NAME",
            help="Folder with results of a campaign or of a comparison, or its name.",
        ),
    ],
    folder: Folder = None,
) -> None:
    """Check every file that a run left against its manifest: bytes, inputs, code and results."""
    from codesign.answers.campaigns import VerifyAnswer
    from codesign.report.tables import record_table
    from codesign.search.campaign import Campaign
    from codesign.search.campaign.manifest import FAILURES, check_folder
    from codesign.search.campaign.status import results_folder

    folders = (Path(name), results_folder(folder) / name)
    place = next((path for path in folders if path.is_dir()), None)
    place = place or Campaign.load(name, folder).folder
    verdicts = check_folder(place)
    answer = VerifyAnswer(folder=shown_path(place), files=verdicts)
    fields = "file state words=explanation"
    report(lambda: answer, lambda: [record_table("Files", verdicts, fields)])
    failed = [verdict for verdict in verdicts if verdict.state in FAILURES]
    if failed:
        raise InputError(
            [f"{each.file}: {each.state}: {each.words}" for each in failed], str(place)
        )
