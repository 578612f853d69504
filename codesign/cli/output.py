"""Output of commands: reports to stdout, as tables or as one JSON document; the rest to stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from contextvars import ContextVar
from functools import wraps
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, TextIO, cast

import typer

from codesign.base.errors import InputError
from codesign.base.records import frozen
from codesign.base.text import printable, shown_path
from codesign.cli.heartbeat import heartbeat, hide_bars

if TYPE_CHECKING:
    from rich.console import (
        Console,
        ConsoleOptions,
        ConsoleRenderable,
        RenderableType,
        RenderHook,
    )
    from rich.segment import Segment

    from codesign.answers.answer import Answer
    from codesign.answers.campaigns import ExportAnswer, FigureAnswer
    from codesign.base.columns import JsonObject, Strings
    from codesign.search.campaign import Campaign

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]


_stdout: ContextVar[TextIO | None] = ContextVar("stdout", default=None)
_is_json: ContextVar[bool] = ContextVar("is_json", default=False)
_STANDARD_OUTPUT = Path("-")
_ENDINGS = {"enumerate": "csv", "explain-front": "md", "export": None, "figure": "pdf",
            "report": "html"}  # fmt: skip
"""Commands whose ``--output`` is one file, and its ending if no ``--format`` says another."""


def reports_only(command: Callable[..., None]) -> Callable[..., None]:
    """The command with standard output kept for its report, which is JSON with ``--json``.

    Other prints, such as a plug-in's, go to stderr, as does the progress every 30 s.
    """

    @wraps(command)
    def quiet(*arguments: Any, as_json: bool = False, **options: Any) -> None:
        tokens = _stdout.set(sys.stdout), _is_json.set(as_json)
        name = command.__name__.replace("_", "-").strip("-")
        try:
            with redirect_stdout(sys.stderr), heartbeat(name, say), _stream_report(name, options):
                command(*arguments, **options)
        finally:
            _stdout.reset(tokens[0])
            _is_json.reset(tokens[1])

    return quiet


@contextmanager
def _stream_report(name: str, options: JsonObject) -> Iterator[None]:
    """Let a command with ``--output -`` write a file, and copy that to standard output.

    The report of the command then goes to stderr.

    Raises:
        InputError: The command has no single file to write, or standard output has another use.
    """
    if options.get("output") != _STANDARD_OUTPUT:
        yield
        return
    ending = options.get("form") or _ENDINGS.get(name)
    if name not in _ENDINGS or _is_json.get():
        use = "--json prints there" if name in _ENDINGS else "it is no standard output"
        raise InputError(f"expected a file or folder, got '-': {use}", "--output")
    if ending is None:
        raise InputError("expected --format beside '-'", "--output")
    stream = report_stream()
    with TemporaryDirectory(prefix="codesign-") as folder:
        options["output"] = place = Path(folder, f"output.{ending}")
        _stdout.set(lines := StringIO())
        yield
        if list(Path(folder).rglob("*")) != [place]:
            raise InputError("expected a folder or file: several are written", "--output")
        print(lines.getvalue().replace(str(place), "-"), end="", file=sys.stderr)
        stream.flush()
        stream.buffer.write(place.read_bytes())
        stream.flush()


def is_json() -> bool:
    """True if the command's report is one JSON document."""
    return _is_json.get()


def report_stream() -> TextIO:
    """Stream of reports."""
    return _stdout.get() or sys.stdout


def report(answer: Callable[[], Answer], tables: Callable[[], Iterable[RenderableType]]) -> None:
    """Print a command's report in the form that was asked for; only that form is made.

    Args:
        answer: Makes the answer.
        tables: Makes the tables.
    """
    if is_json():
        from codesign.answers import json_values

        document = json_values.json_text(json_values.stamped(answer()))
        hide_bars()
        print(document, file=report_stream())
        return
    print_tables(tables())


def print_tables(tables: Iterable[RenderableType]) -> None:
    """Print tables and paragraphs to the place of reports."""
    console = make_console()
    for table in tables:
        hide_bars()
        console.print(table)


def report_files(
    record: type[ExportAnswer | FigureAnswer],
    campaign: Campaign | None,
    paths: Sequence[Path],
    notes: Strings = (),
) -> None:
    """Print the report of a command that wrote files, and list them as the campaign's."""
    if campaign is not None:
        campaign.list_files(paths)
    files = list(map(shown_path, paths))
    lines = [*(f"wrote {file}" for file in files), *(f"note: {note}" for note in notes)]
    more = {"notes": notes} if notes else {}
    report(lambda: record(files=files, **more), lambda: lines)


def make_console(to_stderr: bool = False) -> Console:
    """A console on stdout or stderr that neither interprets nor recolors what it prints.

    Control characters in names and paths are printed as escapes: a terminal would obey them.
    """
    from rich.console import Console

    stream = sys.stderr if to_stderr else report_stream()
    console = Console(file=stream, highlight=False, emoji=False, markup=False)
    # Not derived from Rich's class: a command that prints no table does not load Rich.
    console.push_render_hook(cast("RenderHook", _PrintableHook()))
    return console


class _PrintableHook:
    """Rich's hook through which everything goes that a console prints."""

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [_Printable(renderable) for renderable in renderables]


@frozen
class _Printable:
    """A renderable without control characters in its text."""

    renderable: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for segment in console.render(self.renderable, options):
            # What Rich itself tells the terminal, such as to move the cursor, is marked so.
            yield segment if segment.control else segment._replace(text=printable(segment.text))


def terminal_width() -> int:
    """Columns of the terminal, or of the place that a report goes to."""
    return make_console().width


def say(message: str) -> None:
    """A line for the person at the terminal; never part of a report."""
    hide_bars()
    with suppress(OSError, ValueError):  # nobody can be told that standard error fails
        print(printable(message), file=sys.stderr)
