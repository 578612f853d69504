"""Wear: how long memories last that can be written only so often."""

from __future__ import annotations

import numpy as np

from codesign.base.columns import FloatArray
from codesign.models.accounts.ownership import HOURS_PER_YEAR

LONGEST_LIFE_YEARS = 10.0
"""Life of what does not wear: that for which electronics are usually qualified [ours]."""
SECONDS_PER_YEAR = HOURS_PER_YEAR * 3600.0


def lifetime_years(
    written_bytes_per_s: FloatArray, wear_per_byte: FloatArray, busy_share: float = 1.0
) -> FloatArray:
    """Years until the first memory of a design is worn out, at most ``LONGEST_LIFE_YEARS``.

    Limiting assumptions: writes are spread evenly over the memory and written once, without
    amplification, as data that are appended and dropped as a whole allow.

    Args:
        written_bytes_per_s: (l, n) to each memory while the device serves.
        wear_per_byte: (l, n) part of its life that a byte takes; 0 where it does not wear.
        busy_share: Share of its life in which the device serves.

    Examples:
        >>> rate, capacity, cycles = np.array([[0.46e9]]), 384e9, 3000  # 103 drive writes a day
        >>> years = lifetime_years(rate, np.array([[1 / (capacity * cycles)]]))
        >>> round(float(years[0]) * 365.25, 1)
        29.0
    """
    per_year = (written_bytes_per_s * wear_per_byte).max(axis=0) * (SECONDS_PER_YEAR * busy_share)
    return np.asarray(1.0 / np.maximum(per_year, 1.0 / LONGEST_LIFE_YEARS))
