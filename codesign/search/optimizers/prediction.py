"""Objectives that a cheaper model predicts, of which only the error is left to learn.

Kennedy and O'Hagan, "Predicting the output from a complex computer code when fast approximations
are available", Biometrika 87 (2000), section 2: the costly result is the cheap one times a factor
plus a Gaussian process. Here the factor is 1 on the logarithmic scale on which objectives are
modeled, so that the process is about the ratio of the two and a constant ratio is its mean.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from codesign.base.columns import FloatArray, IntArray
from codesign.base.records import frozen
from codesign.search.optimizers.improvement import Scale
from codesign.search.optimizers.violations import ViolationScale

_LEAST_ERROR = 1e-2
"""Deviation of a prediction's error, as a share of that of the results, below which a few results
that were predicted well are not taken to say more. [ours]"""
_ROUNDING = 1e-9
"""Tolerance on the logarithmic scale within which a result counts as predicted."""


@frozen
class QueryPoints:
    """Features and prior predictions of ``n`` designs.

    Attributes:
        features: (n, f) features.
        predicted: (n, m + c) prior predictions of objectives and violations, by a cheaper model or
            a cheaper evaluator; NaN in the columns that are not predicted. None without one.
        deviation: (n, m + c) of the predictions: of the logarithm of an objective that has one
            sign, of violations on their scale. None: they are taken as they are.
    """

    features: FloatArray
    predicted: FloatArray | None = None
    deviation: FloatArray | None = None

    def subset(self, rows: slice | IntArray) -> QueryPoints:
        """Select designs, in the order of ``rows``."""
        arrays = (self.features, self.predicted, self.deviation)
        features, *priors = (array if array is None else array[rows] for array in arrays)
        assert features is not None
        return QueryPoints(features, *priors)

    def predictions(self, position: int) -> FloatArray | None:
        """(n,) prior predictions of an objective or of a limit; None if there are none."""
        if self.predicted is None or np.isnan(self.predicted[:, position]).any():
            return None
        return self.predicted[:, position]


@frozen
class Target:
    """Values that a model learns.

    Attributes:
        scale: Of an objective, or of violations on their scale.
        violations: The scale of violations; for an objective, the one that changes nothing.
        values: (n,) standardized.
        log_density: Logarithm of what a density gains if results replace these values.
        predicted: Position of the prediction of which the values are the errors, if there is one.
    """

    scale: Scale
    violations: ViolationScale
    values: FloatArray
    log_density: float = 0.0
    predicted: int | None = None

    @cached_property
    def is_bounded(self) -> bool:
        """True if no value is better than its prediction."""
        return self.predicted is not None and bool(
            (self.scale.slope * self.values >= -_ROUNDING).all()
        )

    def prior(self, points: QueryPoints) -> FloatArray:
        """(n,) expected values, to which the model adds its errors; 0 without a prediction."""
        if self.predicted is None or points.predicted is None:
            return np.zeros(len(points.features))
        return expected(self.scale, self.violations.modeled(points.predicted[:, self.predicted]))

    def widened(self, deviation: FloatArray, points: QueryPoints) -> FloatArray:
        """(n,) posterior deviations, with those of the predictions."""
        if self.predicted is None or points.deviation is None:
            return deviation
        return np.hypot(deviation, points.deviation[:, self.predicted] / self.scale.slope)

    def least(self, points: QueryPoints) -> FloatArray:
        """(n,) least results, if no result was better than predicted; -inf if not known."""
        if self.predicted is None or points.predicted is None or points.deviation is not None:
            return np.full(len(points.features), -np.inf)
        least = points.predicted[:, self.predicted]
        return least if self.is_bounded else np.full_like(least, -np.inf)


def error_scale(values: FloatArray, predictions: FloatArray, logarithmic: bool) -> Scale:
    """The scale on which an objective less its :func:`expected` value deviates by about 1.

    Args:
        values: (n,) results.
        predictions: (n,) of the same designs; NaN if the objective is not predicted.
        logarithmic: Model the logarithm if the results have one sign.
    """
    scale = Scale.fit(values, logarithmic)
    if np.isnan(predictions).any():
        return scale
    raw = Scale(scale.sign, 0.0, 1.0)
    error = raw.modeled(values) - expected(raw, predictions)
    return Scale(scale.sign, 0.0, max(float(error.std()), _LEAST_ERROR * scale.slope))


def expected(scale: Scale, predictions: FloatArray) -> FloatArray:
    """(n,) predictions as a model sees them; those of another sign than results are near 0.

    0, the mean of a model that knows nothing in advance, if the objective is not predicted.
    """
    if np.isnan(predictions).any():
        return np.zeros(len(predictions))
    if scale.sign:
        predictions = scale.sign * np.maximum(scale.sign * predictions, np.finfo(float).tiny)
    return scale.modeled(predictions)
