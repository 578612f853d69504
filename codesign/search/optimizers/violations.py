"""The scale on which what exceeds limits is modeled and added up.

A violation is a relative excess, ``metric / limit - 1``, so that one plus it is the metric itself
in the limit's unit, and its logarithm is modeled.
"""

from __future__ import annotations

import numpy as np

from codesign.base.columns import FloatArray

_LEAST_EXCESS = -1.0 + 1e-9
"""An excess of -1 is a metric of 0, which has no logarithm."""


def compressed(violations: FloatArray) -> FloatArray:
    """Violations on the scale on which they are modeled; infinite ones as the largest.

    The logarithm of one plus a relative excess. What can be below -1 is no relative excess; of
    it large values are drawn together, with the sign kept.
    """
    finite = violations[np.isfinite(violations)]
    largest = float(np.abs(finite).max(initial=1.0))
    bounded = np.clip(violations, -largest, largest)
    if (bounded > -1.0).all():
        return np.asarray(np.log1p(bounded))
    typical = float(np.median(np.abs(bounded))) or largest
    return np.asarray(np.sign(bounded) * np.log1p(np.abs(bounded) / typical))


def compressed_prediction(violations: FloatArray) -> FloatArray:
    """Predicted relative excesses on the scale of :func:`compressed`."""
    return np.log1p(np.maximum(violations, _LEAST_EXCESS))


def total_violations(violations: FloatArray) -> FloatArray:
    """(n,) of (n, c) violations, the sums of what is above 0 on the scale of the models."""
    total = np.zeros(len(violations))
    for column in violations.T:
        total += np.maximum(compressed(column), 0.0)
    return total
