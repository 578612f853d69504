"""Robust least squares of logarithms: constants of a record, all positive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from codesign.columns import FloatArray
from codesign.errors import InputError
from codesign.schema import Record

LOSS_SCALE = 0.1
"""Relative errors beyond this count linearly, not squared [ours]."""
_PULL = 0.3  # [ours] weight of a departure from the start by a factor e, against one row's error

Constants = TypeVar("Constants", bound=Record)


def fit_constants(
    start: Constants,
    names: Sequence[str],
    predict: Callable[[Constants], FloatArray],
    measured: FloatArray,
    groups: Sequence[str],
    least: Mapping[str, float],
    most: Mapping[str, float],
) -> Constants:
    """The constants with which predictions come out best, by a robust loss of their logarithms.

    A group of rows weighs as the square root of their number. Nothing is random.

    Args:
        start: The first guess, to which constants are weakly drawn.
        names: Fields to fit; the others stay.
        predict: Predictions of all rows with some constants, (q,), positive.
        measured: What was measured, (q,), positive.
        groups: Group of every row.
        least: Lower limits of fields; that of the others is 0.
        most: Upper limits of fields.

    Raises:
        InputError: No rows.
    """
    from scipy.optimize import least_squares

    if not len(measured):
        raise InputError("expected measurements to fit to, got none")
    sizes = Counter(groups)
    weights = np.array([sizes[group] ** -0.25 for group in groups])
    weights *= np.sqrt(len(weights) / np.sum(weights**2))
    origin = np.log([getattr(start, name) for name in names])

    def constants_of(point: FloatArray) -> Constants:
        return start.model_copy(update=dict(zip(names, map(float, np.exp(point)), strict=True)))

    def residuals(point: FloatArray) -> FloatArray:
        errors = np.log(predict(constants_of(point)) / measured) / LOSS_SCALE
        robust = np.sign(errors) * np.sqrt(2 * (np.sqrt(1 + errors**2) - 1)) * LOSS_SCALE
        return np.concatenate([weights * robust, _PULL * (point - origin)])

    lower = np.log([least.get(name, np.exp(-700.0)) for name in names])
    upper = np.log([most.get(name, np.inf) for name in names])
    solution = least_squares(residuals, origin, bounds=(lower, upper), xtol=1e-4, max_nfev=40)
    return constants_of(np.asarray(solution.x))
