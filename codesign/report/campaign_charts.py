"""Charts of a campaign: its front, and how its optimizers came there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np

from codesign.base.columns import Arrays, FieldRows, Fields, FloatArray, IntArray, StringMap, evenly
from codesign.base.errors import InputError
from codesign.base.metrics import Metric
from codesign.base.records import frozen
from codesign.insight.plateaus import FoldedFront, fold_positions
from codesign.insight.summary import convergence, optimizer_names
from codesign.report import palette
from codesign.report.chart import (
    Axis,
    Box,
    Chart,
    Label,
    Line,
    Mark,
    Panel,
    Points,
    log_padded,
    padded,
    row_axis,
)
from codesign.report.labels import (
    axis_label,
    counted,
    format_metric,
    is_share,
    metric_title,
    setting_words,
    unit_text,
)
from codesign.report.limit_lines import limit_lines
from codesign.report.marked_designs import MarkedDesigns
from codesign.report.page.carried_designs import carry
from codesign.report.picks import Pick, picks_of
from codesign.report.svg import axis_unit
from codesign.search.campaign import Results
from codesign.search.pareto import TOLERANCE
from codesign.search.problem import cost_column
from codesign.search.study import Study

MOST_DOTS = 1_500
"""[ours] Marks of a panel for the front, and for dominated designs: more are a cloud."""
_MOST_NAMES = 12
_NEAR = 0.6
"""[ours] Share of the front's span around it that is drawn."""
_CROWDED = 0.1
PICK_TITLES = {key: key.title() for key in ("frugal", "knee", "recommended", "fastest", "best")}


@frozen
class FrontPicture:
    """Everything that a chart of a front shows.

    Attributes:
        positions: (n,) positions in the results: the front, then other feasible designs, then
            those that break a limit. A design's number on the page is its place here.
        n_front: Number of designs of the front.
        n_feasible: Number of feasible designs.
        tighter: Values by metric of the points that moved limits bring to the front.
        sliders: Limits that a page moves, with the bounds of their positions.
    """

    results: Results
    positions: IntArray
    n_front: int
    n_feasible: int
    folded: FoldedFront
    picks: Sequence[Pick]
    marked: MarkedDesigns | None = None
    tighter: Arrays | None = None
    sliders: FieldRows = ()

    @property
    def is_exact(self) -> bool:
        """True if the front was enumerated."""
        return self.results.exact is not None or self.results.front_run is not None

    def values(self, metric: Metric | None) -> FloatArray:
        """(n,) values of the designs; without a metric the number of their evaluation."""
        if metric is None:
            return np.asarray(self.results.step[self.positions] + 1.0)
        return np.asarray(self.results.metrics[metric.name][self.positions], np.float64)


def front_picture(
    results: Results,
    tolerance: float = TOLERANCE,
    marked: MarkedDesigns | None = None,
) -> FrontPicture:
    """The front of a campaign with the designs that a page carries.

    Args:
        tolerance: Share within which a design is folded under a cheaper one.
    """
    carried = carry(results)
    folded = fold_positions(results, carried.positions[: carried.n_front], tolerance)
    return FrontPicture(
        results, carried.positions, carried.n_front, carried.n_feasible, folded,
        picks_of(results, folded), marked,
    )  # fmt: skip


def front_chart(picture: FrontPicture, is_narrow: bool, with_searched: bool = False) -> Chart:
    """Designs by their objectives: the front, the recommended and the named ones, the limits.

    A panel shows one pair of objectives; a single objective stands against the evaluations.

    Args:
        is_narrow: One panel below the other, and names without values.
        with_searched: Also the designs that a search evaluated, when the front is exact.
    """
    objectives = picture.results.problem.objective_metrics
    pairs: list[tuple[Metric | None, Metric]] = [(x, y) for y, x in combinations(objectives, 2)]
    pairs = pairs or [(None, objectives[0])]
    is_cloud = with_searched or not picture.is_exact
    panels = [_front_panel(picture, x, y, is_narrow, is_cloud) for x, y in pairs]
    subject = "; ".join(
        f"{metric_title(y)} against {metric_title(x) if x else 'evaluations'}" for x, y in pairs
    )
    exact = "Exact front" if picture.is_exact else "Designs"
    return Chart(
        panels,
        f"{exact}: {subject}. {picture.n_front:,} on the front. The table has the same designs.",
        f"{picture.results.definition.name}: {'exact ' * picture.is_exact}Pareto front",
        columns=1 if is_narrow else min(2, len(pairs)),
    )


