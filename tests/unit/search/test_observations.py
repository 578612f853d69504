"""The record of what is known of designs: what is derived from it, its parts and their union."""

from typing import get_args

import numpy as np
import pytest

from codesign.base.failures import Failure, FailureKind, Status
from codesign.search.observations import Observations

NAN = np.nan
REFUSED, LOST = Failure("infeasible", "no room"), Failure("lost", "killed")


@pytest.fixture
def observations():
    """The best, a design that it dominates, one over a limit, one refused, one lost."""
    gain = np.array([9.0, 8.0, 99.0, NAN, NAN])
    cost = np.array([1.0, 2.0, 0.0, NAN, NAN])
    return Observations(
        rows=np.arange(10).reshape(5, 2),
        objectives=np.column_stack([-gain, cost]),
        violations=np.array([[0.0, -1.0], [-1.0, 0.0], [-1.0, 0.5], [NAN, NAN], [NAN, NAN]]),
        violation_names=("heat", "room"),
        metrics={"gain": gain, "cost": cost},
        failures={3: REFUSED, 4: LOST},
    )


def equal(left, right):
    pairs = [
        *zip(left.tell_arguments, right.tell_arguments, strict=True),
        *((left.metrics[name], right.metrics[name]) for name in left.metrics),
    ]
    return (
        all(np.array_equal(*pair, equal_nan=True) for pair in pairs)
        and left.violation_names == right.violation_names
        and left.metrics.keys() == right.metrics.keys()
        and left.failures == right.failures
    )


def test_every_design_is_feasible_or_over_a_limit_or_without_a_result(observations):
    assert observations.feasible.tolist() == [True, True, False, False, False]
    assert observations.failed.tolist() == [False, False, False, True, True]
    words = [Status(status).word for status in observations.status]
    assert words == ["ok", "ok", "infeasible", "infeasible", "lost"]
    assert observations.front.tolist() == [0]


@pytest.mark.parametrize("kind", get_args(FailureKind))
def test_a_failure_is_known_from_its_status_and_its_reason(kind):
    failure = Failure(kind, "why")
    assert Failure.read_status(failure.status, "why") == failure
    assert failure.status.word == kind


def test_an_optimizer_remembers_what_it_was_told_and_not_the_arrays(observations):
    rows, objectives, violations, _ = handed = [x.copy() for x in observations.tell_arguments]
    remembered = Observations.copied(*handed)
    rows[:], objectives[:], violations[:] = 0, 0.0, 0.0
    for kept, expected in zip(remembered.tell_arguments, observations.tell_arguments, strict=True):
        assert np.array_equal(kept, expected, equal_nan=True)
    # Whatever stands in the place of numbers that are not there.
    again = Observations.copied(rows, objectives, violations, observations.failed)
    assert np.array_equal(again.failed, observations.failed)


@pytest.mark.parametrize("chosen", [
    slice(2, 5), np.array([4, 0, 3]), np.array([False, True, False, True, True]), slice(0, 0),
])  # fmt: skip
def test_a_part_has_the_numbers_and_the_reasons_of_its_designs(observations, chosen):
    part, positions = observations.part(chosen), np.arange(5)[chosen]
    assert len(part) == len(positions)
    assert np.array_equal(part.rows, observations.rows[positions])
    assert np.array_equal(part.metrics["gain"], observations.metrics["gain"][positions], True)
    assert np.array_equal(part.status, observations.status[positions])
    for i, old in enumerate(positions.tolist()):
        assert part.failures.get(i) == observations.failures.get(old)


def test_parts_end_to_end_are_the_whole_again(observations):
    parts = [observations.part(slice(a, b)) for a, b in ((0, 1), (1, 1), (1, 4), (4, 5))]
    assert equal(Observations.joined(parts), observations)
    assert equal(Observations.joined([observations]), observations)


def test_a_part_in_which_all_failed_need_not_name_the_limits(observations):
    nameless = Observations(
        observations.rows[4:],
        observations.objectives[4:],
        np.empty((1, 0)),
        metrics={"gain": np.array([NAN])},
        failures={0: LOST},
    )
    assert equal(Observations.joined([observations.part(slice(0, 4)), nameless]), observations)


def test_limits_are_chosen_by_name_and_unreported_ones_are_nan(observations):
    chosen = observations.limited_to(("room", "noise"))
    assert chosen.violation_names == ("room", "noise")
    assert np.array_equal(chosen.violations[:, 0], observations.violations[:, 1], equal_nan=True)
    assert np.isnan(chosen.violations[:, 1]).all()
    assert observations.limited_to(()).violations.shape == (5, 0)
