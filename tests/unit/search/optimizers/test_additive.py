"""Sums over the parameters, and noise: where either is learned, and what is predicted with it."""

import numpy as np
import pytest

from codesign.search.observations import Observations
from codesign.search.optimizers.additive import Contributions
from codesign.search.optimizers.modeling import Modeling
from codesign.search.optimizers.prediction import QueryPoints
from codesign.search.optimizers.surrogate import NOISE, GaussianProcess, Hyperparameters
from codesign.search.optimizers.training_data import TrainingData
from codesign.search.optimizers.warping import Warp

pytestmark = pytest.mark.usefixtures("gp")

REFERENCE = np.array([10.0])


def grid(rng, n, d):
    return rng.integers(21, size=(n, d)) / 20.0


def wavy_sum(features):
    """Each parameter contributes a wave by itself."""
    phases = np.arange(features.shape[1])
    return np.sin(9.0 * features + phases).sum(axis=1)


def wavy_product(features):
    return np.prod(1.0 + 0.9 * np.sin(5.0 * features), axis=1)


def process_of(features, values):
    """The likeliest process that is learned of one objective, and its scale."""
    history = Observations(
        np.zeros((len(features), 1), dtype=np.int64),
        values[:, None],
        np.empty((len(features), 0)),
    )
    modeling = Modeling(logarithmic=False, iterations=50, training=200)
    data = TrainingData(history, QueryPoints(features))
    acquisition = modeling.acquisition_function(data, REFERENCE, True, np.random.default_rng(0))
    model = acquisition.objectives[0]
    posterior = model.posterior
    process = posterior.processes[int(np.argmax(posterior.weights))]
    return process, model.target.scale


def error(process, scale, features, truth):
    means, _ = process.predict(features)
    return float(np.sqrt(((scale.natural(means) - truth) ** 2).mean()))


def test_a_sum_over_the_parameters_is_learned_from_few_results():
    rng = np.random.default_rng(1)
    features, others = grid(rng, 60, 5), grid(rng, 300, 5)
    process, scale = process_of(features, wavy_sum(features))
    hyperparameters = process.hyperparameters
    assert hyperparameters.contributions.variance > 10 * hyperparameters.variance
    truth = wavy_sum(others)
    assert error(process, scale, others, truth) < 0.1 * truth.std()


def test_what_is_no_sum_is_mostly_a_product():
    features = grid(np.random.default_rng(2), 60, 3)
    hyperparameters = process_of(features, wavy_product(features))[0].hyperparameters
    assert hyperparameters.variance > hyperparameters.contributions.variance


def test_the_kernel_is_that_of_its_definition():
    import torch

    rng = np.random.default_rng(3)
    first, second = grid(rng, 9, 4), grid(rng, 7, 4)
    groups, scales = np.array([0, 1, 2, 2]), np.array([0.3, 0.8, 1.5])
    contributions = Contributions(groups, scales, variance=2.0)
    straight = Warp.read(np.array([], dtype=np.int64), np.array([]))
    hyperparameters = Hyperparameters(
        torch.tensor([0.5, 1.0, 2.0, 3.0]).double(), straight, NOISE, 0.7, contributions
    )

    def matern(squares):
        root = np.sqrt(5.0 * squares)
        return (1.0 + root + root**2 / 3.0) * np.exp(-root)

    squares = (first[:, None, :] - second[None, :, :]) ** 2
    expected = 0.7 * matern((squares / np.array([0.5, 1.0, 2.0, 3.0]) ** 2).sum(axis=2))
    for group, scale in enumerate(scales):
        expected += 2.0 / 3.0 * matern(squares[:, :, groups == group].sum(axis=2) / scale**2)
    covariance = hyperparameters.covariance(torch.as_tensor(first), torch.as_tensor(second))
    assert covariance.numpy() == pytest.approx(expected)
    assert hyperparameters.total_variance == pytest.approx(2.7)


def test_noise_is_learned_where_there_is_some_and_nowhere_else():
    rng = np.random.default_rng(4)
    features = grid(rng, 80, 2)
    exact = wavy_product(features)
    process, _ = process_of(features, exact)
    assert process.hyperparameters.noise == pytest.approx(NOISE)
    deviation = 0.2 * exact.std()
    process, _ = process_of(features, exact + rng.normal(scale=deviation, size=80))
    assert 0.02 < process.hyperparameters.noise < 0.08  # a deviation of 0.2 is a variance of 0.04


@pytest.mark.parametrize("function", [wavy_sum, wavy_product])
def test_designs_as_expected_are_appended_as_if_all_were_learned_anew(function):
    import torch

    rng = np.random.default_rng(6)
    features, added, others = grid(rng, 60, 3), grid(rng, 4, 3), grid(rng, 50, 3)
    added[3] = added[2]  # the same design twice
    process, _ = process_of(features, function(features))
    with_added = process.fantasized(added)
    anew = GaussianProcess.condition(
        with_added.features, with_added.values, process.hyperparameters, process.mean
    )
    assert torch.allclose(with_added.factor, anew.factor, atol=1e-6)
    for ours, theirs, before in zip(
        with_added.predict(others), anew.predict(others), process.predict(others), strict=True
    ):
        assert ours == pytest.approx(theirs, abs=1e-5)
        assert ours.shape == before.shape
    assert with_added.predict(others)[0] == pytest.approx(process.predict(others)[0], abs=1e-9)
