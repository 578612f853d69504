"""Designs that are evaluated several at a time, some of which are lost on the way."""

from collections import deque
from concurrent.futures import Executor, Future

import numpy as np
import pytest

from codesign.base.errors import InputError
from codesign.search.campaign import load_definition
from codesign.search.campaign.farm import ExecutorGoneError, Farm
from codesign.search.execution.guard import Refusal


class LastFirst(Executor):
    """Tasks that end from the last to the first, some of them lost."""

    def __init__(self, lost=()):
        self.tasks, self.lost, self.n, self.most = deque(), lost, 0, 0

    def submit(self, fn, /, *args):
        self.tasks.append((self.n, Future(), fn, args))
        self.n += 1
        self.most = max(self.most, len(self.tasks))
        return self.tasks[-1][1]

    def wait(self, futures):
        number, future, fn, args = self.tasks.pop()
        if number in self.lost:
            future.set_exception(ConnectionError("the worker went"))
        else:
            future.set_result(fn(*args))


@pytest.fixture
def problem(write):
    return load_definition(write(evaluator={"name": "toy", "raise_on": [2]})).problem


def evaluated(problem, executor, task=None, n=7, retries=1):
    farm = Farm(executor, task or problem.evaluate, 3, 1, retries, executor.wait)
    return farm.evaluate_each(problem, problem.space.rows(np.arange(n)))


def test_every_design_is_given_once_as_it_ends(problem):
    executor = LastFirst(lost=[1, 4])
    parts = list(evaluated(problem, executor))
    assert executor.most == 3
    assert executor.n == 9
    assert sorted(i for i, _ in parts) == list(range(7))
    direct = problem.evaluate(problem.space.rows(np.arange(7)))
    for i, part in parts:
        assert part.objectives[0].tobytes() == direct.objectives[i].tobytes()
        assert part.failed[0] == direct.failed[i]


def test_a_design_whose_worker_goes_each_time_is_lost(problem, monkeypatch):
    monkeypatch.setattr(Farm, "check_alive", lambda *_: None)
    parts = dict(evaluated(problem, LastFirst(lost=[2, 3]), n=3))
    assert [i for i, part in sorted(parts.items()) if part.failed[0]] == [2]
    assert parts[2].failures[0].kind == "lost"


def test_what_is_under_way_is_given_before_an_evaluator_that_cannot_be_used_is_named(problem):
    rows = problem.space.rows(np.arange(7))

    def refusing(row):
        is_third = row.tolist() == rows[2:3].tolist()
        return Refusal("no license", True) if is_third else problem.evaluate(row)

    given = []
    with pytest.raises(InputError, match="no license"):
        for i, _ in evaluated(problem, LastFirst(), refusing):
            given.append(i)
    assert sorted(given) == [0, 1]


def test_an_executor_that_does_nothing_any_more_is_named(problem):
    class Gone(LastFirst):
        def submit(self, fn, /, *args):
            if self.n:
                raise RuntimeError("shut down")
            return super().submit(fn, *args)

    with pytest.raises(ExecutorGoneError, match="shut down"):
        list(evaluated(problem, Gone()))
