"""How much is learned from: milestones, and hyperparameters as a function of the history."""

import numpy as np
import pytest

from codesign.search.optimizers import initial_designs
from codesign.search.optimizers.ehvi import GpEhvi
from codesign.search.optimizers.evidence import decided_at, milestone

pytestmark = pytest.mark.usefixtures("gp")


@pytest.mark.parametrize("position", [0, 7, 25])
def test_milestones_never_go_back_and_leave_out_a_tenth_at_most(position):
    stones = np.array([milestone(n, position) for n in range(1, 6000)])
    assert (np.diff(stones) >= 0).all()
    assert (stones[:100] == np.arange(1, 101)).all()
    assert (stones >= 0.9 * np.arange(1, 6000)).all()
    assert len(set(stones)) < 200 + position


def test_beyond_a_hundred_results_processes_do_not_learn_all_at_once():
    stones = np.array([[milestone(n, k) for k in range(13)] for n in range(125, 2000)])
    n_learned = (np.diff(stones, axis=0) > 0).sum(axis=1)
    assert n_learned.max() == 2
    assert n_learned[stones[1:, 0] > 220].max() == 1


@pytest.mark.parametrize("position", [0, 3])
def test_forms_are_decided_anew_after_a_quarter_more_results(position):
    decisions = np.array([decided_at(n, position) for n in range(20, 3000)])
    assert (np.diff(decisions) >= 0).all()
    n = np.arange(20, 3000) - position
    assert ((n >= decisions - position) & (n <= 1.27 * (decisions - position) + 5)).all()


def test_between_milestones_a_fresh_optimizer_goes_on_in_the_same_way(grid, bowls):
    search = grid(3, 40)
    options = GpEhvi.Options(candidates=64, mutants=64, iterations=5, training=30, local_search=1)
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
        beliefs = optimizer._fitted(optimizer._memory.history())
        processes = [item.process for item in (*beliefs.limits, *beliefs.failing)]
        scales = [item.hyperparameters.length_scales for item in (*beliefs.objectives, *processes)]
        return np.concatenate([proposal[0], *scales])

    assert np.array_equal(told(112, 115, 118), told(118))
    assert np.array_equal(told(97, 118), told(118))
