"""Test functions: published values, fronts in closed form, and the evaluator's contract."""

import math

import numpy as np
import pytest

from codesign.api import build_evaluator, load_space
from codesign.errors import InputError, UnknownNameError
from codesign.evaluators.functions import FunctionOptions, exact_front, objectives_of
from codesign.pareto import hypervolume, non_dominated
from codesign.problem import build_problem
from codesign.testing import check_evaluator

FUNCTIONS = [("zdt1", "zdt", 2), ("zdt2", "zdt", 2), ("zdt3", "zdt", 2), ("dtlz2", "dtlz2", 3)]


def _grid(n: int, dimensions: int) -> np.ndarray:
    axis = np.linspace(0.0, 1.0, n + 1)
    return np.stack(np.meshgrid(*[axis] * dimensions, indexing="ij"), -1).reshape(-1, dimensions)


@pytest.mark.parametrize(("function", "space", "m"), FUNCTIONS)
def test_the_evaluator_keeps_the_contract(function, space, m):
    evaluator = build_evaluator(
        "benchmark-functions", {}, {"function": function, "n_objectives": m}
    )
    designs = load_space(space)
    check_evaluator(evaluator, designs.columns(designs.sample(np.random.default_rng(0), 40)))


@pytest.mark.parametrize("function", ["zdt1", "zdt2", "zdt3", "dtlz2"])
def test_the_objectives_are_those_of_pymoo(function):
    from pymoo.problems import get_problem

    m = 3 if function == "dtlz2" else 2
    theirs = get_problem(function, n_var=6, **({"n_obj": m} if m == 3 else {}))
    x = np.random.default_rng(1).uniform(size=(50, 6))
    ours = objectives_of(FunctionOptions(function=function, n_objectives=m), x)
    assert np.allclose(ours, theirs.evaluate(x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("function", "space", "m"), FUNCTIONS)
def test_the_closed_form_front_is_the_front_of_the_whole_grid(function, space, m):
    options = FunctionOptions(function=function, n_objectives=m)
    designs = load_space(space)
    evaluator = build_evaluator(
        "benchmark-functions", {}, {"function": function, "n_objectives": m}
    )
    problem = build_problem(designs, evaluator, [f"minimize f{j}" for j in range(1, m + 1)])
    found = problem.evaluate(designs.rows(np.arange(designs.size))).objectives
    front = np.unique(found[non_dominated(found)], axis=0)
    expected = exact_front(options, _grid(20, m - 1))
    assert len(front) == len(expected)
    assert np.allclose(front, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("function", "m", "volume"),
    [
        ("zdt1", 2, 2 / 3),  # 1 - integral of 1 - sqrt(f), bounded by (1, 1)
        ("zdt2", 2, 1 / 3),
        ("dtlz2", 2, 1 - math.pi / 4),  # the square without a quarter of a disk
        ("dtlz2", 3, 1 - math.pi / 6),  # the cube without an eighth of a ball
    ],
)
def test_the_hypervolume_of_a_fine_grid_nears_the_integral(function, m, volume):
    options = FunctionOptions(function=function, n_objectives=m)
    gaps = []
    for n in (16, 32):
        front = exact_front(options, _grid(n, m - 1))
        gaps.append(volume - hypervolume(front, np.ones(m)))
    # From below, as points on the front cannot cover it, and about linearly in the step.
    assert 0 < gaps[1] < gaps[0] < 0.1
    assert gaps[0] / gaps[1] == pytest.approx(2.0, rel=0.15)


def test_a_variable_outside_the_domain_is_a_violation_known_before_evaluation():
    evaluator = build_evaluator("benchmark-functions", {}, {"function": "zdt1", "steps": 10})
    space = load_space("zdt")
    inside, outside = (
        space.encode({"x1": x, "x2": 0, "x3": 0, "x4": 0, "x5": 0}) for x in (10, 11)
    )
    assert evaluator.known_violations(space.columns(inside))["domain"][0] == pytest.approx(0.0)
    assert evaluator.known_violations(space.columns(outside))["domain"][0] == pytest.approx(0.1)


@pytest.mark.parametrize(
    "options",
    [
        {"function": "zdt1", "n_objectives": 3},
        {"function": "zdt9"},
        {"function": "zdt1", "steps": 0},
    ],
)
def test_options_that_name_no_function_are_refused(options):
    with pytest.raises(InputError):
        build_evaluator("benchmark-functions", {}, options)


def test_an_unknown_metric_is_refused():
    evaluator = build_evaluator("benchmark-functions", {}, {"function": "zdt1"})
    space = load_space("zdt")
    with pytest.raises(UnknownNameError):
        evaluator.evaluate(space.columns(space.sample(np.random.default_rng(0), 2)), ["f3"])
