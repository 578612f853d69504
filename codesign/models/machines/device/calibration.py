"""A device fitted to measured kernels of one card.

Few numbers are fitted, by robust least squares of the logarithm of predicted over measured times.
Each is drawn to its value in the base, so that a number without rows keeps it. About a quarter
of the shapes, chosen by hash, is held out: errors before and after are of these rows, and so is the
interval, which is split-conformal [Vovk2005]_.

.. [Vovk2005] V. Vovk, A. Gammerman and G. Shafer, Algorithmic Learning in a Random World, 2005.
"""

from __future__ import annotations

import math
from hashlib import sha256
from typing import get_args

import numpy as np

from codesign.base.columns import Fields, FloatArray, JsonObject
from codesign.base.errors import InputError
from codesign.base.schema import Document, parse_record
from codesign.base.units import format_quantity
from codesign.models.hardware.device import Device, TimeFactor, load_device, nearest_device
from codesign.models.machines.device.measured_card import MeasuredCard

LEAST_ERRORS = 9
"""Errors that an interval of 90 % needs at least."""
_FOLDS = 4
_LOSS_SCALE = 0.1  # [ours] relative errors beyond this count linearly
_UNLIKE, _ABSURD = 5.0, 30.0
"""Factor of 90 % of the errors after a fit, and median factor before, of another machine [ours]."""
_UNITS = {
    "clock": "GHz", "bandwidth": "GB/s", "kernel_start": "us", "quantize_start": "us",
    "link_bandwidth": "GB/s", "burst_fraction": "", "sustained_fraction": "",
}  # fmt: skip
_SPREADS = {
    **dict.fromkeys([*_UNITS, *get_args(TimeFactor)], 0.1),
    "peak": 1e-6, "kernel_start": 0.5, "quantize_start": 0.5,
}  # fmt: skip
"""Numbers that are fitted, and by which power of e they likely differ from the base's [ours]."""
_OTHER_CHIP = {"peak": 1.0, "bandwidth": 1.0, "link_bandwidth": 1.0}
"""The powers for a card of another chip."""


def calibrate(card: MeasuredCard, device: Device, base: Fields, source: str) -> JsonObject:
    """The file of a device that is fitted to measured kernels.

    Args:
        device: A similar device.
        base: Content of its file.
        source: The file of the measurements.

    Raises:
        InputError: Too few kernels, or times that no such card has.
    """
    from scipy.optimize import least_squares

    timed = [kernel for kernel in card.kernels if kernel.median_us]
    shapes = (f"{row.family} {row.role} {row.format} {row.sizes}" for row in timed)
    folds = [int(sha256(shape.encode()).hexdigest(), 16) % _FOLDS for shape in shapes]
    is_fitted = np.greater(folds, 0)
    if (n_held := sum(~is_fitted)) < LEAST_ERRORS:
        problem = f"expected {LEAST_ERRORS} held-out kernels or more, got {n_held}"
        raise InputError(problem, source)

    numbers = {name: getattr(device, name) for name in _UNITS}
    numbers["sustained_fraction"] = device.sustained_share
    nearest = nearest_device(card.card)
    spreads = _SPREADS
    changes: JsonObject = {} if nearest == device.key else {**card.device}
    changes["kernels_of"] = device.measured_name
    if nearest is None or load_device(nearest).measured_name != device.measured_name:
        changes["kernels_of"] = None
        spreads = _SPREADS | _OTHER_CHIP
    how = f"calibrated on {card.day} from {source}, {sum(is_fitted)} kernels; base: "
    numbered = [*card.device, *_UNITS, "peak", "time_factors"]
    sources = {key: how + device.sources.get(key, "none") for key in numbered}

    def document_at(point: FloatArray, digits: int = 9) -> JsonObject:
        scales = dict(zip(spreads, np.exp(point).tolist(), strict=True))
        texts = {
            key: format_quantity(number * scales[key], _UNITS[key], digits)
            for key, number in numbers.items()
            if number
        }
        rates = {key: rate * scales["peak"] for key, rate in device.peak.items()}
        return {
            **base, **changes, **texts, "name": f"{card.card}, calibrated", "also_called": [],
            "peak": {key: format_quantity(rate, "TFLOP/s", digits) for key, rate in rates.items()},
            "time_factors": {key: round(scales[key], digits) for key in get_args(TimeFactor)},
            "sources": {**device.sources, **sources},
        }  # fmt: skip

    def errors(document: JsonObject) -> FloatArray:
        fitted = parse_record(Document(source, document, {}), Device, {"key": "", **document})
        return np.log([row.median_us for row in timed] / card.predicted_us(fitted))

    def residuals(point: FloatArray) -> FloatArray:
        misses = errors(document_at(point))[is_fitted] / _LOSS_SCALE
        return np.concatenate([misses, point / list(spreads.values())])

    most = [-math.log(numbers[key]) if key.endswith("fraction") else np.inf for key in spreads]
    start = np.zeros(len(spreads))
    solution = least_squares(residuals, start, bounds=(-np.inf, most), loss="soft_l1", xtol=1e-6)
    document = document_at(solution.x, 4)
    error = conformal_error(errors({**base})[~is_fitted], errors(document)[~is_fitted])
    if error["high"] > _UNLIKE or error["median_before"] > _ABSURD:
        got = f"got times that are off by a factor of {error['median_before']} in the median"
        expected = f"expected a card like {device.name}, and median_us in microseconds"
        raise InputError(f"{expected}, {got} and of {error['high']} after the fit", source)
    return {**document, "calibration_error": error}


def conformal_error(before: FloatArray, after: FloatArray) -> JsonObject:
    """The errors to expect, from logarithms of measured over predicted times.

    Args:
        before: (q,) those of the base.
        after: (q,) those of the fitted device, which has not seen them.

    Examples:
        >>> errors = np.linspace(-0.1, 0.1, 21)
        >>> conformal_error(errors, errors)["high"]  # the 20th of 21 sizes
        1.105
    """
    sizes = np.sort(np.abs(after))
    half = sizes[-(-9 * (len(sizes) + 1) // 10) - 1]
    factors = np.exp([-half, half, np.median(sizes), np.median(np.abs(before))]).round(3).tolist()
    names = ("low", "high", "median", "median_before")
    return {"cases": len(sizes), **dict(zip(names, factors, strict=True))}
