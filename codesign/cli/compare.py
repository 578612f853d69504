"""Compare optimizers on problems whose exact front is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from codesign.base.errors import MissingExtraError
from codesign.base.text import shown_path
from codesign.cli import completion
from codesign.cli.campaigns import ExecutionFlags, Folder, Workers
from codesign.cli.output import report, say

if TYPE_CHECKING:
    from codesign.report.tables import Tables


def compare(
    *,
    name: Annotated[
        str,
        typer.Argument(
            help="A comparison in runs/ (compare-NAME), or the path of its file.",
            autocompletion=completion.comparisons,
        ),
    ],
    workers: Workers = None,
    flags: ExecutionFlags,
    partial: bool = False,
    no_run: bool = False,
    form: Annotated[
        str, typer.Option("--format", help="Format of the figures: png or svg.")
    ] = "png",
    width: str | None = None,
    folder: Folder = None,
) -> None:
    """Run optimizers on a set of problems, or continue, and say which is better.

    Writes tables for a paper (Markdown, LaTeX), CSV and figures to runs/NAME/.

    Args:
        partial: Run nothing; report on the runs that all optimizers have finished.
        no_run: Run nothing; report on what is complete.
        width: How wide critical_difference and wall_time_balance will be printed, such as '89
            mm' or 3.5in. [183 mm, both columns of a page]
    """
    from rich.text import Text

    from codesign.answers.comparisons import CompareAnswer
    from codesign.cli.figure import parse_width
    from codesign.insight.comparison import Comparison
    from codesign.report.comparison_document import evaluators_line, write_files
    from codesign.report.comparison_figures import save_figures
    from codesign.report.comparison_tables import shown_tables, write_tables
    from codesign.report.comparison_wall_time import write_wall_time
    from codesign.report.drawing import check_format
    from codesign.report.tables import spaced

    check_format(form)
    width_mm = None if width is None else parse_width(width)
    comparison = Comparison.load(name, folder)
    if not (partial or no_run):
        execution = flags.override(comparison.definition.execution)
        comparison.run(workers, say, execution, flags.accept_changes, flags.retry_failed)
    outcome = comparison.outcome(partial, workers, say)
    folder = comparison.folder
    written = [
        *write_files(outcome, folder),
        *write_tables(outcome, folder),
        *write_wall_time(outcome, folder),
    ]
    try:
        written += save_figures(outcome, folder, form, width_mm)
    except MissingExtraError as error:
        say(f"no figures: {error}")
    comparison.list_files(written)
    paths = [shown_path(path) for path in written]

    def tables() -> Tables:
        head = f"{comparison.definition.name}. {evaluators_line(outcome)}."
        noted = (table.terminal_table_and_note() for table in shown_tables(outcome))
        notes = [f"Note: {note}." for note in outcome.notes]
        wrote = f"{len(paths)} files written to {shown_path(folder)}: tables, CSV, figures"
        return spaced(Text(head, "bold"), *noted, [*notes, wrote])

    report(lambda: CompareAnswer.describe_all(outcome, paths), tables)
