"""The reference point is the same for every run, and lies behind every feasible design."""

import numpy as np
import pytest

from codesign.base.errors import JobError
from codesign.search.campaign import load_definition
from codesign.search.campaign.reference import admissible_sample, find_reference, minimized


@pytest.fixture
def problem_of(write):
    return lambda **changes: load_definition(write(**changes)).problem


def test_the_sample_is_uniform_over_the_admissible_designs(problem_of):
    problem = problem_of(constraints=["x + y <= 3"])
    rows = admissible_sample(problem, 5000)
    assert problem.admits(rows).all()
    _, counts = np.unique(problem.space.keys(rows), return_counts=True)
    assert len(counts) == 10
    assert (abs(counts - 500) < 5 * np.sqrt(500)).all()


def test_the_worst_feasible_value_of_each_objective_is_taken(problem_of):
    problem = problem_of(constraints=["gain_tokens >= 25"])
    point = find_reference(problem, admissible_sample(problem, 300), None).point
    seen = problem.evaluate(admissible_sample(problem, 300))
    kept = seen.feasible
    assert 0 < kept.sum() < 300
    assert point == {
        "gain_tokens": 25.0,  # a bound from the bad side
        "power_watts": seen.metrics["power_watts"][kept].max(),
    }
    assert np.array_equal(minimized(problem, point), [-25.0, point["power_watts"]])


@pytest.mark.parametrize(
    ("constraints", "bound"),
    [
        (["power_watts <= 250"], 250.0),
        (["power_watts < 0.25 kW"], 250.0),
        (["power_watts <= 250", "power_watts <= 240 W"], 240.0),
        (["power_watts >= 110"], None),
        (["power_watts <= 20 W * x"], None),
        (["power_watts <= 250 or x < 3"], None),
        (["2 * power_watts <= 500"], None),
    ],
)
def test_only_a_plain_bound_from_the_bad_side_is_taken(problem_of, constraints, bound):
    problem = problem_of(constraints=constraints)
    point = find_reference(problem, admissible_sample(problem, 64), None).point
    worst = problem.evaluate(admissible_sample(problem, 64))
    feasible = worst.feasible if worst.feasible.any() else ~worst.failed
    expected = worst.metrics["power_watts"][feasible].max() if bound is None else bound
    assert point["power_watts"] == expected


def test_a_given_point_costs_one_evaluation(problem_of):
    problem = problem_of()
    given = {"gain_tokens": 1.0, "power_watts": 2.0}
    found = find_reference(problem, admissible_sample(problem, 8), given)
    assert found.point == given
    assert found.sample.violation_names == ("heat", "power_watts <= 300")
    assert problem.evaluator.calls == [1]


def test_a_given_point_survives_designs_that_fail(problem_of):
    first = problem_of()
    x = int(admissible_sample(first, 1)[0, 0])
    problem = problem_of(evaluator={"name": "toy", "raise_on": [x]})
    found = find_reference(
        problem, admissible_sample(problem, 8), {"gain_tokens": 1.0, "power_watts": 2.0}
    )
    assert found.sample.violation_names == ("heat", "power_watts <= 300")


@pytest.mark.parametrize("given", [None, {"gain_tokens": 1.0, "power_watts": 2.0}])
def test_an_evaluator_that_fails_on_everything_is_a_failed_job(problem_of, given):
    problem = problem_of(evaluator={"name": "toy", "raise_on": list(range(30))})
    with pytest.raises(JobError, match=r"'toy' failed on all .*ZeroDivisionError: the toy broke"):
        find_reference(problem, admissible_sample(problem, 16), given)


def test_where_hardly_anything_is_feasible_the_point_is_the_worst_of_feasible_designs(problem_of):
    problem = problem_of(constraints=["power_watts <= 102", "gain_tokens >= 48"])
    rows = admissible_sample(problem, 64)
    assert not problem.evaluate(rows).feasible.any()
    reference = find_reference(problem, rows, None)
    every = problem.evaluate(problem.space.rows(np.arange(problem.space.size)))
    assert 0 < every.feasible.sum() < 64
    assert reference.point == {"gain_tokens": 48.0, "power_watts": 102.0}
    loose = problem_of(constraints=["power_watts * 1 <= 102", "gain_tokens * 1 >= 48"])
    reference = find_reference(loose, rows, None)
    every = loose.evaluate(loose.space.rows(np.arange(loose.space.size)))
    kept = loose.evaluate(every.rows[every.feasible])
    assert not reference.is_provisional
    assert minimized(loose, reference.point) == pytest.approx(kept.objectives.max(axis=0))


def test_without_a_feasible_design_the_point_is_provisional(problem_of):
    problem = problem_of(constraints=["power_watts <= 3"])
    reference = find_reference(problem, admissible_sample(problem, 64), None)
    assert reference.is_provisional
    assert reference.bounds == {"power_watts": 3.0}
