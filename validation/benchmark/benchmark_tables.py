"""A benchmark as tables: what belongs side by side in columns; the JSON has every row."""

from __future__ import annotations

from collections.abc import Callable

from codesign.base.columns import Fields
from codesign.base.units import format_engineering
from codesign.report.tables import format_cell
from codesign.report.text_table import TextTable
from validation.benchmark.evaluation_rates import Row


def benchmark_tables(measured: Fields) -> list[TextTable]:
    """Every part of a benchmark but what it is about.

    Args:
        measured: What :func:`validation.benchmark.benchmark` returned.
    """
    models = dict.fromkeys(row["model"] for row in measured["rates"])
    return [
        *(
            _side_by_side(
                f"Designs per second, {model}",
                [row for row in measured["rates"] if row["model"] == model],
                ("phase", "what"),
                lambda row: f"{row['way']} {row['cores']} core{'s' * (row['cores'] > 1)}",
                lambda row: format_engineering(row["designs_per_s"], "", 3),
                "Objectives are throughput and TDP. One core by processor time, two by the wall.",
            )
            for model in models
        ),
        _side_by_side(
            "Designs per second, mixes of sessions, one core",
            measured["mixes"],
            ("designs",),
            lambda row: f"{row['way']}, workloads: {row['workloads']}",
            lambda row: format_engineering(row["designs_per_s"], "", 3),
            "Chat, rag, osworld and coding-agent, and coding-agent alone, on different batches. "
            "Objectives are sessions per second, price and TDP.",
        ),
        _side_by_side(
            "Times as fast as others, one core",
            measured["ratios"],
            ("against",),
            lambda row: str(row["phase"]),
            # Three digits: timings do not repeat better.
            lambda row: (
                f"{float(format(row['ratio'], '.3g')):,.0f} x "
                + format_cell("time_s", row["its_time_s"])
            ),
            "Ratio x the other's time of one evaluation. "
            + " ".join(
                dict.fromkeys(f"{row['against']}: {row['source']}." for row in measured["ratios"])
            ),
        ),
        _side_by_side(
            "Hypervolume after one point more",
            measured["hypervolume"],
            ("points",),
            lambda row: f"{row['objectives']} objectives",
            lambda row: format_cell("time_s", row["time_s"]),
            "Updated with two objectives, computed anew with more.",
        ),
        _listed("Store of a campaign", measured["store"]),
        _listed("Exact front of a space", measured["enumeration"]),
        _side_by_side(
            "Command line",
            measured["startup"],
            ("what",),
            lambda _: "time",
            lambda row: format_cell("time_s", row["time_s"]),
            "Processor time of the process; the fastest of several.",
        ),
    ]


def _side_by_side(
    title: str,
    rows: list[Row],
    keys: tuple[str, ...],
    column: Callable[[Row], str],
    cell: Callable[[Row], str],
    note: str,
) -> TextTable:
    """One line per combination of keys, one column per value of ``column``."""
    names = list(dict.fromkeys(column(row) for row in rows))
    lines: dict[str, dict[str, str]] = {}
    for row in rows:
        values = (f"{row[key]:,}" if isinstance(row[key], int) else str(row[key]) for key in keys)
        lines.setdefault(", ".join(values), {})[column(row)] = cell(row)
    body = [(key, *(cells.get(name, "") for name in names)) for key, cells in lines.items()]
    return TextTable(title, (", ".join(keys), *names), body, note)


def _listed(title: str, rows: list[Row]) -> TextTable:
    """One line per quantity, one column per row."""
    names = list(rows[0])
    body = [(name, *(format_cell(name, row[name]) for row in rows)) for name in names]
    return TextTable(title, ("quantity", *("" for _ in rows)), body)
