"""The output of a study: its report, and its finding as a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from codesign.base.errors import InputError
from codesign.cli.campaigns import shown_path
from codesign.cli.output import print_tables, say

if TYPE_CHECKING:
    from validation.study_report import StudyReport

Output: TypeAlias = Annotated[
    Path | None, typer.Option(help="Also store the finding, such as validation/results/NAME.json.")
]


def check_output(output: Path | None) -> None:
    """Refuse a finding that is no JSON.

    Raises:
        InputError: The name of the file ends in something else.
    """
    if output is not None and output.suffix != ".json":
        raise InputError(f"expected a file that ends in .json, got {str(output)!r}", "--output")


def report_study(study: StudyReport, words: Sequence[str], output: Path | None) -> None:
    """Store the finding of a study, if that is asked for, and print its report.

    Args:
        words: The command that makes the finding again; its first word names the document.
    """
    if output is not None:
        study.finding(" ".join(["python -m validation", *words])).store(output)
        say(f"wrote {shown_path(output)}")
    print_tables(study.terminal_table())