def study_chart(study: Study) -> Chart:
    """Designs of a study by its first and last objective.

    Raises:
        InputError: The study has no result.
    """
    observed = study.observations
    (up, *_, across) = 2 * study.problem.objective_names
    if observed is None:
        raise InputError("expected a study with results, got none")
    x = observed.metrics[across]
    y = observed.metrics[up]
    front = observed.front
    marks = [Points(x, y, "dim", name="results"), Points(x[front], y[front], name="front")]
    panel = Panel(Axis(padded(x), across), Axis(padded(y), up), marks)
    return Chart([panel], "Front of a study")


def _front_panel(
    picture: FrontPicture, x: Metric | None, y: Metric, is_narrow: bool, is_cloud: bool
) -> Panel:
    problem = picture.results.problem
    senses = {objective.metric.name: objective.sense for objective in problem.objectives}
    limits = {line.metric: line for line in limit_lines(problem)}
    axes = [
        _front_axis(picture, metric, senses, limits, arrows, is_cloud)
        for metric, arrows in ((x, "→←"), (y, "↑↓"))
    ]
    marks = list(_cloud(picture, x, y)) if is_cloud else []
    marks += _front_marks(picture, x, y, "hv" if x and senses[x.name] == "minimize" else "vh")
    for metric, axis, upright in ((x, axes[0], True), (y, axes[1], False)):
        if metric is None:
            continue
        line = limits.get(metric.name)
        lines = [(line.bound, line.words, "limit")] if line else []
        for slider in picture.sliders:
            if slider["name"] == metric.name:
                bounds = zip(slider["bounds"], slider["texts"], strict=True)
                lines += [(x, f"{metric_title(metric)} {text}", "moved") for x, text in bounds]
        low, high = sorted(axis.ends)
        for bound, words, group in lines:
            if not low < bound < high:
                continue
            across = list(axes[1].ends if upright else axes[0].ends)
            ends = ([bound] * 2, across) if upright else (across, [bound] * 2)
            marks.append(Line(*ends, "quiet", 1.2, "dash", text=words, group=group))
            if group == "limit":
                marks.append(Label(ends[0][0], ends[1][0], words, "quiet", is_line=True, size=10))
    marks += _names(picture, x, y, is_narrow)
    height = 250.0 if is_narrow else 330.0 if len(problem.objectives) < 3 else 250.0
    return Panel(axes[0], axes[1], marks, height=height)


def _front_axis(
    picture: FrontPicture, metric: Metric | None, senses: StringMap,
    limits: Fields, arrows: str, is_cloud: bool,
) -> Axis:  # fmt: skip
    """The look at the front and the named designs, with a limit that is near."""
    if metric is None:
        return Axis(padded(picture.values(None), 0.02, 0.02), "Evaluated designs")
    values = picture.values(metric)
    close = values[: picture.n_front] if picture.n_front > 1 else values
    if picture.marked is not None:
        close = np.concatenate([close, picture.marked.metrics[metric.name]])
    if picture.tighter is not None:
        close = np.concatenate([close, picture.tighter[metric.name]])
    close = close[np.isfinite(close)]
    span = float(np.ptp(close)) if len(close) else 0.0
    line = limits.get(metric.name)
    if line is not None and len(close):
        near = close.min() - 0.8 * span <= line.bound <= close.max() + 0.8 * span
        close = np.append(close, line.bound) if near else close
    if is_cloud and len(close):
        inside = values[: picture.n_feasible]
        within = (inside >= close.min() - _NEAR * span) & (inside <= close.max() + _NEAR * span)
        close = np.concatenate([close, inside[within]])
    return objective_axis(metric, senses[metric.name], close, arrows)


def objective_axis(metric: Metric, sense: str, values: FloatArray, arrows: str) -> Axis:
    """Axis around values of an objective, with an arrow in the direction in which it is better.

    The axis is logarithmic if a linear one would press nine values of ten into a tenth of it.

    Args:
        arrows: Two arrows: toward larger values, then toward smaller ones.
    """
    arrow = arrows[0] if sense == "maximize" else arrows[1]
    if len(values) and 0 < values.min() < values.max():
        share = (np.quantile(values, 0.9) - values.min()) / (values.max() - values.min())
        if share < _CROWDED:
            title = f"{axis_label(metric)}, log scale  {arrow} better"
            return Axis(log_padded(values, 1.2), title, "", is_log=True)
    ends = padded(values)
    unit = "%" if is_share(metric) else metric.unit
    scaled = axis_unit(ends, unit)
    title = axis_label(metric)
    title = f"{title.rpartition(' (')[0] or title} ({scaled})" if scaled else title
    return Axis(ends, f"{title}  {arrow} better", unit)


