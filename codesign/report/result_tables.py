"""A campaign's results as tables and as one document."""

from __future__ import annotations

from rich.table import Table

from codesign.base.columns import FloatMap
from codesign.base.metrics import Metric
from codesign.insight.summary import summarize
from codesign.report.labels import design_words as design_words
from codesign.report.labels import (
    evaluator_words,
    format_metric,
    format_value,
    is_share,
    metric_title,
    unit_text,
)
from codesign.report.tables import record_table
from codesign.search.campaign import Results


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


def optimizers_table(results: Results, ranks: FloatMap | None = None) -> Table:
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
    share = " share=of_exact" * bool(exact)
    rank = " rank=mean_rank" * bool(ranks)
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
