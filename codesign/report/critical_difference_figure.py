"""The critical-difference picture of Demšar (2006), figure 1: mean ranks on a line.

The best optimizer is at the left end of the line. Bars below it join optimizers that Nemenyi's test
does not tell apart, and the bar above it is as long as the difference that the test needs.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from codesign.insight.comparison import rank_optimizers
from codesign.insight.comparison.critical_difference import critical_difference
from codesign.insight.comparison.ranking import ALPHA
from codesign.report.comparison_statistics import p_text
from codesign.report.drawing import COLORS, MM_PER_INCH, USUAL_WIDTH_MM, letters_that_fit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from codesign.insight.comparison import Outcome
    from codesign.insight.comparison.critical_difference import CriticalDifference
    from codesign.insight.comparison.ranking import Ranking

_LINE_INCHES = 0.2
"""Between two names, enough for letters of 10 points."""
_BAR_LINES = 0.5
"""Between two bars, in distances of names."""
_SIDE = 0.3
"""Most of the width that the names of one side take."""


def draw_critical_difference(outcome: Outcome, width_mm: float = USUAL_WIDTH_MM) -> Figure:
    """Mean ranks over the kinds of problems; needs two kinds at least.

    Args:
        outcome: Of a comparison with two kinds of problems or more that are ranked.
        width_mm: How wide it will be printed.
    """
    from matplotlib.figure import Figure

    ranking = rank_optimizers(outcome)
    nemenyi = critical_difference(ranking)
    if nemenyi is None:
        raise ValueError("a single block has no critical difference")
    n_letters = letters_that_fit(width_mm)
    p = "" if ranking.friedman_p is None else f", Friedman p {p_text(ranking.friedman_p)}"
    joined = "joined: not told apart" if nemenyi.is_rejected else "no difference is shown"
    title = textwrap.wrap(
        (
            f"{outcome.definition.name}: mean rank over {len(ranking.blocks)} kinds of problems "
            f"(1 is best){p}; {joined} (Nemenyi, {100 * ALPHA:g} %)"
        ),
        n_letters,
        break_on_hyphens=False,
    )
    names = ["\n".join(textwrap.wrap(label, int(_SIDE * n_letters))) for label in ranking.labels]
    distance = 0.2 + 0.8 * max(name.count("\n") + 1 for name in names)
    end = _bars_end(nemenyi) + distance * ((len(names) + 1) // 2) + 0.2
    size = (width_mm / MM_PER_INCH, _LINE_INCHES * (end + 2.5 + 1.2 * len(title)) + 0.1)
    figure = Figure(figsize=size, layout="constrained")
    figure.suptitle("\n".join(title), fontsize="medium")
    axes = figure.subplots()
    axes.set_axis_off()
    axes.set_xlim(1, len(names))
    axes.set_ylim(end, -2.5)
    # A number has two digits at most, and a third of room.
    step = -(-3 * (len(names) - 1) // int((1 - 2 * _SIDE) * n_letters))
    _draw_axis(axes, len(names), step, nemenyi.difference)
    _draw_names(axes, ranking, names, _bars_end(nemenyi), distance)
    rank_of = dict(zip(ranking.labels, ranking.mean_ranks.tolist(), strict=True))
    for number, group in enumerate(nemenyi.groups):
        y = 0.5 + _BAR_LINES * number
        ends = [rank_of[group[0]] - 0.04, rank_of[group[-1]] + 0.04]
        axes.plot(ends, [y, y], color="black", linewidth=3.5, solid_capstyle="butt", clip_on=False)
    return figure


def _bars_end(nemenyi: CriticalDifference) -> float:
    """Height at which names may begin, below the line and its bars."""
    return 0.6 + _BAR_LINES * len(nemenyi.groups)


def _draw_axis(axes: Axes, k: int, step: int, difference: float) -> None:
    """The line of ranks, and above it the critical difference."""
    axes.plot([1, k], [0, 0], color="black", linewidth=1.0)
    for rank in range(1, k + 1):
        axes.plot([rank, rank], [0, -0.2], color="black", linewidth=1.0)
        if (rank - 1) % step == 0:
            axes.text(rank, -0.35, str(rank), ha="center", va="bottom")
    words = f"critical difference {difference:.2f}"
    middle = (1 + k) / 2
    if difference > k - 1:  # no two ranks can be so far apart
        axes.text(middle, -1.6, f"{words}, more than the line", ha="center", va="bottom")
        return
    end = 1 + difference
    axes.plot([1, 1, 1, end, end, end], [-1.65, -1.35, -1.5, -1.5, -1.35, -1.65], color="black",
              linewidth=1.0)  # fmt: skip
    axes.text(middle, -1.75, words, ha="center", va="bottom")


def _draw_names(
    axes: Axes, ranking: Ranking, names: Sequence[str], first: float, distance: float
) -> None:
    """The better half at the left and the others at the right, each on a line of its own."""
    order = np.argsort(ranking.mean_ranks, kind="stable").tolist()
    k = len(order)
    n_left = (k + 1) // 2
    # What is nearest to its side is highest, so that no line crosses another.
    places = [(column, 1.0, "right", i) for i, column in enumerate(order[:n_left])]
    places += [(column, float(k), "left", i) for i, column in enumerate(reversed(order[n_left:]))]
    for column, side, alignment, line in places:
        rank = float(ranking.mean_ranks[column])
        y = first + distance * (0.5 + line)
        color = COLORS[column % len(COLORS)]
        axes.plot([rank, rank, side], [0, y, y], color=color, linewidth=1.0, clip_on=False)
        axes.plot([rank], [0], marker="D", markersize=4.5, color=color, clip_on=False)
        axes.annotate(
            names[column], (side, y), xytext=(-3 if side == 1.0 else 3, 0),
            textcoords="offset points", ha=alignment, va="center",
        )  # fmt: skip
