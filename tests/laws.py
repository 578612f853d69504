"""Laws over floats: comparisons up to rounding, which differs by CPU, and cases in turn."""

import itertools

import numpy as np
import pytest

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


def in_turn(*lists):
    """All combinations; every second is slow, as the black squares of a board are."""
    places = itertools.product(*map(enumerate, lists))
    return [
        pytest.param(*values, marks=[pytest.mark.slow] if sum(numbers) % 2 else [])
        for numbers, values in (zip(*place, strict=True) for place in places)
    ]
