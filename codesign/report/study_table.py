"""A table of a study before it takes a form, and the two that it takes: terminal and page."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codesign.report.tables import plain_table
from codesign.text import markdown_table

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class StudyTable:
    """Cells of text under headers.

    Attributes:
        title: Above the table on a terminal; a page has a heading there.
        header: Of each column.
        rows: As many cells in each.
        numbers: Headers of the columns that a terminal aligns to the right.
        folds_names: Whether a terminal may break the first column, so that no number is cut.
    """

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: Collection[str] = ()
    folds_names: bool = False

    @classmethod
    def keyed(
        cls,
        title: str,
        columns: Mapping[str, str],
        rows: Iterable[Mapping[str, str]],
        numbers: Collection[str],
        folds_names: bool = False,
    ) -> StudyTable:
        """A table of rows by key, under the header of each key; what lacks a key has a dash."""
        right = [header for key, header in columns.items() if key in numbers]
        cells = [[row.get(key, "–") for key in columns] for row in rows]
        return cls(title, list(columns.values()), cells, right, folds_names)

    def on_terminal(self) -> Table:
        """As every table on the terminal."""
        table = plain_table(self.title, self.header, self.numbers, self.rows)
        if self.folds_names:
            table.columns[0].no_wrap = False
        return table

    def on_page(self) -> str:
        """As Markdown, without the title."""
        return markdown_table(self.header, self.rows)
