"""Figures of a comparison: a panel per problem, the same color and line for an optimizer in all.

Like ``figures.py`` it gives the same bytes for the same results, but for ``wall_time``, whose data
are never the same twice.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from codesign.base.columns import FloatArray
from codesign.base.metrics import flipped_columns
from codesign.insight.comparison import rank_optimizers
from codesign.insight.comparison.attainment import attainment_surfaces
from codesign.insight.comparison.critical_difference import critical_difference
from codesign.insight.comparison.targets import solved_share
from codesign.insight.comparison.wall_time import elapsed_seconds, shares_over_time
from codesign.report.comparison_document import evaluators_line, two_objective_problems
from codesign.report.comparison_tables import short_name
from codesign.report.comparison_wall_time import duration
from codesign.report.critical_difference_figure import draw_critical_difference
from codesign.report.drawing import (
    COLORS,
    LINES,
    MM_PER_INCH,
    USUAL_WIDTH_MM,
    check_format,
    drawing_style,
    is_column,
    label_objective,
    save_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from codesign.insight.comparison import Outcome, ProblemOutcome

_MOST_COLUMNS = 3
_LEAST_REGRET = 1e-4
"""Lower end of the axis of regret: a ten-thousandth of the hypervolume matters to no design."""
_LETTERS = 90
"""Letters of 9 points that fit the width of a figure."""
_TIMES = 200
"""Points of a curve against wall time."""
_TIME_TICKS = (
    *(factor * 10.0**power for power in range(-5, 1) for factor in (1, 2, 5)),
    *(10.0, 20.0), *(30.0 * factor for factor in (1, 2, 4, 10, 20, 40, 60)),
    *(3600.0 * hours for hours in (1, 2, 5, 10, 20, 50, 100, 200)),
)  # fmt: skip
"""Seconds."""


def save_figures(
    outcome: Outcome, folder: Path, form: str, width_mm: float | None = None
) -> list[Path]:
    """Draw every figure; returns the paths.

    Args:
        width_mm: How wide the critical differences and the balance of wall time will be printed;
            both columns of a page if None. The others have a panel per problem.

    Raises:
        MissingExtraError: matplotlib is not installed.
        InputError: The format is unknown or a file cannot be written.
    """
    check_format(form)
    draws: dict[str, Callable[[Outcome], Figure]] = {
        "convergence": draw_convergence,
        "regret": draw_regret,
        "runtimes": draw_runtimes,
    }
    if two_objective_problems(outcome):
        draws["attainment"] = draw_attainment
    printed: dict[str, Callable[[Outcome, float], Figure]] = {}
    if critical_difference(rank_optimizers(outcome)) is not None:
        printed["critical_difference"] = draw_critical_difference
    if outcome.definition.budget > outcome.definition.initial:
        draws["wall_time"] = draw_wall_time
        printed["wall_time_balance"] = draw_balance
    written = []
    with drawing_style():
        for name, draw in draws.items():
            written.append(save_figure(draw(outcome), folder / f"{name}.{form}"))
    with drawing_style(width_mm):
        for name, draw_wide in printed.items():
            figure = draw_wide(outcome, width_mm or USUAL_WIDTH_MM)
            written.append(save_figure(figure, folder / f"{name}.{form}"))
    return written


def draw_convergence(outcome: Outcome) -> Figure:
    """Share of the best hypervolume against evaluations: mean, band of one standard deviation."""
    figure, panels = _panels(outcome.problems)
    for axes, problem in panels:
        for style, shares in _curves(outcome, problem):
            mean = shares.mean(axis=0)
            spread = shares.std(axis=0, ddof=1) if len(shares) > 1 else np.zeros_like(mean)
            low, high = np.clip(mean - spread, 0, None), np.clip(mean + spread, None, 1)
            _draw_band(axes, style, mean, low, high)
        axes.axhline(1.0, color="black", linewidth=0.8)
        axes.set_ylim(0, 1.03)
        _finish_evaluations(axes, outcome)
    _share_labels(figure, "Hypervolume, share of the best front's")
    _share_legend(figure, outcome, "mean ± standard deviation over the seeds")
    return figure


def draw_regret(outcome: Outcome) -> Figure:
    """Missing share of the best hypervolume: median, and band between the quartiles."""
    figure, panels = _panels(outcome.problems)
    for axes, problem in panels:
        for style, shares in _curves(outcome, problem):
            regret = np.clip(1.0 - shares, _LEAST_REGRET, None)
            low, middle, high = np.quantile(regret, [0.25, 0.5, 0.75], axis=0)
            _draw_band(axes, style, middle, low, high)
        axes.set_yscale("log")
        axes.set_ylim(_LEAST_REGRET, 1.2)
        _finish_evaluations(axes, outcome)
    _share_labels(figure, "Regret: hypervolume missing, share of the best")
    _share_legend(figure, outcome, "median and quartiles over the seeds")
    return figure


def draw_runtimes(outcome: Outcome) -> Figure:
    """Share of (problem, seed, target) that is reached, against evaluations."""
    figure, axes = _single()
    budget = outcome.definition.budget
    evaluations = np.arange(1, budget + 1)
    for number, label in enumerate(outcome.labels):
        solved = solved_share(outcome.ranked, label, outcome.targets, budget)
        axes.plot(evaluations, solved, drawstyle="steps-post", **_style(number, label))
    axes.set_xlim(1, budget)
    axes.set_xscale("log")
    axes.set_ylim(0, 1)
    axis = axes.xaxis
    from matplotlib.ticker import NullFormatter, StrMethodFormatter

    ticks = [base * 10**power for power in range(7) for base in (1, 2, 5)]
    axis.set_ticks([tick for tick in ticks if tick <= budget])
    axis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    axis.set_minor_formatter(NullFormatter())
    _mark_initial(axes, outcome)
    axes.set_xlabel("Evaluated designs")
    axes.set_ylabel("Share of targets reached")
    targets = ", ".join(f"{100 * target:g}" for target in outcome.targets)
    axes.set_title(
        f"{outcome.definition.name}: {targets} % of the best hypervolume, "
        f"{_count(len(outcome.ranked), 'problem')}\n{_evaluators(outcome)}",
        fontsize=11,
    )
    axes.legend(loc="upper left", fontsize=9)
    return figure


def draw_attainment(outcome: Outcome) -> Figure:
    """Surface that half of an optimizer's runs attained, against the best front; two objectives."""
    figure, panels = _panels(two_objective_problems(outcome), sharey=False)
    for axes, problem in panels:
        first, second = problem.objectives
        senses = (first.sense, second.sense)
        best = flipped_columns(problem.truth.objectives, senses)
        # Power or cost reads best on the x axis: the last objective comes first.
        steps = "steps-post" if second.sense == "minimize" else "steps-pre"
        _draw_surface(
            axes,
            best,
            steps,
            {"color": "black", "linewidth": 1.0, "label": f"{problem.truth.kind} front"},
        )
        for number, label in enumerate(outcome.labels):
            surface = attainment_surfaces(problem, label, [50.0])[50.0]
            _draw_surface(axes, flipped_columns(surface, senses), steps, _style(number, label))
        label_objective(axes.xaxis, second)
        label_objective(axes.yaxis, first)
        axes.margins(0.05)
    _share_legend(figure, outcome, "attained by half of the seeds")
    return figure


