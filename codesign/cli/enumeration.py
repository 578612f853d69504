"""The exact front of a campaign's problem."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from codesign.base.files import ending_of
from codesign.base.text import shown_path
from codesign.cli.campaigns import (
    ExecutorName,
    Folder,
    Limit,
    Name,
    Settings,
    ShowAll,
    Workers,
    limit_of,
    load_with,
)
from codesign.cli.output import report, terminal_width
from codesign.cli.tolerance import Tolerance, share

_OTHER_ENDINGS = {"yml": "yaml", "md": "markdown", "log": "optuna"}


def enumerate_(
    name: Name,
    settings: Settings = None,
    workers: Workers = None,
    executor: ExecutorName = None,
    limit: Limit = None,
    show_all: ShowAll = False,
    output: Path | None = None,
    keep: Annotated[
        str | None,
        typer.Option(
            metavar="METRICS",
            help="Also find all designs that tighter limits on these metrics may bring to the "
            "front; the page of 'codesign report' then has a slider for each. Names with commas "
            "between them, or 'usual' for die edge, area, unit cost, latency and temperature.",
        ),
    ] = None,
    every_design: bool = False,
    tolerance: Tolerance = None,
    folder: Folder = None,
) -> None:
    """Find the exact Pareto front of a campaign's whole space, by proof and not by search.

    The front is stored in the campaign's folder. After an interruption, run the command again: it
    continues. Convergence plots and
    tables of the campaign then show each optimizer's share of the exact hypervolume.

    Args:
        output: Also write the front's designs; by its ending: csv, json, yaml, parquet, xlsx,
            md, or log for Optuna.
        every_design: Evaluate every design, even if the evaluator's bounds exclude it.
    """
    from codesign.base import plugins

    listed = limit_of(limit, show_all)
    write = None
    if output is not None:
        ending = ending_of(output)
        write = plugins.load("exports", _OTHER_ENDINGS.get(ending, ending), "--output")
    campaign = load_with(settings, name, folder)
    from codesign.answers.campaigns import EnumerateAnswer
    from codesign.report.exact_front_tables import tables
    from codesign.search.enumeration.kept import keeping, usual_metrics

    began = time.perf_counter()
    names: tuple[str, ...] = ()
    if keep is not None:
        names = tuple(name.strip() for name in keep.split(","))
        names = usual_metrics(campaign.problem) if names == ("usual",) else names
        keeping(campaign.problem, names, "--keep")  # wrong names are told before the first block
    front = campaign.exact_front(workers, executor, every_design)
    tighter = None
    if names:
        tighter = campaign.kept_front(names, workers, executor)
    seconds = time.perf_counter() - began
    files = []
    if write is not None and output is not None:
        files.append(shown_path(write(campaign.exact_results(front, listed=True), output, "front")))
    results = campaign.exact_results(front)
    folding = share(tolerance)
    more = {"files": files} if files else {}
    report(
        lambda: EnumerateAnswer.describe_exact(
            results, front, seconds, listed, folding, tighter, **more
        ),
        lambda: tables(results, front, seconds, terminal_width(), listed, files, folding, tighter),
    )


enumerate_.__name__ = "enumerate"
