"""Cost per token against speed as a figure (Epoch Figs. 1 and 3 to 10)."""

from __future__ import annotations

from pathlib import Path

from codesign.evaluators.economics.frontier import Points
from codesign.report.drawing import COLORS, LINES, drawing_style, save_figure


def save_frontiers(
    frontiers: dict[str, Points], path: Path, title: str, alpha: float | None = None
) -> Path:
    """Draw frontiers: tokens per second of a request across, price of a million tokens up.

    Args:
        frontiers: By the words of the legend.
        path: A .png or .svg file.
        title: Of the figure.
        alpha: Mark the point with most ``tokens_per_s ** alpha`` per dollar.

    Raises:
        MissingExtraError: matplotlib is not installed.
        InputError: The format is unknown or the file cannot be written.
    """
    with drawing_style():
        from matplotlib.figure import Figure
        from matplotlib.ticker import FuncFormatter

        figure = Figure(figsize=(7.2, 4.6), layout="constrained")
        axes = figure.subplots()
        for number, (name, points) in enumerate(frontiers.items()):
            color = COLORS[number % len(COLORS)]
            style = LINES[number % len(LINES)]
            speed, price = points.tokens_per_s, points.usd_per_million_tokens
            single = "o" if len(points) == 1 else None
            axes.plot(speed, price, color=color, linestyle=style, marker=single, label=name)
            if alpha is not None:
                best = points.most_valued(alpha)
                label = f"most (token/s)$^{{{alpha:g}}}$ per dollar" if not number else None
                axes.plot(
                    speed[best], price[best], "D", color=color, markeredgecolor="k", label=label
                )
        axes.set_yscale("log")
        axes.set_xlim(left=0)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set_xlabel("Speed of one request (token/s)")
        axes.set_ylabel("Price (USD per million tokens)")
        axes.set_title(title, fontsize=11)
        axes.legend(loc="upper left", fontsize=9)
        return save_figure(figure, path)
