"""Number formats of the machines of a front; of a system, those of each pool."""

from __future__ import annotations

from collections import Counter

from rich.table import Table

from codesign.report.tables import plain_table
from codesign.search.campaign import Results

_KINDS = {"weight_format": "weights", "activation_format": "activations", "kv_format": "KV cache"}
_MOST_LINES = 6
"""Combinations of formats that are listed of a machine."""


def formats_table(results: Results) -> Table | None:
    """A line for each combination of formats, the frequent ones first; None if none is a choice.

    Limiting assumption: each point counts with one design, of those that have its numbers.

    Args:
        results: One design per point of the front.
    """
    space = results.problem.space
    open_names = {parameter.name for parameter in space.parameters if len(parameter.values) > 1}
    prefixes = [f"{name}_" for name in space.pools] or [""]
    if not open_names & {f"{prefix}{operand}" for prefix in prefixes for operand in _KINDS}:
        return None
    designs = space.decode(results.rows)
    title = "Formats on the front"
    table = plain_table(title, ["machine", *_KINDS.values(), "points"], ["points"])
    more = []
    for prefix in prefixes:
        counts = Counter(
            tuple(str(design.get(f"{prefix}{operand}") or "–") for operand in _KINDS)
            for design in designs
        ).most_common()
        name = prefix.removesuffix("_") or "all"
        for formats, n in counts[:_MOST_LINES]:
            table.add_row(name, *formats, f"{n:,}")
        if len(counts) > _MOST_LINES:
            more.append(f"{name}: {len(counts) - _MOST_LINES} more combinations")
    table.caption = "; ".join(["one design of each point", *more])
    return table
