"""Designs as machines with outer caches, and the contexts that these hold.

Designs that differ only in their outer caches share a machine with its batch size and its
sessions. All that a machine decides is computed once.
"""

from __future__ import annotations

import numpy as np

from codesign.base.columns import (
    MOST_COMBINATIONS,
    ArrayDict,
    Columns,
    FloatArray,
    IntArray,
    SharedColumns,
    combined,
    compute_once,
    distinct,
    shared_part,
)
from codesign.base.records import drop_keys, frozen
from codesign.evaluators.sessions.level_columns import CACHE_PARAMETERS, MOST_CACHES
from codesign.models.deployments.cache_levels import MachineSessions
from codesign.models.hardware.formula_operations import sum_of
from codesign.models.workload.reuse import SessionReuse, TraceReuse


@frozen
class SplitDesigns:
    """``n`` designs as ``u`` machines with ``v`` choices of outer caches.

    Attributes:
        machine_index: (n,) position of each design's machine.
        cache_index: (n,) position of each design's outer caches.
    """

    machines: Columns
    caches: Columns
    machine_index: IntArray
    cache_index: IntArray


def split_designs(designs: Columns) -> SplitDesigns:
    """Machines and outer caches of designs."""
    caches: Columns = {name: column for name, column in designs.items() if name in CACHE_PARAMETERS}
    machines, machine_index = distinct_of(designs, CACHE_PARAMETERS)
    if caches:
        caches, cache_index = distinct_of(caches)
    else:
        cache_index = np.zeros_like(machine_index)
    return SplitDesigns(machines, caches, machine_index, cache_index)


def distinct_of(
    designs: Columns, ignored: frozenset[str] = frozenset()
) -> tuple[Columns, IntArray]:
    """Distinct designs, ignoring some parameters, and each design's position."""
    names = frozenset(designs.keys() - ignored)
    result: tuple[Columns, IntArray] = compute_once(
        designs, names, lambda: _distinct_of(drop_keys(designs, ignored))
    )
    return result


def _distinct_of(designs: Columns) -> tuple[Columns, IntArray]:
    key, limit = combined(*(column.codes for column in designs.values()))
    if limit >= MOST_COMBINATIONS:
        return SharedColumns(designs), np.arange(len(key))
    number, first = distinct(key, limit)
    return shared_part(designs, first), number


def hit_metrics(
    designs: SplitDesigns,
    machines: MachineSessions,
    reuse: SessionReuse | TraceReuse,
    hits: FloatArray,
) -> ArrayDict:
    """Shares of prompt tokens that the levels hold, by the name of the metric.

    Args:
        hits: (l, q + 1, n) share of the contexts found in a level or above.
    """
    classes = reuse.classes
    n_tiers = len(machines.hits)
    contexts = classes.context_tokens[:, None]
    later = 1.0 - classes.is_first
    prompts = classes.total(classes.context_tokens + classes.new_tokens)
    # A shared prefix is found where the rest of a context is not.
    prefix = hits[-1, -1] * later[:, None] * np.minimum(reuse.shared_tokens, contexts)
    hits = hits[:, :-1]

    def total(weights: FloatArray, values: FloatArray) -> FloatArray:
        return sum_of(tuple(weights[:, None] * values))

    recomputed = total(classes.turns, (1.0 - hits[-1]) * (contexts - prefix))
    computed = classes.total(classes.new_tokens) + recomputed
    tier_and_cache_hits = hits[n_tiers - 1], *np.diff(hits, axis=0)[n_tiers - 1 :]
    machine, *cache_shares = (
        total(classes.turns, contexts * share) / prompts for share in tier_and_cache_hits
    )
    by_cache = {
        f"cache{i}_hit_share": cache_shares.pop(0)
        if {f"cache{i}_technology", f"cache{i}_units"} <= designs.caches.keys()
        else np.zeros_like(machine)
        for i in range(1, MOST_CACHES + 1)
    }
    turns = classes.turns * later
    return {
        "prompt_hit_share": 1.0 - computed / prompts,
        "machine_hit_share": machine,
        "outer_hit_share": sum_of(tuple(by_cache.values())),
        **by_cache,
        "later_turn_hit_share": total(turns, hits[-1]) / max(float(turns.sum()), 1e-300),
        "computed_tokens_per_asked_token": computed / prompts,
    }
