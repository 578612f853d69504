"""Figures of a campaign: hypervolume against evaluations, and the front.

With ``scatter.py`` the only module that imports matplotlib. Files are deterministic: the same
results give the same bytes under the same matplotlib. Colors are those of Okabe and Ito (2008),
which people with impaired color vision can tell apart; each series has its own line or marker as
well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from codesign.columns import BoolArray, FloatArray, IntArray
from codesign.errors import InputError, MissingExtraError, describe_unknown
from codesign.files import replacing
from codesign.metrics import Metric
from codesign.report.labels import axis_label, takes_prefix
from codesign.report.summary import convergence, optimizer_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from codesign.campaign import Results
    from codesign.problem import Objective

FORMATS = ("png", "svg", "pdf")
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 3)), (0, (1, 2)))
_GRAY, _FRONT_COLOR, _NAMED_COLOR = "#9A9A9A", "#0072B2", "#D55E00"
_STYLE = {
    "font.size": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E3E3E3",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "figure.dpi": 100.0,
    "savefig.dpi": 160.0,
    "svg.fonttype": "path",
    # Whole TrueType fonts inside: what publishers accept.
    "pdf.fonttype": 42,
    # Identifiers inside an SVG are derived from this instead of being drawn at random.
    "svg.hashsalt": "codesign",
}
_MOST_LABELS = 12


@dataclass(frozen=True)
class MarkedDesigns:
    """Designs to show by name next to a front, such as the published ones.

    Attributes:
        names: One per design.
        metrics: (k,) values by metric.
        feasible: (k,) whether every limit of the campaign is kept.
        designs: Each by parameter; None where absent. A GPU's may not be in the campaign's space.
    """

    names: Sequence[str]
    metrics: Mapping[str, FloatArray]
    feasible: BoolArray
    designs: Sequence[Mapping[str, Any]] = ()


def save_convergence(results: Results, path: Path) -> Path:
    """Draw hypervolume against evaluations: mean over the seeds, band of one standard deviation.

    Raises:
        MissingExtraError: matplotlib is not installed.
        InputError: The format is unknown or the file cannot be written.
    """
    with drawing_style():
        figure = _new_figure(1)
        _draw_convergence(figure.axes[0], results)
        return save_figure(figure, path)


def save_front(results: Results, path: Path, marked: MarkedDesigns | None = None) -> Path:
    """Draw the feasible observations, the non-dominated ones among them, and marked designs.

    One panel per pair of objectives; a single objective is drawn against the evaluations.

    Raises:
        MissingExtraError: matplotlib is not installed.
        InputError: The format is unknown or the file cannot be written.
    """
    with drawing_style():
        pairs = _panels(results)
        figure = _new_figure(len(pairs))
        for axes, (x, y) in zip(figure.axes, pairs, strict=True):
            _draw_front(axes, results, x, y, marked)
        figure.axes[0].legend(loc="best", fontsize=9)
        figure.suptitle(f"{results.definition.name}: Pareto front", fontsize=11)
        return save_figure(figure, path)


def check_format(form: str) -> None:
    """Refuse a format that figures are not drawn in.

    Raises:
        InputError: There is no such format.
    """
    if form not in FORMATS:
        raise InputError(describe_unknown("figure format", form, FORMATS))


def drawing_style() -> Any:
    """The look of every figure, as a context.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    try:
        import matplotlib.style
    except ImportError as error:
        raise MissingExtraError("a figure", "report") from error
    # From the defaults, so that a reader's own settings do not change the figure.
    return matplotlib.style.context(["default", _STYLE])


def _new_figure(n_panels: int) -> Figure:
    from matplotlib.figure import Figure

    width = 7.2 if n_panels == 1 else 5.6 * n_panels
    figure = Figure(figsize=(width, 4.6), layout="constrained")
    figure.subplots(1, n_panels)
    return figure


def save_figure(figure: Figure, path: Path) -> Path:
    """Write a figure in the format of the path's suffix; the same figure gives the same bytes.

    Raises:
        InputError: The format is unknown or the file cannot be written.
    """
    form = path.suffix.removeprefix(".").lower()
    check_format(form)
    # Neither the date nor the version of the software belongs to the result.
    metadata = _NAMELESS[form]
    with replacing(path) as unfinished:
        figure.savefig(unfinished, format=form, metadata=metadata)
    return path


_NAMELESS: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def _draw_convergence(axes: Axes, results: Results) -> None:
    from matplotlib.ticker import MaxNLocator

    for number, optimizer in enumerate(optimizer_names(results)):
        curve = convergence(results, optimizer)
        color = COLORS[number % len(COLORS)]
        seeds = f"{curve.n_runs} seed" + ("" if curve.n_runs == 1 else "s")
        axes.plot(
            curve.evaluations,
            curve.mean,
            color=color,
            linestyle=LINES[number % len(LINES)],
            linewidth=1.8,
            label=f"{optimizer} ({seeds})",
        )
        low, high = np.maximum(curve.mean - curve.std, 0.0), curve.mean + curve.std
        axes.fill_between(curve.evaluations, low, high, color=color, alpha=0.15, linewidth=0)
    whole = results.exact_hypervolume
    if whole is not None:
        label = "exact front (100 %)"
        axes.axhline(whole, color="#000000", linestyle=(0, (1, 1)), linewidth=1.2, label=label)
    _mark_initial(axes, results.definition.initial)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.ticklabel_format(axis="y", scilimits=(-3, 4), useMathText=True)
    axes.set_xlabel("Evaluated designs")
    axes.set_ylabel(_hypervolume_label(results))
    axes.set_title(f"{results.definition.name}: mean ± standard deviation", fontsize=11)
    axes.legend(loc="lower right", fontsize=9)


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
        fontsize=8,
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


