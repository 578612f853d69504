"""Tables of step times over whole numbers of tokens, read by linear interpolation."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from codesign.base.errors import InputError


def token_grid(largest: int, ratio: float) -> list[int]:
    """Whole numbers from 1 to the largest, each about ``ratio`` times the one before."""
    points = [1]
    while points[-1] < largest:
        points.append(min(max(points[-1] + 1, round(points[-1] * ratio)), largest))
    return points


def place_on(points: Sequence[int], tokens: float) -> tuple[int, float]:
    """The point of a grid below a number of tokens, and its share of the way to the next.

    Raises:
        InputError: The number lies beyond the grid.
    """
    if tokens > points[-1]:
        raise InputError(f"expected at most {points[-1]} tokens of a request, got {tokens:g}")
    i = bisect_right(points, tokens) - 1
    if i == len(points) - 1:
        return i, 0.0
    return i, (tokens - points[i]) / (points[i + 1] - points[i])
