"""An exact front as a table and as a document."""

from __future__ import annotations

from collections import Counter

from rich.table import Table

from codesign.base.columns import Strings
from codesign.insight.plateaus import folded_front
from codesign.report.front_lines import front_lines, range_end_words
from codesign.report.labels import metric_title
from codesign.report.recommended import limit_usage_words, recommendation_words
from codesign.report.result_tables import reference_text
from codesign.report.tables import Tables, format_cell, pairs_table, plain_table, spaced
from codesign.search.campaign import Results
from codesign.search.enumeration import ExactFront, KeptFront
from codesign.search.pareto import TOLERANCE

_FORMATS = {"weight_format": "weights", "activation_format": "activations", "kv_format": "KV cache"}
_MOST_LINES = 6
"""Combinations of formats that are listed of a machine."""


def tables(
    results: Results,
    front: ExactFront,
    seconds: float,
    width: int,
    limit: int | None = None,
    files: Strings = (),
    tolerance: float = TOLERANCE,
    tighter: KeptFront | None = None,
) -> Tables:
    """The same for people, in so many columns of the terminal."""
    counts = dict(enumerate(front.counts.tolist()))
    title = f"Exact front of {results.definition.name}"
    numbers = {
        "points": len(front),
        "designs on it": int(front.counts.sum()),
        "hypervolume": results.exact_hypervolume,
        "designs of the space": front.n_designs,
        "evaluated": front.n_evaluated,
        "not evaluated: same numbers as one that was": front.n_repeated,
        "not evaluated: excluded by bounds and limits": front.n_excluded,
        **({"failed": front.n_failed} if front.n_failed else {}),
    }
    facts = {name: format_cell("", number, 6) for name, number in numbers.items()}
    if tighter is not None:
        names = ", ".join(
            metric_title(objective.metric) + (" in whole steps" if objective.step else "")
            for objective in tighter.limitable
        )
        facts["points for tighter limits"] = f"{len(tighter):,}; exact for limits on {names}"
    facts["seconds"] = f"{seconds:.1f}"
    formats = _formats_table(results)
    folded = folded_front(results, tolerance)
    beyond = range_end_words(results.problem, front, tolerance)
    wrote = (f"wrote {file}" for file in files)
    return spaced(
        front_lines(results, width, limit, counts, tolerance),
        recommendation_words(results, folded),
        [line for line in (limit_usage_words(results, folded), beyond) if line],
        [] if formats is None else [formats],
        [pairs_table(title, facts), reference_text(results), *wrote],
    )


def _formats_table(results: Results) -> Table | None:
    """A line for each combination of formats, the frequent ones first; None if none is a choice.

    Limiting assumption: each point counts with one design, of those that have its numbers.

    Args:
        results: One design per point of the front.
    """
    space = results.problem.space
    open_names = {parameter.name for parameter in space.parameters if len(parameter.values) > 1}
    prefixes = [f"{name}_" for name in space.pools] or [""]
    if not open_names & {f"{prefix}{operand}" for prefix in prefixes for operand in _FORMATS}:
        return None
    designs = space.decode(results.rows)
    title = "Formats on the front"
    table = plain_table(title, ["machine", *_FORMATS.values(), "points"], ["points"])
    more = []
    for prefix in prefixes:
        counts = Counter(
            tuple(str(design.get(f"{prefix}{operand}") or "–") for operand in _FORMATS)
            for design in designs
        ).most_common()
        name = prefix.removesuffix("_") or "all"
        for formats, n in counts[:_MOST_LINES]:
            table.add_row(name, *formats, f"{n:,}")
        if len(counts) > _MOST_LINES:
            more.append(f"{name}: {len(counts) - _MOST_LINES} more combinations")
    table.caption = "; ".join(["one design of each point", *more])
    return table
