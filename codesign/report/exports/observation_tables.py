"""Observations as tables: CSV, Parquet, Excel, Markdown."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from codesign.answers.campaigns import CHUNK, Provenance, progress_words
from codesign.answers.json_values import json_text, plain_value
from codesign.base.columns import Fields, IntArray, JsonObject, Strings
from codesign.base.errors import InputError, needing_extra
from codesign.base.files import replacing
from codesign.base.records import select_keys
from codesign.base.text import markdown_line, markdown_text, spreadsheet_text
from codesign.insight.plateaus import folded_front
from codesign.report import palette
from codesign.report.frames import Scope, numbers_of, positions_of, scope_columns
from codesign.report.labels import (
    BETTER,
    KEY_METRICS,
    MAIN_METRICS,
    axis_label,
    design_words,
    evaluator_words,
    format_metric,
    is_share,
    metric_of,
    metric_title,
    unit_text,
)
from codesign.search.campaign import Results

if TYPE_CHECKING:
    from xlsxwriter import Workbook
    from xlsxwriter.format import Format

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
"""A date for formats that demand one: the same results give the same bytes."""


def write_csv(results: Results, path: Path, scope: Scope = "front") -> Path:
    """One header line, then one line per observation; missing values are empty.

    Text that a spreadsheet would compute begins with an apostrophe: ``'=A1``.
    """
    columns = scope_columns(results, scope)
    with replacing(path) as unfinished, unfinished.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(map(spreadsheet_text, columns))
        cells = (
            (spreadsheet_text(cell) if isinstance(cell, str) else cell for cell in _cells(values))
            for values in columns.values()
        )
        writer.writerows(zip(*cells, strict=True))
    return path


def _cells(values: Any) -> Iterator[Any]:
    listed = values.tolist() if isinstance(values, np.ndarray) else values
    # NaN is the only value that differs from itself.
    return ("" if value is None or value != value else value for value in listed)


def write_parquet(results: Results, path: Path, scope: Scope = "front") -> Path:
    """The columns of the CSV; the provenance is JSON under the metadata key ``codesign``.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """
    with needing_extra("Parquet", "tables"):
        import pyarrow as pa
        import pyarrow.parquet as pq
    table = pa.table(scope_columns(results, scope))
    note = json.dumps(plain_value(Provenance.describe(results, scope)), ensure_ascii=False)
    table = table.replace_schema_metadata({"codesign": note})
    with replacing(path) as unfinished:
        pq.write_table(table, unfinished)
    return path


MOST_EXCEL_ROWS = 1_048_576
"""Lines of a sheet (Microsoft, Excel specifications and limits), the header included."""
_WIDEST = 70
_NARROWEST = 6


def write_excel(results: Results, path: Path, scope: Scope = "front") -> Path:
    """A workbook: ``observations`` with the design in words, then objectives and main metrics with
    their units, parameters, and the rest of the CSV. A ``chart`` of the front by its first two
    objectives; the ``metrics`` with their meanings, and what matters of the ``provenance``.

    Raises:
        MissingExtraError: XlsxWriter is not installed.
        InputError: More observations than a sheet has lines.
    """
    with needing_extra("Excel", "tables"):
        import xlsxwriter
    positions = positions_of(results, scope)
    if len(positions) >= MOST_EXCEL_ROWS:
        raise InputError(
            f"a sheet of Excel holds {MOST_EXCEL_ROWS - 1:,} observations, got "
            f"{len(positions):,}; csv and parquet hold any number",
            str(path),
        )
    # Line by line on the disk, so that memory does not grow with the campaign. Text stays text:
    # a name that begins with "=" is not a formula.
    options = {"constant_memory": True, "strings_to_formulas": False, "strings_to_urls": False}
    with replacing(path) as unfinished, xlsxwriter.Workbook(str(unfinished), options) as book:
        # Neither the time nor the user's name belongs to the result.
        book.set_properties({"created": _EPOCH, "title": results.definition.name})
        bold = book.add_format({"bold": True})
        formats = {
            name: book.add_format({"num_format": _number_format(name, results)})
            for name in results.metrics
        }
        csv_columns = scope_columns(results, scope)
        space = results.problem.space
        parameters = [
            name
            for parameter in space.parameters
            for name in (f"parameter.{parameter.name}", parameter.name)
            if name not in results.metrics
        ]
        first = [*results.problem.objective_names, *KEY_METRICS, *MAIN_METRICS, *parameters]
        order = dict.fromkeys([*first, *results.metrics, *csv_columns])
        names: JsonObject = {
            "#": numbers_of(results, scope),
            "design": list(_words(results, positions)),
            **select_keys(csv_columns, order),
        }
        columns = {_header(name, results): values for name, values in names.items()}
        _sheet(book, "observations", columns, bold, [formats.get(name) for name in names], 2)
        _front_chart(book, results, list(columns), len(positions))
        senses = {element.metric.name: element.sense for element in results.problem.objectives}
        metrics = [metric_of(name, results.problem.metrics) for name in results.metrics]
        meanings = {
            "metric": [metric_title(metric) for metric in metrics],
            "name in files": [metric.name for metric in metrics],
            "unit": [unit_text(metric.unit) for metric in metrics],
            "better": [BETTER[senses.get(metric.name, metric.sense)] for metric in metrics],
            "objective": ["yes" if metric.name in senses else "" for metric in metrics],
            "meaning": [metric.meaning for metric in metrics],
        }
        _sheet(book, "metrics", meanings, bold)
        note = plain_value(Provenance.describe(results, scope))
        versions = note["versions"]
        definition = {key: plain_value(getattr(results.definition, key)) for key in _DEFINITION}
        short_provenance = {
            **{key: note[key] for key in _PROVENANCE if note.get(key)},
            **{key: value for key, value in definition.items() if value},
            "codesign": versions.get("codesign", ""),
            "other versions": ", ".join(f"{k} {v}" for k, v in versions.items() if k != "codesign"),
        }
        pairs = list(_leaves(short_provenance))
        keys, values = zip(*pairs, strict=True)
        _sheet(book, "provenance", {"what": list(keys), "value": list(values)}, bold)
    return path


def _words(results: Results, positions: IntArray) -> Iterator[str]:
    """Each design in words."""
    space = results.problem.space
    for start in range(0, len(positions), CHUNK):
        rows = results.rows[positions[start : start + CHUNK]]
        yield from design_words(space, space.decode(rows))


def _header(name: str, results: Results) -> str:
    """A metric in words with its unit; any other column by its name."""
    if name not in results.metrics:
        return name
    metric = metric_of(name, results.problem.metrics)
    unit = unit_text(metric.unit)
    return f"{metric_title(metric)} [{unit}]" if unit else metric_title(metric)


def _number_format(name: str, results: Results) -> str:
    """Number format of a column: about four digits, thousands apart; a utilization in percent."""
    if is_share(metric_of(name, results.problem.metrics)):
        return "0.0%"
    values = np.abs(results.metrics[name])
    typical = np.median(values[np.isfinite(values) & (values > 0)]) if (values > 0).any() else 0.0
    if not 1e-4 <= typical < 1e9:
        return "General" if typical == 0 else "0.000E+00"
    places = max(0, 3 - math.floor(math.log10(typical)))
    return "#,##0" + (f".{'0' * places}" if places else "")


_PROVENANCE = (
    "campaign", "scope", "tolerance", "state", "evaluated", "evaluator", "objectives",
    "reference_point", "accepted_changes",
)  # fmt: skip
_DEFINITION = ("space", "workload", "fixed", "constraints", "budget", "seeds")


def _front_chart(book: Workbook, results: Results, headers: Strings, n_rows: int) -> None:
    """The observations by the first two objectives, on a sheet of its own; none for a single."""
    metrics = results.problem.objective_metrics[:2]
    if len(metrics) < 2 or not n_rows:
        return
    above, along = metrics
    chart: Any = book.add_chart({"type": "scatter"})  # a chart's base class has no add_series
    places = {
        key: ["observations", 1, column, n_rows, column]
        for key, metric in (("categories", along), ("values", above))
        for column in [headers.index(_header(metric.name, results))]
    }
    color = {"color": palette.LIGHT["blue"]}
    marker = {"type": "circle", "size": 6, "fill": color, "border": color}
    chart.add_series({"name": "designs", **places, "marker": marker})
    titles = f"{metric_title(above)} against {metric_title(along)}"
    chart.set_title({"name": f"{results.definition.name}: {titles}", "overlay": False})
    for set_axis, metric in ((chart.set_x_axis, along), (chart.set_y_axis, above)):
        most = np.nanmax(np.abs(results.metrics[metric.name]))
        set_axis({"name": axis_label(metric), "num_format": "#,##0" if most >= 1000 else "General"})
    chart.set_legend({"none": True})
    sheet = book.add_worksheet("chart")
    sheet.insert_chart("A1", chart, {"x_scale": 1.8, "y_scale": 1.8})
    sheet.set_landscape()
    sheet.fit_to_pages(1, 1)


def _sheet(
    book: Workbook,
    name: str,
    columns: Fields,
    bold: Format,
    formats: Sequence[Format | None] = (),
    n_frozen: int = 0,
) -> None:
    """A sheet with a header; its first line and ``n_frozen`` columns stay in sight."""
    sheet = book.add_worksheet(name)
    sheet.freeze_panes(1, n_frozen)
    listed = {key: list(_cells(values)) for key, values in columns.items()}
    for column, (key, cells) in enumerate(listed.items()):
        texts = (f"{cell:.6g}" if isinstance(cell, float) else str(cell) for cell in cells[:100])
        longest = max(map(len, texts), default=0)
        sheet.set_column(column, column, min(max(longest, len(key), _NARROWEST), _WIDEST))
    sheet.write_row(0, 0, list(listed), bold)
    n_rows = 0
    for line in zip(*listed.values(), strict=True):
        n_rows += 1
        for column, cell in enumerate(line):
            if cell != "":
                form = formats[column] if column < len(formats) else None
                sheet.write(
                    n_rows,
                    column,
                    (str(cell) if isinstance(cell, float) and math.isinf(cell) else cell),
                    form,
                )
    sheet.autofilter(0, 0, max(n_rows, 1), max(len(listed) - 1, 0))


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """``key.key`` and value of everything in a document, in its order."""
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and any(isinstance(element, list | Mapping) for element in value):
        for number, inner in enumerate(value):
            yield from _leaves(inner, f"{path}.{number}")
    else:
        is_text = isinstance(value, list | Mapping)
        yield path, json.dumps(value, ensure_ascii=False) if is_text else value


def write_markdown(results: Results, path: Path, scope: Scope = "front") -> Path:
    """One table: the design in words, every metric that varies, and above it the provenance."""
    positions = positions_of(results, scope)
    numbers = numbers_of(results, scope)
    folded = folded_front(results) if scope == "folded" else None
    names = dict.fromkeys([
        *results.problem.objective_names,
        *(x for x, values in results.metrics.items() if len(np.unique(values[positions])) > 1),
    ])  # fmt: skip
    metrics = [metric_of(name, results.problem.metrics) for name in names]
    headers = ["#", "design", *map(metric_title, metrics), "found by"]
    note = Provenance.describe(results, scope)
    versions = ", ".join(f"{name} {number}" for name, number in note.versions.items())
    workload = json_text(results.definition.workload, indent=None)
    goals = ", ".join(f"{sense} {name}" for name, sense in note.objectives.items())
    summary = f" of {len(folded.positions):,}; {folded.summary}" if folded else ""
    head = (
        f"# {results.definition.name}: "
        f"{'All observations' if scope == 'all' else 'Pareto front'}\n\n"
        f"- designs: {len(positions):,}{summary}; evaluated: {note.evaluated}\n"
        f"- state: {progress_words(results)}\n"
        f"- evaluator: {evaluator_words(results.reading)}\n- objectives: {goals}\n"
        f"- workload: `{workload}`\n- versions: {versions}\n\n"
    )
    rule = ["--:", "---", *("--:" for _ in metrics), "---"]
    with replacing(path) as unfinished, unfinished.open("w", encoding="utf-8") as file:
        file.write(markdown_text(head))
        print(markdown_line(headers), markdown_line(rule), sep="\n", file=file)
        for number, position, design in zip(
            numbers, positions, _words(results, positions), strict=True
        ):
            values = [
                format_metric(results.metrics[metric.name][position], metric) for metric in metrics
            ]
            run = results.runs[results.run_index[position]]
            origin = f"{run.optimizer}, seed {run.seed}, step {results.step[position]}"
            more = folded.count_words(number - 1) if folded else ""
            words = f"{design} ({more})" if more else design
            print(markdown_line([str(number), words, *values, origin]), file=file)
    return path
