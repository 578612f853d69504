"""Findings of a study as data: stored beside the code, and built into pages of the site."""

from __future__ import annotations

import csv
import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import field
from pathlib import Path
from typing import TypeAlias

from codesign.base.columns import JsonObject, JsonRows, StringMap
from codesign.base.files import write_text
from codesign.base.records import frozen
from codesign.report.text_table import TextTable

Part: TypeAlias = str | TextTable
"""A paragraph, a heading or a list in Markdown, or a table."""
FOLDER = Path(__file__).parent / "results"
"""Stored findings: ``NAME.json`` is a page of the site, ``NAME/*.csv`` has the rows behind it."""


def keyed_table(
    title: str,
    columns: StringMap,
    rows: Iterable[StringMap],
    numbers: Collection[str],
) -> TextTable:
    """A table of rows by key, under the header of each key; what lacks a key has a dash."""
    right = [header for key, header in columns.items() if key in numbers]
    cells = [[row.get(key, "–") for key in columns] for row in rows]
    return TextTable(title, list(columns.values()), cells, numbers=right, folds="names")


@frozen
class Finding:
    """The result of a study, in the order of its page.

    Attributes:
        title: Title of the page.
        introduction: First paragraph.
        command: Command that makes the finding again.
        parts: Rest of the page.
        figures: Title of each figure of predictions, by the name of the CSV with its rows.
    """

    title: str
    introduction: str
    command: str
    parts: Sequence[Part]
    figures: StringMap = field(default_factory=dict)

    def page_text(self) -> str:
        """The page in Markdown, with the command that makes the finding again."""
        head = (f"# {self.title}", f"{self.introduction} Made by `{self.command}`.")
        body = (
            paragraph if isinstance(paragraph, str) else paragraph.markdown_table()
            for paragraph in self.parts
        )
        return "\n\n".join([*head, *body]) + "\n"

    def store(self, path: Path) -> Path:
        """Write the finding as JSON; returns the path.

        Raises:
            InputError: The file cannot be written.
        """
        parts = [
            paragraph
            if isinstance(paragraph, str)
            else {"header": list(paragraph.header), "rows": [list(row) for row in paragraph.rows]}
            for paragraph in self.parts
        ]
        document = {**vars(self), "parts": parts, "figures": dict(self.figures)}
        return write_text(path, json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def read_finding(path: Path) -> Finding:
    """The finding that :meth:`Finding.store` wrote."""
    document: JsonObject = json.loads(path.read_text("utf-8"))
    parts = [
        paragraph
        if isinstance(paragraph, str)
        else TextTable("", paragraph["header"], paragraph["rows"])
        for paragraph in document.pop("parts")
    ]
    return Finding(**document, parts=parts)


def site_files(folder: Path, drawings: Path) -> dict[str, str | bytes]:
    """Pages, rows and figures of all stored findings, by their place in the site.

    Args:
        folder: Stored findings.
        drawings: Empty folder in which figures are drawn.
    """
    from validation.scatter import save_predictions

    files: dict[str, str | bytes] = {}
    for path in sorted(folder.glob("*.json")):
        finding = read_finding(path)
        files[f"{path.stem}.md"] = finding.page_text()
        for rows_path in sorted((folder / path.stem).glob("*")):
            files[f"{path.stem}/{rows_path.name}"] = rows_path.read_bytes()
        for name, title in finding.figures.items():
            rows_path = folder / path.stem / f"{name}.csv"
            if rows_path.exists():
                figure = save_predictions(_rows(rows_path), title, drawings / f"{name}.png")
                files[f"{path.stem}/{name}.png"] = figure.read_bytes()
    return files


def _rows(path: Path) -> JsonRows:
    with path.open(encoding="utf-8", newline="") as file:
        rows: JsonRows = list(csv.DictReader(file))
    for row in rows:
        row.update({name: float(row[name] or "nan") for name in ("reference", "ours")})
    return rows
