"""A table before it takes a form, and the three that it takes: terminal, Markdown and LaTeX."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from codesign.files import write_text
from codesign.report.tables import plain_table

if TYPE_CHECKING:
    from rich.table import Table

_LATEX = {
    "\\": r"\textbackslash{}", "%": r"\%", "&": r"\&", "_": r"\_", "#": r"\#", "$": r"\$",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "±": r"$\pm$", "–": "--", "†": r"$\dagger$", "‡": r"$\ddagger$",
    "×": r"$\times$", "≤": r"$\leq$",
}  # fmt: skip


@dataclass(frozen=True)
class TableCell:
    """One entry of a table.

    Attributes:
        text: As shown.
        is_best: Of its row.
    """

    text: str
    is_best: bool = False


@dataclass(frozen=True)
class PaperTable:
    """A table before it takes a form.

    Attributes:
        columns: Headers; the first column is of words, the others of numbers.
        rows: One list of cells per line.
        note: What a reader must know.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    note: str = ""


def to_rich(table: PaperTable) -> Table:
    """For a terminal; the best of a row is bold. If it is narrow, spreads have their own lines."""
    drawn = plain_table(table.title, table.columns, table.columns[1:])
    for column in drawn.columns[1:]:
        column.no_wrap = False
    for row in table.rows:
        texts = [cell.text.replace("± ", "±") for cell in row]
        styles = ["bold" if cell.is_best else "" for cell in row]
        drawn.add_row(*map(Text, texts, styles))
    return drawn


def to_markdown(table: PaperTable) -> str:
    """A Markdown section; the best of a row is bold."""
    align = ["---", *("---:" for _ in table.columns[1:])]
    lines = [f"## {table.title}", "", _pipes(table.columns), _pipes(align)]
    lines += [
        _pipes(f"**{cell.text}**" if cell.is_best else cell.text for cell in row)
        for row in table.rows
    ]
    return "\n".join([*lines, *(["", table.note] if table.note else []), ""])


def _pipes(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def to_latex(table: PaperTable) -> str:
    r"""A ``table`` with ``booktabs`` rules, for ``\input``; the best of a row is bold."""
    body = [
        _ampersands(
            f"\\textbf{{{latex(cell.text)}}}" if cell.is_best else latex(cell.text) for cell in row
        )
        for row in table.rows
    ]
    caption = latex(" ".join([f"{table.title}.", table.note]).strip())
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            f"\\caption{{{caption}}}",
            f"\\begin{{tabular}}{{l{'r' * (len(table.columns) - 1)}}}",
            r"\toprule",
            _ampersands(latex(column) for column in table.columns),
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def _ampersands(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def latex(text: str) -> str:
    """Text with LaTeX's own characters escaped."""
    return "".join(_LATEX.get(character, character) for character in text)


def write_forms(
    tables: Sequence[PaperTable], folder: Path, name: str, head: Sequence[str]
) -> list[Path]:
    """``NAME.md`` and ``NAME.tex`` of some tables; returns their paths.

    Args:
        tables: In their order.
        name: Of the files, without ending.
        head: Lines above the tables, in Markdown.

    Raises:
        InputError: A file cannot be written.
    """
    markdown = "\n".join([*head, *(to_markdown(table) for table in tables)])
    tex = "% Needs \\usepackage{booktabs}.\n" + "\n".join(to_latex(table) for table in tables)
    paths = [folder / f"{name}.md", folder / f"{name}.tex"]
    return list(map(write_text, paths, (markdown, tex)))
