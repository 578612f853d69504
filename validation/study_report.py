"""The report of a study, for the terminal and as a finding that is stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from codesign.report.tables import text_line
from validation.findings import Finding, Part

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True)
class StudyReport:
    """A finished study.

    Attributes:
        title: Of the page.
        introduction: First paragraph of the page.
        page: Rest of the page.
        terminal: Parts that a terminal shows.
    """

    title: str
    introduction: str
    page: Sequence[Part]
    terminal: Sequence[Part]

    def terminal_table(self) -> Iterator[RenderableType]:
        """The answers for people, without the marks of Markdown."""
        for section in self.terminal:
            if isinstance(section, str):
                yield text_line(_plain(section))
            else:
                yield replace(
                    section, rows=[list(map(_plain, row)) for row in section.rows]
                ).terminal_table()

    def finding(self, command: str) -> Finding:
        """The study as it is stored, with the command that makes it again."""
        return Finding(self.title, self.introduction, command, self.page)


def _plain(text: str) -> str:
    return text.replace("`", "")
