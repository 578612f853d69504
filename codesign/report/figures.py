"""Figures of a campaign: hypervolume against evaluations, and the front.

See ``drawing.py`` for what all figures share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from codesign.base.columns import BoolArray, FloatArray
from codesign.base.metrics import Metric
from codesign.insight.plateaus import FoldedFront, folded_front
from codesign.insight.summary import convergence, optimizer_names
from codesign.report import palette
from codesign.report.callouts import name_line, write_names
from codesign.report.drawing import (
    COLORS,
    LINES,
    USUAL_WIDTH_MM,
    drawing_style,
    is_column,
    is_crowded,
    label_objective,
    new_figure,
    save_figure,
)
from codesign.report.labels import format_metric
from codesign.report.limit_lines import LimitLine, limit_lines
from codesign.report.picks import Pick, picks_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from codesign.search.campaign import Results

_GRAY, _FRONT_COLOR, _NAMED_COLOR = (palette.PAPER[hue] for hue in ("gray", "blue", "purple"))
_LIMIT_COLOR, _NAMED_INK = "#555555", "#8A4A6E"
"""Gray as on the page, and the hue of named designs, dark enough for letters."""
_PICK_COLORS = palette.paper(palette.PICKS)
_MOST_LABELS = 12


@dataclass(frozen=True)
class MarkedDesigns:
    """Designs to show by name next to a front, such as the published ones.

    Attributes:
        names: One per design.
        metrics: (k,) values by metric.
        feasible: (k,) whether every limit of the campaign is kept.
        designs: Each by parameter; None where absent.
    """

    names: Sequence[str]
    metrics: Mapping[str, FloatArray]
    feasible: BoolArray
    designs: Sequence[Mapping[str, Any]] = ()


def save_convergence(results: Results, path: Path, width_mm: float | None = None) -> Path:
    """Draw hypervolume against evaluations: every seed as a thin line, their mean as a thick one.

    In percent of the exact front's, where that is known.
    """
    with drawing_style(width_mm):
        n_curves = len(optimizer_names(results)) + (results.exact_hypervolume is not None)
        height = _panel_height(width_mm, 1) + _LEGEND_LINE_MM * -(-n_curves // 2)
        title = f"{results.definition.name}: every seed, and their mean"
        figure = new_figure(width_mm, height, title, results)
        axes = figure.subplots()
        _draw_convergence(axes, results)
        _add_legend(figure, axes, is_below=True)
        return save_figure(figure, path)


def save_front(
    results: Results,
    path: Path,
    marked: MarkedDesigns | None = None,
    width_mm: float | None = None,
) -> Path:
    """Draw a front with the recommended designs, the limits on it, and marked designs.

    Around a front that was searched, the feasible observations. One panel per pair of objectives;
    a single objective is drawn against the evaluations. An axis on which nearly all designs would
    fall together is logarithmic.

    Args:
        results: Of the campaign, or its exact front (:meth:`Campaign.front_results`).
        marked: Shown by name.
    """
    with drawing_style(width_mm):
        pairs = _panels(results)
        n_columns = 1 if is_column(width_mm) else min(2, len(pairs))
        n_rows = -(-len(pairs) // n_columns)
        has_cell = n_rows * n_columns > len(pairs)
        is_below = not has_cell and (is_column(width_mm) or len(pairs) > 1)
        height = n_rows * _panel_height(width_mm, n_columns) + 2 * _LEGEND_LINE_MM * is_below
        picture = _picture(results, marked)
        title = f"{results.definition.name}: {'exact ' * picture.is_exact}Pareto front"
        figure = new_figure(width_mm, height, title, results)
        panels = figure.subplots(n_rows, n_columns, squeeze=False).ravel()
        for axes, (x, y) in zip(panels, pairs, strict=False):
            _draw_front(axes, picture, x, y)
        if has_cell:
            panels[-1].axis("off")
            panels[-1].legend(*panels[0].get_legend_handles_labels(), loc="center")
        else:
            _add_legend(figure, panels[0], is_below)
        for axes, (x, y) in zip(panels, pairs, strict=False):
            _write_labels(axes, picture, x, y, is_column(width_mm))
        return save_figure(figure, path)


@dataclass(frozen=True)
class _Picture:
    """What a figure of a front shows."""

    results: Results
    is_exact: bool
    folded: FoldedFront
    picks: Sequence[Pick]
    limits: Sequence[LimitLine]
    marked: MarkedDesigns | None


def _picture(results: Results, marked: MarkedDesigns | None) -> _Picture:
    folded = folded_front(results)
    return _Picture(
        results=results,
        is_exact=results.front_run is not None,
        folded=folded,
        picks=picks_of(results, folded),
        limits=limit_lines(results.problem),
        marked=marked,
    )


_LEGEND_LINE_MM = 5.0


def _panel_height(width_mm: float | None, n_columns: int) -> float:
    """Height of one panel: two thirds of its width."""
    return 0.66 * (USUAL_WIDTH_MM if width_mm is None else width_mm) / n_columns + 6.0


def _add_legend(figure: Figure, axes: Axes, is_below: bool) -> None:
    if is_below:
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2, fontsize="small")
    else:
        axes.legend(loc="best", fontsize="small")


def _draw_convergence(axes: Axes, results: Results) -> None:
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    exact = results.exact_hypervolume
    scale = 1.0 if exact is None else 100.0 / exact
    for number, optimizer in enumerate(optimizer_names(results)):
        curve = convergence(results, optimizer)
        color = COLORS[number % len(COLORS)]
        seeds = f"{curve.n_runs} seed" + ("" if curve.n_runs == 1 else "s")
        axes.plot(
            curve.evaluations,
            scale * curve.mean,
            color=color,
            linestyle=LINES[number % len(LINES)],
            linewidth=1.8,
            label=f"{optimizer} ({seeds})",
        )
        if curve.n_runs > 1:
            seed_lines = scale * curve.seeds.T
            axes.plot(curve.evaluations, seed_lines, color=color, linewidth=0.5, alpha=0.6)
    if exact is not None:
        label = "exact front (100 %)"
        axes.axhline(100.0, color="#000000", linestyle=(0, (1, 1)), linewidth=1.2, label=label)
    _mark_initial(axes, results.definition.initial)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    if exact is not None:
        axes.set_ylim(top=106.0)
    # Room for "100,000" at every tick.
    n_ticks = int(1.4 * axes.figure.get_figwidth())  # type: ignore[union-attr]  # no subfigure
    axes.xaxis.set_major_locator(MaxNLocator(n_ticks, integer=True))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.ticklabel_format(axis="y", scilimits=(-3, 4), useMathText=True)
    axes.set_xlabel("Evaluated designs")
    of_exact = "Hypervolume (% of the exact front's)"
    axes.set_ylabel(_hypervolume_label(results) if exact is None else of_exact)


def _mark_initial(axes: Axes, n_initial: int) -> None:
    if n_initial <= 0:
        return
    axes.axvspan(0, n_initial, color="#F2F2F2", zorder=0, linewidth=0)
    # At the foot, right of the shade: hypervolume grows, so no curve comes there.
    axes.annotate(
        "← initial sample",
        (n_initial, 0.02),
        xycoords=axes.get_xaxis_transform(),
        xytext=(4, 0),
        textcoords="offset points",
        fontsize="small",
        color="#555555",
    )


def _hypervolume_label(results: Results) -> str:
    units = [objective.metric.unit for objective in results.problem.objectives]
    return "Hypervolume" + (f" ({' · '.join(units)})" if all(units) else "")


_Axis = tuple[FloatArray, Metric | None]


def _panels(results: Results) -> list[tuple[int, int]]:
    n_objectives = len(results.problem.objectives)
    if n_objectives == 1:
        return [(-1, 0)]
    # Power or cost reads best on the x axis: the last objective comes first.
    return [(j, i) for i, j in combinations(range(n_objectives), 2)]


def _axis_values(results: Results, objective: int) -> FloatArray:
    if objective < 0:
        return results.step.astype(np.float64) + 1
    name = results.problem.objectives[objective].metric.name
    return np.asarray(results.metrics[name], dtype=np.float64)


def _draw_front(axes: Axes, picture: _Picture, x: int, y: int) -> None:
    results, marked = picture.results, picture.marked
    x_values, y_values = _axis_values(results, x), _axis_values(results, y)
    front = picture.folded.positions
    feasible = np.flatnonzero(results.feasible)
    if not picture.is_exact:  # what was searched says nothing about an exact front
        axes.scatter(
            x_values[feasible],
            y_values[feasible],
            s=10,
            color=_GRAY,
            alpha=0.35,
            linewidths=0,
            label=f"feasible ({len(feasible):,})",
            # A million points as vectors make a file that no program opens.
            rasterized=len(feasible) > 2_000,
        )
    _draw_line(axes, picture, x_values, y_values, _staircase(results, x))
    if x >= 0:
        _draw_picks(axes, picture, x_values, y_values)
    if marked is not None and x >= 0:
        _draw_marked(axes, results, x, y, marked)
    if not len(feasible):
        message = f"none of {len(results.rows):,} evaluated designs\nkeeps every limit"
        axes.text(0.5, 0.5, message, transform=axes.transAxes, ha="center", va="center")
    drawn = front if picture.is_exact else feasible
    if is_crowded(x_values[drawn]):
        axes.set_xscale("log")
    if is_crowded(y_values[drawn]):
        axes.set_yscale("log")
    axes.margins(0.06)
    if x >= 0:
        _draw_limits(axes, picture, x, y)
    for axis, objective in ((axes.xaxis, x), (axes.yaxis, y)):
        _label_axis(axis, results, objective)


def _staircase(results: Results, x: int) -> str | None:
    """The style of the line that bounds the dominated region; None if that is not a staircase."""
    if len(results.problem.objectives) != 2:
        return None
    return "steps-post" if results.problem.objectives[x].sense == "minimize" else "steps-pre"


def _draw_line(
    axes: Axes, picture: _Picture, x: FloatArray, y: FloatArray, staircase: str | None
) -> None:
    """The front; what is folded under a cheaper design is drawn small."""
    front, kept = picture.folded.positions, picture.folded.kept
    order = front[np.argsort(x[front])]
    axes.plot(
        x[order],
        y[order],
        color=_FRONT_COLOR,
        marker="o",
        markersize=2.2,
        linewidth=1.2 if staircase else 0.0,
        drawstyle=staircase or "default",
        label=f"{'exact' if picture.is_exact else 'Pareto'} front ({len(front):,})",
        zorder=3,
    )
    axes.plot(
        x[front[kept]], y[front[kept]], color=_FRONT_COLOR, marker="o", markersize=5.5,
        markeredgecolor="white", markeredgewidth=0.6, linestyle="None", zorder=3.1,
    )  # fmt: skip


def _draw_picks(axes: Axes, picture: _Picture, x: FloatArray, y: FloatArray) -> None:
    for pick in picture.picks:
        position = picture.folded.positions[pick.place]
        axes.scatter(
            x[position], y[position], s=75, facecolors="none", linewidths=1.6, zorder=4.5,
            edgecolors=_PICK_COLORS.get(pick.key, _FRONT_COLOR),
        )  # fmt: skip


_NEAR = 0.8


def _draw_limits(axes: Axes, picture: _Picture, x: int, y: int) -> None:
    """Those that are in sight or near it."""
    objectives = picture.results.problem.objectives
    for objective, draw, ends, widen in (
        (x, axes.axvline, axes.get_xlim(), axes.set_xlim),
        (y, axes.axhline, axes.get_ylim(), axes.set_ylim),
    ):
        span = ends[1] - ends[0]
        for limit in picture.limits:
            is_near = ends[0] - _NEAR * span <= limit.bound <= ends[1] + _NEAR * span
            if limit.metric == objectives[objective].metric.name and is_near:
                draw(limit.bound, color=_LIMIT_COLOR, linestyle="--", linewidth=1.0, zorder=2)
                margin = 0.02 * span
                widen(min(ends[0], limit.bound - margin), max(ends[1], limit.bound + margin))


def _draw_marked(axes: Axes, results: Results, x: int, y: int, marked: MarkedDesigns) -> None:
    points = _marked_points(results, x, y, marked)
    for is_feasible in (True, False):
        chosen = points[(marked.feasible == is_feasible) & np.isfinite(points).all(axis=1)]
        if len(chosen):
            axes.scatter(
                chosen[:, 0],
                chosen[:, 1],
                marker="D",
                s=34,
                facecolors=_NAMED_COLOR if is_feasible else "white",
                edgecolors=_NAMED_COLOR,
                linewidths=1.1,
                zorder=4,
                label="named design" + ("" if is_feasible else ", over a limit"),
            )


def _write_labels(axes: Axes, picture: _Picture, x: int, y: int, is_narrow: bool) -> None:
    """The recommended designs, with their values where there is room, the named ones, limits."""
    if x < 0:
        return
    results, marked, labels = picture.results, picture.marked, []
    metrics = [results.problem.objectives[index].metric for index in (y, x)]
    x_values, y_values = _axis_values(results, x), _axis_values(results, y)
    for pick in picture.picks:
        position = picture.folded.positions[pick.place]
        place = (float(x_values[position]), float(y_values[position]))
        values = ", ".join(
            format_metric(value, item) for value, item in zip(reversed(place), metrics, strict=True)
        )
        text = pick.key if is_narrow else f"{pick.key}: {values}"
        labels.append((place, text, _PICK_COLORS.get(pick.key, _FRONT_COLOR)))
    if marked is not None:
        points = _marked_points(results, x, y, marked)
        known = np.flatnonzero(np.isfinite(points).all(axis=1))[:_MOST_LABELS]
        labels += [(tuple(points[index]), marked.names[index], _NAMED_INK) for index in known]
    if labels:
        places, names, colors = zip(*labels, strict=True)
        write_names(axes, np.array(places), names, colors, reach=5.0)
    for limit in picture.limits:
        if (
            limit.metric == metrics[1].name
            and axes.get_xlim()[0] < limit.bound < axes.get_xlim()[1]
        ):
            name_line(axes, limit.words, _LIMIT_COLOR, x=limit.bound)
        if (
            limit.metric == metrics[0].name
            and axes.get_ylim()[0] < limit.bound < axes.get_ylim()[1]
        ):
            name_line(axes, limit.words, _LIMIT_COLOR, y=limit.bound)


def _marked_points(results: Results, x: int, y: int, marked: MarkedDesigns) -> FloatArray:
    names = [results.problem.objectives[index].metric.name for index in (x, y)]
    return np.column_stack([marked.metrics[name] for name in names])


def _label_axis(axis: Any, results: Results, objective: int) -> None:
    if objective < 0:
        axis.set_label_text("Evaluated designs")
    else:
        label_objective(axis, results.problem.objectives[objective])


def save_occupancy(
    path: Path,
    title: str,
    operators: Sequence[tuple[str, float, float]],
    edges_s: FloatArray,
    busy: Mapping[str, FloatArray],
) -> Path:
    """Draw how busy each resource is over time, with the operators above.

    Args:
        operators: Name, start and end in seconds.
        edges_s: (t + 1,) ends of the intervals.
        busy: (t,) share of each interval by resource, 0 to 1.
    """
    with drawing_style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7.2, 4.6), layout="constrained")
        axes = figure.subplots()
        axes.grid(visible=False)
        names = list(busy)
        shares = np.stack([busy[name] for name in names])
        scale, unit = (1e3, "ms") if edges_s[-1] >= 1e-3 else (1e6, "µs")
        end = float(edges_s[-1]) * scale
        image = axes.imshow(
            shares,
            aspect="auto",
            interpolation="nearest",
            cmap="Blues",
            vmin=0.0,
            vmax=1.0,
            extent=(0.0, end, len(names) - 0.5, -0.5),
        )
        axes.set_yticks(range(len(names)), names)
        axes.set_xlabel(f"Time ({unit})")
        for name, begin, stop in operators:
            axes.axvline(stop * scale, color=_GRAY, linewidth=0.5)
            if (stop - begin) * scale > 0.03 * end:
                middle = (begin + stop) / 2 * scale
                label = name.replace("_", " ").replace(" projection", "")
                axes.text(
                    middle, -0.6, label, ha="center", va="bottom", fontsize="small", rotation=30
                )
        figure.colorbar(image, ax=axes, label="Busy")
        figure.suptitle(title, fontsize="medium")
        return save_figure(figure, path)
