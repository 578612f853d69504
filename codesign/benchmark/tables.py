"""A benchmark as tables: what belongs side by side in columns, the JSON has every row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rich.console import RenderableType

from codesign.benchmark.rates import Row
from codesign.report.tables import format_cell, pairs_table, plain_table, rows_table, text_line


def benchmark_tables(measured: Mapping[str, Any], width: int) -> Iterator[RenderableType]:
    """Every part of a benchmark.

    Args:
        measured: What :func:`codesign.benchmark.benchmark` returned.
        width: Columns of the terminal.
    """
    about = {name: str(value) for name, value in measured["about"].items()}
    yield pairs_table("Benchmark", about)
    yield text_line("")
    yield _side_by_side(
        "Designs per second",
        measured["rates"],
        ("model", "phase", "what"),
        lambda row: f"{row['way']}, {_cores(row['cores'])}",
        lambda row: f"{row['designs_per_s']:,.0f}",
    )
    yield text_line("")
    yield _side_by_side(
        "Growth: microseconds per design, decode",
        measured["growth"],
        ("against", "size"),
        lambda row: str(row["way"]),
        lambda row: f"{row['microseconds_per_design']:,.2f}",
    )
    yield text_line("")
    yield _side_by_side(
        "Hypervolume after one point more",
        measured["hypervolume"],
        ("points",),
        lambda row: f"{row['objectives']} objectives",
        lambda row: format_cell("time_s", row["time_s"]),
    )
    for name in ("ratios", "store", "enumeration"):
        yield text_line("")
        yield rows_table(name.capitalize(), measured[name], width)


def _cores(count: int) -> str:
    return "1 core" if count == 1 else f"{count} cores"


def _side_by_side(
    title: str,
    rows: list[Row],
    keys: tuple[str, ...],
    column: Callable[[Row], str],
    cell: Callable[[Row], str],
) -> RenderableType:
    """One line per combination of keys, one column per value of ``column``."""
    names = list(dict.fromkeys(column(row) for row in rows))
    lines: dict[tuple[str, ...], dict[str, str]] = {}
    for row in rows:
        key = tuple(f"{row[name]:,}" if isinstance(row[name], int) else row[name] for name in keys)
        lines.setdefault(key, {})[column(row)] = cell(row)
    table = plain_table(title, [*keys, *names], names)
    for key, cells in lines.items():
        table.add_row(*key, *(cells.get(name, "") for name in names))
    return table
