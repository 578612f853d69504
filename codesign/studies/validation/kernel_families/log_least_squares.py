"""Fit the constants of a family of kernels: robust least squares of the logarithm of the time."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from codesign.columns import FloatArray
from codesign.errors import InputError

_LOSS_SCALE = 0.1  # [ours] relative errors beyond this count linearly, not squared
_PULL = 0.003  # [ours] weight of a departure from the start by a factor e, against a row's error


def fit_constants(
    predict_s: Callable[[Mapping[str, float]], FloatArray],
    start: Mapping[str, float],
    most: Mapping[str, float],
    measured_s: FloatArray,
    group: NDArray[np.str_],
) -> dict[str, float]:
    """The constants that make predicted times come out nearest to measured ones.

    Every constant is above 0 and is fitted as its logarithm. A group of rows weighs as the square
    root of their number, between every row and every group alike. Nothing is random.

    Args:
        predict_s: (q,) seconds of the rows under constants by name.
        start: First guess, to which constants that no row depends on stay.
        most: Upper bounds, for the constants that have one.
        measured_s: (q,) measured seconds.
        group: (q,) name of each row's group.

    Raises:
        InputError: No rows.
    """
    from scipy.optimize import least_squares

    if not len(measured_s):
        raise InputError("expected measurements to fit to, got none")
    origin = np.log(list(start.values()))
    _, position, sizes = np.unique(group, return_inverse=True, return_counts=True)
    weights = sizes[position] ** -0.25
    weights *= np.sqrt(len(weights) / np.sum(weights**2))

    def constants_at(point: FloatArray) -> dict[str, float]:
        return dict(zip(start, map(float, np.exp(point)), strict=True))

    def residuals(point: FloatArray) -> FloatArray:
        errors = np.log(predict_s(constants_at(point)) / measured_s) / _LOSS_SCALE
        # The robust loss by hand, since the pull towards the start must stay quadratic.
        robust = np.sign(errors) * _LOSS_SCALE * np.sqrt(2 * (np.sqrt(1 + errors**2) - 1))
        pull = _PULL * np.sqrt(len(weights)) * (point - origin)
        return np.concatenate([weights * robust, pull])

    upper = np.log([most.get(name, np.inf) for name in start]) + 1e-9
    solution = least_squares(
        residuals, np.minimum(origin, upper - 1e-6), bounds=(-np.inf, upper), max_nfev=100
    )
    return constants_at(solution.x)
