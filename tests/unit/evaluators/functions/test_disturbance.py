"""Random numbers that belong to designs: the published generator, even shares, no order."""

import numpy as np
import pytest

from codesign.api import build_evaluator, load_space
from codesign.evaluators.functions import disturbance
from codesign.evaluators.functions.disturbance import normal, shuffled, uniform
from codesign.search.campaign import load_definition

ROWS = np.stack(np.meshgrid(np.arange(100), np.arange(100), indexing="ij"), -1).reshape(-1, 2)


def test_the_mixing_is_that_of_splitmix64():
    # The first output of the generator for seed 0, published with its reference code.
    with np.errstate(over="ignore"):
        state = np.array([0], dtype=np.uint64) + disturbance._GAMMA
        assert int(disturbance._mixed(state)[0]) == 0xE220A8397B1DCDAF


def test_the_numbers_are_even_and_independent_of_the_batch():
    numbers = uniform(ROWS, 3)
    assert np.abs(np.histogram(numbers, 10, (0, 1))[0] - 1000).max() < 150  # 5 deviations
    assert (uniform(ROWS[::-1], 3)[::-1] == numbers).all()
    assert abs(np.corrcoef(numbers, uniform(ROWS, 4))[0, 1]) < 0.05
    assert np.std(normal(ROWS, 3)) == pytest.approx(1.0, abs=0.05)


def test_an_order_has_every_level_once_and_differs_between_parameters():
    orders = [shuffled(20, stream) for stream in (1000, 1001)]
    assert all(sorted(order) == list(range(20)) for order in orders)
    assert orders[0] != orders[1]


def _evaluator(**options):
    return build_evaluator("benchmark-functions", {}, {"function": "re21", **options})


def _columns(n=400):
    space = load_space("grid-4x21")
    return space.columns(space.sample(np.random.default_rng(0), n))


def test_noise_is_a_share_of_the_value_and_always_the_same():
    exact, noisy = (_evaluator(**options).evaluate(_columns()) for options in ({}, {"noise": 0.1}))
    shares = noisy.metrics["f1"] / exact.metrics["f1"] - 1.0
    assert np.std(shares) == pytest.approx(0.1, rel=0.15)
    again = _evaluator(noise=0.1).evaluate(_columns())
    assert (again.metrics["f1"] == noisy.metrics["f1"]).all()
    other = noisy.metrics["f2"] / exact.metrics["f2"] - 1.0
    assert abs(np.corrcoef(shares, other)[0, 1]) < 0.2


def test_the_stated_share_of_designs_fails_always_the_same_ones():
    first, second = (_evaluator(failing=0.2).evaluate(_columns()).failures for _ in range(2))
    assert first == second
    assert len(first) / 400 == pytest.approx(0.2, abs=0.08)


def test_what_does_not_disturb_is_not_told_of():
    assert dict(_evaluator().provenance()) == {"function": "re21", "steps": 20, "n_objectives": 2}
    assert _evaluator(noise=0.1).provenance()["noise"] == 0.1


def test_noise_is_declared():
    assert [_evaluator(**options).is_noisy for options in ({}, {"noise": 0.1})] == [False, True]
    noisy, exact = (load_definition(f"problem-{name}").problem for name in ("noisy-re21", "re21"))
    assert noisy.is_noisy and not exact.is_noisy
