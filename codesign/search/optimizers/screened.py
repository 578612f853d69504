"""Results of a cheaper evaluator for some designs, and estimates from them for all others.

Results of the dear evaluator are learned as errors of this, as in Kennedy and O'Hagan (Biometrika
87, 2000). Designs pass the cheaper evaluator before the dear one, so that the designs known to the
dear one are a part of those known to the cheaper, and first the cheaper level is learned, then the
dear one (Le Gratiet and Garnier, "Recursive co-kriging model for design of computer experiments
with multiple levels of fidelity", International Journal for Uncertainty Quantification 4, 2014).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from codesign.base.columns import BoolArray, FloatArray, IntArray
from codesign.search.observations import Observations
from codesign.search.optimizers.acquisition_function import OutcomeModel
from codesign.search.optimizers.base import SearchSpace
from codesign.search.optimizers.history import Memory
from codesign.search.optimizers.improvement import Scale
from codesign.search.optimizers.modeling import Modeling
from codesign.search.optimizers.prediction import QueryPoints, expected
from codesign.search.optimizers.training_data import TrainingData

_EQUAL = 1e-3
"""Typical error, as a share of the deviation of the results, below which none is better [ours]."""


class Screened:
    """Designs that a cheaper evaluator has seen; a function of what it was told.

    Args:
        space: Where the designs are from.
        n_objectives: Number m of objectives.
        modeling: How its results are learned.
        predict: (n, d) designs to what a still cheaper model says of their m objectives and all
            limits, (n, m + c), NaN where it says nothing; None without one.
        n_limits: Number of limits that the dear evaluator reports, as far as is known.
    """

    def __init__(
        self,
        space: SearchSpace,
        n_objectives: int,
        modeling: Modeling,
        predict: Callable[[IntArray], FloatArray | None],
        n_limits: Callable[[], int],
    ) -> None:
        self._space = space
        self._m = n_objectives
        self._modeling = modeling
        self._predict = predict
        self._n_limits = n_limits
        self._memory = Memory(space, n_objectives)
        self._places: dict[int, int] = {}
        self._models: list[OutcomeModel] = []

    @property
    def history(self) -> Observations:
        """All results, in order; their limits are the last of the dear evaluator's."""
        return self._memory.history()

    @property
    def is_known(self) -> bool:
        """Whether there is enough to learn from."""
        return len(self._places) > 1 and bool((~self.history.failed).sum() > 1)

    def add(self, results: Observations) -> None:
        """Take results."""
        keys = self._space.space.keys(results.rows).tolist()
        n = len(self._places)
        self._places |= {key: n + i for i, key in enumerate(keys)}
        self._memory.add(results)
        self._models = []

    def has(self, rows: IntArray) -> BoolArray:
        """(n,) whether designs have been seen."""
        return self._places_of(rows) >= 0

    def is_nearer(self, rows: IntArray, objectives: FloatArray, logarithmic: bool) -> bool:
        """Whether it told more of (k, m) objectives of designs than predictions, or than nothing.

        What counts is the typical error: the median deviation from the median, so that neither a
        constant factor nor a few designs decide.
        """
        predicted = self._predict(rows)
        nothing = np.full(len(rows), np.nan)
        points = self.points(rows, self._space.features(rows))
        assert points.predicted is not None  # it learned from results
        gain = 0.0
        for j, values in enumerate(objectives.T):
            scale = Scale.fit(values, logarithmic)
            prediction = nothing if predicted is None else predicted[:, j]
            errors = [
                scale.modeled(values) - expected(scale, x)
                for x in (points.predicted[:, j], prediction)
            ]
            typical = [float(np.median(np.abs(x - np.median(x)))) for x in errors]
            gain += float(np.log((typical[1] + _EQUAL) / (typical[0] + _EQUAL)))
        return gain > 0.0

    def points(self, rows: IntArray, features: FloatArray) -> QueryPoints:
        """(n, d) designs with prior predictions: results where seen, else an estimate.

        The columns are the objectives and all limits. The expensive evaluator's own limits have no
        prediction.

        Args:
            features: (n, f) their features.
        """
        history = self.history
        if not self._models:
            described = QueryPoints(self._space.features(history.rows), self._part(history.rows))
            rng = np.random.default_rng(len(history.rows))
            self._models = self._modeling.estimates(TrainingData(history, described), rng)
        cheaper = QueryPoints(features, self._part(rows))
        predicted = np.full((len(rows), len(self._models)), np.nan)
        deviation = np.zeros_like(predicted)
        for j, model in enumerate(self._models):
            target = model.target
            if not target.violations.is_invertible:
                continue  # what can be below -1 is no relative excess
            mean = target.prior(cheaper)
            if target.values.any():  # else its predictions were exact
                mean, spread = model.predict(cheaper)
                deviation[:, j] = target.scale.slope * spread
            predicted[:, j] = target.violations.natural(target.scale.natural(mean))
        places = self._places_of(rows)
        seen = np.flatnonzero(places >= 0)
        seen = seen[~history.failed[places[seen]]]
        results = np.hstack([history.objectives, history.violations])[places[seen]]
        predicted[seen] = np.where(np.isnan(predicted[seen]), np.nan, results)
        deviation[seen] = 0.0
        between = np.full((len(rows), self._n_limits() - self._c), np.nan)
        priors = (
            np.hstack([columns[:, : self._m], between, columns[:, self._m :]])
            for columns in (predicted, deviation)
        )
        return QueryPoints(features, *priors)

    @property
    def _c(self) -> int:
        return int(self.history.violations.shape[1])

    def _part(self, rows: IntArray) -> FloatArray | None:
        """(n, m + c) predictions of what the cheaper evaluator reports."""
        predicted = self._predict(rows)
        if predicted is None:
            return None
        return np.hstack([predicted[:, : self._m], predicted[:, predicted.shape[1] - self._c :]])

    def _places_of(self, rows: IntArray) -> IntArray:
        keys = self._space.space.keys(rows).tolist()
        return np.array([self._places.get(key, -1) for key in keys], np.int64)
