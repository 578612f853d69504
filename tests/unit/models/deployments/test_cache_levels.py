"""The least time of a session whose loads and recomputations share a machine and a port."""

import numpy as np
import pytest
from scipy.optimize import linprog

from codesign.models.deployments.cache_levels import machine_times


@pytest.mark.parametrize("seed", range(6))
def test_the_least_time_of_a_session_is_that_of_a_linear_program(seed):
    rng = np.random.default_rng(seed)
    q = 4
    turns, context = rng.uniform(1, 9, q), rng.uniform(1e9, 2e10, q)
    computed = rng.uniform(1, 9, q)
    reused = computed * rng.uniform(0.05, 0.9, q)
    first = rng.uniform(0, 0.5, q)
    outer = first + rng.uniform(0, 0.5, q)
    rate, write_s, added, answers_s = 10 ** rng.uniform(8.3, 9.5), 1e-10, 3e9, 2.0
    hits = np.append([first, outer], np.zeros((2, 1)), axis=1)
    levels = np.array([[1e30, rate], [0.0, write_s]])
    times = np.stack([reused, computed, computed])
    least_s, _ = machine_times(times, context, hits, levels, turns, answers_s, added, 1)

    saved, below = turns * (computed - reused), outer - first
    without = answers_s + turns @ computed - saved @ first
    program = linprog(
        [1, *np.zeros(q)],
        A_ub=[[-1, *(-saved * below)], [-rate, *(turns * context * below)]],
        b_ub=[-without, -rate * added * write_s],
        bounds=[(0, None), *[(0, 1)] * q],
    )
    assert least_s == pytest.approx(min(program.fun, without), rel=1e-9)