def draw_wall_time(outcome: Outcome) -> Figure:
    """Wall time per suggestion after the initial designs, over all problems."""
    figure, axes = _single(height=1.4 + 0.42 * len(outcome.labels))
    for row, label in enumerate(outcome.labels):
        waits = [problem.suggestion_seconds(label) for problem in outcome.problems]
        seconds = np.concatenate(waits)
        if not len(seconds):
            continue
        low, q1, middle, q3, high = np.quantile(seconds, [0.05, 0.25, 0.5, 0.75, 0.95]).tolist()
        color = COLORS[row % len(COLORS)]
        axes.plot([low, high], [row, row], color=color, linewidth=1.2)
        axes.plot([q1, q3], [row, row], color=color, linewidth=6, alpha=0.5)
        axes.plot([middle], [row], color=color, marker="D", markersize=6)
    axes.set_xscale("log")
    axes.set_yticks(range(len(outcome.labels)), outcome.labels)
    axes.set_ylim(len(outcome.labels) - 0.5, -0.6)
    axes.set_xlabel("Seconds per suggestion: median, quartiles, 5 % to 95 %")
    axes.set_title(f"{outcome.definition.name}: wall time", fontsize=11)
    return figure


def draw_balance(outcome: Outcome, width_mm: float = USUAL_WIDTH_MM) -> Figure:
    """Mean share over the kinds against wall time, a panel for each cost of an evaluation."""
    from matplotlib.figure import Figure

    costs = outcome.definition.evaluation_costs
    n_columns = 1 if is_column(width_mm) else min(2, len(costs))
    n_rows = -(-len(costs) // n_columns)
    size = (width_mm / MM_PER_INCH, 2.3 * n_rows + 1.1)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(n_rows, n_columns, squeeze=False, sharey=True).ravel().tolist()
    for unused in grid[len(costs) :]:
        figure.delaxes(unused)
    for axes, cost_s in zip(grid, costs, strict=False):
        runs = [run for problem in outcome.ranked for run in problem.runs]
        ends: dict[str, float] = dict.fromkeys(outcome.labels, 0.0)
        for run in runs:
            end = float(elapsed_seconds(run, np.array([cost_s]))[0, -1])
            ends[run.optimizer] = max(ends[run.optimizer], end)
        begin = outcome.definition.initial * cost_s
        for number, label in enumerate(outcome.labels):
            seconds = np.geomspace(begin, max(ends[label], begin), _TIMES)
            shares = shares_over_time(outcome, label, cost_s, seconds)
            axes.plot(seconds, shares, **_style(number, label))
        axes.set_xscale("log")
        axes.set_ylim(0, 1)
        axes.set_title(f"an evaluation takes {duration(cost_s)}", fontsize="medium")
        _mark_times(axes.xaxis, begin, max(ends.values()))
    figure.supxlabel("Wall time: evaluations × cost + measured suggestions", fontsize="medium")
    figure.supylabel("Mean share of the best hypervolume", fontsize="medium")
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=2 if n_columns == 1 else 4)
    return figure


