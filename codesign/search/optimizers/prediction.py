"""Objectives that a cheaper model predicts, of which only the error is left to learn.

Kennedy and O'Hagan, "Predicting the output from a complex computer code when fast approximations
are available", Biometrika 87 (2000), section 2: the costly result is the cheap one times a factor
plus a Gaussian process. Here the factor is 1 on the logarithmic scale on which objectives are
modeled, so that the process is about the ratio of the two and a constant ratio is its mean.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from codesign.base.columns import FloatArray, IntArray
from codesign.search.optimizers.improvement import Scale

_LEAST_ERROR = 1e-2
"""Deviation of a prediction's error, as a share of that of the results, below which a few results
that were predicted well are not taken to say more. [ours]"""


@dataclass(frozen=True)
class PriorPredictions:
    """Predictions for ``n`` designs by a cheaper model or a cheaper evaluator.

    Attributes:
        values: (n, m + c) objectives and violations; NaN in the columns that are not predicted.
        deviation: (n, m + c) of the predictions: of the logarithm of an objective that has one
            sign, of violations on their scale. None: they are taken as they are.
    """

    values: FloatArray
    deviation: FloatArray | None = None

    def subset(self, rows: IntArray) -> PriorPredictions:
        """The predictions for some of the designs."""
        deviation = None if self.deviation is None else self.deviation[rows]
        return PriorPredictions(self.values[rows], deviation)

    def widened(self, deviation: FloatArray, scale: Scale, column: int) -> FloatArray:
        """(n,) posterior deviations on a scale, with those of the predictions."""
        if self.deviation is None:
            return deviation
        return np.hypot(deviation, self.deviation[:, column] / scale.slope)

    def bound(self, column: int | None) -> FloatArray:
        """(n,) the least values that results have, if no result was better than predicted."""
        if column is None or self.deviation is not None:
            return np.full(len(self.values), -np.inf)
        return self.values[:, column]


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
