"""The application and its exit codes.

0: fine; 1: the job ran and failed, or no design keeps the limits; 2: what was given cannot be
used; 130: Ctrl-C; 143: SIGTERM, which stops a command as Ctrl-C does.
"""

from __future__ import annotations

import io
import logging
import os
import re
import sys
from collections.abc import Callable, Sequence
from copy import copy
from functools import cache
from typing import Annotated, Any

import typer

from codesign.base.errors import (
    CodesignError,
    InfeasibleError,
    InputError,
    JobError,
    UnattainableError,
)
from codesign.base.text import ESCAPE, one_line, printable
from codesign.cli import (
    accuracy,
    calibrate,
    campaigns,
    catalogue,
    compare,
    decide,
    enumeration,
    evaluation,
    export,
    figure,
    forecast,
    front,
    mcp,
    problems,
    quantization,
    report,
    result_cache,
    schema,
    serve,
    serve_model,
    simulators,
    size,
    timeline,
    watch,
)
from codesign.cli.flag_records import command_help, spread
from codesign.cli.output import report_stream, reports_only, say
from codesign.cli.termination import is_termination, stopped_by_sigterm

INTERRUPTED = 130
TERMINATED = 143
_FAILED = 1
_BAD_INPUT = 2
_PIPE_CLOSED = 141
_MOST_LINES = 10
_MOST_CHARACTERS = 2000
_DEBUG = "CODESIGN_DEBUG"
_COMPLETION = "_CODESIGN_COMPLETE"

app = typer.Typer(
    name="codesign",
    help="Search memory and compute designs of LLM-inference accelerators.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        import codesign

        print(f"codesign {codesign.__version__}", file=report_stream())
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help(), file=report_stream())


COMMANDS: dict[str, Callable[..., None]] = {
    "run": campaigns.run,
    "status": campaigns.status,
    "status front": campaigns.pareto,
    "status watch": watch.watch,
    "status verify": campaigns.verify,
    "status cache": result_cache.cache,
    "enumerate": enumeration.enumerate_,
    "explain": front.explain_front,
    "explain decide": decide.decide,
    "explain memories": decide.memories,
    "explain breakeven": decide.breakeven,
    "explain map": decide.map_,
    "evaluate": evaluation.evaluate,
    "evaluate timeline": timeline.timeline,
    "size": size.size,
    "size calibrate": calibrate.calibrate,
    "serve-model": serve_model.serve_model,
    "forecast": forecast.forecast,
    "report": report.report_page,
    "report figure": figure.figure,
    "export": export.export,
    "serve": serve.serve,
    "serve mcp": mcp.serve_tools,
    "compare": compare.compare,
    "compare problems": problems.problems,
    "accuracy": accuracy.accuracy,
    "accuracy quantize": quantization.quantize,
    "accuracy mix-formats": quantization.mix_formats,
    "list": catalogue.list_,
    "list NAME": catalogue.show,
    "list schema": schema.schema,
    "list simulators": simulators.simulators,
}
"""Commands by their one or two words; the help of a first word lists its two-word commands."""
_SERVERS = (serve.serve, mcp.serve_tools)
"""Commands without a report, which have no ``--json``."""
for _name, _command in COMMANDS.items():
    app.command(name=_name)(_command)


@cache
def command_tree(
    word: str | None = None, has_help: bool = True, application: typer.Typer = app
) -> Any:
    """The commands as the library of command lines wants them.

    To read the options of all commands takes half of the time of a start, so a word that names a
    command gives a tree with that command alone, and any other word the list of all commands
    without their options.

    Args:
        word: The first word after ``codesign``; all commands with their options if None.
        has_help: Whether options have texts that take long to load.
        application: The commands to choose from.
    """
    commands = application.registered_commands
    named = [info for info in commands if command_name(info) == word]
    if word is not None and not named:
        commands = [info for info in commands if " " not in command_name(info)]
    tree = copy(application)
    tree.registered_commands = [copy(info) for info in named or commands]
    for info in tree.registered_commands:
        assert info.callback is not None
        if named or word is None:
            further = [
                f"codesign {name}: {(command.__doc__ or '').partition(chr(10))[0]}"
                for name, command in COMMANDS.items()
                if name.startswith(f"{command_name(info)} ")
            ]
            info.epilog = "See also:\n\n" + "\n\n".join(further) if further else None
            answers = info.callback in COMMANDS.values() and info.callback not in _SERVERS
            info.callback = reports_only(spread(info.callback, has_help, answers))
        else:
            info.name = command_name(info)
            info.help = command_help(info.callback)
            info.callback = lambda: None  # listed, not called
    return typer.main.get_command(tree)


