"""Where weights, KV cache and activations live: shares on chip, then over the off-chip tiers.

The storage priority of a design (MemExplorer [MemExplorer]_ §4.2) says which of them takes
on-chip memory first. What it needs beyond that, and everything else, goes to the tiers, nearest
first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from codesign.columns import FloatArray, IntArray

KINDS = ("activation", "kv", "weight")
"""Kinds of data, in the order of every first axis here."""
PRIORITIES = (*KINDS, "equal")
"""Storage priorities; a code is the position here."""

# In which order the kinds fill the tiers: the preferred one, then what is moved most often per
# byte (activations cross twice per operator, weights and the KV cache once per pass).
_TIER_ORDER = np.array([[0, 2, 1], [1, 0, 2], [2, 0, 1], [0, 2, 1]])


def share_on_chip(
    needs_bytes: FloatArray, capacity_bytes: FloatArray, priority: IntArray
) -> FloatArray:
    """Bytes of each kind that live on chip.

    The preferred kind takes what it needs; the others share what is left evenly, and none more
    than it needs. Under ``equal`` all three share evenly.

    Args:
        needs_bytes: (3, n) bytes of each kind, in the order of ``KINDS``.
        capacity_bytes: (n,) on-chip bytes to give away.
        priority: (n,) positions in ``PRIORITIES``.

    Returns:
        (3, n) bytes.
    """
    given = np.zeros_like(needs_bytes)
    for kind in range(len(KINDS)):
        preferred = np.minimum(needs_bytes[kind], capacity_bytes)
        given[kind] = np.where(priority == kind, preferred, 0.0)
    # Even shares: each round the kinds that still need some split what is left, so that after
    # three rounds nothing is left that anybody needs.
    for _ in KINDS:
        wanted = needs_bytes - given
        hungry = wanted > 0
        left = capacity_bytes - given.sum(axis=0)
        even = left / np.maximum(hungry.sum(axis=0), 1)
        given += np.where(hungry, np.minimum(wanted, even), 0.0)
    return given


@dataclass(frozen=True)
class TierShares:
    """Share of each kind's off-chip bytes that lives in tier t or deeper.

    Attributes:
        tails: (3, t, n): ``tails[k, i]`` is what must cross from tier i upwards; the first is 1.
    """

    tails: FloatArray


def share_over_tiers(
    sizes_bytes: FloatArray, tier_capacity_bytes: FloatArray, priority: IntArray
) -> TierShares:
    """Distribution of each kind over the off-chip tiers, nearest first.

    The kinds fill the tiers one after the other in the order of the priority; under ``equal``
    every kind is spread like the whole. What exceeds all tiers (activations, which the batch
    size does not count) is charged to the last.

    Args:
        sizes_bytes: (3, n) bytes of each kind.
        tier_capacity_bytes: (t, n); 0 for a tier that does not exist.
        priority: (n,) positions in ``PRIORITIES``.
    """
    n_tiers, n = tier_capacity_bytes.shape
    order = _TIER_ORDER[priority]
    columns = np.arange(n)
    starts, ends = np.zeros((3, n)), np.zeros((3, n))
    position = np.zeros(n)
    for turn in range(3):
        kind = order[:, turn]
        starts[kind, columns] = position
        position = position + sizes_bytes[kind, columns]
        ends[kind, columns] = position
    is_equal = priority == PRIORITIES.index("equal")
    starts = np.where(is_equal, 0.0, starts)
    ends = np.where(is_equal, position, ends)
    tails = np.ones((3, n_tiers, n))
    size = np.maximum(ends - starts, np.finfo(float).tiny)
    filled = np.zeros(n)
    for tier in range(1, n_tiers):
        filled = filled + tier_capacity_bytes[tier - 1]
        beyond = np.clip((ends - np.maximum(filled, starts)) / size, 0.0, 1.0)
        tails[:, tier] = np.where(tier_capacity_bytes[tier] > 0, beyond, 0.0)
    return TierShares(tails)