def _cloud(picture: FrontPicture, x: Metric | None, y: Metric) -> Iterator[Mark]:
    """Designs that were searched: those over a limit, then the dominated ones."""
    edges = [picture.n_front, picture.n_feasible, len(picture.positions)]
    looks = [("dominated", "circle"), ("over a limit", "cross")]
    for (name, shape), ids in zip(looks, map(np.arange, edges, edges[1:]), strict=True):
        thin = evenly(ids, MOST_DOTS)
        if len(thin):
            yield Points(
                picture.values(x)[thin], picture.values(y)[thin], "dim", shape, 5.0, opacity=0.45,
                name=name + _drawn_words(thin, ids), ids=thin.tolist(),
                group=name.partition(" ")[0],
            )  # fmt: skip


def _drawn_words(drawn: IntArray, ids: IntArray) -> str:
    return f", {len(drawn):,} of {len(ids):,} drawn" if len(drawn) < len(ids) else ""


def _front_marks(picture: FrontPicture, x: Metric | None, y: Metric, step: str) -> Iterator[Mark]:
    places = np.arange(picture.n_front)
    xs = picture.values(x)[places]
    ys = picture.values(y)[places]
    order = np.argsort(xs, kind="stable")
    if len(picture.results.problem.objectives) == 2:
        yield Line(xs[order], ys[order], width=1.3, step=step, group="front")
    thin = evenly(order, MOST_DOTS)
    is_kept = np.isin(thin, picture.folded.kept)
    yield Points(
        xs[thin], ys[thin], size=np.where(is_kept, 8.0, 4.0),
        opacity=np.where(is_kept, 1.0, 0.45), name="front" + _drawn_words(thin, order),
        ids=thin.tolist(), group="front",
    )  # fmt: skip
    picks = [pick.place for pick in picture.picks if pick.place < picture.n_front]
    if picks:
        hues = [palette.PICKS.get(pick.key, "blue") for pick in picture.picks]
        yield Points(
            picture.values(x)[picks], picture.values(y)[picks], hues, size=14.0, is_open=True,
            name="choices", ids=picks, group="picks",
        )  # fmt: skip
    if picture.tighter is not None and x is not None:
        across, up = (picture.tighter[metric.name] for metric in (x, y))
        yield Points(across, up, ids=list(range(len(up))), group="tighter")
    marked = picture.marked
    for is_feasible in (True, False) if marked is not None and x is not None else ():
        assert marked is not None and x is not None
        named = np.flatnonzero(marked.feasible == is_feasible)
        if len(named):
            yield Points(
                marked.metrics[x.name][named], marked.metrics[y.name][named], "purple", "diamond",
                9.0, is_open=not is_feasible,
                name="named design" + ("" if is_feasible else ", over a limit"),
                ids=(len(picture.positions) + named).tolist(),
            )  # fmt: skip


def _names(picture: FrontPicture, x: Metric | None, y: Metric, is_narrow: bool) -> Iterator[Mark]:
    """Names of the recommended designs, with their values where there is room, and of others."""
    if x is None:
        return
    for pick in picture.picks:
        across, up = (float(picture.values(metric)[pick.place]) for metric in (x, y))
        more = "" if is_narrow else f"\n{format_metric(up, y, 3)}, {format_metric(across, x, 3)}"
        hue = palette.PICKS.get(pick.key, "blue")
        yield Label(across, up, PICK_TITLES[pick.key] + more, hue, is_bold=True, group="picks")
    marked = picture.marked
    for k, name in enumerate(marked.names[:_MOST_NAMES] if marked else ()):
        assert marked is not None
        across, up = (float(marked.metrics[metric.name][k]) for metric in (x, y))
        if np.isfinite([across, up]).all():
            yield Label(across, up, name, "purple")


