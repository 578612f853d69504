"""The front of noisy results: of posterior means, not of the luckiest measurements."""

from __future__ import annotations

import numpy as np

from codesign.base.columns import FloatArray, IntArray
from codesign.search.observations import Observations
from codesign.search.optimizers.base import SearchSpace
from codesign.search.optimizers.modeling import Modeling
from codesign.search.optimizers.prediction import QueryPoints
from codesign.search.optimizers.surrogate import load_libraries, single_thread
from codesign.search.optimizers.training_data import TrainingData
from codesign.search.pareto import non_dominated

_ITERATIONS, _TRAINING = 50, 200
"""Settings like the defaults of gp-ehvi."""


def posterior_means(space: SearchSpace, observations: Observations) -> FloatArray:
    """(n, m) posterior means of objectives to minimize, of the designs that were observed.

    NaN where failed, and the observed values of fewer than two results.

    Args:
        space: The search space, with what describes its designs.
        observations: Of all runs, of at least one design each.

    Raises:
        ImportError: PyTorch or BoTorch is not installed.
    """
    load_libraries()
    means = observations.objectives.copy()
    if (~observations.failed).sum() < 2 or not space.has_features:
        return means
    points = QueryPoints(space.features(observations.rows))
    with single_thread():
        modeling = Modeling(True, _ITERATIONS, _TRAINING, space.feature_groups)
        data = TrainingData(observations, points)
        for j, model in enumerate(modeling.objectives(data, np.random.default_rng(0))):
            means[:, j] = model.target.scale.natural(model.predict(points)[0])
    means[observations.failed] = np.nan
    return means


def posterior_front(space: SearchSpace, observations: Observations) -> IntArray:
    """Positions of the feasible designs whose posterior means no other's dominate."""
    feasible = np.flatnonzero(observations.feasible)
    return feasible[non_dominated(posterior_means(space, observations)[feasible])]
