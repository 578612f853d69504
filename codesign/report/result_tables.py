"""A campaign's results as tables and as one document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.table import Table

from codesign.base.metrics import Metric
from codesign.insight.plateaus import folded_front
from codesign.insight.summary import summarize
from codesign.report.labels import (
    KEY_METRICS,
    evaluator_words,
    format_metric,
    format_value,
    is_share,
    metric_of,
    metric_title,
    unit_text,
)
from codesign.report.labels import design_words as design_words
from codesign.report.tables import plain_table, record_table
from codesign.search.pareto import TOLERANCE

if TYPE_CHECKING:
    from codesign.search.campaign import Results


def front_table(
    results: Results,
    limit: int | None = None,
    tolerance: float = TOLERANCE,
) -> Table:
    """The front in words, with objectives and further metrics.

    Designs that are hardly better than a cheaper one are folded under it; numbers are those of
    the whole front.

    Args:
        limit: At most so many lines.
        tolerance: Share within which designs are folded; 0 shows every design.
    """
    folded = folded_front(results, tolerance)
    places = folded.kept[:limit]
    positions = folded.positions[places]
    metrics = _front_metrics(results)
    headers = [metric_header(metric) for metric in metrics]
    table = plain_table(front_title(results), ["#", "design", *headers], ["#", *headers])
    space = results.problem.space
    words = design_words(space, space.decode(results.rows[positions]), between="\n")
    for place, position, design in zip(places.tolist(), positions, words, strict=True):
        values = [float(results.metrics[metric.name][position]) for metric in metrics]
        cells = [metric_cell(*pair) for pair in zip(values, metrics, strict=True)]
        design_cell = "\n".join(filter(None, [design, folded.count_words(place)]))
        table.add_row(str(place + 1), design_cell, *cells)
    n_hidden = len(folded.kept) - len(places)
    table.caption = "; ".join(
        filter(None, [f"{n_hidden:,} more" if n_hidden else "", folded.summary])
    )
    return table


def front_title(results: Results) -> str:
    """Over a table of the front: which one it is, and by which evaluator."""
    adjective = "Exact" if results.front_run is not None else "Searched"
    means = " of posterior means, with observed values" if results.shows_means else ""
    return f"{adjective} Pareto front{means} ({evaluator_words(results.reading)})"


def metric_header(metric: Metric) -> str:
    """The metric's name and unit, over a column of plain numbers."""
    title = metric_title(metric)
    if is_share(metric):
        return f"{title} %"
    says_unit = not metric.unit or title.startswith("tokens per")
    return title if says_unit else f"{title} {unit_text(metric.unit)}"


def metric_cell(value: float, metric: Metric) -> str:
    """A number under :func:`metric_header`."""
    return format_value(100.0 * value, digits=3) if is_share(metric) else format_value(value)


def _front_metrics(results: Results) -> list[Metric]:
    objectives = [objective.metric for objective in results.problem.objectives]
    names = {metric.name for metric in objectives}
    key = [name for name in KEY_METRICS if name in results.metrics and name not in names]
    metrics = results.problem.metrics
    return objectives + [metric_of(name, metrics) for name in key]


def optimizers_table(results: Results, ranks: Mapping[str, float] | None = None) -> Table:
    """Hypervolume and counts of each optimizer over its seeds.

    Args:
        ranks: Mean rank of each optimizer; not shown if None.
    """
    exact = results.exact_hypervolume
    rows = [
        vars(record)
        | {"share": record.hypervolume_mean / exact if exact else None}
        | {"rank": ranks[record.optimizer] if ranks else None}
        for record in summarize(results)
    ]
    share, rank = " share=of_exact" * bool(exact), " rank=mean_rank" * bool(ranks)
    fields = f"optimizer hypervolume_mean=hypervolume hypervolume_std=±_std{share}{rank} "
    return record_table(
        "Optimizers", rows, f"{fields}n_runs=seeds n_evaluated=evaluated n_feasible=feasible "
        "n_failed=failed",
    )  # fmt: skip


def reference_text(results: Results) -> str:
    """The bound of the hypervolume in one line, with a warning where it tells nothing."""
    from codesign.search.campaign.reference_range import reference_warnings

    metrics = {objective.metric.name: objective.metric for objective in results.problem.objectives}
    bounds = [
        f"{metric_title(metrics[name])} {format_metric(value, metrics[name])}"
        for name, value in results.reference_point.items()
    ]
    text = f"Hypervolume is bounded by the reference point: {', '.join(bounds)}."
    return " ".join([text, *(f"Warning: {words}." for words in reference_warnings(results))])
