"""Shares in equal wall time, worked by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

from codesign.insight.comparison.run_time import RunTime
from codesign.insight.comparison.wall_time import (
    elapsed_seconds,
    equal_time_shares,
    leads,
    run_costs,
    shares_over_time,
)


def _run(label, share, seconds):
    time = RunTime(np.array(seconds), np.array([False, True, True, True]), 2.0)
    return SimpleNamespace(optimizer=label, share=np.array(share), time=time, n_evaluated=4)


@pytest.fixture
def outcome():
    """One problem and seed: "quick" chooses at once, "clever" thinks for a second each time.

    Seven seconds of the initial design are nobody's.
    """
    runs = {
        "quick": (_run("quick", [0.1, 0.2, 0.3, 0.4], [0.0, 0.0, 0.0, 0.0]),),
        "clever": (_run("clever", [0.1, 0.8, 0.9, 1.0], [7.0, 1.0, 1.0, 1.0]),),
    }
    problem = SimpleNamespace(runs_of=runs.__getitem__, kind="k")
    return SimpleNamespace(problems=(problem,), ranked=(problem,), labels=tuple(runs))


def test_wall_time_is_evaluations_and_suggestions(outcome):
    run = outcome.problems[0].runs_of("clever")[0]
    assert elapsed_seconds(run, np.array([0.5])).tolist() == [[0.5, 2.0, 3.5, 5.0]]


def test_optimizers_are_compared_when_the_first_has_spent_its_budget(outcome):
    # At 0.1 s the quick one ends after 0.4 s; the clever one has its first design then, and 0.3
    # of the 1.1 s that its second takes. At 0.5 s it ends after 2 s, when the second is there.
    shares = equal_time_shares(outcome, [0.1, 0.5])
    assert shares == pytest.approx(np.array([[0.4, 0.1 + 0.7 * 0.3 / 1.1], [0.4, 0.8]]))


def test_thinking_costs_nothing_where_evaluations_take_forever(outcome):
    assert equal_time_shares(outcome, [1e9])[0] == pytest.approx([0.4, 1.0])


def test_the_lead_changes_where_the_suggestions_pay_off(outcome):
    first, second = leads(outcome)
    assert (first.optimizer, second.optimizer) == ("quick", "clever")
    # 0.3 more than the first design are 3/7 of the second: 3 c = 3/7 (c + 1) at c = 1/6.
    assert first.to_s < 1 / 6 <= second.from_s < 1.13 / 6
    assert (first.from_s, second.to_s) == pytest.approx((1e-4, 1e4))


def test_a_curve_against_time_rises_within_evaluations_and_keeps_its_end(outcome):
    shares = shares_over_time(outcome, "clever", 0.5, np.array([0.25, 0.5, 1.25, 2.0, 99.0]))
    assert shares == pytest.approx([0.05, 0.1, 0.45, 0.8, 1.0])


def test_the_cost_adds_up_runs_of_every_problem(outcome):
    quick, clever = run_costs(outcome)
    assert (quick.n_runs, quick.n_evaluated, quick.process_s) == (1, 4, 2.0)
    assert (clever.suggestion_s, clever.evaluation_s, clever.process_s) == (10.0, 2.0, 12.0)