def bands_chart(picture: FrontPicture) -> Chart | None:
    """The choices along the front: a row per parameter, a band per value over the cost.

    With two objectives a design is the choice from its cost up to that of the next one; with more
    objectives each design takes an equal part. None with fewer than two designs to choose from.
    """
    problem = picture.results.problem
    objective = problem.objectives[cost_column(problem.objectives)]
    metric = objective.metric
    places = picture.folded.kept
    if len(places) < 2:
        return None
    costs = picture.values(metric)[places]
    order = np.argsort(costs, kind="stable")
    places = places[order]
    costs = costs[order]
    if len(problem.objectives) == 2:
        edges = np.append(costs, costs[-1] + 0.08 * float(np.ptp(costs)))
        axis = Axis((float(edges[0]), float(edges[-1])), axis_label(metric), metric.unit)
        if axis_unit(axis.ends, metric.unit) != unit_text(metric.unit):
            axis = replace(axis, title=metric_title(metric))
    else:
        edges = np.arange(len(places) + 1.0)
        axis = Axis((0.0, float(len(places))), f"Designs to choose from, by {metric_title(metric)}",
                    ticks=())  # fmt: skip
    designs = problem.space.decode(picture.results.rows[picture.positions[places]])
    rows = {}
    for parameter in problem.space.parameters:
        words = [setting_words(parameter.name, design[parameter.name]) for design in designs]
        if len({text for _, text in words}) > 1:
            title = next(title for title, text in words if text)
            rows[title] = [text or "none" for _, text in words]
    marks = []
    for row, (title, texts) in enumerate(rows.items()):
        starts = [0, *(k for k in range(1, len(texts)) if texts[k] != texts[k - 1]), len(texts)]
        for place, (k, last) in enumerate(pairwise(starts)):
            since = format_metric(costs[k], metric, 3)
            marks.append(Box(
                (float(edges[k]), float(edges[last])), (row - 0.42, row + 0.42), "accent",
                (0.16, 0.32)[place % 2], label=texts[k], edge="paper", id=int(places[k]),
                text=f"{title}: {texts[k]} from {metric_title(metric)} {since}",
            ))  # fmt: skip
    names = row_axis(list(rows))
    panel = Panel(axis, names, marks, height=26.0 * max(len(rows), 1))
    listed = "; ".join(
        f"{title}: {', '.join(dict.fromkeys(texts))}" for title, texts in rows.items()
    )
    return Chart([panel], f"Choices along the front. {listed}")


def convergence_chart(results: Results) -> Chart:
    """Hypervolume against evaluations: every seed as a thin line, their mean as a thick one.

    The exact front's hypervolume is 100 %, where it is known.
    """
    exact = results.exact_hypervolume
    scale = 1.0 if exact is None else 100.0 / exact
    marks: list[Mark] = []
    last = 1.0
    top = 0.0
    for number, optimizer in enumerate(optimizer_names(results)):
        curve = convergence(results, optimizer, 400)
        if not len(curve.evaluations):
            continue
        look = palette.series_look(number)
        seeds = curve.seeds if curve.n_runs > 1 else ()
        marks += [
            Line(curve.evaluations, scale * seed, look["hue"], 0.6, opacity=0.6) for seed in seeds
        ]
        name = f"{optimizer} ({counted(curve.n_runs, 'seed')})"
        marks.append(Line(curve.evaluations, scale * curve.mean, width=2.0, name=name, **look))
        last = max(last, float(curve.evaluations[-1]))
        top = max(top, float(scale * curve.seeds.max()))
    units = [objective.metric.unit for objective in results.problem.objectives]
    title = "Hypervolume" + (f" ({' · '.join(units)})" if all(units) else "")
    if exact is not None:
        title = "Hypervolume (% of the exact front's)"
        top = 100.0
        marks.append(Line([0.0, last], [100.0, 100.0], dash="dot", name="exact front (100 %)"))
    initial = results.definition.initial
    if 0 < initial < last:
        marks.append(Line([initial] * 2, [0.0, 1.06 * top], "quiet", 1.0, "dash"))
        marks.append(Label(initial, 0.04 * top, " ← initial sample", "quiet", "start"))
    panel = Panel(
        Axis((0.0, last), "Evaluated designs"), Axis((0.0, 1.06 * top or 1.0), title), marks
    )
    return Chart(
        [panel],
        "Hypervolume against evaluated designs by optimizer, every seed and their mean. "
        "The table below has the last values.",
        f"{results.definition.name}: every seed, and their mean",
    )
