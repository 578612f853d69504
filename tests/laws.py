"""Comparisons for laws over floats: equal values may differ by a rounding step on another CPU."""

from __future__ import annotations

import numpy as np

ROUNDING = 1e-12
"""Relative difference that sums in another order, or with fused products, may have."""


def is_at_most(values, bounds):
    """True if no value exceeds its bound by more than rounding."""
    values, bounds = np.asarray(values, dtype=float), np.asarray(bounds, dtype=float)
    return bool((values <= bounds + ROUNDING * np.abs(bounds)).all())


def never_falls(values, axis=-1):
    """True if values along an axis fall nowhere by more than rounding."""
    ordered = np.moveaxis(np.asarray(values, dtype=float), axis, 0)
    return is_at_most(ordered[:-1], ordered[1:])


def never_rises(values, axis=-1):
    """True if values along an axis rise nowhere by more than rounding."""
    return never_falls(np.flip(np.asarray(values, dtype=float), axis), axis)
