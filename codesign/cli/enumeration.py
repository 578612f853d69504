"""The exact front of a campaign's problem."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from codesign.cli.campaigns import Folder, Name, shown_path
from codesign.cli.output import AsJson, make_console, report
from codesign.cli.tolerance import Tolerance, share

if TYPE_CHECKING:
    from rich.console import RenderableType

    from codesign.campaign import Campaign
    from codesign.enumeration import EnumerationProgress, ExactFront


_OTHER_ENDINGS = {"yml": "yaml", "md": "markdown", "log": "optuna"}


def enumerate_(
    name: Name,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes; one per core if not given.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Show at most so many points.")] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            help="Also write the front's designs; by its ending: csv, json, yaml, parquet, xlsx, "
            "md, or log for Optuna."
        ),
    ] = None,
    tolerance: Tolerance = None,
    folder: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Find the exact Pareto front of a campaign's whole space, by proof and not by search.

    Kept in the campaign's folder; interrupted, it goes on when run again. Convergence plots and
    tables of the campaign then show each optimizer's share of the exact hypervolume.
    """
    from codesign import api, plugins

    write = plugins.load("exports", _ending(output), "--output") if output else None
    campaign = api.load_campaign(name, folder)
    began = time.perf_counter()
    front = campaign.exact_front(workers, make_enumeration_progress())
    seconds = time.perf_counter() - began
    files = []
    if write is not None and output is not None:
        files.append(shown_path(write(campaign.exact_results(front, listed=True), output, "front")))
    _report_front(campaign, front, seconds, limit, share(tolerance), files, as_json)


def _ending(output: Path) -> str:
    ending = output.suffix.removeprefix(".").lower()
    return _OTHER_ENDINGS.get(ending, ending)


def _report_front(
    campaign: Campaign,
    front: ExactFront,
    seconds: float,
    limit: int | None,
    tolerance: float,
    files: list[str],
    as_json: bool,
) -> None:
    from codesign.report import exact

    results = campaign.exact_results(front)

    def document() -> dict[str, Any]:
        more = {"files": files} if files else {}
        return exact.document(results, front, seconds, limit, tolerance) | more

    def tables() -> list[RenderableType]:
        return exact.tables(results, front, seconds, limit, files, tolerance)

    report("enumerate", as_json, document, tables)


def make_enumeration_progress() -> EnumerationProgress | None:
    """A bar on standard error if that is a terminal, else nothing."""
    if not sys.stderr.isatty():
        return None
    from codesign.cli.progress import EnumerationBar

    return EnumerationBar(make_console(to_stderr=True))


enumerate_.__name__ = "enumerate"
COMMANDS: list[Callable[..., Any]] = [enumerate_]
