"""A table before it takes a form, and the three that it takes: terminal, Markdown and LaTeX."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Literal

from rich.table import Table
from rich.text import Text

from codesign.base.columns import StringList, Strings
from codesign.base.files import write_text
from codesign.base.records import frozen
from codesign.base.text import markdown_table
from codesign.report.tables import Tables, let_break, plain_table

_LATEX = dict(
    row.split()
    for row in r"""
\ \textbackslash{}
% \%
& \&
_ \_
# \#
$ \$
{ \{
} \}
~ \textasciitilde{}
^ \textasciicircum{}
± $\pm$
– --
† $\dagger$
‡ $\ddagger$
× $\times$
≤ $\leq$
""".strip().splitlines()
)


class BestCell(str):
    """The best cell of its row: bold in every form."""

    __slots__ = ()


def marked_cell(text: str, is_best: bool) -> str:
    """A cell, bold if it is the best of its row."""
    return BestCell(text) if is_best else text


@frozen
class TextTable:
    """Cells of text under headers.

    Attributes:
        title: What the cells are.
        header: Of each column.
        rows: As many cells in each; :class:`BestCell` where it is the best of its row.
        note: What a reader must know.
        numbers: Headers of the columns that are aligned to the right; all but the first if None.
        folds: Whether a terminal may break names in the first column or numbers in the others.
    """

    title: str
    header: Strings
    rows: Sequence[Strings]
    note: str = ""
    numbers: Collection[str] | None = None
    folds: Literal["names", "numbers"] = "numbers"

    @property
    def _right(self) -> Collection[str]:
        return self.header[1:] if self.numbers is None else self.numbers

    def terminal_table(self) -> Table:
        """Table for the terminal; if it is narrow, spreads have their own lines."""
        drawn = plain_table(self.title, self.header, self._right)
        for position, column in enumerate(drawn.columns):
            if self.folds == ("numbers" if position else "names"):
                let_break(column)
        for row in self.rows:
            styles = ["bold" if isinstance(cell, BestCell) else "" for cell in row]
            drawn.add_row(*map(Text, (cell.replace("± ", "±") for cell in row), styles))
        return drawn

    def terminal_table_and_note(self) -> Tables:
        """Table for a terminal with the note, which may be empty, in lines below."""
        return [self.terminal_table(), self.note]

    def markdown_table(self) -> str:
        """Markdown table without title, note and alignment."""
        return markdown_table(self.header, self.rows)

    def section(self, level: int = 2) -> str:
        """Markdown section under a heading of a level."""
        rows = [_emphasized(row, "**{}**") for row in self.rows]
        lines = [f"{'#' * level} {self.title}", "", markdown_table(self.header, rows, self._right)]
        return "\n".join([*lines, *(["", self.note] if self.note else []), ""])

    def latex_table(self) -> str:
        r"""LaTeX ``table`` with ``booktabs`` rules, for ``\input``."""
        rows = [_emphasized(row, r"\textbf{{{}}}", latex) for row in self.rows]
        caption = latex(" ".join([f"{self.title}.", self.note]).strip())
        columns = "".join("r" if header in self._right else "l" for header in self.header)
        lines = [
            r"\begin{table}",
            r"\centering",
            f"\\caption{{{caption}}}",
            f"\\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            _ampersands(map(latex, self.header)),
            r"\midrule",
            *map(_ampersands, rows),
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
        return "\n".join(lines)


def _emphasized(row: Strings, bold: str, escape: Callable[[str], str] = str) -> StringList:
    """Escaped cells, the best within the marks that ``bold`` has around ``{}``."""
    return [
        bold.format(escape(cell)) if isinstance(cell, BestCell) else escape(cell) for cell in row
    ]


def _ampersands(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def latex(text: str) -> str:
    """Text with LaTeX's own characters escaped."""
    return "".join(_LATEX.get(character, character) for character in text)


def write_forms(tables: Sequence[TextTable], folder: Path, name: str, head: Strings) -> list[Path]:
    """``NAME.md`` and ``NAME.tex`` of some tables; returns their paths.

    Args:
        tables: In their order.
        folder: Where they are written.
        name: Of the files, without ending.
        head: Lines above the tables, in Markdown.

    Raises:
        InputError: A file cannot be written.
    """
    markdown = "\n".join([*head, *(table.section() for table in tables)])
    tex = "% Needs \\usepackage{booktabs}.\n" + "\n".join(table.latex_table() for table in tables)
    paths = [folder / f"{name}.md", folder / f"{name}.tex"]
    return list(map(write_text, paths, (markdown, tex)))
