"""A front fits the terminal: a line a design, and what else there is room for."""

import dataclasses
import io

import numpy as np
import pytest
from rich.console import Console

from codesign.report.front_lines import front_lines


def _printed(table, width):
    console = Console(file=io.StringIO(), width=width)
    console.print(table)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_every_design_has_one_line_at_every_width(results, width):
    table = front_lines(results, width, tolerance=0.0)
    rows = [line for line in _printed(table, width).splitlines() if line[:2].strip().isdigit()]
    assert len(rows) == table.row_count == len(results.front())


def test_a_wide_terminal_shows_more_metrics_and_a_narrow_one_the_objectives(results):
    more = {**results.metrics, "batch_size": np.arange(len(results.rows), dtype=float)}
    results = dataclasses.replace(results, metrics=more)
    narrow, wide = (len(front_lines(results, width).columns) for width in (60, 200))
    assert wide > narrow
    text = " ".join(_printed(front_lines(results, 60), 60).split())
    assert "throughput" in text and "TDP" in text


def test_of_a_long_front_a_dozen_designs_and_the_recommended_ones_are_listed(results, monkeypatch):
    monkeypatch.setattr("codesign.report.front_lines.MOST_LINES", 2)
    table = front_lines(results, 120, tolerance=0.0)
    left = len(results.front()) - table.row_count
    assert left > 0
    text = _printed(table, 120)
    assert f"{left} more: --all" in text
    assert "knee" in text and "frugal" in text and "fastest" in text


def test_the_title_of_an_empty_front_is_not_broken(results):
    results = dataclasses.replace(results, feasible=np.zeros(len(results), dtype=bool))
    assert "Searched Pareto front (" in _printed(front_lines(results, 80), 80)


def test_a_limit_lists_the_first_designs(results):
    table = front_lines(results, 120, limit=1, tolerance=0.0)
    assert table.row_count == 1
