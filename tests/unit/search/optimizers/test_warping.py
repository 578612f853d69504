"""Bent features: what is bent, by how much, and that slopes are those of the differences."""

import numpy as np
import pytest

from codesign.search.optimizers.surrogate import Fitting
from codesign.search.optimizers.warping import Warp, is_warpable

pytestmark = pytest.mark.usefixtures("gp")


def test_only_numbers_with_several_values_inside_are_bent():
    columns = [[0, 1, 0, 1, 0], [0, 0.2, 0.4, 0.6, 0.8], [0, 0.5, 1, 0.5, 0], [2, 3, 4, 5, 6]]
    assert is_warpable(np.array(columns, dtype=float).T).tolist() == [1]


def test_a_warp_is_kumaraswamys_distribution_function_and_keeps_what_is_outside():
    import torch

    warp = Warp.read(np.array([0]), np.log([2.0, 3.0]))
    points = torch.tensor([[0.5, 0.5], [-0.5, 0.5], [1.5, 0.5], [0.0, 0.5], [1.0, 0.5]])
    bent = warp.bend(points.double()).numpy()
    assert bent[:, 0] == pytest.approx([1 - 0.75**3, -0.5, 1.5, 0.0, 1.0])
    assert (bent[:, 1] == 0.5).all()


def test_the_gradient_is_that_of_the_differences_with_warps_and_groups():
    import torch

    rng = np.random.default_rng(0)
    features = rng.random((25, 4))
    features[:, 2] = features[:, 2] > 0.5
    features[:, 3] = 1 - features[:, 2]
    fitting = Fitting(features, 1, np.array([0, 1, 2, 2]))
    observed = torch.as_tensor(rng.normal(size=25))
    logs = 0.5 * rng.normal(size=1 + 3 + 2 + 4 + 2 + 3)
    logs[:4] -= 1.0  # long scales make differences inexact
    gradient = fitting.loss(logs, observed)[1]
    for j, unit in enumerate(np.eye(len(logs)) * 1e-5):
        high, low = (fitting.loss(logs + step, observed)[0] for step in (unit, -unit))
        assert gradient[j] == pytest.approx((high - low) / 2e-5, rel=1e-5, abs=1e-4)


def test_an_inverse_is_learned_from_few_results():
    def inverse(points):
        return np.log(1.0 / (points[:, 0] + 0.01) + 3.0 / (points[:, 1] + 0.02))

    rng = np.random.default_rng(3)
    features, others = rng.random((40, 2)), rng.random((200, 2))
    mean, deviation = inverse(features).mean(), inverse(features).std()
    values = (inverse(features) - mean) / deviation
    modes = Fitting(features, 50).fit(values)
    predicted, _ = modes.posterior(features, values, len(features)).predict(others)
    error = predicted - (inverse(others) - mean) / deviation
    assert np.sqrt((error**2).mean()) < 0.1


def test_a_fit_goes_on_from_one_that_bent_fewer_features():
    rng = np.random.default_rng(4)
    features = rng.random((50, 2))
    values = np.log(features[:, 0] + 0.01) + np.sin(3.0 * features[:, 1])
    values = (values - values.mean()) / values.std()
    few = features[:25].copy()
    few[:, 1] = few[:, 1].round()  # two values: nothing to bend
    fitting = Fitting(features, 50)
    earlier = Fitting(few, 50).fit(values[:25])
    assert [len(mode.warpable) for mode in earlier.modes] == [1] * len(earlier.modes)
    anew = fitting.fit(values)
    assert fitting.refit(values, earlier).density > anew.density - 1.0
    assert fitting.refit(values, anew).density > anew.density - 0.1


def test_values_of_one_category_have_similar_length_scales():
    rng = np.random.default_rng(1)
    codes = rng.integers(6, size=60)
    features = np.eye(6)[codes]
    values = rng.normal(size=6)[codes]
    spreads = []
    for groups in (np.zeros(6, dtype=np.int64), None):
        learned = Fitting(features, 50, groups).fit(values).modes[0].hyperparameters
        spreads.append(np.log(learned.length_scales.numpy()).std())
    assert spreads[0] < spreads[1]
