"""The closed form of the expected improvement against integrals and against BoTorch."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.stats import norm

from codesign.search.optimizers.acquisition_function import boxes
from codesign.search.optimizers.improvement import (
    Scale,
    expected_hypervolume_improvement,
    expected_violation_decrease,
)
from codesign.search.pareto import hypervolume

SCALES = [Scale(0, 1.0, 2.0), Scale(1, 0.3, 0.8), Scale(-1, -0.2, 0.7)]


def natural(scale, z):
    raw = scale.intercept + scale.slope * z
    return scale.sign * np.exp(scale.sign * raw) if scale.sign else raw


@pytest.mark.parametrize("scale", SCALES)
def test_observations_come_back_from_the_scale(scale):
    z = np.linspace(-2, 2, 9)
    assert scale.modeled(natural(scale, z)) == pytest.approx(z)
    assert (np.diff(natural(scale, z)) > 0).all()


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("bound", [-3.0, -0.5, 0.0, 0.7, 5.0])
def test_the_expected_shortfall_is_its_integral(scale, bound):
    mean, deviation = 0.4, 0.6

    z = np.linspace(mean - 9 * deviation, mean + 9 * deviation, 100_001)
    shortfall = np.maximum(bound - natural(scale, z), 0.0)
    expected = trapezoid(shortfall * norm.pdf(z, mean, deviation), z)
    got = scale.expected_shortfall(np.array([mean]), np.array([deviation]), np.array([bound]))
    assert got[0, 0] == pytest.approx(expected, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("deviation", [0.6, 8.0])
@pytest.mark.parametrize(("scale", "least"), [*zip(SCALES, [1.2, 1.1, -1.4], strict=True)])
def test_what_is_bounded_is_expected_to_fall_short_of_its_bound_by_nothing(scale, least, deviation):
    z = np.linspace(0.4 - 9 * deviation, 0.4 + 9 * deviation, 100_001)
    values = np.maximum(natural(scale, z), least)
    bounds = least + np.array([-0.5, 0.0, 0.3, 1.0])
    got = scale.expected_shortfall(
        np.array([0.4, 0.4]), np.array([deviation] * 2), bounds, np.array([least, -np.inf])
    )
    for bound, bounded in zip(bounds, got[0], strict=True):
        density = norm.pdf(z, 0.4, deviation)
        expected = trapezoid(np.maximum(bound - values, 0.0) * density, z)
        assert bounded == pytest.approx(expected, rel=1e-3, abs=1e-9)
    assert (got[1] > got[0]).all()


@pytest.mark.parametrize("scale", SCALES)
def test_beliefs_too_wide_for_a_difference_stay_between_the_bounds(scale):
    least = -1.0 if scale.sign < 0 else 1.0
    bounds = least + np.array([0.1, 0.5])
    got = scale.expected_shortfall(np.zeros(1), np.array([400.0]), bounds, np.array([least]))
    assert (got[0] > 0.0).all()
    assert (got[0] <= bounds - least).all()
    assert got[0, 1] == pytest.approx(5 * got[0, 0], rel=0.1)


@pytest.mark.parametrize(
    ("values", "sign"),
    [([1.0, 2.0, 9.0], 1), ([-1.0, -5.0], -1), ([-1.0, 1.0], 0), ([0.0, 1.0], 0), ([4.0, 4.0], 1)],
)
def test_objectives_of_one_sign_are_modeled_by_their_logarithm(values, sign):
    scale = Scale.fit(np.array(values))
    z = scale.modeled(np.array(values))
    assert scale.sign == sign
    assert z.mean() == pytest.approx(0.0, abs=1e-12)
    assert z.std() == pytest.approx(0.0 if len(set(values)) == 1 else 1.0, abs=1e-12)
    assert Scale.fit(np.array(values), logarithmic=False).sign == 0


def front_of(m, n, seed):
    directions = np.abs(np.random.default_rng(seed).normal(size=(n, m)))
    return 1.0 - directions / np.linalg.norm(directions, axis=1, keepdims=True)


@pytest.mark.usefixtures("gp")
@pytest.mark.parametrize("m", [2, 3, 4])
def test_with_normal_beliefs_it_equals_botorch(m):
    import torch
    from botorch.acquisition.multi_objective.analytic import ExpectedHypervolumeImprovement
    from botorch.models.model import Model
    from botorch.posteriors import GPyTorchPosterior
    from botorch.utils.multi_objective.box_decompositions.non_dominated import (
        FastNondominatedPartitioning,
    )
    from gpytorch.distributions import MultitaskMultivariateNormal

    rng = np.random.default_rng(m)
    front, reference = front_of(m, 6, m), np.full(m, 1.1)
    mean, deviation = rng.random((20, m)), 0.05 + 0.3 * rng.random((20, m))

    class Fixed(Model):
        num_outputs = m

        def posterior(self, X, **_):  # noqa: N803 # BoTorch's name
            at = X[..., 0, 0].long()
            normal = MultitaskMultivariateNormal(
                -torch.as_tensor(mean)[at][:, None, :],
                torch.diag_embed(torch.as_tensor(deviation)[at] ** 2),
            )
            return GPyTorchPosterior(normal)

    reference_point = -torch.as_tensor(reference)
    cells = FastNondominatedPartitioning(reference_point, Y=-torch.as_tensor(front))
    theirs = ExpectedHypervolumeImprovement(Fixed(), reference_point.tolist(), cells)
    expected = theirs(torch.arange(20, dtype=torch.float64)[:, None, None]).detach().numpy()
    lower, upper = boxes(front, reference)
    got = expected_hypervolume_improvement(mean, deviation, [Scale(0, 0, 1)] * m, lower, upper)
    assert got == pytest.approx(expected, rel=1e-6, abs=1e-12)


@pytest.mark.usefixtures("gp")
@pytest.mark.parametrize("m", [1, 2, 3])
def test_with_log_normal_beliefs_it_is_the_mean_of_the_improvement(m):
    rng = np.random.default_rng(m)
    scales = [Scale(1, -0.4, 0.5), Scale(-1, -0.8, 0.5), Scale(0, 0.5, 0.2)][:m]
    reference = np.array([2.0, -0.5, 1.0])[:m]
    front = np.array([[0.5, -1.0, 0.6], [0.9, -2.0, 0.8], [1.5, -2.5, 0.3]])[:, :m]
    front = front[:1] if m == 1 else front
    mean, deviation = np.array([[0.1, -0.3, 0.2][:m]]), np.array([[0.5, 0.8, 1.0][:m]])
    draws = mean + deviation * rng.normal(size=(10_000, m))
    points = np.column_stack([natural(scale, draws[:, j]) for j, scale in enumerate(scales)])
    before = hypervolume(front, reference)
    gains = [hypervolume(np.vstack([front, point]), reference) - before for point in points]
    lower, upper = boxes(front, reference)
    got = expected_hypervolume_improvement(mean, deviation, scales, lower, upper)
    assert got[0] == pytest.approx(np.mean(gains), abs=4 * np.std(gains) / len(gains) ** 0.5)


@pytest.mark.usefixtures("gp")
def test_many_candidates_in_pieces_are_the_same_as_one_by_one(monkeypatch):
    rng = np.random.default_rng(0)
    mean, deviation = rng.random((50, 2)), rng.random((50, 2))
    lower, upper = boxes(front_of(2, 5, 0), np.ones(2))
    whole = expected_hypervolume_improvement(mean, deviation, SCALES[:2], lower, upper)
    monkeypatch.setattr("codesign.search.optimizers.improvement._MOST_NUMBERS", 30)
    pieces = expected_hypervolume_improvement(mean, deviation, SCALES[:2], lower, upper)
    assert np.array_equal(whole, pieces)


@pytest.mark.parametrize("least", [0.3, 1.0, 2.5])
def test_for_one_limit_surely_violated_the_decrease_is_its_integral(least):
    mean, deviation = 2.0, 0.35
    v = np.linspace(mean - 9 * deviation, mean + 9 * deviation, 100_001)
    decrease = np.maximum(least - np.maximum(v, 0.0), 0.0)
    expected = trapezoid(decrease * norm.pdf(v, mean, deviation), v)
    got = expected_violation_decrease(np.array([[mean]]), np.array([[deviation]]), least)
    assert got[0] == pytest.approx(expected, rel=1e-3)


def test_for_several_limits_the_decrease_is_near_that_of_draws():
    mean = np.array([[0.5, 0.2, -0.1], [0.9, -3.0, 0.4], [-2.0, -2.0, -2.0]])
    deviation = np.array([[0.4, 0.3, 0.5], [0.2, 0.5, 0.1], [0.3, 0.2, 0.1]])
    drawn = np.random.default_rng(0).normal(size=(200_000, 3))
    totals = np.maximum(mean + deviation * drawn[:, None, :], 0.0).sum(axis=2)
    expected = np.maximum(1.0 - totals, 0.0).mean(axis=0)
    got = expected_violation_decrease(mean, deviation, 1.0)
    assert got == pytest.approx(expected, rel=0.15)


def test_what_is_known_to_violate_less_is_worth_more_than_what_is_unknown():
    """The one is sure to halve what is violated; the other is likelier to violate nothing."""
    mean, deviation = np.array([[0.5], [2.0]]), np.array([[0.1], [1.0]])
    nearer, unknown = expected_violation_decrease(mean, deviation, 1.0)
    assert norm.cdf(0.0, 2.0, 1.0) > norm.cdf(0.0, 0.5, 0.1)
    assert nearer > unknown


@pytest.mark.parametrize("sign", [0, 1, -1])
def test_what_lies_beyond_the_reference_point_is_compressed_and_nothing_else(sign):
    values = np.linspace(1.0, 9.0, 17) if sign >= 0 else np.linspace(-9.0, -1.0, 17)
    bound = float(values[8])
    scale = Scale.fit(values, logarithmic=sign != 0, bound=bound)
    assert scale.sign == sign
    plain = replace(scale, knee=np.inf)
    modeled = scale.modeled(values)
    assert modeled[:9] == pytest.approx(plain.modeled(values[:9]))
    assert (modeled[9:] < plain.modeled(values[9:])).all() and (np.diff(modeled) > 0).all()
    assert scale.natural(modeled) == pytest.approx(values)
    step = 1e-6
    slopes = (scale.modeled(values + step) - scale.modeled(values - step)) / (2 * step)
    assert scale.log_density(values) == pytest.approx(np.log(slopes).sum(), rel=1e-4)


def test_a_bound_that_no_value_keeps_compresses_nothing():
    assert Scale.fit(np.array([2.0, 3.0]), bound=1.0).knee == np.inf
    assert Scale.fit(np.array([2.0, 3.0]), bound=-1.0).knee == np.inf
