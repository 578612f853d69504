"""Effects of the memory technologies' ranges on a design's metrics and on a front."""

from __future__ import annotations

import math
from collections.abc import Callable

from codesign.answers.uncertainty import DISTRIBUTION
from codesign.base.metrics import Metric
from codesign.base.units import parse_unit
from codesign.insight.evaluated_design import EvaluatedDesign
from codesign.insight.plateaus import number_ranges
from codesign.insight.uncertainty.uncertainty_results import (
    DesignUncertainty,
    RobustFront,
)
from codesign.report.labels import (
    format_metric,
    format_value,
    metric_of,
    metric_title,
    takes_prefix,
)
from codesign.report.result_tables import design_words, metric_header
from codesign.report.tables import (
    Tables,
    constant_words,
    plain_table,
    record_table,
    spaced,
)
from codesign.search.campaign import Results

PERCENTS = "5-95 %"
"""Share of the draws that intervals hold."""
NO_RANGE = "no range stated"
"""Text instead of an interval where no number has a range."""
_MOST_TORNADO_ROWS = 4


def design_tables(uncertainty: DesignUncertainty, evaluated: EvaluatedDesign) -> Tables:
    """Intervals, and what dominates them, for the terminal."""
    metrics = {name: metric_of(name, evaluated.known_metrics) for name in uncertainty.intervals}
    headers = ["typical", "5 %", "median", "95 %", "lowest corner", "highest corner"]
    caption = f"Uncertainty: {PERCENTS} of the draws, and corners of the ranges"
    intervals = plain_table(caption, ["metric", *headers], headers)
    has_tornado = any(uncertainty.tornado.values())
    tornado = plain_table(
        "Tornado: one number at a time",
        ["metric", "number", "at low", "at high", "swing"],
        ["at low", "at high", "swing"],
    )
    for name, interval in uncertainty.intervals.items():
        title, show = _scaled_to_unit(interval.typical, metrics[name])
        values = (interval.p5, interval.median, interval.p95, interval.minimum, interval.maximum)
        cells = (show(value) if interval.is_moved else "–" for value in values)
        intervals.add_row(title, show(interval.typical), *cells)
        for place, swing in enumerate(uncertainty.tornado.get(name, ())[:_MOST_TORNADO_ROWS]):
            number = constant_words(swing.technology, swing.number)
            ends = (show(swing.at_low), show(swing.at_high))
            tornado.add_row("" if place else title, number, *ends, _percent(swing.relative_swing))
    if any(len(swings) > _MOST_TORNADO_ROWS for swings in uncertainty.tornado.values()):
        tornado.caption = f"The {_MOST_TORNADO_ROWS} largest of each metric; --json has all."
    if not all(interval.is_moved for interval in uncertainty.intervals.values()):
        intervals.caption = f"–: {NO_RANGE}; the metric depends on no number with a range."
    share = _percent(uncertainty.feasible_share)
    limits = f"Note: The design keeps every limit in {share} of the draws."
    lines = [_note(uncertainty), limits]
    return ["", *spaced(intervals, [tornado] if has_tornado else [], lines)]


def _scaled_to_unit(typical: float, metric: Metric) -> tuple[str, Callable[[float], str]]:
    """The metric with the unit in which people read its typical value, and values in that unit."""
    unit = format_metric(typical, metric).partition(" ")[2]
    if unit == "%":
        return f"{metric_title(metric)} %", lambda value: format_value(100 * value)
    if not (unit and takes_prefix(metric.unit)):
        return metric_header(metric), format_value
    scale = parse_unit(unit).scale / parse_unit(metric.unit).scale
    return f"{metric_title(metric)} {unit}", lambda value: format_value(value / scale)


def _note(analysis: DesignUncertainty | RobustFront) -> str:
    count = f"{analysis.samples:,} draws, seed {analysis.seed}, of {len(analysis.numbers)} numbers"
    return f"Note: {count}: {DISTRIBUTION}."


def _percent(share: float | None) -> str:
    return "–" if share is None or math.isnan(share) else f"{100 * share:.3g} %"


def front_tables(robust_front: RobustFront, results: Results, limit: int | None) -> Tables:
    """Share of draws with each design on the front; at most ``limit`` designs."""
    metrics = results.problem.objective_metrics
    designs = robust_front.designs[:limit]
    space = results.problem.space
    words = design_words(
        space, space.decode(results.rows[[interval.position for interval in designs]])
    )
    rows = [
        {
            **vars(interval),
            "design": design,
            "worst": "kept" if interval.keeps_limits_everywhere
            else f"+{_percent(interval.worst_excess)}" if 0 < interval.worst_excess < math.inf
            else "broken",
            **{x.name: float(results.metrics[x.name][interval.position]) for x in metrics},
        }
        for interval, design in zip(designs, words, strict=True)
    ]  # fmt: skip
    columns = " ".join(f"{x.name}:={metric_header(x).replace(' ', '_')}" for x in metrics)
    fields = "front_number=# design non_dominated_share=on_the_front feasible_share=feasible"
    table = record_table("Robust front", rows, f"{fields} worst=at_worst {columns}")
    if len(designs) < len(robust_front.designs):
        table.caption = f"{len(robust_front.designs) - len(designs)} more"
    is_complete = robust_front.n_compared == robust_front.n_distinct
    which = "all" if is_complete else f"{robust_front.n_compared:,}, the nearest to the front,"
    error = 50 / math.sqrt(robust_front.samples)
    compared = (
        f"Note: in every draw {which} of {robust_front.n_distinct:,} evaluated designs are "
        f"compared; a share's standard error is at most {error:.2g} %. Without a number (–): not "
        f"on the front of the typical values, but in at least {_percent(robust_front.often)} of "
        "the draws."
    )
    # Designs of the front that keep every limit over all ranges, and limits that others break.
    front = [x for x in robust_front.designs if x.front_number is not None]
    keeping = sorted((x.front_number or 0) - 1 for x in front if x.keeps_limits_everywhere)
    broken = sorted({x.worst_limit for x in front if x.worst_excess > 0})
    limits = f"; the others break {', '.join(broken)}" if broken else ""
    numbers = f" ({number_ranges(keeping)})" if 0 < len(keeping) < len(front) else ""
    safe = (
        f"Note: {len(keeping)} of the {len(front)} designs of the front keep every limit over all "
        f"ranges{numbers}. This includes the worst end of every number for each limit (at worst)"
        f"{limits}."
    )
    return ["", *spaced(table, [_note(robust_front), compared, safe])]
