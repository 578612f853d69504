"""Placement of weights, KV cache and activations: on chip, then over the off-chip tiers.

The storage priority of a design (MemExplorer [MemExplorer]_ §4.2) says which of them takes
on-chip memory first. What it needs beyond that, and everything else, goes to the tiers: nearest
first where data pass from tier to tier (``staged``), spread by bandwidth where every tier feeds
the on-chip memory itself (``parallel``).

``written``, ours, keeps what a pass writes off tiers that wear: these stand behind all tiers that
do not, so that nothing passes through them, and activations and the KV cache fill the tiers before
the weights do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from codesign.base.columns import ArrayPair, ArrayTuple, BoolArray, FloatArray, IntArray
from codesign.models.hardware.formula_operations import (
    differences,
    inverse,
    inverses,
    larger,
    place_by_place,
    products,
    running_sums,
    smaller,
    sum_of,
    sums,
    where,
)

KINDS = ("activation", "kv", "weight")
"""Kinds of data, in the order of every first axis here."""
PRIORITIES = (*KINDS, "equal", "written")
"""Storage priorities; a code is the position here."""

Three = tuple[FloatArray, FloatArray, FloatArray]
"""One value per kind of data."""
Two = ArrayPair
Tiers = ArrayTuple
"""One value per off-chip tier."""
Levels = ArrayTuple
"""One value per memory level: on chip, then the off-chip tiers."""
Tails = ArrayTuple
"""For each tier but the first, the share of some bytes that lives in it or deeper."""

_ACTIVATION, _KV, _WEIGHT, _EQUAL, WRITTEN = range(len(PRIORITIES))
_TINY = float(np.finfo(float).tiny)
# Any, as NumPy and the compiled loop take a number where the formulas say an array.
ALL: Any = np.float64(1.0)
"""All of some bytes, as a share."""


def onchip_bytes(needs: Three, capacity: FloatArray, priority: IntArray) -> Three:
    """Bytes of each kind that live on chip.

    The preferred kind takes what it needs; the others share what is left evenly, and none more
    than it needs. Under ``equal`` and ``written`` all three share evenly.

    Args:
        needs: Bytes of each kind.
        capacity: On-chip bytes to give away.
        priority: Position in ``PRIORITIES``.
    """
    held = (
        where(priority == _ACTIVATION, smaller(needs[0], capacity), 0.0),
        where(priority == _KV, smaller(needs[1], capacity), 0.0),
        where(priority == _WEIGHT, smaller(needs[2], capacity), 0.0),
    )
    # Each round the kinds that still need some split what is left, so that after three rounds
    # nothing is left that anybody needs.
    for _ in range(3):
        remaining = capacity - (held[0] + held[1] + held[2])
        lacking = (needs[0] - held[0], needs[1] - held[1], needs[2] - held[2])
        hungry = ((lacking[0] > 0) * 1.0, (lacking[1] > 0) * 1.0, (lacking[2] > 0) * 1.0)
        even = remaining / larger(hungry[0] + hungry[1] + hungry[2], 1.0)
        held = (
            held[0] + hungry[0] * smaller(lacking[0], even),
            held[1] + hungry[1] * smaller(lacking[1], even),
            held[2] + hungry[2] * smaller(lacking[2], even),
        )
    return held


def tier_tails(sizes: Three, capacities: Tiers, priority: IntArray) -> tuple[Tails, Tails, Tails]:
    """Share of each kind's off-chip bytes in each deeper tier and below, nearest tier first.

    The kinds fill the tiers one after the other in the order of the priority, those after the
    preferred one in the order of how often they are moved per byte (activations cross twice per
    operator, weights and the KV cache once per pass); under ``equal`` every kind is spread like
    the whole, and under ``written`` the weights come last. What exceeds all tiers (activations,
    which the batch size does not count) is charged to the last.

    Args:
        sizes: Bytes of each kind.
        capacities: Of each tier; 0 for a tier that does not exist.
        priority: Position in ``PRIORITIES``.
    """
    activation, kv, weight = sizes
    # Where each kind begins: behind the kinds that are put before it.
    before_activation = where(priority == _KV, kv, where(priority == _WEIGHT, weight, 0.0))
    before_kv = where(priority == _KV, 0.0, activation + where(priority == WRITTEN, 0.0, weight))
    # All of the KV cache stands before the weights, or nothing of it.
    kv_first = where(priority == WRITTEN, kv, where(priority == _KV, kv, 0.0))
    before_weight = kv_first + where(priority == _WEIGHT, 0.0, activation)
    total = activation + weight + kv
    is_equal = priority == _EQUAL
    return (
        _tails_of(activation, before_activation, total, is_equal, capacities),
        _tails_of(kv, before_kv, total, is_equal, capacities),
        _tails_of(weight, before_weight, total, is_equal, capacities),
    )


def balanced_tails(size: FloatArray, capacities: Tiers, bandwidths: Tiers) -> Tails:
    """Share of all data in each deeper tier and below, if the tiers are read side by side.

    Every tier holds what it reads in the same time as the others, or as much as it can: the
    largest time over the tiers is then the least that there is,

        max over sets S of tiers of (size - capacity outside S) / (bandwidth of S),

    so more capacity or bandwidth of any tier never makes it longer. What exceeds all tiers is
    charged to the one that takes longest, by the same formula.

    Args:
        size: Bytes of all data.
        capacities: Of each tier; 0 for a tier that does not exist.
        bandwidths: Likewise.
    """
    is_open = _is_there(bandwidths)
    # A round closes the tiers that are full; if data fit, one is left when all rounds are done.
    for _ in range(len(capacities) - 1):
        common_s = _common_time_s(size, capacities, bandwidths, is_open)
        is_open = _stays_open(common_s, capacities, bandwidths, is_open)
    common_s = _common_time_s(size, capacities, bandwidths, is_open)
    held = _held_bytes(common_s, capacities[1:], bandwidths[1:], is_open[1:])
    beyond = larger(size - sum_of(capacities), 0.0)
    times = products(sums(beyond, capacities), inverses(bandwidths))  # of full tiers, and more
    longest = times[0]
    for tier in range(1, len(times)):
        longest = larger(longest, times[tier])
    is_longest = _is_equal(times[1:], longest)
    behind = _held_behind(beyond, capacities[1:], held, is_longest, running_sums(is_longest))
    return products(running_sums(behind[::-1])[::-1], inverse(size))


@place_by_place
def _is_there(bandwidth: FloatArray) -> FloatArray:
    return where(bandwidth > 0, 1.0, 0.0)


@place_by_place
def _stays_open(
    common_s: FloatArray, capacity: FloatArray, bandwidth: FloatArray, is_open: FloatArray
) -> FloatArray:
    return where(common_s * bandwidth > capacity, 0.0, is_open)


@place_by_place
def _held_bytes(
    common_s: FloatArray, capacity: FloatArray, bandwidth: FloatArray, is_open: FloatArray
) -> FloatArray:
    return where(is_open > 0, common_s * bandwidth, capacity)


@place_by_place
def _is_equal(time: FloatArray, longest: FloatArray) -> FloatArray:
    return where(time == longest, 1.0, 0.0)


@place_by_place
def _held_behind(
    beyond: FloatArray,
    capacity: FloatArray,
    held: FloatArray,
    is_longest: FloatArray,
    n_longest: FloatArray,
) -> FloatArray:
    """Bytes in a tier; the first of the slowest tiers also has what exceeds all of them."""
    return where(beyond > 0, capacity + beyond * (is_longest * (n_longest <= 1.0)), held)


def _common_time_s(
    size: FloatArray, capacities: Tiers, bandwidths: Tiers, is_open: Tiers
) -> FloatArray:
    """Time in which the open tiers read what the full ones leave."""
    full = capacities[0] * (1.0 - is_open[0])
    rate = bandwidths[0] * is_open[0]
    for tier in range(1, len(is_open)):
        full = full + capacities[tier] * (1.0 - is_open[tier])
        rate = rate + bandwidths[tier] * is_open[tier]
    return larger(size - full, 0.0) * inverse(rate)


def _tails_of(
    size: FloatArray,
    before: FloatArray,
    total: FloatArray,
    is_equal: BoolArray,
    capacities: Tiers,
) -> Tails:
    """Share of bytes that lives in each deeper tier and below; an equal spread if ``is_equal``."""
    start = where(is_equal, 0.0, before)
    end = where(is_equal, total, before + size)
    size = larger(end - start, _TINY)
    return _share_beyond(running_sums(capacities[:-1]), capacities[1:], start, end, size)


@place_by_place
def _share_beyond(
    filled: FloatArray,
    capacity: FloatArray,
    start: FloatArray,
    end: FloatArray,
    size: FloatArray,
) -> FloatArray:
    return where(capacity > 0, smaller(larger(end - larger(filled, start), 0.0) / size, 1.0), 0.0)


def own_parts(crossing: Tiers) -> Tiers:
    """Bytes that each tier adds to those from all deeper ones."""
    return (*differences(crossing[:-1], crossing[1:]), crossing[-1])


def tier_shares(tails: Tails) -> Tiers:
    """Share of some bytes that lives in each tier."""
    return own_parts((ALL, *tails))
