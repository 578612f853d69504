"""What goes where: reports to stdout, as a table or as one JSON document; the rest to stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

AsJson: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print one JSON document and nothing else.")
]


def report(
    as_json: bool, document: Callable[[], Any], tables: Callable[[], Iterable[RenderableType]]
) -> None:
    """Print a command's report in the form that was asked for; only that form is made."""
    if as_json:
        from codesign.report.plain import to_json_text

        print(to_json_text(document()))
        return
    console = make_console()
    for table in tables():
        console.print(table)


def make_console(to_stderr: bool = False) -> Console:
    """A console on stdout or stderr that neither interprets nor recolors what it prints."""
    from rich.console import Console

    return Console(stderr=to_stderr, highlight=False, emoji=False, markup=False)


def say(message: str) -> None:
    """One line for the person at the terminal; never part of a report."""
    print(message, file=sys.stderr)
