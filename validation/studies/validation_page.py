"""Studies as tables on the terminal, and as the finding ``results/validation.json``."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from codesign.base.columns import FieldRows, StringMap
from codesign.base.files import write_text
from codesign.base.records import drop_keys
from codesign.report.text_table import TextTable
from validation.findings import Finding, Part, keyed_table
from validation.studies.study import Study

if TYPE_CHECKING:
    from rich.console import RenderableType

_SUMMARY = {
    "group": "compared",
    "n": "cases",
    "median_error": "median error",
    "median_absolute_error": "median size",
    "p90_absolute_error": "90 % below",
    "p95_absolute_error": "95 % below",
    "largest_absolute_error": "largest",
    "law_absolute_error": "law alone",
    "roofline_absolute_error": "bare roofline",
    "framework_held_out_absolute_error": "framework held out",
    "held_out_absolute_error": "device held out",
    "chip_held_out_absolute_error": "chip held out",
    "measured_time_absolute_error": "measured times",
    "genz_absolute_error": "GenZ",
    "aisimulate_absolute_error": "AISimulate",
    "infersim_absolute_error": "InferSim",
}
_WIDE = ("p95_absolute_error", "largest_absolute_error")
"""Columns for which a terminal has no room; the page and --json have them."""
_ROWS = {
    "what": "compared",
    "reference": "reference",
    "ours": "ours",
    "error": "error",
    "genz_error": "GenZ",
    "aisimulate_error": "AISimulate",
    "infersim_error": "InferSim",
}
_TARGETS = {"what": "promise", "target": "target", "measured": "measured", "is_met": "met"}
_MOST_ROWS = 40
_EXPLAINED = "explained"
"""Key of a row that says where its residual comes from: the page has such rows, however many others
there are."""
_MOST_FILED_ROWS = 10_000
"""More rows make a file of megabytes, which --json gives at any time."""


def study_tables(study: Study, n_rows: int = _MOST_ROWS) -> list[RenderableType]:
    """A study for the terminal: rows (the largest errors, if there are many), summary, targets."""
    sections: list[RenderableType] = [study.question]
    rows = sorted(study.rows, key=lambda row: -abs(row.get("error") or 0.0))[:n_rows]
    if len(study.rows) <= n_rows:
        rows = list(study.rows)
    few = "" if len(rows) == len(study.rows) else f": the {n_rows} largest errors"
    sections.append(_table(f"{study.name}{few}", _stated(_ROWS, rows), rows).terminal_table())
    sections.append(
        _table(
            "Errors", drop_keys(_stated(_SUMMARY, study.summary), _WIDE), study.summary
        ).terminal_table()
    )
    if study.targets:
        sections.append(_table("Promises", _TARGETS, study.targets).terminal_table())
    for note in study.notes:
        # Up to the first period after a lower-case word, which no abbreviation ends in.
        first, *_ = re.split(r"(?<=[a-z)\d]\.) (?=[A-Z])", " ".join(note.split()), maxsplit=1)
        sections.append(f"Note: {first}")
    if study.notes:
        sections.append("The notes in full: --json, or --write FILE.")
    return sections


def store_findings(studies: Sequence[Study], path: Path, command: str) -> list[Path]:
    """Write the finding of some studies, and the rows behind it as CSV; returns the paths.

    A study with too many rows to store has its figure beside it instead.

    Args:
        studies: In the order of the page.
        path: File of the finding, such as ``results/validation.json``.
        command: Command that makes the finding again.
    """
    from validation.scatter import save_predictions

    folder = path.with_suffix("")
    written = []
    for study in studies:
        if len(study.rows) <= _MOST_FILED_ROWS:
            rows = study.rows
            long = {
                name
                for row in rows
                for name, value in row.items()
                if not isinstance(value, int | float) and len(str(value)) > _LONGEST_CELL
            }
            names = [name for name in _columns(rows) if name not in long]
            text = io.StringIO()
            writer = csv.DictWriter(text, names, lineterminator="\n")
            writer.writeheader()
            for row in rows:
                cells = {name: row.get(name) for name in names}
                writer.writerow(
                    {
                        name: (f"{value:.6g}" if isinstance(value, float) else value)
                        for name, value in cells.items()
                    }
                )
            written.append(write_text(folder / f"{study.name}.csv", text.getvalue()))
        else:
            written.append(
                save_predictions(study.rows, study.question, folder / f"{study.name}.png")
            )
    finding = Finding(
        "Validation",
        "Our numbers beside others', residuals as they are.",
        command,
        [section for study in studies for section in _parts(study, folder.name)],
        {study.name: study.question for study in studies},
    )
    return [*written, finding.store(path)]


def _parts(study: Study, folder: str) -> list[Part]:
    sections: list[Part] = [f"## {study.name}", study.question]
    if study.targets:
        sections.append(_table("Promises", _TARGETS, study.targets))
    sections.append(_table("Errors", _stated(_SUMMARY, study.summary), study.summary))
    sections.append(f"![{study.name}]({folder}/{study.name}.png)")
    rows = study.rows
    if len(rows) > _MOST_ROWS:
        rows = [row for row in rows if row.get(_EXPLAINED)]
    if rows:
        sections.append(_table(study.name, _columns(rows), rows))
    return [*sections, "\n".join(f"- {note}" for note in study.notes)] if study.notes else sections


def _columns(rows: FieldRows) -> dict[str, str]:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: name.replace("_", " ") for name in names}


def _stated(columns: StringMap, rows: FieldRows) -> dict[str, str]:
    """Columns, without those of others that no row has."""
    stated = {name for row in rows for name, value in row.items() if value is not None}
    return {name: text for name, text in columns.items() if name in stated}


def _table(title: str, columns: StringMap, rows: FieldRows) -> TextTable:
    numbers = [
        name for name in columns if any(isinstance(row.get(name), int | float) for row in rows)
    ]
    cells = ({name: _cell(name, row.get(name)) for name in columns} for row in rows)
    return keyed_table(title, columns, cells, numbers)


def _cell(name: str, value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:+.1%}" if name.endswith("error") else f"{value:.4g}"
    return str(value)


_LONGEST_CELL = 240
