"""How much is learned from: milestones, and hyperparameters as a function of the history."""

import numpy as np
import pytest

from codesign.search.optimizers import initial_designs
from codesign.search.optimizers.ehvi import GpEhvi
from codesign.search.optimizers.training_data import milestone, searched_at

pytestmark = pytest.mark.usefixtures("gp")


@pytest.mark.parametrize("position", [0, 7, 25])
def test_milestones_never_go_back_and_leave_out_a_sixteenth_at_most(position):
    stones = np.array([milestone(n, position) for n in range(1, 6000)])
    assert (np.diff(stones) >= 0).all()
    assert (stones[:40] == np.arange(1, 41)).all()
    assert (stones >= 0.94 * np.arange(1, 6000)).all()
    assert len(set(stones)) < 250 + position


def test_beyond_a_hundred_results_models_do_not_learn_all_at_once():
    stones = np.array([[milestone(n, k) for k in range(4)] for n in range(125, 2000)])
    assert (np.diff(stones, axis=0) > 0).sum(axis=1).max() == 1


@pytest.mark.parametrize("position", [0, 3])
def test_modes_are_searched_anew_after_a_quarter_more_results(position):
    decisions = np.array([searched_at(n, position) for n in range(20, 3000)])
    assert (np.diff(decisions) >= 0).all()
    n = np.arange(20, 3000) - position
    assert ((n >= decisions - position) & (n <= 1.27 * (decisions - position) + 5)).all()


def test_between_milestones_a_fresh_optimizer_goes_on_in_the_same_way(grid, bowls):
    search = grid(3, 40)
    options = GpEhvi.Options(candidates=16, mutants=16, iterations=3, training=30, local_search=1)
    rows = initial_designs(search, 118, 0)
    none = np.zeros((118, 0))
    failed = np.arange(118) % 9 == 0
    values = np.where(failed[:, None], np.nan, bowls(search, rows))

    def told(*pieces):
        optimizer, start = GpEhvi(search, 2, 0, options), 0
        for end in pieces:
            part = slice(start, end)
            optimizer.tell(rows[part], values[part], none[part], failed[part])
            proposal, start = optimizer.ask(1), end
        acquisition = optimizer._fitted(optimizer._memory.history())
        models = (*acquisition.objectives, *acquisition.limits, *acquisition.failing)
        processes = [process for model in models for process in model.posterior.processes]
        scales = [process.hyperparameters.length_scales for process in processes]
        return np.concatenate([proposal[0], *scales])

    at_once = told(118)
    assert np.array_equal(told(112, 115, 118), at_once)
    assert np.array_equal(told(97, 118), at_once)
