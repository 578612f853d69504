"""Order in which the off-chip tiers stand between memory and array.

Where bytes pass every tier above their own (``staged``), a small tier in front of a large one may
cost more than it gives. So a design's tiers stand in the order that is fastest for its work, and
how a space lists them does not matter. Most pairs need no trial. Tier F belongs before tier S if
its latency is no longer, and

- it is at least as fast and at least as large, or
- it is at least twice as fast, whatever the capacities,

and a byte written to it takes at most twice the energy of one read: a memory with dearer writes may
have to wait at its power limit for what passes through it.

Why: let x bytes of some kind of data arrive at the pair, of which c_F and c_S fit. With F in front
the ports are busy for (2x - c_F)/B_F and (x - c_F + rest)/B_S seconds, with S in front for
(2x - c_S)/B_S and (x - c_S + rest)/B_F, where rest = max(0, x - c_F - c_S); if F alone holds x,
F in front takes x/B_F, and likewise S. In both cases neither of the first two exceeds the larger of
the last two. The first tier's latency and its first chunk come before all else, so F must not have
the longer latency: flash in front of a faster pair of them costs a microsecond per operator.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise, permutations

import numpy as np

from codesign.base.columns import BoolArray, FloatArray, IntArray, IntegerTuple

FEWEST_TIERS, MOST_TIERS = 3, 5
"""Off-chip tiers of a batch of designs. Three are MemExplorer's (Table 6: L1 to L3); designs with
fewer leave some empty, so that all have one compiled loop. Five have 120 orders [ours]."""
LATENCY_TOLERANCE_S = 100e-9
"""Difference of two tiers' latencies that decides on no order [ours]: all kinds of DRAM are alike,
and flash, ten times as slow to begin, is not."""
MOST_WRITE_ENERGY_RATIO = 2.0
"""Energy of a byte written over that of one read up to which a power limit decides on no order
[ours]. All memories of the library are below; flash has the highest, 1.67."""
BY_LATENCY, BY_BANDWIDTH = 1, 2
"""Reasons that make an order the fastest: latencies alone, or bandwidths and capacities."""


@cache
def orders_of(n_tiers: int) -> tuple[IntegerTuple, ...]:
    """Every order of the tiers; the first keeps them as they are."""
    return tuple(permutations(range(n_tiers)))


def fastest_first(
    bandwidth: FloatArray, capacity: FloatArray, is_last: BoolArray | None = None
) -> IntArray | None:
    """(t, n) positions of the tiers, the fastest first; None if all stand so already.

    Of equally fast tiers the larger comes first; a tier that does not exist comes last.

    Args:
        bandwidth: (t, n); 0 for a tier that does not exist.
        capacity: (t, n).
        is_last: (t, n) tiers that stand behind all others; None: no tier does.
    """
    if is_last is not None:
        return np.lexsort((-capacity, -bandwidth, np.where(bandwidth > 0, is_last, 2)), axis=0)
    faster = bandwidth[:-1] > bandwidth[1:]
    is_even = bandwidth[:-1] == bandwidth[1:]
    if (faster | (is_even & (capacity[:-1] >= capacity[1:]))).all():
        return None
    return np.lexsort((-capacity, -bandwidth), axis=0)


def keeps_last(is_last: BoolArray) -> BoolArray:
    """(p, n) whether each of their orders leaves these (t, n) tiers behind all others."""
    orders = orders_of(len(is_last))
    is_kept = np.ones((len(orders), is_last.shape[1]), bool)
    for row, order in enumerate(orders):
        for before, behind in pairwise(order):
            is_kept[row] &= is_last[behind] | ~is_last[before]
    return is_kept


def worth_trying(
    bandwidth: FloatArray,
    capacity: FloatArray,
    write_energy_ratio: FloatArray,
    latency: FloatArray | None = None,
) -> IntArray:
    """(p, n) which orders of the tiers may be the fastest: ``BY_BANDWIDTH``, as the first always,
    or ``BY_LATENCY`` where nothing else speaks for it, or 0.

    Args:
        bandwidth: (t, n), the fastest tier first; 0 for a tier that does not exist.
        capacity: (t, n).
        write_energy_ratio: (t, n) energy of a byte written over that of one read.
        latency: (t, n); None where latencies count as nothing.
    """
    if latency is None:
        latency = np.zeros_like(bandwidth)
    orders = orders_of(len(bandwidth))
    n_tiers = len(bandwidth)
    wait = np.where(bandwidth > 0, latency, np.inf)
    # Single bytes, as this is done for every design; 0 is of the order that is not tried.
    never = np.int8(0)
    by_latency = np.int8(BY_LATENCY)
    by_bandwidth = np.int8(BY_BANDWIDTH)
    allowed = np.full((len(orders), bandwidth.shape[1]), by_bandwidth)
    for i in range(n_tiers):
        for j in range(i + 1, n_tiers):
            belongs_before = (bandwidth[i] >= 2.0 * bandwidth[j]) | (capacity[i] >= capacity[j])
            belongs_before &= write_energy_ratio[i] <= MOST_WRITE_ENERGY_RATIO
            belongs_before |= bandwidth[j] == 0  # else latencies would hide behind an empty place
            if_before = np.where(wait[i] <= wait[j] + LATENCY_TOLERANCE_S, never, by_latency)
            swapped = np.where(belongs_before, if_before, by_bandwidth)
            for row, order in enumerate(orders):
                if order.index(i) > order.index(j):
                    np.minimum(allowed[row], swapped, out=allowed[row])
    return allowed.astype(np.int64)
