"""The critical-difference picture: what it joins, and that no two texts meet at any width."""

from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest

from codesign.insight.comparison.ranking import ranking
from codesign.report import critical_difference_figure as figure_module
from codesign.report.drawing import drawing_style

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


@pytest.fixture
def draw(monkeypatch):
    """Draws optimizers whose ranks follow their order, at a width, on so many kinds."""

    def draw(labels, width_mm, n_kinds):
        k = len(labels)
        noise = np.random.default_rng(0).normal(size=(n_kinds, k)) / 8
        ranks = ranking(
            labels,
            [str(i) for i in range(n_kinds)],
            np.linspace(1, 0, k) + noise,
            np.zeros(k * (k - 1) // 2),
        )
        monkeypatch.setattr(figure_module, "rank_optimizers", lambda outcome: ranks)
        outcome = SimpleNamespace(definition=SimpleNamespace(name="compare-full"))
        with drawing_style(width_mm):
            figure = figure_module.draw_critical_difference(outcome, width_mm)
            figure.draw_without_rendering()
        return figure

    return draw


@pytest.mark.parametrize("width_mm", [COLUMN_MM, PAGE_MM])
@pytest.mark.parametrize(("labels", "n_kinds"), [(EIGHT, 12), (TWELVE, 10), (EIGHT[:4], 2)])
def test_no_text_meets_another_or_leaves_the_picture(draw, labels, n_kinds, width_mm):
    figure = draw(labels, width_mm, n_kinds)
    (axes,) = figure.axes
    assert axes.get_window_extent().width > 0.3 * figure.bbox.width
    texts = [text for text in [*axes.texts, *figure.texts] if text.get_text()]
    boxes = [text.get_window_extent() for text in texts]
    names = {text.get_text().replace("\n", "") for text in texts}
    assert {label.replace("\n", "") for label in labels} <= {n.replace(" ", "") for n in names}
    for box in boxes:
        assert box.x0 >= 0 and box.y0 >= 0
        assert box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1
    for first, second in combinations(boxes, 2):
        assert not first.overlaps(second)


def test_bars_join_what_is_not_told_apart(draw):
    figure = draw(EIGHT, PAGE_MM, 12)
    bars = [line for line in figure.axes[0].get_lines() if line.get_linewidth() == 3.5]
    assert len(bars) > 1
    # Critical difference 3.03, and bars end a little beyond the marks.
    assert all(np.ptp(bar.get_xdata()) < 3.03 + 0.1 for bar in bars)
    assert "critical difference 3.03" in [text.get_text() for text in figure.axes[0].texts]


def test_a_difference_that_no_ranks_can_have_is_said(draw):
    texts = [text.get_text() for text in draw(EIGHT[:4], COLUMN_MM, 2).axes[0].texts]
    assert "critical difference 3.32, more than the line" in texts
