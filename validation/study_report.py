"""What a study says before it takes a form, and the two that it takes: terminal and page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from codesign.report.tables import text_line
from codesign.report.text_table import TextTable

if TYPE_CHECKING:
    from rich.console import RenderableType

Part: TypeAlias = str | TextTable
"""A paragraph, a heading or a list in Markdown, or a table."""


@dataclass(frozen=True)
class StudyReport:
    """A finished study.

    Attributes:
        document: Everything, as plain values.
        title: Of the page.
        introduction: First paragraph of the page; it goes on with the command that makes it.
        page: What follows on the page.
        terminal: What a terminal shows.
    """

    document: Mapping[str, Any]
    title: str
    introduction: str
    page: Sequence[Part]
    terminal: Sequence[Part]

    def on_terminal(self) -> Iterator[RenderableType]:
        """The answers for people, without the marks of Markdown."""
        for part in self.terminal:
            if isinstance(part, str):
                yield text_line(_plain(part))
            else:
                yield replace(
                    part, rows=[list(map(_plain, row)) for row in part.rows]
                ).on_terminal()

    def on_page(self, command: str) -> str:
        """The page in Markdown, which names the command that makes it."""
        head = (f"# {self.title}", f"{self.introduction} This page is made by `{command}`.")
        body = (part if isinstance(part, str) else part.on_page() for part in self.page)
        return "\n\n".join([*head, *body]) + "\n"


def _plain(text: str) -> str:
    return text.replace("`", "")
