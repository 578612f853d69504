"""The page that a study writes as Markdown, with the command that writes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from codesign.cli.campaigns import shown_path
from codesign.cli.output import say
from codesign.errors import InputError

Page: TypeAlias = Annotated[Path | None, typer.Option(help="Also write the page as Markdown: .md.")]


def check_page(output: Path | None) -> None:
    """Refuse a page that is no Markdown.

    Raises:
        InputError: The file ends in something else.
    """
    if output is not None and output.suffix != ".md":
        raise InputError(f"expected a file that ends in .md, got {str(output)!r}", "--output")


def write_page(
    output: Path | None, words: Sequence[str], to_markdown: Callable[[str], str]
) -> None:
    """Write the page, if one is asked for.

    Args:
        words: The command without ``codesign`` and ``--output``; both are added.
        to_markdown: The page, from the command that writes it.
    """
    if output is None:
        return
    from codesign.files import write_text

    command = " ".join(["codesign", *words, f"--output {output}"])
    write_text(output, to_markdown(command))
    say(f"wrote {shown_path(output)}")
