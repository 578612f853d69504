"""Figures of a comparison: a panel per problem, with one hue and dash per optimizer.

Equal results give equal files, except for ``wall_time``, whose data differ in every run. The
critical difference follows figure 1 of Demšar (2006): mean ranks on a line, the best at the left.
Bars join optimizers that Nemenyi's test does not tell apart.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from codesign.base.columns import ArrayTuple, FloatArray, JsonObject
from codesign.base.metrics import flipped_columns
from codesign.insight.comparison import Outcome, ProblemOutcome, rank_optimizers
from codesign.insight.comparison.attainment import attainment_surfaces
from codesign.insight.comparison.critical_difference import critical_difference
from codesign.insight.comparison.ranking import ALPHA, Ranking
from codesign.insight.comparison.targets import solved_share
from codesign.insight.comparison.wall_time import elapsed_seconds, shares_over_time
from codesign.report.campaign_charts import objective_axis
from codesign.report.chart import Axis, Box, Chart, Label, Line, Mark, Panel, Points, log_padded
from codesign.report.comparison_document import evaluators_line, two_objective_problems
from codesign.report.comparison_statistics import p_text
from codesign.report.comparison_tables import short_name
from codesign.report.comparison_wall_time import duration
from codesign.report.drawing import check_format
from codesign.report.labels import counted
from codesign.report.palette import series_look
from codesign.report.paper import save_svg, titled, width_of
from codesign.report.svg import text_width

_MOST_COLUMNS = 3
_PANEL_WIDTH = 330.0
_LEAST_REGRET = 1e-4
"""Lower end of the axis of regret: a ten-thousandth of the hypervolume matters to no design."""
_TIMES = 200
"""Points of a curve against wall time."""
_TIME_TICKS = (
    *(factor * 10.0**power for power in range(-5, 1) for factor in (1, 2, 5)),
    *(10.0, 20.0), *(30.0 * factor for factor in (1, 2, 4, 10, 20, 40, 60)),
    *(3600.0 * hours for hours in (1, 2, 5, 10, 20, 50, 100, 200)),
)  # fmt: skip
"""Seconds."""
_LINE, _BAR = 15.0, 8.0
"""Pixels between two lines of names, and between two bars of a critical difference."""
_SIDE = 0.3
"""Largest share of the width for the names on one side."""
_EVALUATIONS = "Evaluated designs (shaded: the initial sample)"


def save_figures(
    outcome: Outcome, folder: Path, form: str, width_mm: float | None = None
) -> list[Path]:
    """Draw every figure; returns the paths.

    Args:
        width_mm: Width in print of the critical differences and the balance of wall time; both
            columns of a page if None. The others have a panel per problem.

    Raises:
        MissingExtraError: The library that converts to PDF and PNG is not installed.
        InputError: The format is unknown or a file cannot be written.
    """
    check_format(form)
    charts = {
        "convergence": convergence_chart(outcome),
        "regret": regret_chart(outcome),
        "runtimes": runtimes_chart(outcome),
    }
    if two_objective_problems(outcome):
        charts["attainment"] = attainment_chart(outcome)
    print_width, is_narrow = width_of(width_mm)
    ranking = rank_optimizers(outcome)
    if critical_difference(ranking) is not None:
        title = f"{outcome.definition.name}: mean rank"
        charts["critical_difference"] = critical_difference_chart(ranking, title, print_width)
    if outcome.definition.budget > outcome.definition.initial:
        charts["wall_time"] = wall_time_chart(outcome)
        charts["wall_time_balance"] = balance_chart(outcome, is_narrow)
    written = []
    for name, chart in charts.items():
        is_printed = name in ("critical_difference", "wall_time_balance")
        width = print_width if is_printed else max(width_of(None)[0], _PANEL_WIDTH * chart.columns)
        drawing = titled(chart, width, [chart.title, *([] if is_printed else [chart.alt])])
        path = folder / f"{name}.{form}"
        written.append(save_svg([(drawing, 0.0, 0.0)], path, width, is_printed and bool(width_mm)))
    return written


def convergence_chart(outcome: Outcome) -> Chart:
    """Share of the best hypervolume against evaluations: mean, and one standard deviation."""

    def ends(shares: FloatArray) -> ArrayTuple:
        mean = shares.mean(axis=0)
        spread = shares.std(axis=0, ddof=min(1, len(shares) - 1))
        return np.clip(mean - spread, 0, None), mean, np.clip(mean + spread, None, 1)

    axis = Axis((0.0, 1.03), "Hypervolume, share of the best")
    return _curves_chart(
        outcome, ends, axis, "share of the best front's hypervolume",
        "Mean over the seeds; thin lines: a standard deviation more and less.",
    )  # fmt: skip


def regret_chart(outcome: Outcome) -> Chart:
    """Missing share of the best hypervolume: median and quartiles."""

    def ends(shares: FloatArray) -> FloatArray:
        return np.quantile(np.clip(1.0 - shares, _LEAST_REGRET, None), [0.25, 0.5, 0.75], axis=0)

    ticks = [(10.0**power, f"{10.0**power:g}") for power in range(-4, 1)]
    axis = Axis((_LEAST_REGRET, 1.2), "Regret, share of the best", is_log=True, ticks=ticks)
    return _curves_chart(
        outcome, ends, axis, "regret, the hypervolume missing to the best front's",
        "Median over the seeds; thin lines: quartiles.",
    )  # fmt: skip


def _curves_chart(
    outcome: Outcome, ends: Callable[[FloatArray], Iterable[FloatArray]], axis: Axis, subject: str,
    words: str,
) -> Chart:  # fmt: skip
    """A panel per problem with a curve between two thin ones for each optimizer."""
    x = Axis((0.0, outcome.definition.budget), _EVALUATIONS)
    panels = []
    for problem in outcome.problems:
        marks: list[Mark] = [_initial(outcome, axis)]
        for number, label in enumerate(outcome.labels):
            look = series_look(number)
            for curve, width in zip(ends(problem.shares(label)), (0.7, 1.7, 0.7), strict=True):
                steps = np.arange(1, len(curve) + 1)
                name = label if width > 1 else ""
                opacity = 1.0 if width > 1 else 0.6
                marks.append(Line(steps, curve, width=width, opacity=opacity, name=name, **look))
        panels.append(Panel(x, axis, marks, _problem_title(problem)))
    return _panels_chart(outcome, panels, subject, words)


def _panels_chart(outcome: Outcome, panels: Sequence[Panel], subject: str, words: str) -> Chart:
    # Four panels are a square.
    columns = 2 if len(panels) == 4 else min(_MOST_COLUMNS, len(panels))
    title = f"{outcome.definition.name}: {subject}"
    return Chart(panels, f"{words} {evaluators_line(outcome)}.", title, columns)


def _problem_title(problem: ProblemOutcome) -> str:
    notes = {" (tuned on it)": problem.tuned, " (solved by hints)": problem.solved_by_hints}
    return short_name(problem) + "".join(note for note, applies in notes.items() if applies)


def _initial(outcome: Outcome, axis: Axis, begin: float = 0.0) -> Box:
    return Box((begin, outcome.definition.initial), axis.ends, "grid", 0.7, edge="")


def runtimes_chart(outcome: Outcome) -> Chart:
    """Share of (problem, seed, target) that is reached, against evaluations."""
    budget = outcome.definition.budget
    axis = Axis((0.0, 1.0), "Share of targets reached")
    marks: list[Mark] = [_initial(outcome, axis, 1.0)]
    for number, label in enumerate(outcome.labels):
        solved = solved_share(outcome.ranked, label, outcome.targets, budget)
        look = series_look(number)
        marks.append(Line(np.arange(1, budget + 1), solved, step="hv", name=label, **look))
    ticks = [base * 10**power for power in range(7) for base in (1, 2, 5)]
    ticks_within = [(float(tick), f"{tick:,}") for tick in ticks if tick <= budget]
    x = Axis((1.0, float(budget)), _EVALUATIONS, is_log=True, ticks=ticks_within)
    targets = ", ".join(f"{100 * target:g}" for target in outcome.targets)
    problems = counted(len(outcome.ranked), "problem")
    subject = f"{targets} % of the best hypervolume, {problems}"
    return _panels_chart(outcome, [Panel(x, axis, marks)], subject, "")


def attainment_chart(outcome: Outcome) -> Chart:
    """Surface that half of an optimizer's runs attained, against the best front; two objectives."""
    panels = []
    for problem in two_objective_problems(outcome):
        first, second = problem.objectives
        step = "hv" if second.sense == "minimize" else "vh"
        surfaces: dict[str, tuple[FloatArray, JsonObject]]
        surfaces = {f"{problem.truth.kind} front": (problem.truth.objectives, {"hue": "ink"})}
        for number, label in enumerate(outcome.labels):
            points = attainment_surfaces(problem, label, [50.0])[50.0]
            surfaces[label] = (points, series_look(number))
        marks: list[Mark] = []
        drawn = []
        for name, (points, look) in surfaces.items():
            ordered = points[np.argsort(points[:, 1], kind="stable")]
            # Power or cost reads best on the x axis: the last objective comes first.
            y, x = flipped_columns(ordered, (first.sense, second.sense)).T
            order = np.argsort(x, kind="stable")
            marks.append(Line(x[order], y[order], step=step, name=name, **look))
            # The symbols show a surface of a single point.
            marks.append(Points(x, y, look["hue"], size=3.5))
            drawn.append(np.column_stack([x, y]))
        x, y = np.concatenate(drawn).T
        across = objective_axis(second.metric, second.sense, x, "→←")
        upright = objective_axis(first.metric, first.sense, y, "↑↓")
        panels.append(Panel(across, upright, marks, _problem_title(problem)))
    words = "Attained by half of the seeds."
    return _panels_chart(outcome, panels, "attainment surfaces", words)


