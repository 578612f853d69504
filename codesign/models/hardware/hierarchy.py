"""Time and energy of moving bytes through a hierarchy of double-buffered memory levels.

Levels 1 (nearest the compute) to L. Each has one port, shared by what it sends up and what it
takes from below. The closed form integrates both phases of the shared port: while the deeper
level still feeds it, level i has the rest of its bandwidth (MemExplorer [MemExplorer]_ Eq. 2),
then all of it; the sum is (x_i + x_{i+1}) / B_i however the two phases split. Eq. 2-5 as
printed are discontinuous: with B = (4, 1), a share of 0.74 on level 1 takes 0.260 s per byte
where a chunk-by-chunk simulation takes 0.315 s, and a share of 1 takes 0.333 s where one level
alone takes 0.25 s.

Hidden assumption: the bytes of an operand are interleaved over the levels. Delivered in order,
nearest first, with two landing buffers, transfers take a median 9 % longer.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from codesign.base.columns import FloatArray
from codesign.models.hardware.formula_operations import inverse, larger, smaller, where

# A plain number would do for NumPy and the compiled loop alike, but is not an array.
_NOTHING: FloatArray = np.float64(0.0)  # type: ignore[assignment]


def staged_time_s_at(
    crossing_bytes: Sequence[FloatArray],
    seconds_per_byte: Sequence[FloatArray],
    latency_s: Sequence[FloatArray],
    chunk_bytes: FloatArray,
) -> FloatArray:
    """Time until all bytes have reached the compute, every byte passing all levels above its own.

    All arguments broadcast; levels come nearest first.

    Args:
        crossing_bytes: x_i: what crosses from level i towards the compute (its own bytes and
            those from below); non-increasing. A level with nothing to send is skipped.
        seconds_per_byte: 1 / B_i, of the peak of each port; 0 for a level that is not there.
        latency_s: Latency of each level.
        chunk_bytes: The unit of double buffering.

    Returns:
        max over the levels used of ``(x_i + x_{i+1}) / B_i + fill_i``, where ``fill_i`` is the
        latency of level i and, for each level above, its latency and the way of the first chunk
        through its port, in and out again, at most ``x_i`` of it. 0 if x_1 = 0.

    Examples:
        >>> from_one = staged_time_s_at([4.0], [1 / 2.0], [0.5], 0.0)
        >>> from_two = staged_time_s_at([1.0, 0.26], [1 / 4.0, 1.0], [0.0, 0.0], 0.0)
        >>> float(from_one), float(from_two)
        (2.5, 0.315)
    """
    total = _NOTHING
    latency = _NOTHING
    passing = _NOTHING
    last = len(crossing_bytes) - 1
    for i in range(len(crossing_bytes)):
        crossing = crossing_bytes[i]
        below = crossing_bytes[i + 1] if i < last else _NOTHING
        latency = latency + latency_s[i]
        first = smaller(chunk_bytes, crossing)
        here = (crossing + below) * seconds_per_byte[i] + (latency + first * passing)
        total = larger(total, where(crossing > 0, here, 0.0))
        passing = passing + 2.0 * seconds_per_byte[i]
    return total


def parallel_time_s_at(
    owned_bytes: Sequence[FloatArray],
    seconds_per_byte: Sequence[FloatArray],
    latency_s: Sequence[FloatArray],
) -> FloatArray:
    """Time until all bytes have arrived when every level feeds the compute directly.

    Args:
        owned_bytes: r_i: bytes that come from level i itself.
        seconds_per_byte: 1 / B_i, of the peak of each port; 0 for a level that is not there.
        latency_s: Latency of each level.

    Returns:
        max over the levels used of ``latency_i + r_i / B_i``.
    """
    total = _NOTHING
    for i in range(len(owned_bytes)):
        here = owned_bytes[i] * seconds_per_byte[i] + latency_s[i]
        total = larger(total, where(owned_bytes[i] > 0, here, 0.0))
    return total


def inflight_bandwidth_bytes_per_s(
    bandwidth_bytes_per_s: FloatArray,
    latency_s: FloatArray,
    chunk_bytes: FloatArray,
    n_in_flight: float,
) -> FloatArray:
    """Bandwidth that ``n_in_flight`` outstanding requests of one chunk can sustain.

    By Little's law a request stays for its latency and its transfer, so the rate is
    ``n c / (latency + c/B)``; matters for flash, whose latency is near a microsecond.
    """
    round_trip = latency_s + chunk_bytes * inverse(bandwidth_bytes_per_s)
    # A level that does not exist has no latency and no bandwidth.
    return smaller(bandwidth_bytes_per_s, n_in_flight * chunk_bytes * inverse(round_trip))
