"""Fronts of noisy results: posterior means decide, and luck does not."""

import numpy as np
import pytest

from codesign.search.observations import Observations
from codesign.search.optimizers.posterior_front import posterior_front, posterior_means
from codesign.search.pareto import hypervolume

pytestmark = pytest.mark.usefixtures("gp")


def observed(search, bowls, noise):
    rows = search.space.sample(np.random.default_rng(0), 60)
    rows = np.unique(rows, axis=0)
    exact = bowls(search, rows)
    drawn = np.random.default_rng(1).normal(size=exact.shape) * noise * exact.std(axis=0)
    return exact, Observations(rows, exact + drawn, np.zeros((len(rows), 0)))


def test_exact_results_have_the_front_that_was_observed(grid, bowls):
    search = grid(3, 20)
    exact, observations = observed(search, bowls, 0.0)
    assert posterior_means(search, observations) == pytest.approx(exact, rel=0.02)
    worst = exact.max(axis=0) * 1.1
    volumes = [
        hypervolume(exact[front], worst)
        for front in (posterior_front(search, observations), observations.front)
    ]
    assert volumes[0] == pytest.approx(volumes[1], rel=1e-3)


def test_means_of_noisy_results_are_nearer_to_the_truth_than_what_was_observed(grid, bowls):
    search = grid(3, 20)
    exact, observations = observed(search, bowls, 0.3)
    errors = [
        np.abs(values - exact).mean()
        for values in (posterior_means(search, observations), observations.objectives)
    ]
    assert errors[0] < 0.8 * errors[1]


def test_the_front_of_means_is_worth_as_much_as_the_observed_one_or_more(grid, bowls):
    search = grid(3, 20)
    exact, observations = observed(search, bowls, 0.3)
    reference = exact.max(axis=0) * 1.1
    fronts = posterior_front(search, observations), observations.front
    means, lucky = (hypervolume(exact[front], reference) for front in fronts)
    assert means >= 0.99 * lucky


def test_failed_designs_have_no_mean(grid, bowls):
    search = grid(3, 20)
    _, observations = observed(search, bowls, 0.1)
    objectives = observations.objectives.copy()
    objectives[::5] = np.nan
    failed = Observations(observations.rows, objectives, observations.violations)
    means = posterior_means(search, failed)
    assert np.array_equal(np.isnan(means), np.isnan(objectives))
