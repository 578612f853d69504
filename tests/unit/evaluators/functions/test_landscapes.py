"""Functions that mislead or hide: what their descriptions say, checked on their designs."""

import numpy as np
import pytest

from codesign.evaluators.functions.benchmark_functions import FUNCTIONS
from codesign.search import problems


def levels(name, n, seed=0):
    function = FUNCTIONS[name]
    low, high = function.box(function.n_variables)
    return np.random.default_rng(seed).integers(low, high + 1, size=(n, len(low))).astype(float)


def test_in_a_trap_every_variable_gets_better_away_from_its_best_value():
    best = np.array([[1, 7, 4, 0, 8, 5]], dtype=float)
    costs = []
    for level in range(10):
        design = best.copy()
        design[:, 2] = level
        costs.append(float(FUNCTIONS["trap"].compute(design, 2)[0][0][0]))
    assert np.argmin(costs) == 4
    assert np.all(np.diff(costs[6:]) < 0) and np.all(np.diff(costs[:3]) > 0)


def test_most_single_steps_on_stairs_change_nothing():
    designs = levels("stairs", 400)
    moved = designs.copy()
    moved[:, 1] = np.where(designs[:, 1] < 9, designs[:, 1] + 1, 8)
    before, after = (
        np.column_stack(FUNCTIONS["stairs"].compute(x, 2)[0]) for x in (designs, moved)
    )
    assert (before == after).mean() > 0.5


def test_a_band_is_kept_if_and_only_if_neither_limit_is_broken():
    shares = np.random.default_rng(0).integers(16, size=(4000, 5)) / 15.0
    lower, upper = FUNCTIONS["band"].compute(shares, 2)[1]
    assert ((lower <= 0) & (upper <= 0)).mean() < 0.01
    assert lower + upper == pytest.approx(-2.0)


@pytest.mark.parametrize("name", ["assignment", "shares"])
def test_in_spaces_with_exact_rules_every_design_has_neighbors(name):
    space = problems.load(name).problem.space
    for row in space.sample(np.random.default_rng(0), 20):
        near = space.neighbors(row)
        assert len(near) and space.contains(near).all()


@pytest.mark.parametrize("name", ["trap", "stairs", "band", "assignment", "shares"])
def test_no_sampled_design_is_better_than_the_published_front(name):
    problem = problems.load(name)
    scores = problem.score(problem.evaluate(problem.sample(500)))
    assert 0.0 <= scores[-1] < 1.0
