"""A campaign as one HTML page."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from codesign.base.text import shown_path
from codesign.cli.campaigns import Folder, Name
from codesign.cli.heartbeat import silence
from codesign.cli.output import report, say
from codesign.cli.tolerance import Tolerance, share

_LEAST_PERIOD_S = 1.0


def report_page(
    name: Name,
    output: Path | None = None,
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
) -> None:
    """Write a campaign as one HTML page that opens offline, or as a meeting sheet.

    Args:
        output: The page, or a meeting sheet (A4) if the file ends in .pdf, .svg, .png or .pptx.
            [report.html in the campaign's folder]
    """
    from codesign import api
    from codesign.answers.campaigns import ReportAnswer
    from codesign.base.files import check_place

    campaign = api.load_campaign(name, folder)
    path = output or campaign.folder / "report.html"
    check_place(path)

    write = partial(
        api.write_report, campaign, path, designs=design or (), samples=samples,
        tolerance=share(tolerance), every_s=every,
    )  # fmt: skip
    state = write()
    if every is not None:
        silence()
    while every is not None and state == "running":
        say(f"wrote {shown_path(path)}; again in {every:g} s while the campaign runs")
        time.sleep(every)
        state = write()
    written = shown_path(path)
    size = path.stat().st_size
    report(
        lambda: ReportAnswer(files=[written], bytes=size, state=state),
        lambda: [f"wrote {written} ({size / 1e6:.1f} MB)"],
    )


report_page.__name__ = "report"
