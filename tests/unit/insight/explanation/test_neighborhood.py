"""What is one move away from a front."""

from itertools import pairwise

import numpy as np
import pytest

from codesign import api
from codesign.base.loop_progress import running_loop
from codesign.insight.explanation import neighborhood as neighborhood_module
from codesign.insight.explanation.distance import Measure
from codesign.insight.explanation.neighborhood import (
    FoldedChoice,
    folded_choices,
    near_misses,
    neighborhood,
)
from codesign.search.problem import Problem
from codesign.search.problem_builder import build_problem

_LIMIT = "f1 <= 0.25"


@pytest.fixture(scope="module")
def setting():
    """A problem with limits, four designs that keep them, their neighbors, and the measure."""
    space = api.load_space("zdt")
    evaluator = api.build_evaluator("benchmark-functions", {}, {"function": "zdt1"})
    goals = ["minimize f1", "minimize f2"]
    problem = build_problem(space, evaluator, goals, (_LIMIT, "x3 <= 1"), "functions")
    front = np.zeros((4, len(space.parameters)), dtype=np.int64)
    front[:, :2] = [[0, 0], [1, 0], [4, 1], [5, 0]]  # none dominates another
    near = neighborhood(problem, front, ["f1"])
    return problem, front, near, Measure.build(problem.evaluate(front).objectives, problem.senses)


def test_neighbors_are_new_and_those_over_a_limit_are_told_apart(setting):
    problem, front, near, _ = setting
    assert not np.isin(problem.space.keys(near.rows), problem.space.keys(front)).any()
    assert len(np.unique(near.rows, axis=0)) == len(near.rows)
    keeps_limit = near.metrics["f1"] <= 0.25
    assert near.feasible.tolist() == (keeps_limit & (near.rows[:, 2] == 0)).tolist()
    (over,) = np.flatnonzero(~keeps_limit)
    assert list(near.broken(int(over))) == [_LIMIT]
    assert not near.broken(int(np.flatnonzero(near.feasible)[0]))


def test_neighbors_evaluated_in_parts_are_those_evaluated_at_once(setting, monkeypatch):
    problem, front, near, _ = setting
    sizes = []

    def evaluate(self, rows, metrics):
        sizes.append((len(rows), running_loop().done))
        return evaluated(self, rows, metrics)

    evaluated = Problem.evaluate
    monkeypatch.setattr(Problem, "evaluate", evaluate)
    monkeypatch.setattr(neighborhood_module, "_FEW", 2)
    parted = neighborhood(problem, front, ["f1"])
    assert sizes[:3] == [(2, 0), (4, 2), (8, 6)] and sum(n for n, _ in sizes) == len(near.rows)
    np.testing.assert_equal(vars(parted), vars(near))
    monkeypatch.setattr(neighborhood_module, "_SOON_S", 0.0)  # every part takes long
    neighborhood(problem, front, ["f1"])
    assert sizes[-2][0] == 2


def test_near_misses_are_the_least_regrets_of_all_values_that_the_front_lacks(setting):
    problem, front, near, measure = setting
    misses = near_misses(problem, near, front, measure, front)
    regret = measure.regret(near.objectives)
    assert all(first.regret <= second.regret for first, second in pairwise(misses))
    assert len({miss.regret for miss in misses}) > 1
    expected = {
        (parameter.name, parameter.values[code]): regret[near.feasible & has].min()
        for column, parameter in enumerate(problem.space.parameters)
        for code in range(len(parameter.values))
        if not (front[:, column] == code).any()
        and (near.feasible & (has := near.rows[:, column] == code) & (regret > 0)).any()
    }
    assert {(miss.parameter, miss.value): miss.regret for miss in misses} == expected


def test_a_value_is_missing_only_if_no_known_design_of_the_front_has_it(setting):
    problem, front, near, measure = setting
    missing = near_misses(problem, near, front, measure, front)
    folded = front[[1]].copy()
    folded[0, 0] = next(
        problem.space.parameters[0].values.index(miss.value)
        for miss in missing
        if miss.parameter == problem.space.names[0]
    )
    known = np.concatenate([front, folded])
    fewer = near_misses(problem, near, front, measure, known)
    assert len(fewer) == len(missing) - 1
    (choice,) = folded_choices(problem, known, np.arange(5), np.arange(4))
    value = problem.space.parameters[0].values[folded[0, 0]]
    assert choice == FoldedChoice(problem.space.names[0], value, (4,))


def test_a_near_miss_is_held_against_the_most_similar_design_that_dominates_it(setting):
    problem, front, near, measure = setting
    several = 0
    for miss in near_misses(problem, near, front, measure, front):
        column = problem.space.names.index(miss.parameter)
        assert problem.space.parameters[column].values[near.rows[miss.place, column]] == miss.value
        differing = (front != near.rows[miss.place]).sum(axis=1)
        dominating = (measure.front <= near.objectives[miss.place]).all(axis=1)
        assert dominating[miss.dominator]
        assert differing[miss.dominator] == differing[dominating].min()
        several += len(set(differing[dominating].tolist())) > 1
    assert several
