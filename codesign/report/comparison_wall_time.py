"""The wall times of a comparison as records, tables and files: never the same twice.

They have files of their own, whose names begin with ``wall_time``, so that all others are the same
bytes for the same results.
"""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path

from codesign.answers.comparisons import equal_time_rows, suggestion_times
from codesign.base.text import duration_words
from codesign.base.units import format_engineering
from codesign.insight.comparison import Outcome
from codesign.insight.comparison.wall_time import equal_time_shares, leads, run_costs
from codesign.report.comparison_document import write_rows
from codesign.report.text_table import TextTable, marked_cell, write_forms


def wall_time_tables(outcome: Outcome) -> list[TextTable]:
    """Every table of wall times."""
    return [suggestions_table(outcome), equal_time_table(outcome), run_cost_table(outcome)]


def suggestions_table(outcome: Outcome) -> TextTable:
    """Wall time per suggestion after the initial designs."""
    records = list(suggestion_times(outcome))
    rows = []
    for label in outcome.labels:
        ours = [record for record in records if record["optimizer"] == label]
        if ours:
            medians = [quantiles["median_s"] for quantiles in ours]
            largest = max(quantiles["largest_s"] for quantiles in ours)
            rows.append((label, *map(duration, (min(medians), max(medians), largest))))
    return TextTable(
        "Wall time per suggestion, median on the fastest and the slowest problem",
        ("optimizer", "fastest", "slowest", "longest of all"),
        rows,
    )


def equal_time_table(outcome: Outcome) -> TextTable:
    """Who is best in equal wall time, where one evaluation takes so long."""
    costs = outcome.definition.evaluation_costs
    rows = []
    for cost, shares in zip(costs, equal_time_shares(outcome, costs), strict=True):
        cells = (marked_cell(f"{100 * x:.1f}", x == shares.max()) for x in shares.tolist())
        rows.append((duration(cost), *cells))
    return TextTable(
        "Hypervolume in equal wall time by the cost of an evaluation, % of the best front's, mean "
        "over the kinds of problems",
        ("an evaluation takes", *outcome.labels),
        rows,
        f"{leads_words(outcome)} Wall time: evaluations × cost + measured seconds of the "
        "suggestions, one design at a time; taken when the first optimizer has spent its budget.",
    )


def leads_words(outcome: Outcome) -> str:
    """Table of the best optimizer by cost of an evaluation."""
    first, *others = leads(outcome)
    changes = [f"{lead.optimizer} from {duration(lead.from_s)} on" for lead in others]
    words = f"Best where evaluations are cheapest ({duration(first.from_s)}): {first.optimizer}"
    return "; ".join([words, *changes]) + "."


def run_cost_table(outcome: Outcome) -> TextTable:
    """Cost of the runs: evaluations and the time of processes."""
    costs = run_costs(outcome)
    totals = (sum(column) for column in list(zip(*map(astuple, costs), strict=True))[1:])
    rows = [
        (label, f"{n_runs:,}", f"{n_evaluated:,}", *map(duration, seconds))
        for label, n_runs, n_evaluated, *seconds in (*map(astuple, costs), ("all", *totals))
    ]
    return TextTable(
        "Cost of the runs",
        ("optimizer", "runs", "evaluated", "optimizers", "evaluators", "process time"),
        rows,
        "Process time: wall time of processes with one thread each, at least the processor time; "
        "a run on several processes takes that over their number, plus reading and exact fronts.",
    )


def duration(seconds: float) -> str:
    """A time for people: milliseconds to hours.

    >>> duration(0.0123), duration(1.0), duration(60.0), duration(7500.0)
    ('12.3 ms', '1 s', '1 min', '2 h 05 min')
    """
    if seconds < 59.5:
        return format_engineering(seconds, "s", 3)
    return duration_words(seconds).removesuffix(" 00 s").removesuffix(" 00 min")


def write_wall_time(outcome: Outcome, folder: Path) -> list[Path]:
    """The files of wall times, figures apart; returns their paths.

    Raises:
        InputError: A file cannot be written.
    """
    head = [f"# Wall times of {outcome.definition.name}", ""]
    rows = {
        "wall_time": suggestion_times(outcome),
        "wall_time_balance": equal_time_rows(outcome),
    }
    return [
        *(write_rows(folder / f"{name}.csv", row) for name, row in rows.items()),
        *write_forms(wall_time_tables(outcome), folder, "wall_time", head),
    ]
