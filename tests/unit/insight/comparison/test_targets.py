"""Runtimes, their distribution and COCO's expected runtime, worked by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

from codesign.insight.comparison.attainment import attainment_surfaces
from codesign.insight.comparison.outcome import RunOutcome, first_reaching, padded
from codesign.insight.comparison.run_time import RunTime
from codesign.insight.comparison.targets import solved_share, target_record


def _run(seed, share):
    values = np.array(share)
    return RunOutcome(
        problem="p",
        optimizer="o",
        seed=seed,
        n_evaluated=len(share),
        n_feasible=len(share),
        n_failed=0,
        n_duplicates=0,
        share=values,
        area=0.0,
        epsilon=0.0,
        igd_plus=0.0,
        evaluations_to={target: first_reaching(values, target) for target in (0.5, 0.9)},
        front=np.zeros((1, 2)),
        time=RunTime(np.zeros(len(share)), np.ones(len(share), dtype=bool), 0.0),
    )


@pytest.fixture
def problem():
    runs = (
        _run(0, [0.0, 0.5, 0.9, 1.0]),
        _run(1, [0.6, 0.6, 0.7, 0.8]),
        _run(2, [0.0, 0.0, 0.0, 0.4]),
    )
    return SimpleNamespace(runs_of=lambda optimizer: runs, kind="k")


def test_a_target_is_reached_when_the_share_equals_it():
    assert first_reaching(np.array([0.2, 0.5, 0.6]), 0.5) == 2
    assert first_reaching(np.array([0.2, 0.4]), 0.5) is None


def test_the_distribution_counts_every_run_and_target(problem):
    # Runtimes: 2, 1, never for 50 %; 3, never, never for 90 %.
    expected = np.array([1, 2, 3, 3]) / 6
    assert solved_share([problem], "o", (0.5, 0.9), 4) == pytest.approx(expected)


def test_the_expected_runtime_counts_the_failures_whole(problem):
    record = target_record([problem], "o", 0.5)
    assert (record.n_reached, record.n_runs, record.median) == (2, 3, 2.0)
    # COCO's ERT: (2 + 1 + 4 spent in vain) / 2 successes.
    assert record.expected == pytest.approx(3.5)
    rare = target_record([problem], "o", 0.9)
    assert rare.median is None
    assert rare.expected == pytest.approx(11.0)


def test_a_target_that_nobody_reached_has_no_expected_runtime(problem):
    runs = (_run(0, [0.1, 0.2]),)
    record = target_record([SimpleNamespace(runs_of=lambda optimizer: runs)], "o", 0.9)
    assert (record.n_reached, record.expected, record.median) == (0, None, None)


def test_a_run_that_ran_out_of_designs_keeps_its_last_value():
    assert padded(np.array([1.0, 2.0]), 4).tolist() == [1.0, 2.0, 2.0, 2.0]
    assert padded(np.array([]), 2).tolist() == [0.0, 0.0]


def test_a_run_without_a_design_counts_against_the_attainment_surface():
    fronts = [np.array([[1.0, 4.0]]), np.array([[2.0, 3.0]]), np.empty((0, 2))]
    runs = tuple(SimpleNamespace(front=front) for front in fronts)
    problem = SimpleNamespace(runs_of=lambda optimizer: runs)
    surfaces = attainment_surfaces(problem, "o", [30.0, 60.0, 90.0])
    # One of three attained either point, two of three what both dominate, no three anything.
    assert surfaces[30.0].tolist() == [[1.0, 4.0], [2.0, 3.0]]
    assert surfaces[60.0].tolist() == [[2.0, 4.0]]
    assert surfaces[90.0].tolist() == []
    assert not len(attainment_surfaces(SimpleNamespace(runs_of=lambda o: runs[2:]), "o")[50.0])
