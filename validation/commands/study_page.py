"""The page that a study writes as Markdown, with the command that writes it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from codesign.cli.campaigns import shown_path
from codesign.cli.output import report, say

if TYPE_CHECKING:
    from validation.study_report import StudyReport


def report_study(
    study: StudyReport,
    words: Sequence[str],
    output: Path | None,
    as_json: bool,
    last_words: Sequence[str] = (),
) -> None:
    """Write the page of a study, if one is asked for, and print its report.

    The command is ``words``, of which the first names the document, ``--output``, ``last_words``.
    """
    if output is not None:
        from codesign.base.files import write_text

        command = " ".join(["python -m validation", *words, f"--output {output}", *last_words])
        write_text(output, study.on_page(command))
        say(f"wrote {shown_path(output)}")
    report(words[0], as_json, lambda: study.document, study.on_terminal)
