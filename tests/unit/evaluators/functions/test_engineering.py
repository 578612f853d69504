"""Engineering functions against BoTorch's, published values at the corners, and by hand."""

import numpy as np
import pytest

from codesign.evaluators.functions.benchmark_functions import FUNCTIONS

AT_LARGEST = {
    # With the authors' code (reproblem.py) at the largest value of every variable.
    "re22": [921.0, 0.0],
    "re24": [6004.0, 0.0],
    "re31": [816.2277660168379, 1 / 3, 816.1277660168379],
    "re33": [5.3067, 1.139072039072039, 0.0],
    "re37": [0.20514, 0.8774, 0.2838],
    "re41": [42.768012, 3.58525, 10.61064375, 0.0],
    "cre23": [5.3067, 1.139072039072039],
}
INSIDE = {
    # With the authors' code, by hand where a limit is exceeded.
    "re22": ([3.9, 10.0, 30.0], [296.13, 73.56853375]),
    "re37": ([0.2, 0.4, 0.6, 0.8], [0.4403096, 0.594984, 0.896704]),
}


def _values(name, x):
    function = FUNCTIONS[name]
    objectives, limits = function.compute(np.atleast_2d(x), function.n_objectives[0])
    return np.stack(objectives, 1), np.stack([*limits, np.empty(len(objectives[0]))], 1)[:, :-1]


@pytest.mark.parametrize("name", AT_LARGEST)
def test_a_function_has_the_published_value_at_its_largest_variables(name):
    _, high = FUNCTIONS[name].box(FUNCTIONS[name].n_variables)
    assert _values(name, high)[0][0] == pytest.approx(AT_LARGEST[name], rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("name", INSIDE)
def test_a_function_has_the_published_value_inside_its_box(name):
    x, expected = INSIDE[name]
    assert _values(name, np.array(x))[0][0] == pytest.approx(expected, rel=1e-12)


def test_the_best_of_re21_is_the_published_ideal_point():
    low, high = FUNCTIONS["re21"].box(4)
    # Volume falls with every section; displacement falls with all but the third.
    volume = _values("re21", low)[0][0, 0]
    displacement = _values("re21", np.array([high[0], high[1], low[2], high[3]]))[0][0, 1]
    assert [volume, displacement] == pytest.approx([1237.8414230005742, 0.002761423749158419])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # BoTorch's import of torch.jit
@pytest.mark.parametrize(("name", "theirs"), [("re41", "CarSideImpact"), ("cre23", "DiscBrake")])
def test_a_function_is_that_of_botorch(name, theirs):
    import botorch.test_functions.multi_objective as botorch_functions
    import torch

    function = FUNCTIONS[name]
    low, high = function.box(function.n_variables)
    x = low + (high - low) * np.random.default_rng(1).uniform(size=(200, len(low)))
    problem = getattr(botorch_functions, theirs)(dtype=torch.double)
    objectives, limits = _values(name, x)
    assert np.allclose(objectives, problem.evaluate_true(torch.tensor(x)).numpy(), rtol=1e-9)
    if limits.shape[1]:
        slack = problem.evaluate_slack_true(torch.tensor(x)).numpy()
        assert ((slack >= 0) == (limits <= 0)).all()
        # The same margins but for a factor of each.
        factors = slack / -limits
        assert np.allclose(factors, factors[0], rtol=1e-9)


def test_a_beam_takes_the_nearest_bars_that_are_made():
    first, second = (_values("re22", np.array([area, 10.0, 30.0]))[0] for area in (3.94, 3.951))
    assert first.tolist() == second.tolist()