def _draw_front(axes: Axes, results: Results, x: int, y: int, marked: MarkedDesigns | None) -> None:
    x_values, y_values = _axis_values(results, x), _axis_values(results, y)
    front = results.front()
    shown = np.flatnonzero(results.feasible)
    axes.scatter(
        x_values[shown],
        y_values[shown],
        s=10,
        color=_GRAY,
        alpha=0.35,
        linewidths=0,
        label=f"feasible ({len(shown):,})",
        # A million points as vectors make a file that no program opens.
        rasterized=len(shown) > 2_000,
    )
    if results.exact is not None and x >= 0:
        _draw_exact(axes, results, x, y)
    _draw_line(axes, x_values[front], y_values[front], _staircase(results, x))
    if marked is not None and x >= 0:
        _draw_marked(axes, results, x, y, marked)
    for axis, objective in ((axes.xaxis, x), (axes.yaxis, y)):
        _label_axis(axis, results, objective)
    axes.margins(0.06)


def _staircase(results: Results, x: int) -> str | None:
    """The style of the line that bounds the dominated region; None if that is not a staircase."""
    if len(results.problem.objectives) != 2:
        return None
    return "steps-post" if results.problem.objectives[x].sense == "minimize" else "steps-pre"


def _draw_line(axes: Axes, x: FloatArray, y: FloatArray, staircase: str | None) -> None:
    order: IntArray = np.argsort(x)
    axes.plot(
        x[order],
        y[order],
        color=_FRONT_COLOR,
        marker="o",
        markersize=5,
        markeredgecolor="white",
        markeredgewidth=0.6,
        linewidth=1.2 if staircase else 0.0,
        drawstyle=staircase or "default",
        label=f"Pareto front ({len(x):,})",
        zorder=3,
    )


def _draw_exact(axes: Axes, results: Results, x: int, y: int) -> None:
    """The exact front below what was found."""
    assert results.exact is not None  # the caller has looked
    signs = [objective.sign for objective in results.problem.objectives]
    points = results.exact.objectives
    order = np.argsort(signs[x] * points[:, x])
    staircase = _staircase(results, x)
    axes.plot(
        signs[x] * points[order, x],
        signs[y] * points[order, y],
        color="#000000",
        marker="." if staircase is None else "",
        markersize=3,
        linestyle=(0, (1, 1)) if staircase else "",
        linewidth=1.2,
        drawstyle=staircase or "default",
        label=f"exact front ({len(points):,})",
        zorder=2.5,
    )


def _draw_marked(axes: Axes, results: Results, x: int, y: int, marked: MarkedDesigns) -> None:
    names = [results.problem.objectives[index].metric.name for index in (x, y)]
    points = np.column_stack([marked.metrics[name] for name in names])
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
    for name, (x_value, y_value) in list(zip(marked.names, points, strict=True))[:_MOST_LABELS]:
        if np.isfinite(x_value) and np.isfinite(y_value):
            axes.annotate(
                name, (x_value, y_value), xytext=(0, 6), textcoords="offset points",
                ha="center", fontsize=9, color="#8A3A00", zorder=5,
            )  # fmt: skip


def _label_axis(axis: Any, results: Results, objective: int) -> None:
    if objective < 0:
        axis.set_label_text("Evaluated designs")
    else:
        label_objective(axis, results.problem.objectives[objective])


def label_objective(axis: Any, objective: Objective) -> None:
    """Name an axis after an objective, say in which direction it is better, and set its units."""
    from matplotlib.ticker import EngFormatter, StrMethodFormatter

    arrow = "→" if axis.axis_name == "x" else "↑"
    if objective.sense == "minimize":
        arrow = "←" if axis.axis_name == "x" else "↓"
    metric = objective.metric
    axis.set_label_text(f"{axis_label(metric)}  {arrow} better")
    is_prefixed = takes_prefix(metric.unit)
    axis.set_major_formatter(EngFormatter(sep="") if is_prefixed else StrMethodFormatter("{x:,g}"))


def save_occupancy(
    path: Path,
    title: str,
    operators: Sequence[tuple[str, float, float]],
    edges_s: FloatArray,
    busy: Mapping[str, FloatArray],
) -> Path:
    """Draw how busy each resource is over time, with the operators above.

    Args:
        path: PNG, SVG or PDF.
        title: Of the figure.
        operators: Name, start and end in seconds.
        edges_s: (t + 1,) ends of the intervals.
        busy: (t,) share of each interval by resource, 0 to 1.

    Raises:
        MissingExtraError: matplotlib is not installed.
        InputError: The format is unknown or the file cannot be written.
    """
    with drawing_style():
        figure = _new_figure(1)
        axes = figure.axes[0]
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
                axes.text(middle, -0.6, label, ha="center", va="bottom", fontsize=8, rotation=30)
        figure.colorbar(image, ax=axes, label="Busy")
        figure.suptitle(title, fontsize=11)
        return save_figure(figure, path)
