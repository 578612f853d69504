"""The fit of all families: robust least squares of the logarithm of predicted over measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np

from codesign.base.columns import FloatArray, StringArray, Strings
from codesign.base.errors import InputError
from codesign.base.schema import Record

LOSS = (
    "robust least squares of the logarithm of predicted over measured, errors beyond 10 % counting "
    "linearly"
)
"""The loss in words, for the files of constants."""
_LOSS_SCALE = 0.1  # [ours] relative errors beyond this count linearly, not squared
_PULL = 0.003
"""Weight of a departure from the start by a factor e, against an error of each row [ours]: keeps
what no row depends on at its start."""

Constants = TypeVar("Constants", bound=Record)


def fit_constants(
    start: Constants,
    predict: Callable[[Constants], FloatArray],
    measured: FloatArray,
    *,
    groups: Strings | StringArray | None = None,
    free: Strings | None = None,
    least: Mapping[str, float] | None = None,
    most: Mapping[str, float] | None = None,
) -> Constants:
    """The constants with which predictions come nearest to what was measured.

    Constants are above 0 and fitted as their logarithms. Nothing is random.

    Args:
        start: The first guess, to which constants are weakly drawn.
        predict: Predictions of all rows with some constants, (q,), positive.
        measured: What was measured, (q,), positive.
        groups: Group of every row, (q,); a group weighs as the square root of its number of rows.
            Left out: every row weighs the same.
        free: Fields to fit, where the others stay; all if left out. Of a field that is a mapping,
            every value is fitted.
        least: Lower limits of fields; that of the others is 0.
        most: Upper limits of fields.

    Raises:
        InputError: No rows.
    """
    from scipy.optimize import least_squares

    if not len(measured):
        raise InputError("expected measurements to fit to, got none")
    values = start.model_dump()
    places = [
        (name, key)
        for name in (values if free is None else free)
        for key in (values[name] if isinstance(values[name], dict) else (None,))
    ]
    # Weights of the rows, 1 in the root of the mean square.
    weights = np.ones(len(measured))
    if groups is not None:
        _, number, sizes = np.unique(groups, return_inverse=True, return_counts=True)
        raw = sizes[number] ** -0.25
        weights = np.asarray(raw * np.sqrt(len(measured) / np.sum(raw**2)), dtype=np.float64)

    def constants_at(point: FloatArray) -> Constants:
        changes = {name: dict(values[name]) for name, key in places if key is not None}
        for (name, key), value in zip(places, np.exp(point).tolist(), strict=True):
            if key is None:
                changes[name] = value
            else:
                changes[name][key] = value
        return start.model_copy(update=changes)

    def residuals(point: FloatArray) -> FloatArray:
        errors = np.log(predict(constants_at(point)) / measured) / _LOSS_SCALE
        # The robust loss by hand, since the pull towards the start must stay quadratic.
        robust = np.sign(errors) * _LOSS_SCALE * np.sqrt(2 * (np.sqrt(1 + errors**2) - 1))
        return np.concatenate([weights * robust, _PULL * np.sqrt(len(measured)) * (point - origin)])

    origin = np.log([values[name] if key is None else values[name][key] for name, key in places])
    lower = np.log([(least or {}).get(name, 1e-300) for name, _ in places])
    upper = np.log([(most or {}).get(name, np.inf) for name, _ in places])
    inside = np.clip(origin, lower + 1e-6, upper - 1e-6)
    solution = least_squares(residuals, inside, bounds=(lower, upper), xtol=1e-6, max_nfev=60)
    return constants_at(np.asarray(solution.x))
