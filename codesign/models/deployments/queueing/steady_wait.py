"""Waits for one of several equal machines, with arrivals at random and services all alike.

.. [Allen1990] A. O. Allen, "Probability, Statistics, and Queueing Theory", 2nd ed., 1990, section
   5.3: Erlang's C formula, and the approximation of Allen and Cunneen for M/G/k. With services all
   alike (M/D/k) waits are half of those with exponential services.
"""

from __future__ import annotations

import numpy as np

from codesign.base.columns import ArrayPair, FloatArray

_SERVICES_ALIKE = 0.5
"""(1 + c^2) / 2 of a variation c = 0 of service times [Allen1990]_."""


def probability_of_wait(load: FloatArray, machines: FloatArray) -> FloatArray:
    """(n,) Erlang's C: share of the requests that find all machines busy; 1 if they always are.

    Args:
        load: (n,) arrivals per second over the rate of one machine.
        machines: (n,) whole numbers.

    Examples:
        >>> float(probability_of_wait(np.array([0.8]), np.array([1.0]))[0])  # M/M/1: the load
        0.8
    """
    blocked = np.ones_like(load)
    for count in range(1, int(np.max(machines, initial=0.0)) + 1):
        next_blocked = load * blocked / (count + load * blocked)
        blocked = np.where(count <= machines, next_blocked, blocked)
    busy = np.minimum(load / machines, 1.0)
    return blocked / (1.0 - busy * (1.0 - blocked))


def mean_wait_s(arrivals_per_s: float, pool_per_s: FloatArray, machines: FloatArray) -> FloatArray:
    """(n,) mean wait; infinite where the machines do not keep up.

    Args:
        pool_per_s: (n,) requests per second of all machines.
        machines: (n,) number of machines.
    """
    tail_s, waiting = _tail_and_share(arrivals_per_s, pool_per_s, machines)
    return tail_s * waiting


def wait_quantile_s(
    share: float, arrivals_per_s: float, pool_per_s: FloatArray, machines: FloatArray
) -> FloatArray:
    """(n,) wait that a share of the requests does not exceed; see :func:`mean_wait_s`."""
    tail_s, waiting = _tail_and_share(arrivals_per_s, pool_per_s, machines)
    times = np.log(np.maximum(waiting / (1.0 - share), 1.0))
    return np.where(np.isinf(tail_s), np.inf, times * tail_s)


def _tail_and_share(
    arrivals_per_s: float, pool_per_s: FloatArray, machines: FloatArray
) -> ArrayPair:
    """(n,) mean wait of a request that waits, infinite where machines do not keep up, and share."""
    with np.errstate(divide="ignore"):
        tail_s = _SERVICES_ALIKE / np.maximum(pool_per_s - arrivals_per_s, 0.0)
    return tail_s, probability_of_wait(arrivals_per_s * machines / pool_per_s, machines)
