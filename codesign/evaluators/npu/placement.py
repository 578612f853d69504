"""Where weights, KV cache and activations live: shares on chip, then over the off-chip tiers.

The storage priority of a design (MemExplorer [MemExplorer]_ §4.2) says which of them takes
on-chip memory first. What it needs beyond that, and everything else, goes to the tiers: nearest
first where data pass from tier to tier (``staged``), spread by bandwidth where every tier feeds
the on-chip memory itself (``parallel``).
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from codesign.columns import FloatArray, IntArray
from codesign.hardware.elementwise import inverse, larger, smaller, where

KINDS = ("activation", "kv", "weight")
"""Kinds of data, in the order of every first axis here."""
PRIORITIES = (*KINDS, "equal")
"""Storage priorities; a code is the position here."""

Three: TypeAlias = tuple[FloatArray, FloatArray, FloatArray]
"""One value per kind of data, or per off-chip tier."""
Four: TypeAlias = tuple[FloatArray, FloatArray, FloatArray, FloatArray]
"""One value per memory level: on chip, then the off-chip tiers."""
Two: TypeAlias = tuple[FloatArray, FloatArray]
"""One value for each of tiers 2 and 3."""

_ACTIVATION, _KV, _WEIGHT, _EQUAL = range(len(PRIORITIES))
_TINY = float(np.finfo(float).tiny)


def resident_bytes(
    activation_elements: float,
    requests_in_pass: FloatArray,
    activation_bytes: FloatArray,
    requests_held: FloatArray,
    kv_request_bytes: FloatArray,
    weight_bytes: FloatArray,
) -> Three:
    """Bytes of each kind that a pass needs in memory.

    Args:
        activation_elements: Of one request's largest operator, read and written.
        requests_in_pass: Processed together.
        activation_bytes: Of an element.
        requests_held: Those whose KV cache is in memory.
        kv_request_bytes: KV cache and recurrent state of one request at its end.
        weight_bytes: Of all weights.
    """
    return (
        activation_elements * requests_in_pass * activation_bytes,
        kv_request_bytes * requests_held,
        weight_bytes,
    )


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
    activation, kv, weight = needs_bytes
    return np.stack(on_chip_bytes((activation, kv, weight), capacity_bytes, priority))


def on_chip_bytes(needs: Three, capacity: FloatArray, priority: IntArray) -> Three:
    """:func:`share_on_chip` with one value per kind, in and out."""
    held = (
        where(priority == _ACTIVATION, smaller(needs[0], capacity), 0.0),
        where(priority == _KV, smaller(needs[1], capacity), 0.0),
        where(priority == _WEIGHT, smaller(needs[2], capacity), 0.0),
    )
    # Each round the kinds that still need some split what is left, so that after three rounds
    # nothing is left that anybody needs.
    for _ in range(3):
        held = _poured(needs, held, capacity)
    return held


def _poured(needs: Three, held: Three, capacity: FloatArray) -> Three:
    """One round: an even part of what is left for every kind that still needs some."""
    left = capacity - (held[0] + held[1] + held[2])
    wanted = (needs[0] - held[0], needs[1] - held[1], needs[2] - held[2])
    hungry = ((wanted[0] > 0) * 1.0, (wanted[1] > 0) * 1.0, (wanted[2] > 0) * 1.0)
    even = left / larger(hungry[0] + hungry[1] + hungry[2], 1.0)
    return (
        held[0] + hungry[0] * smaller(wanted[0], even),
        held[1] + hungry[1] * smaller(wanted[1], even),
        held[2] + hungry[2] * smaller(wanted[2], even),
    )


def tier_tails(sizes: Three, capacities: Three, priority: IntArray) -> tuple[Two, Two, Two]:
    """Share of each kind's off-chip bytes in tier 2 or deeper and in tier 3, nearest tier first.

    The kinds fill the tiers one after the other in the order of the priority, those after the
    preferred one in the order of how often they are moved per byte (activations cross twice per
    operator, weights and the KV cache once per pass); under ``equal`` every kind is spread like
    the whole. What exceeds all tiers (activations, which the batch size does not count) is
    charged to the last.

    Args:
        sizes: Bytes of each kind.
        capacities: Of each tier; 0 for a tier that does not exist.
        priority: Position in ``PRIORITIES``.
    """
    activation, kv, weight = sizes
    # Where each kind begins: behind the kinds that are put before it.
    before_activation = where(priority == _KV, kv, where(priority == _WEIGHT, weight, 0.0))
    before_kv = where(priority == _KV, 0.0, activation + weight)
    before_weight = where(
        priority == _KV, kv + activation, where(priority == _WEIGHT, 0.0, activation)
    )
    total = activation + weight + kv
    is_equal = priority == _EQUAL
    return (
        _tails_between(
            where(is_equal, 0.0, before_activation),
            where(is_equal, total, before_activation + activation),
            capacities,
        ),
        _tails_between(
            where(is_equal, 0.0, before_kv), where(is_equal, total, before_kv + kv), capacities
        ),
        _tails_between(
            where(is_equal, 0.0, before_weight),
            where(is_equal, total, before_weight + weight),
            capacities,
        ),
    )


def balanced_tails(size: FloatArray, capacities: Three, bandwidths: Three) -> Two:
    """Share of all data in tier 2 or deeper, and in tier 3, if the tiers are read side by side.

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
    is_open = (
        where(bandwidths[0] > 0, 1.0, 0.0),
        where(bandwidths[1] > 0, 1.0, 0.0),
        where(bandwidths[2] > 0, 1.0, 0.0),
    )
    # A round closes the tiers that are full; if data fit, two rounds find all of them.
    for _ in range(2):
        common_s = _common_time_s(size, capacities, bandwidths, is_open)
        is_open = (
            where(common_s * bandwidths[0] > capacities[0], 0.0, is_open[0]),
            where(common_s * bandwidths[1] > capacities[1], 0.0, is_open[1]),
            where(common_s * bandwidths[2] > capacities[2], 0.0, is_open[2]),
        )
    common_s = _common_time_s(size, capacities, bandwidths, is_open)
    second = where(is_open[1] > 0, common_s * bandwidths[1], capacities[1])
    third = where(is_open[2] > 0, common_s * bandwidths[2], capacities[2])
    beyond = larger(size - (capacities[0] + capacities[1] + capacities[2]), 0.0)
    times = (
        (beyond + capacities[0]) * inverse(bandwidths[0]),
        (beyond + capacities[1]) * inverse(bandwidths[1]),
        (beyond + capacities[2]) * inverse(bandwidths[2]),
    )
    longest = larger(times[0], larger(times[1], times[2]))
    into_second = where(times[1] == longest, beyond, 0.0)
    into_third = where(times[2] == longest, beyond - into_second, 0.0)
    second = where(beyond > 0, capacities[1] + into_second, second)
    third = where(beyond > 0, capacities[2] + into_third, third)
    per_byte = inverse(size)
    return (second + third) * per_byte, third * per_byte


def _common_time_s(
    size: FloatArray, capacities: Three, bandwidths: Three, is_open: Three
) -> FloatArray:
    """Time in which the open tiers read what the full ones leave."""
    full = (
        capacities[0] * (1.0 - is_open[0])
        + capacities[1] * (1.0 - is_open[1])
        + capacities[2] * (1.0 - is_open[2])
    )
    rate = bandwidths[0] * is_open[0] + bandwidths[1] * is_open[1] + bandwidths[2] * is_open[2]
    return larger(size - full, 0.0) * inverse(rate)


def _tails_between(start: FloatArray, end: FloatArray, capacities: Three) -> Two:
    """Share of the bytes from ``start`` to ``end`` that lives in tier 2 or deeper, and in 3."""
    size = larger(end - start, _TINY)
    filled = capacities[0]
    second = _share_beyond(filled, start, end, size)
    third = _share_beyond(filled + capacities[1], start, end, size)
    return where(capacities[1] > 0, second, 0.0), where(capacities[2] > 0, third, 0.0)


def _share_beyond(
    filled: FloatArray, start: FloatArray, end: FloatArray, size: FloatArray
) -> FloatArray:
    beyond = larger(end - larger(filled, start), 0.0)
    return smaller(beyond / size, 1.0)
