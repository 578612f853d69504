"""Waits at a steady load: against formulas, a simulation of single requests, and laws."""

import heapq

import numpy as np
import pytest

from codesign.models.deployments.queueing.steady_wait import (
    mean_wait_s,
    probability_of_wait,
    wait_quantile_s,
)


def test_erlang_c_is_that_of_the_textbook():
    # M/M/2 at a load of 1.5: a^2/2 / (1 - a/2) over the sum of states.
    waiting = 1.5**2 / 2 / (1 - 0.75)
    expected = waiting / (1 + 1.5 + waiting)
    assert probability_of_wait(np.array([1.5]), np.array([2.0])) == pytest.approx(expected)


def simulated_waits(load, machines, n=40_000):
    """Waits of requests for machines that serve each in one second."""
    rng = np.random.default_rng(0)
    arrivals = np.cumsum(rng.exponential(1.0 / (load * machines), n))
    free = [0.0] * machines
    waits = np.empty(n)
    for i, arrival in enumerate(arrivals.tolist()):
        start = max(arrival, heapq.heappop(free))
        waits[i] = start - arrival
        heapq.heappush(free, start + 1.0)
    return waits[n // 10 :]


@pytest.mark.parametrize("machines", [1, 2, 8])
@pytest.mark.parametrize("load", [0.5, 0.8])
def test_waits_are_those_of_single_requests_within_a_third_of_a_service(load, machines):
    waits, pool = simulated_waits(load, machines), np.array([float(machines)])
    counts = np.array([float(machines)])
    assert mean_wait_s(load * machines, pool, counts) == pytest.approx(waits.mean(), abs=0.1)
    at_90 = wait_quantile_s(0.9, load * machines, pool, counts)
    assert at_90 == pytest.approx(np.quantile(waits, 0.9), abs=0.33)


def test_more_or_faster_machines_never_wait_longer():
    machines, speed = (x.ravel() for x in np.meshgrid(np.arange(1.0, 40.0), np.geomspace(0.2, 9)))
    for share in (0.5, 0.9, 0.99):
        waits = wait_quantile_s(share, 3.0, machines * speed, machines).reshape(50, 39)
        for axis in (0, 1):
            finite = np.minimum(waits, 1e9)
            assert (np.diff(finite, axis=axis) <= 1e-9 * (1 + np.abs(finite).max())).all()
    means = np.minimum(mean_wait_s(3.0, machines * speed, machines), 1e9).reshape(50, 39)
    assert (np.diff(means, axis=0) <= 1e-9).all() and (np.diff(means, axis=1) <= 1e-9).all()


def test_machines_that_do_not_keep_up_wait_for_ever():
    rate, machines = np.array([2.9, 3.0, 3.1]), np.array([2.0, 2.0, 2.0])
    assert np.isinf(mean_wait_s(3.0, rate, machines)).tolist() == [True, True, False]
    assert np.isinf(wait_quantile_s(0.9, 3.0, rate, machines)).tolist() == [True, True, False]