def wall_time_chart(outcome: Outcome) -> Chart:
    """Wall time per suggestion after the initial designs, over all problems."""
    marks: list[Mark] = []
    values = []
    for row, label in enumerate(outcome.labels):
        waits = [problem.suggestion_seconds(label) for problem in outcome.problems]
        seconds = np.concatenate(waits)
        if not len(seconds):
            continue
        low, q1, middle, q3, high = np.quantile(seconds, [0.05, 0.25, 0.5, 0.75, 0.95]).tolist()
        hue = series_look(row)["hue"]
        values += [low, high]
        marks += [
            Line([low, high], [row, row], hue, 1.2),
            Line([q1, q3], [row, row], hue, 6.0, opacity=0.5),
            Points([middle], [row], hue, "diamond"),
        ]
    n = len(outcome.labels)
    x = _time_axis(*log_padded(values, 1.5), "Seconds per suggestion")
    panel = Panel(x, Axis((-0.6, n - 0.4), names=outcome.labels), marks, height=30.0 * n)
    return Chart(
        [panel], "Median, quartiles, 5 % to 95 %.", f"{outcome.definition.name}: wall time"
    )


def _time_axis(begin: float, end: float, title: str) -> Axis:
    """A logarithmic axis with ticks in the units in which people count time."""
    ticks = [(tick, duration(tick)) for tick in _TIME_TICKS if begin <= tick <= end]
    return Axis((begin, end), title, is_log=True, ticks=ticks[:: max(1, -(-len(ticks) // 5))])


def balance_chart(outcome: Outcome, is_narrow: bool) -> Chart:
    """Mean share over the kinds against wall time, a panel for each cost of an evaluation."""
    panels = []
    for cost_s in outcome.definition.evaluation_costs:
        ends = dict.fromkeys(outcome.labels, 0.0)
        for run in (run for problem in outcome.ranked for run in problem.runs):
            end = float(elapsed_seconds(run, np.array([cost_s]))[0, -1])
            ends[run.optimizer] = max(ends[run.optimizer], end)
        begin = outcome.definition.initial * cost_s
        marks = []
        for number, label in enumerate(outcome.labels):
            seconds = np.geomspace(begin, max(ends[label], begin), _TIMES)
            shares = shares_over_time(outcome, label, cost_s, seconds)
            marks.append(Line(seconds, shares, width=1.7, name=label, **series_look(number)))
        x = _time_axis(begin, max([*ends.values(), 1.01 * begin]), "Evaluations and suggestions")
        title = f"an evaluation takes {duration(cost_s)}"
        panels.append(Panel(x, Axis((0.0, 1.0), "Share of the best"), marks, title, height=150.0))
    title = f"{outcome.definition.name}: mean share of the best hypervolume in equal wall time"
    return Chart(panels, title, title, 1 if is_narrow else min(2, len(panels)))


def critical_difference_chart(ranking: Ranking, subject: str, width: float) -> Chart:
    """Mean ranks over at least two kinds of problems.

    Args:
        subject: Beginning of the title.
        width: Pixels of the figure.
    """
    nemenyi = critical_difference(ranking)
    if nemenyi is None:
        raise ValueError("a single block has no critical difference")
    p = "" if ranking.friedman_p is None else f", Friedman p {p_text(ranking.friedman_p)}"
    joined = "joined: not told apart" if nemenyi.is_rejected else "no difference is shown"
    title = (
        f"{subject} over {len(ranking.blocks)} kinds of problems (1 is best){p}; {joined} "
        f"(Nemenyi, {100 * ALPHA:g} %)"
    )
    names = ["\n".join(textwrap.wrap(label, int(_SIDE * width / 6.5))) for label in ranking.labels]
    k = len(names)
    side = max(map(text_width, names)) + 6.0
    per_rank = (width - 30.0 - 2 * side) / (k - 1)
    marks = list(_rank_marks(k, per_rank, nemenyi.difference))
    rank_of = dict(zip(ranking.labels, ranking.mean_ranks.tolist(), strict=True))
    for number, group in enumerate(nemenyi.groups):
        # A bar joins optimizers without a significant difference.
        ends = [rank_of[group[0]] - 0.04, rank_of[group[-1]] + 0.04]
        marks.append(Line(ends, [_RANKS_Y + _BAR * (number + 1)] * 2, width=3.5))
    first = 62.0 + _BAR * len(nemenyi.groups)
    row = 5.0 + 13.0 * max(name.count("\n") + 1 for name in names)
    order = np.argsort(ranking.mean_ranks, kind="stable").tolist()
    n_left = (k + 1) // 2
    # The names nearest to their side are highest, so that no line crosses another.
    places = [(column, 1.0, "end", i) for i, column in enumerate(order[:n_left])]
    places += [(column, k, "start", i) for i, column in enumerate(reversed(order[n_left:]))]
    for column, end, anchor, line in places:
        rank = float(ranking.mean_ranks[column])
        y = first + row * line
        hue = series_look(column)["hue"]
        marks.append(Line([rank, rank, end], [_RANKS_Y, y, y], hue, 1.0))
        marks.append(Points([rank], [_RANKS_Y], hue, "diamond", 7.0))
        shift = 4.0 / per_rank * (-1 if anchor == "end" else 1)
        top = y - 6.6 * names[column].count("\n")
        marks.append(Label(end + shift, top, names[column], anchor=anchor))
    height = first + row * n_left
    x = Axis((1.0 - side / per_rank, k + side / per_rank), is_hidden=True)
    y_axis = Axis((height, 0.0), is_hidden=True)
    return Chart([Panel(x, y_axis, marks, height=height)], title, title, has_legend=False)


_RANKS_Y = 50.0
"""Height of the line of ranks, in pixels from the top."""


def _rank_marks(k: int, per_rank: float, difference: float) -> Iterator[Mark]:
    """The line of ranks, and above it the critical difference."""
    yield Line([1, k], [_RANKS_Y, _RANKS_Y], width=1.0)
    step = max(1, -(-18 // int(per_rank)))
    for rank in range(1, k + 1):
        yield Line([rank, rank], [_RANKS_Y, _RANKS_Y - 5], width=1.0)
        if (rank - 1) % step == 0:
            yield Label(rank, _RANKS_Y - 12, str(rank), anchor="middle", size=10)
    words = f"critical difference {difference:.2f}"
    if difference > k - 1:  # no two ranks can be so far apart
        words += ", more than the line"
    else:
        end = 1 + difference
        yield Line([1, 1, 1, end, end, end], [19, 25, 22, 22, 19, 25], width=1.0)
    yield Label((1 + k) / 2, 8, words, anchor="middle", size=10)
