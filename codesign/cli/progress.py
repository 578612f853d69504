"""Bars on a terminal: a row for each loop that runs, the outermost first."""

from __future__ import annotations

from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from codesign.base.loop_progress import running_loops
from codesign.base.text import duration_words
from codesign.cli.output import make_console

_WIDTH = 40
"""Columns of a bar."""


def loop_bars() -> Live:
    """Bars on stderr, redrawn until they are stopped and then removed."""
    # Prints of libraries stay where they belong.
    return Live(
        get_renderable=_rows, console=make_console(to_stderr=True), transient=True,
        redirect_stdout=False, redirect_stderr=False,
    )  # fmt: skip


def _rows() -> Table:
    table = Table.grid(padding=(0, 1))
    for loop in running_loops():
        left_s = loop.left_s
        table.add_row(
            loop.subject,
            ProgressBar(loop.total, loop.done, _WIDTH),
            f"{loop.done:,} of {loop.total:,}",
            "" if left_s is None else f"about {duration_words(left_s)} left",
        )
    return table
