"""A front on a terminal: a design a line if it fits, as many metrics as the terminal is wide."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from rich.table import Table

from codesign.base.columns import FloatArray, FloatMap, IntArray, StringList, StringPair, evenly
from codesign.base.metrics import Metric
from codesign.insight.explanation.binding import binding_shares
from codesign.insight.explanation.range_ends import RangeEnd, range_ends
from codesign.insight.plateaus import folded_front
from codesign.report.labels import (
    KEY_METRICS,
    design_words,
    format_metric,
    metric_of,
    metric_title,
    setting_words,
)
from codesign.report.picks import picks_of
from codesign.report.result_tables import front_title, metric_cell, metric_header
from codesign.report.tables import header_lines, plain_table
from codesign.search.campaign import Results
from codesign.search.enumeration import ExactFront
from codesign.search.pareto import TOLERANCE
from codesign.search.problem import Problem

MOST_LINES = 12
"""Designs that are listed unless more are asked for, besides the recommended ones."""
_MOST_ENDS = 3
_LEAST_WORDS = 20
_NEARLY_AS_BUSY = 0.9
_BETWEEN = ", "
_GAP = 2
"""Spaces between two columns."""


def front_lines(
    results: Results,
    width: int,
    limit: int | None = None,
    counts: Mapping[int, int] | None = None,
    tolerance: float = TOLERANCE,
) -> Table:
    """The front in words, one line a design; of a system, one line a pool.

    What all designs have is said above the table. Objectives are always shown; other metrics as
    long as the designs fit beside them. A design that is longer than the rest of the line takes
    several.

    Args:
        width: Columns of the terminal.
        limit: The first so many designs; None for at most ``MOST_LINES`` over the whole front and
            those that are recommended.
        counts: By position, how many designs have the same objectives; shown if given.
        tolerance: Share within which designs are folded; 0 shows every design.
    """
    folded = folded_front(results, tolerance)
    picks = {pick.place: pick.key for pick in picks_of(results, folded)}
    places = folded.kept[:limit]
    if limit is None and len(places) > MOST_LINES:
        # Evenly spaced, both ends among them, and the recommended ones.
        spaced = evenly(places, MOST_LINES)
        places = np.union1d(spaced, np.array(list(picks), np.int64))
    positions = folded.positions[places]
    space = results.problem.space
    words = design_words(space, space.decode(results.rows[positions]), between="\n")
    shared, words = ([], words) if space.pools else _shared(words)
    columns = {
        "#": [str(place + 1) for place in places.tolist()],
        "pick": [picks.get(place, "") for place in places.tolist()],
        **_numbers(results, positions, results.problem.objective_metrics),
        "like it": [f"+{n:,}" if (n := len(folded.folded_under(x))) else "" for x in places],
        "designs": [f"{counts[x]:,}" for x in positions] if counts else [],
    }
    columns = {header: cells for header, cells in columns.items() if any(cells)}
    longest = max((len(line) for text in words for line in text.splitlines()), default=0)
    room = width - sum(map(_width, columns, columns.values())) - longest
    words_width = max(longest + min(room, 0), _LEAST_WORDS)
    words = [_wrapped(text, words_width) for text in words]
    objectives = set(results.problem.objective_names)
    listed = results.rows[positions] if counts else ()
    bound_by = [binding_words(binding_shares(results.problem, row)) for row in listed]
    if any(bound_by) and room >= _width("bound by", bound_by):
        room -= _width("bound by", bound_by)
        columns["bound by"] = bound_by
    elif any(bound_by):
        words = [f"{text}\n{_wrapped(bound, words_width)}" for text, bound in
                 zip(words, bound_by, strict=True)]  # fmt: skip
    names = [*(name for name in KEY_METRICS if name in results.metrics), *results.metrics]
    more = [
        metric_of(name, results.problem.metrics)
        for name in dict.fromkeys(names)
        if name not in objectives and len(np.unique(results.metrics[name][positions])) > 1
    ]
    for header, cells in _numbers(results, positions, more).items():
        room -= _width(header, cells)
        if room < 0:
            break
        columns[header] = cells
    texts = [header for header in ("#", "pick") if header in columns]
    numbers = [header for header in columns if header not in texts]
    cells_by_header = columns | {"design": words}
    headers = [*texts, "design", *numbers]
    lines = zip(*(cells_by_header[header] for header in headers), strict=True)
    table = plain_table(front_title(results), headers, ["#", *numbers], lines)
    table.expand = not words  # or its title is broken to the width of no columns
    n_hidden = len(folded.kept) - len(places)
    notes = [f"{n_hidden:,} more: --all" if n_hidden else "", folded.summary]
    table.caption = "; ".join(filter(None, notes))
    if shared:
        table.title = f"{table.title}\nall of these: {', '.join(shared)}"
    # A narrow table may not break its title.
    table.min_width = min(width, max(map(len, str(table.title).splitlines())))
    return table


def binding_words(shares: FloatMap) -> str:
    """Busiest resource of a design, and others that are nearly as busy.

    >>> binding_words({"vector unit": 1.0, "array": 0.994, "tier 1": 0.21})
    'vector unit 100 %, array 99 %'
    """
    largest = max(shares.values(), default=0.0)
    near = [(name, share) for name, share in shares.items() if share >= _NEARLY_AS_BUSY * largest]
    return ", ".join(f"{name} {100 * share:.0f} %" for name, share in near)


def _shared(words: StringList) -> tuple[StringList, StringList]:
    """The parts that all designs have, and each design without them."""
    fragments = [text.split(_BETWEEN) for text in words]
    if len(fragments) < 2:
        return [], words
    shared = [
        fragment for fragment in fragments[0] if all(fragment in listed for listed in fragments)
    ]
    return shared, [_BETWEEN.join(x for x in listed if x not in shared) for listed in fragments]


def _wrapped(text: str, width: int) -> str:
    """Broken between the parts of a design, such as its memories, not inside them."""
    lines = []
    for line in text.splitlines():
        lines.append("")
        fragments = [line] if len(line) <= width else line.split(_BETWEEN)
        for fragment in fragments:
            if not lines[-1]:
                lines[-1] = fragment
            elif len(lines[-1]) + len(_BETWEEN) + len(fragment) < width:
                lines[-1] += _BETWEEN + fragment
            else:
                lines[-1] += ","
                lines.append(fragment)
    return "\n".join(lines)


def _numbers(results: Results, positions: IntArray, metrics: list[Metric]) -> dict[str, StringList]:
    return {
        metric_header(metric): [
            metric_cell(value, metric) for value in results.metrics[metric.name][positions].tolist()
        ]
        for metric in metrics
    }


def _width(header: str, cells: StringList) -> int:
    return _GAP + max(map(len, [*header_lines(header).splitlines(), *cells]))


def range_end_words(problem: Problem, front: ExactFront, tolerance: float) -> str:
    """The best gains one value beyond the ends of ranges, in one sentence; empty without ranges."""
    ends = [end for end in range_ends(problem, front, tolerance) if end.n_feasible]
    if not ends:
        return ""
    best = front.objectives.min(axis=0)
    ends.sort(key=lambda end: -float(((best - end.best) / np.abs(best)).max()))
    gains = [(end, words) for end in ends if (words := gain_words(problem, best, end, tolerance))]
    if not gains:
        return (
            f"One step beyond the ends of ranges gains less than {100 * tolerance:g} % in every "
            "objective."
        )
    listed = "; ".join(
        f"{' '.join(range_words(end.parameter, end.beyond))} {words}"
        for end, words in gains[:_MOST_ENDS]
    )
    return f"One step beyond the ends of ranges: {listed}."


def range_words(parameter: str, value: float | None) -> StringPair:
    """The name of a numeric parameter and a value in words; entries of an array are its sides."""
    name, _, side = parameter.partition("[")
    title, text = setting_words(name, value)
    return title + {"0]": " depth", "1]": " width"}.get(side, ""), text


def gain_words(problem: Problem, best: FloatArray, end: RangeEnd, tolerance: float) -> str:
    """Objectives whose best value improves by more than the tolerance; empty if none does."""
    gains = []
    for old, new, objective in zip(best, end.best, problem.objectives, strict=True):
        if old - new > tolerance * abs(old):
            value = format_metric(objective.flipped(float(new)), objective.metric)
            before = format_metric(objective.flipped(float(old)), objective.metric)
            gains.append(f"{metric_title(objective.metric)} {value} instead of {before}")
    return f"gives at best {', '.join(gains)}" if gains else ""