def command_name(info: typer.models.CommandInfo) -> str:
    """The word that calls a command."""
    assert info.callback is not None
    return info.name or typer.main.get_command_name(info.callback.__name__)


def main(arguments: Sequence[str] | None = None, application: typer.Typer = app) -> int:
    """Run one command; returns the exit code.

    Args:
        arguments: Words after ``codesign``; those of the process if None.
        application: The commands to choose from.
    """
    is_closed = _open_streams()
    _log_printably()
    try:
        with stopped_by_sigterm():
            words = sys.argv[1:] if arguments is None else list(arguments)
            code = _run(words, application)
        if is_closed:
            say("error: standard output: is closed, so that the report is lost")
        return code or (_FAILED if is_closed else code)
    except BrokenPipeError:
        # The reader (such as `head`) has seen enough. Python would complain at exit.
        sys.stdout = io.StringIO()
        return _PIPE_CLOSED
    except KeyboardInterrupt as error:
        # A campaign says how to go on.
        say(str(error) or "interrupted")
        return TERMINATED if is_termination(error) else INTERRUPTED
    except CodesignError as error:
        _explain(str(error))
        if isinstance(error, UnattainableError):
            return _BAD_INPUT
        return _FAILED if isinstance(error, JobError | InfeasibleError) else _BAD_INPUT
    except Exception as error:
        if os.environ.get(_DEBUG):
            raise
        if isinstance(error, OSError) and error.errno is not None:  # the machine's fault
            say(one_line(f"error: {error.filename or 'standard output'}: {error.strerror}"))
            if error.filename is None:
                sys.stdout = io.StringIO()  # as above
            return _FAILED
        say(" ".join(f"error: unexpected {type(error).__name__}: {error}".split()))
        from codesign.base.plugins import defective

        say(f"This is a defect of {defective(error) or 'codesign'}; {_DEBUG}=1 shows where.")
        return _FAILED


def _open_streams() -> bool:
    """Let every stream take every character; true if standard output is closed.

    A closed stream becomes ``/dev/null``: the next file that is opened would take its number.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    is_closed = sys.stdout is None
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123 - stays open
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=ESCAPE)
    return is_closed


def _log_printably() -> None:
    """Log to stderr, a message a line, with control characters as escapes.

    Libraries log errors that they go on from, such as Parsl when a scheduler does not answer: of
    those the last line of the traceback, or all of it if the variable for debugging is set.
    """
    logging.basicConfig(stream=sys.stderr)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(_PrintableFormatter("%(levelname)s: %(message)s"))


class _PrintableFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        if os.environ.get(_DEBUG):
            return printable(super().format(record))
        message = record.getMessage()
        error = (record.exc_info or (None, None))[1]
        words = message if error is None else f"{message} ({type(error).__name__}: {error})"
        return printable(f"{record.levelname}: {' '.join(words.split())}")


RENAMED = dict(
    row.split(maxsplit=1)
    for row in """\
