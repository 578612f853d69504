"""The plain roofline: units, broadcasting, and that launches overlap with nothing."""

import numpy as np
import pytest

from codesign.models.machines.roofline import roofline_times


def test_a_time_scales_with_the_unit_of_time_and_with_no_other():
    # One old unit of work is 7 new ones, one old second 3 new ones.
    old = roofline_times(1e12, 5e11, 1.5, 6e-6)
    new = roofline_times(7e12, 7 * 5e11 / 3, 3 * 1.5, 3 * 6e-6)
    assert tuple(map(float, old)) == pytest.approx((2.000006, 1.500006))
    assert tuple(map(float, new)) == pytest.approx([3 * float(time) for time in old])


def test_each_pair_of_work_and_machine_is_bound_by_its_own_longer_time():
    times = roofline_times(np.array([1.0, 8.0]), np.array([[1.0], [4.0]]), 3.0, 0.5)
    assert times.time_s.tolist() == [[3.5, 8.5], [3.5, 3.5]]
