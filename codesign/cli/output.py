"""What goes where: reports to stdout, as a table or as one JSON document; the rest to stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from contextvars import ContextVar
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, TextIO, TypeAlias

import typer

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

AsJson: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print one JSON document and nothing else.")
]


_stdout: ContextVar[TextIO | None] = ContextVar("stdout", default=None)


def reports_only(command: Callable[..., None]) -> Callable[..., None]:
    """The command with standard output kept for its report.

    What anybody else prints meanwhile, a plug-in say, goes to stderr.
    """

    @wraps(command)
    def quiet(*arguments: Any, **options: Any) -> None:
        token = _stdout.set(sys.stdout)
        try:
            with redirect_stdout(sys.stderr):
                command(*arguments, **options)
        finally:
            _stdout.reset(token)

    return quiet


def report_stream() -> TextIO:
    """Where reports go."""
    return _stdout.get() or sys.stdout


def report(
    name: str,
    as_json: bool,
    document: Callable[[], Any],
    tables: Callable[[], Iterable[RenderableType]],
) -> None:
    """Print a command's report in the form that was asked for; only that form is made.

    Args:
        name: Of the document; a schema in ``codesign/schemas`` has this name.
        as_json: Whether the document is asked for, rather than the tables.
        document: What ``--json`` prints: a mapping, or a record.
        tables: What is printed otherwise.
    """
    if as_json:
        from codesign.cli.documents import stamped
        from codesign.report.plain import to_json_text

        print(to_json_text(stamped(name, document())), file=report_stream())
        return
    console = make_console()
    for table in tables():
        console.print(table)


def make_console(to_stderr: bool = False) -> Console:
    """A console on stdout or stderr that neither interprets nor recolors what it prints."""
    from rich.console import Console

    stream = sys.stderr if to_stderr else report_stream()
    return Console(file=stream, highlight=False, emoji=False, markup=False)


def say(message: str) -> None:
    """One line for the person at the terminal; never part of a report."""
    print(message, file=sys.stderr)
