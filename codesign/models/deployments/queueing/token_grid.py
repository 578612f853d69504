"""Tables of step times over whole numbers of tokens, read by linear interpolation."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

from codesign.base.errors import InputError


def token_grid(largest: int, ratio: float) -> list[int]:
    """Whole numbers from 1 to the largest, each about ``ratio`` times the one before."""
    points = [1]
    while points[-1] < largest:
        points.append(min(max(points[-1] + 1, round(points[-1] * ratio)), largest))
    return points


def interpolated(points: Sequence[int], tokens: float, value_at: Callable[[int], float]) -> float:
    """Linear interpolation at a number of tokens.

    Args:
        points: Ascending points of a grid.
        value_at: Number at a point, by its position.

    Raises:
        InputError: The number lies beyond the grid.
    """
    if tokens > points[-1]:
        raise InputError(f"expected at most {points[-1]} tokens of a request, got {tokens:g}")
    i = bisect_right(points, tokens) - 1
    low = value_at(i)
    if i == len(points) - 1 or tokens == points[i]:
        return low
    share = (tokens - points[i]) / (points[i + 1] - points[i])
    return low + share * (value_at(i + 1) - low)
