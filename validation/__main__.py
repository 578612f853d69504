"""``python -m validation NAME``: a study by its name, or one of the longer questions."""

from __future__ import annotations

import sys
from collections.abc import Callable

import typer

from codesign.base.columns import Strings
from codesign.cli.app import main as run
from validation.commands.bench import bench
from validation.commands.conclusions import conclusions
from validation.commands.studies import studies

app = typer.Typer(
    name="python -m validation",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
_COMMANDS: dict[str, Callable[..., None]] = {
    "studies": studies,
    "conclusions": conclusions,
    "bench": bench,
}


@app.callback()
def _root() -> None:
    """Compare the numbers of codesign with simulation, publications and measurements."""


for _name, _command in _COMMANDS.items():
    app.command(_name)(_command)


def main(arguments: Strings | None = None) -> int:
    """Run one command; a first word that names no command is the name of a study.

    Args:
        arguments: Words after ``python -m validation``; those of the process if None.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    is_named = bool(words) and (words[0] in _COMMANDS or words == ["--help"])
    return run(words if is_named else ["studies", *words], app)


if __name__ == "__main__":
    sys.exit(main())
