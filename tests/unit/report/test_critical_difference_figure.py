"""The critical-difference picture: what it joins, and that no two texts meet at any width."""

import re

import numpy as np
import pytest

from codesign.insight.comparison.ranking import ranking
from codesign.report.chart import Label, Line
from codesign.report.comparison_figures import critical_difference_chart
from codesign.report.paper import save_svg, titled, width_of

EIGHT = (
    "gp-ehvi",
    "gp-ehvi-hints-off",
    "gp-ehvi-paper",
    "optuna-nsga2",
    "tpe",
    "pls",
    "sobol",
    "ax",
)
TWELVE = (*EIGHT, "random", "an-optimizer-with-a-long-name", "botorch-qlognehvi", "smac-parego")
COLUMN_MM, PAGE_MM = 88.9, 177.8
"""3.5 and 7 inches."""


def _chart(labels, width_mm, n_kinds):
    """Optimizers whose ranks follow their order, at a width, on so many kinds."""
    k = len(labels)
    noise = np.random.default_rng(0).normal(size=(n_kinds, k)) / 8
    blocks = [str(i) for i in range(n_kinds)]
    ranks = ranking(labels, blocks, np.linspace(1, 0, k) + noise, np.zeros(k * (k - 1) // 2))
    return critical_difference_chart(ranks, "compare-full: mean rank", width_of(width_mm)[0])


def _texts(chart):
    return [mark.text for mark in chart.panels[0].marks if isinstance(mark, Label)]


@pytest.mark.parametrize("width_mm", [COLUMN_MM, PAGE_MM])
@pytest.mark.parametrize(("labels", "n_kinds"), [(EIGHT, 12), (TWELVE, 10), (EIGHT[:4], 2)])
def test_no_text_meets_another_or_leaves_the_picture(
    labels, n_kinds, width_mm, overprinted_texts, tmp_path
):
    chart, width = _chart(labels, width_mm, n_kinds), width_of(width_mm)[0]
    names = {text.replace("\n", "") for text in _texts(chart)}
    assert set(labels) <= names
    drawing = titled(chart, width, [chart.title])
    path = save_svg([(drawing, 0.0, 0.0)], tmp_path / "ranks.svg", width, is_print=True)
    assert overprinted_texts(path) == []
    lines = re.findall(r'd="M([\d.]+) ([\d.]+)L([\d.]+) \2"', path.read_text())
    assert max(float(end) - float(begin) for begin, _, end in lines) > 0.25 * width


def test_bars_join_what_is_not_told_apart():
    chart = _chart(EIGHT, PAGE_MM, 12)
    lines = [mark for mark in chart.panels[0].marks if isinstance(mark, Line)]
    bars = [line for line in lines if line.width == 3.5]
    assert len(bars) > 1
    # Critical difference 3.03, and bars end a little beyond the marks.
    assert all(np.ptp(bar.x) < 3.03 + 0.1 for bar in bars)
    assert "critical difference 3.03" in _texts(chart)


def test_a_difference_that_no_ranks_can_have_is_said():
    chart = _chart(EIGHT[:4], COLUMN_MM, 2)
    assert "critical difference 3.32, more than the line" in _texts(chart)
