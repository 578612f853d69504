"""A front fits the terminal: a line a design, and what else there is room for."""

import io

import numpy as np
import pytest
from rich.console import Console

from codesign.report.front_lines import front_lines
from codesign.report.labels import design_words


def _printed(table, width):
    console = Console(file=io.StringIO(), width=width)
    console.print(table)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_no_design_is_cut_at_any_width(results, width):
    table = front_lines(results, width, tolerance=0.0)
    text = _printed(table, width)
    rows = [line for line in text.splitlines() if line[:2].strip().isdigit()]
    assert len(rows) == table.row_count == len(results.front())
    space = results.problem.space
    words = design_words(space, space.decode(results.rows[results.front()]))
    assert "…" not in text and all(part in text for line in words for part in line.split(", "))


def test_what_all_designs_have_is_said_once(results, with_observations):
    rows = results.rows.copy()
    rows[:, 1:4] = 0  # one technology, one stack
    text = _printed(front_lines(with_observations(results, rows=rows), 80, tolerance=0.0), 80)
    assert "all of these: HBM4×1" in text and text.count("HBM4") == 1


def test_a_wide_terminal_shows_more_metrics_and_a_narrow_one_the_objectives(
    results, with_observations
):
    more = {**results.metrics, "batch_size": np.arange(len(results.rows), dtype=float)}
    results = with_observations(results, metrics=more)
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


def test_the_title_of_an_empty_front_is_not_broken(results, with_observations):
    results = with_observations(results, feasible=np.zeros(len(results), dtype=bool))
    assert "Searched Pareto front (" in _printed(front_lines(results, 80), 80)


def test_a_limit_lists_the_first_designs(results):
    table = front_lines(results, 120, limit=1, tolerance=0.0)
    assert table.row_count == 1
