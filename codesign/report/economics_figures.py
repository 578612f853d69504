"""Cost per token against speed as a figure (Epoch Figs. 1 and 3 to 10)."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from codesign.evaluators.economics.frontier import Points
from codesign.report.callouts import write_names
from codesign.report.drawing import (
    COLORS,
    LINES,
    MM_PER_INCH,
    USUAL_WIDTH_MM,
    drawing_style,
    plain_log_ticks,
    save_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def save_frontier(points: Points, words: str, path: Path, title: str, alpha: float) -> Path:
    """Draw a frontier: tokens per second of a request across, price of a million tokens up.

    Every system that can be built is a point; between two of them there is none. The cheapest and
    the fastest are marked with their devices.

    Args:
        alpha: Mark the point with most ``tokens_per_s ** alpha`` per dollar, too.
    """
    with drawing_style():
        from matplotlib.figure import Figure

        width = USUAL_WIDTH_MM / MM_PER_INCH
        figure = Figure((width, 0.66 * width + 0.4), layout="constrained")
        axes = figure.subplots()
        axes.plot(
            points.tokens_per_s, points.usd_per_million_tokens, "o", markersize=2.5,
            linestyle=LINES[0], linewidth=0.5, label=words, color=COLORS[0],
        )  # fmt: skip
        axes.set_yscale("log")
        axes.set_xlim(left=0)
        axes.margins(y=0.15)
        plain_log_ticks(axes.yaxis)
        axes.set_xlabel("Speed of one request (token/s)")
        axes.set_ylabel("Price (USD per million tokens)")
        figure.suptitle("\n".join(textwrap.wrap(title, int(13 * width))), fontsize="medium")
        figure.legend(loc="outside lower center", ncols=2, fontsize="small")
        _mark(axes, points, alpha)
        return save_figure(figure, path)


def _mark(axes: Axes, points: Points, alpha: float) -> None:
    """The systems that a reader looks for, by name."""
    words = {int(np.argmin(points.usd_per_million_tokens)): ["cheapest"]}
    words.setdefault(points.fastest(), []).append("fastest")
    words.setdefault(points.most_valued(alpha), []).append(f"most (token/s)^{alpha:g}/USD")
    marked = points.chosen(np.array(list(words)))
    places = np.column_stack([marked.tokens_per_s, marked.usd_per_million_tokens])
    axes.plot(*places.T, "D", color=COLORS[0], markeredgecolor="black", markersize=5)
    names = [
        f"{', '.join(listed)}: {n:g} device{'' if n == 1 else 's'}"
        for listed, n in zip(words.values(), marked.n_devices.tolist(), strict=True)
    ]
    write_names(axes, places, names, "#333333", reach=5.0)