memtech list memories
technologies list memories
memories list memories
models list models
devices list devices
workloads list workloads
spaces list spaces
space list spaces
metrics list metrics
optimizers list optimizers
evaluators list evaluators
runs list campaigns
campaigns list campaigns
show list
schema list schema
simulators list simulators
pareto status front
watch status watch
verify status verify
cache status cache
explain-front explain
timeline evaluate timeline
problems compare problems
figure report figure
quantize accuracy quantize
mix-formats accuracy mix-formats
""".splitlines()
)
"""Present commands by words that people type and by names of the last release; same flags."""
REPLACED = {
    "economics": "size", "requirements": "size", "platform": "size", "scaling": "size --vary",
    "arrivals": "serve-model",
}  # fmt: skip
"""Present commands by the commands of the last release whose flags have changed."""


def _check_renamed(arguments: list[str]) -> None:
    """Answer a former command with the present one.

    Raises:
        InputError: The first word names such a command.
    """
    first = arguments[0] if arguments else ""
    if first in REPLACED:
        new = REPLACED[first]
        raise InputError(
            f"'{first}' is now 'codesign {new}' (see: codesign {new.split()[0]} --help)"
        )
    if first in RENAMED:
        flags = [word for word in arguments[1:] if word.startswith("-")]
        names = [word for word in arguments[1:] if not word.startswith("-")]
        new = RENAMED[first]
        if names and new.removeprefix("list ") in catalogue.KINDS:
            new = "list"
        words = new, *([*names, *flags] if new == "list" else arguments[1:])
        raise InputError(f"'{first}' is now 'codesign {' '.join(words)}'")


def _joined(arguments: list[str]) -> list[str]:
    """The words, with the two words of a command joined into one.

    ``list`` shows one thing if its next word is no kind, or if a name follows the kind. Campaigns
    are listed by the name of their folder, ``runs``, as well.
    """
    if arguments[:1] == ["calibrate"]:  # what people type
        arguments = ["size", *arguments]
    if f"{' '.join(arguments[:2])}" in COMMANDS:
        return [" ".join(arguments[:2]), *arguments[2:]]
    if arguments[:2] == ["explain", "front"] and len(arguments) > 2:
        return ["explain", *arguments[2:]]
    if arguments[:2] == ["list", "runs"]:
        arguments = ["list", "campaigns", *arguments[2:]]
    names = [word for word in arguments[1:3] if not word.startswith("-")]
    is_named = len(names) > 1 or (names and names[0] not in catalogue.LISTED)
    if arguments[:1] == ["list"] and arguments[1:2] == names[:1] and is_named:
        return ["list NAME", *arguments[1:]]
    return arguments


def _completed_words() -> list[str]:
    """Words that a shell completes, with two-word commands joined; Typer gets the same words."""
    words: list[str] = []
    for variable in ("_TYPER_COMPLETE_ARGS", "COMP_WORDS"):
        words = os.environ.get(variable, "").split() or words
        command = " ".join(words[1:3])
        if len(words) > 3 and command in COMMANDS:
            text = os.environ[variable]
            os.environ[variable] = text.replace(" ".join(words[:3]), f"{words[0]} '{command}'", 1)
            words = [words[0], command, *words[3:]]
            if position := os.environ.get("COMP_CWORD"):
                os.environ["COMP_CWORD"] = str(int(position) - 1)
    return words


def _run(arguments: list[str], application: typer.Typer) -> int:
    if _COMPLETION in os.environ:  # a shell asks; it answers and exits
        words = _completed_words()
        command_tree(words[1] if len(words) > 2 else "", False).main(prog_name="codesign")
    _check_renamed(arguments)
    arguments = _joined(arguments)
    command = command_tree(arguments[0] if arguments else "", "--help" in arguments, application)
    try:
        # Not standalone, so that a closed pipe and Ctrl-C reach us under their own names.
        with command.make_context(application.info.name, arguments) as context:
            command.invoke(context)
            report_stream().flush()
    except typer.Exit as signal:
        sys.stdout.flush()
        return signal.exit_code
    except Exception as error:
        # Typer's usage errors; it carries its own copy of click, or needs it, by version.
        if not hasattr(error, "format_message"):
            raise
        message = str(error.format_message())
        for sentence, plain_words in _PLAIN_WORDS.items():
            message = re.sub(sentence, plain_words, message)
        usage = getattr(error, "ctx", None)
        path = usage.command_path if usage is not None else "codesign"
        _explain(f"{message[:1].lower()}{message[1:].rstrip('.')} (see: {path} --help)")
        return _BAD_INPUT
    return 0


_PLAIN_WORDS = {
    r"(No such option: --pp)(?![-\w]).*": r"\1; only codesign size has pipelines",
    r"Input should be a valid integer.*": "expected a whole number, such as 10000",
    r"Input should be a valid number.*": "expected a number",
    r"Input should be greater than or equal to": "expected at least",
    r"Input should be less than or equal to": "expected at most",
    r"Input should be greater than": "expected more than",
    r"Input should be less than": "expected less than",
}
"""Pydantic's words about a flag's value, and ours."""


def _explain(message: str) -> None:
    lines = message.splitlines()
    if len(lines) > _MOST_LINES:
        lines = [*lines[:_MOST_LINES], f"... and {len(lines) - _MOST_LINES} more"]
    for line in lines:
        say(f"error: {line if len(line) <= _MOST_CHARACTERS else line[:_MOST_CHARACTERS] + '…'}")
