"""``codesign status watch``: a live view of a campaign that another process runs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from codesign.base.errors import InputError
from codesign.cli.campaigns import Folder, Name
from codesign.cli.heartbeat import silence
from codesign.cli.output import is_json, make_console, report, report_stream, say

if TYPE_CHECKING:
    from codesign.report.watch_frame import Frame
    from codesign.search.campaign import Campaign, Results

_GENTLE = 10.0
"""The view spends at most one part in so many of its time reading."""


def watch(
    name: Name,
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between two frames.")] = 2.0,
    once: bool = False,
    folder: Folder = None,
) -> None:
    """Follow a running campaign: front, hypervolume, rates, time left.

    Args:
        once: Print one frame and end.
    """
    from codesign.report.watch_frame import frame_tables, watch_answer
    from codesign.search.campaign import Campaign

    if is_json() and not once:
        raise InputError("one document is one frame; expected --once as well", "--json")
    campaign = Campaign.load(name, folder)
    look = _Look(campaign)
    if once:
        frame = look.frame()
        report(lambda: watch_answer(frame), lambda: frame_tables(frame))
    else:
        silence()  # the frames say it
        frame = _live(look, interval)
    if frame.status.state == "stopped":
        say(f"note: nobody runs this campaign; '{campaign.command}' goes on")


class _Look:
    """Reads a campaign again and again; what cannot change is read once."""

    def __init__(self, campaign: Campaign) -> None:
        self._campaign = campaign
        self._first: Results | None = None
        self._last: tuple[float, int] | None = None
        self.took_s = 0.0
        """Seconds that the latest frame took to read."""

    def frame(self) -> Frame:
        """The campaign at this moment.

        Raises:
            InputError: It was not begun, or differs from what is stored.
        """
        from codesign.report.watch_frame import Frame, paces_of
        from codesign.search.campaign.results import read_results
        from codesign.search.campaign.store_file import open_store

        begin = time.monotonic()
        campaign = self._campaign
        status = campaign.status()
        if not campaign.store_path.exists():
            from codesign.base.locks import is_held

            if is_held(campaign.folder / "lock"):
                return Frame(status, None, campaign.reading, paces_of(status, []))
            campaign.results()  # says that it has none
        if self._first is None:
            # Only the first look checks that the definition still fits.
            self._first = results = campaign.results()
        else:
            first = self._first
            with open_store(campaign.store_path) as store:
                results = read_results(store, first.definition, first.problem, first.exact)
        now = time.monotonic()
        before = self._last
        self._last = (now, status.done)
        rate = None if before is None else (status.done - before[1]) / (now - before[0])
        paces = paces_of(status, campaign.timings())
        self.took_s = time.monotonic() - begin
        return Frame(status, results, campaign.reading, paces, rate)


def _live(look: _Look, interval: float) -> Frame:
    """Frames until nobody runs the campaign any more; the last one stays.

    Into a file or a pipe goes a line per frame, and the last frame whole.
    """
    from rich.console import Group
    from rich.live import Live

    from codesign.report.watch_frame import WHOLE_WIDTH, facts_line, frame_tables

    console = make_console()
    frame = look.frame()
    if console.is_terminal:
        with Live(console=console, auto_refresh=False, redirect_stdout=False) as live:
            while True:
                # The last one may be longer than the terminal is high: all of it is printed.
                is_whole = frame.is_over and console.width >= WHOLE_WIDTH
                tables = frame_tables(frame, None if is_whole else console)
                live.update(Group(*tables), refresh=True)
                if frame.is_over:
                    return frame
                time.sleep(max(interval, _GENTLE * look.took_s))
                frame = look.frame()
    while not frame.is_over:
        print(facts_line(frame), file=report_stream(), flush=True)
        time.sleep(max(interval, _GENTLE * look.took_s))
        frame = look.frame()
    for section in frame_tables(frame):
        console.print(section)
    return frame
