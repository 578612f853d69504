"""What is one move away from a front."""

import numpy as np
import pytest

from codesign import api
from codesign.base.loop_progress import running_loops
from codesign.insight.explanation import neighborhood as neighborhood_module
from codesign.insight.explanation.distance import Measure
from codesign.insight.explanation.neighborhood import (
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
        sizes.append((len(rows), running_loops()[0].done))
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