def _mark_times(axis: Any, begin: float, end: float) -> None:
    """Ticks in the units in which people count time, as many as have room."""
    from matplotlib.ticker import NullFormatter

    ticks = [tick for tick in _TIME_TICKS if begin <= tick <= end]
    ticks = ticks[:: max(1, -(-len(ticks) // 5))]
    axis.set_ticks(ticks, [duration(tick) for tick in ticks])
    axis.set_minor_formatter(NullFormatter())


def _style(number: int, label: str) -> dict[str, Any]:
    # Past the last color, the lines go on by one, so that no two optimizers look the same.
    line = LINES[(number + number // len(COLORS)) % len(LINES)]
    color = COLORS[number % len(COLORS)]
    return {"color": color, "linestyle": line, "linewidth": 1.7, "label": label}


def _curves(outcome: Outcome, problem: ProblemOutcome) -> list[tuple[dict[str, Any], FloatArray]]:
    return [
        (_style(number, label), problem.shares(label))
        for number, label in enumerate(outcome.labels)
    ]


def _draw_band(
    axes: Axes, style: dict[str, Any], middle: FloatArray, low: FloatArray, high: FloatArray
) -> None:
    evaluations = np.arange(1, len(middle) + 1)
    axes.plot(evaluations, middle, **style)
    axes.fill_between(evaluations, low, high, color=style["color"], alpha=0.13, linewidth=0)


def _draw_surface(axes: Axes, points: FloatArray, steps: str, style: dict[str, Any]) -> None:
    """A staircase through (k, 2) points, the second objective on the x axis."""
    order = np.argsort(points[:, 1], kind="stable")
    # The marker shows a surface of a single point.
    axes.plot(
        points[order, 1], points[order, 0], drawstyle=steps, marker="o", markersize=2.5, **style
    )


def _single(height: float = 4.6) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, height), layout="constrained")
    return figure, figure.subplots()


def _panels(
    problems: Sequence[ProblemOutcome], sharey: bool = True
) -> tuple[Figure, list[tuple[Axes, ProblemOutcome]]]:
    """A grid with a titled panel for each problem."""
    from matplotlib.figure import Figure

    # Four panels are a square.
    n_columns = 2 if len(problems) == 4 else min(_MOST_COLUMNS, len(problems))
    n_rows = -(-len(problems) // n_columns)
    size = (max(7.2, 4.2 * n_columns), 3.0 * n_rows + 1.2)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(n_rows, n_columns, squeeze=False, sharey=sharey).ravel().tolist()
    for unused in grid[len(problems) :]:
        figure.delaxes(unused)
    panels = list(zip(grid, problems, strict=False))
    for axes, problem in panels:
        mark = " (tuned on it)" if problem.tuned else ""
        mark += " (solved by hints)" if problem.solved_by_hints else ""
        axes.set_title(f"{short_name(problem)}{mark}", fontsize=9)
    return figure, panels


def _finish_evaluations(axes: Axes, outcome: Outcome) -> None:
    axes.set_xlim(0, outcome.definition.budget)
    _mark_initial(axes, outcome)


def _mark_initial(axes: Axes, outcome: Outcome) -> None:
    axes.axvspan(0, outcome.definition.initial, color="#F2F2F2", zorder=0, linewidth=0)


def _share_labels(figure: Figure, y: str) -> None:
    figure.supxlabel("Evaluated designs (shaded: the initial sample, shared by all)", fontsize=10)
    figure.supylabel(y, fontsize=10)


def _share_legend(figure: Figure, outcome: Outcome, title: str) -> None:
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside upper center", ncols=min(len(labels), 6), fontsize=9,
        title=f"{title}\n{_evaluators(outcome)}", title_fontsize=9,
    )  # fmt: skip


def _evaluators(outcome: Outcome) -> str:
    return textwrap.fill(evaluators_line(outcome), _LETTERS)


def _count(number: int, word: str) -> str:
    return f"{number} {word}" + ("" if number == 1 else "s")
