"""Test functions: published values, fronts in closed form, and the evaluator's contract."""

import sys

import numpy as np
import pytest

from codesign.api import build_evaluator, load_space
from codesign.base.columns import column_of
from codesign.base.errors import InputError, MissingExtraError, UnknownNameError
from codesign.evaluators.functions import benchmark_functions, exact_front
from codesign.search.pareto import non_dominated
from codesign.search.problem_builder import build_problem
from codesign.testing import check_evaluator

FUNCTIONS = [("zdt1", "zdt", 2), ("zdt2", "zdt", 2), ("zdt3", "zdt", 2), ("dtlz2", "dtlz2", 3)]


def _grid(n, dimensions):
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
    ours = np.stack(benchmark_functions.FUNCTIONS[function].compute(x, m)[0], axis=1)
    assert np.allclose(ours, theirs.evaluate(x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("function", "space", "m"), FUNCTIONS)
def test_the_closed_form_front_is_the_front_of_the_whole_grid(function, space, m):
    designs = load_space(space)
    evaluator = build_evaluator(
        "benchmark-functions", {}, {"function": function, "n_objectives": m}
    )
    problem = build_problem(designs, evaluator, [f"minimize f{j}" for j in range(1, m + 1)])
    found = problem.evaluate(designs.rows(np.arange(designs.size))).objectives
    front = np.unique(found[non_dominated(found)], axis=0)
    expected = exact_front(function, _grid(20, m - 1))
    assert len(front) == len(expected)
    assert np.allclose(front, expected, rtol=0, atol=1e-12)


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
        {"function": "re21", "n_objectives": 3},
        {"function": "re21", "unused": 27},
        {"function": "zdt1", "unused": 1},
        {"function": "re21", "noise": 1.0},
        {"function": "re21", "failing": -0.1},
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


def test_a_parameter_that_is_not_used_changes_nothing():
    space = load_space("grid-7x5")
    evaluator = build_evaluator(
        "benchmark-functions", {}, {"function": "re21", "steps": 4, "unused": 3}
    )
    rows = space.sample(np.random.default_rng(0), 50)
    changed = rows.copy()
    changed[:, 4:] = 4 - changed[:, 4:]
    first, second = (evaluator.evaluate(space.columns(x)).metrics for x in (rows, changed))
    assert all((first[name] == second[name]).all() for name in ("f1", "f2"))
    changed[:, 0] = 4 - changed[:, 0]
    assert not (evaluator.evaluate(space.columns(changed)).metrics["f1"] == first["f1"]).all()


def test_a_category_stands_for_a_level_and_each_level_has_one():
    evaluator = build_evaluator("benchmark-functions", {}, {"function": "re21"})
    rest = {f"x{i}": column_of([0] * 21) for i in (2, 3, 4)}
    levels = evaluator.evaluate({"x1": column_of(list(range(21))), **rest}).metrics["f1"]
    named = evaluator.evaluate({"x1": column_of([f"c{i}" for i in range(21)]), **rest}).metrics
    assert sorted(named["f1"]) == sorted(levels)
    assert not (np.diff(named["f1"]) > 0).all()


@pytest.mark.parametrize("value", ["c21", "wood", "c01", 1.5])
def test_a_value_that_is_no_level_is_refused(value):
    evaluator = build_evaluator("benchmark-functions", {}, {"function": "re21"})
    columns = {f"x{i}": column_of([value if i == 1 else 0]) for i in (1, 2, 3, 4)}
    with pytest.raises(InputError, match="parameter x1: expected a level or a category"):
        evaluator.evaluate(columns)


def test_a_name_is_a_value_of_a_variable_that_is_a_choice():
    evaluator = build_evaluator("benchmark-functions", {}, {"function": "cantilever"})
    columns = {
        "x1": column_of(["tube", "box"]),
        "x2": column_of(["steel", "titanium"]),
        **{f"x{i}": column_of([10, 10]) for i in (3, 4, 5, 6)},
    }
    assert (evaluator.known_violations(columns)["domain"] <= 0).all()
    assert np.isfinite(evaluator.evaluate(columns).metrics["f1"]).all()
    with pytest.raises(InputError, match="parameter x1: expected round, tube, box, flanged"):
        evaluator.evaluate({**columns, "x1": column_of(["c1", "tube"])})


def test_a_function_of_pymoo_needs_pymoo_from_the_start(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymoo.problems", None)
    with pytest.raises(MissingExtraError, match="the function osy needs an optional part"):
        build_evaluator("benchmark-functions", {}, {"function": "osy"})
