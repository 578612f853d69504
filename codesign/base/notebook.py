"""Display of records in a notebook: one small table, every text escaped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any

from codesign.base.metrics import Metric
from codesign.base.units import format_engineering

front_figure: Callable[[Any], str] | None = None
"""Drawing of a front as SVG; ``codesign.api`` sets it, since a search draws nothing."""
MOST_ROWS = 12
"""[ours] Rows of a table; a last line says how many more there are."""
_PREFIXED = ("B", "FLOP", "J", "W", "s")


def table_html(title: str, headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """An HTML table with a title; nothing in it but text.

    Examples:
        >>> table_html("<a>", ["x"], [["1 & 2"]])
        '<table><caption>&lt;a&gt;</caption><tr><th>x</th></tr><tr><td>1 &amp; 2</td></tr></table>'
    """
    listed = list(rows)
    lines = [_line("th", headers), *(_line("td", row) for row in listed[:MOST_ROWS])]
    if len(listed) > MOST_ROWS:
        more = f"and {len(listed) - MOST_ROWS:,} more"
        lines.append(f'<tr><td colspan="{len(headers)}">{more}</td></tr>')
    return f"<table><caption>{escape(title)}</caption>{''.join(lines)}</table>"


def _line(tag: str, cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"


def metric_text(value: float, metric: Metric) -> str:
    """A value with its unit, as far as units have prefixes.

    Examples:
        >>> metric_text(1.5e12, Metric("peak_flop_per_s", "maximize", "FLOP/s", "peak"))
        '1.5 TFLOP/s'
        >>> metric_text(7.0, Metric("batch_size", "maximize", "", "requests"))
        '7'
    """
    if metric.unit.partition("/")[0] in _PREFIXED:
        return format_engineering(value, metric.unit)
    return f"{value:,.4g} {metric.unit}".rstrip()
