"""Dominance of many points by a front of three or more objectives, where no staircase serves.

For every objective and every rank the front's points that are no larger are a set of bits, 64 in a
word. The sets of a point's ranks have those in common that are as good in every objective, so that
a point is compared with 64 others at a time [ours].
"""

from __future__ import annotations

import numpy as np

from codesign.base.columns import BoolArray, FloatArray, IntArray

_PIECE = 1 << 11
"""Points of the front whose sets are made together: half a megabyte for an objective."""
_AT_ONCE = 1 << 12
"""Points that are looked at together."""


class DominanceTable:
    """The sets of a front, made once and used for many points.

    Args:
        front: (p, m) points, none twice.
    """

    def __init__(self, front: FloatArray) -> None:
        pieces = [front[start : start + _PIECE] for start in range(0, len(front), _PIECE)]
        self._pieces = [_Piece(piece) for piece in pieces]

    def dominates(self, points: FloatArray) -> BoolArray:
        """(n,) whether any of the front's points dominates each of (n, m); equal ones do not."""
        is_dominated = np.zeros(len(points), bool)
        for piece in self._pieces:
            rest = np.flatnonzero(~is_dominated)
            for start in range(0, len(rest), _AT_ONCE):
                chunk = rest[start : start + _AT_ONCE]
                is_dominated[chunk] = piece.dominates(points[chunk])
        return is_dominated


class _Piece:
    """Up to ``_PIECE`` points of the front, with their sets."""

    def __init__(self, front: FloatArray) -> None:
        self._front = front
        self._sorted = np.sort(front, axis=0)
        orders = np.argsort(front, axis=0, kind="stable")
        self._sets = [_no_larger(order) for order in orders.T]

    def dominates(self, points: FloatArray) -> BoolArray:
        common = np.full((len(points), self._sets[0].shape[1]), ~np.uint64(0))
        for column, sets in enumerate(self._sets):
            values = points[:, column]
            ranks = np.searchsorted(self._sorted[:, column], values, side="right")
            ranks[np.isnan(values)] = 0  # nothing is as good as what is no number
            common &= sets[ranks]
        is_dominated = np.asarray(common.any(axis=1))
        reached = np.flatnonzero(is_dominated)
        bits = np.unpackbits(common[reached].view(np.uint8), axis=1)
        first = self._front[bits.argmax(axis=1)]
        # No point of the front is there twice, so one that equals the first of several is dominated
        # by none of them only if there are no others.
        is_equal = (first == points[reached]).all(axis=1)
        is_dominated[reached[is_equal]] = bits[is_equal].sum(axis=1, dtype=np.int64) > 1
        return is_dominated


def _no_larger(order: IntArray) -> IntArray:
    """(c + 1, w) by rank the first points of an order, as bits of words."""
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    bits = np.packbits(np.arange(len(order) + 1)[:, None] > place, axis=1)
    padding = np.zeros((len(bits), -bits.shape[1] % 8), np.uint8)
    return np.ascontiguousarray(np.hstack([bits, padding])).view(np.uint64)
