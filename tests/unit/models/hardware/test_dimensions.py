"""Every formula of the hierarchy has the dimension that its name claims.

A result in seconds must scale with the unit of time and with no other. The units are changed by
hand: Pint's quantities do not survive the selections of NumPy that these formulas are made of.
"""

import numpy as np
import pytest

from codesign.models.hardware.hierarchy import (
    inflight_bandwidth_bytes_per_s,
    inverse,
    parallel_time_s_at,
    staged_time_s_at,
)

BYTE = 7.0
SECOND = 3.0
"""How many of the new units one old unit is."""
RATE = BYTE / SECOND

CROSSING, OWNED = [10.0, 6.0, 1.0], [4.0, 5.0, 1.0]
SECONDS_PER_BYTE, LATENCY, CHUNK = [0.25, 0.5, 2.0], [0.1, 0.2, 0.4], 0.25


def times(values, factor):
    return [value * factor for value in values]


FORMULAS = {
    "staged_time_s_at": (
        lambda byte, second: staged_time_s_at(
            times(CROSSING, byte), times(SECONDS_PER_BYTE, second / byte), times(LATENCY, second),
            CHUNK * byte,
        ),
        SECOND,
    ),
    "parallel_time_s_at": (
        lambda byte, second: parallel_time_s_at(
            times(OWNED, byte), times(SECONDS_PER_BYTE, second / byte), times(LATENCY, second)
        ),
        SECOND,
    ),
    "inflight_bandwidth_bytes_per_s": (
        lambda byte, second: inflight_bandwidth_bytes_per_s(
            np.array(4.0 * byte / second), np.array(9.0 * second), np.array(2.0 * byte), 3.0
        ),
        RATE,
    ),
    "inverse": (lambda byte, second: inverse(np.array(4.0 * byte / second)), 1 / RATE),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMULAS)
def test_a_formula_does_not_care_in_which_units_bytes_and_seconds_are_counted(name):
    formula, unit = FORMULAS[name]
    assert float(formula(BYTE, SECOND)) == pytest.approx(unit * float(formula(1.0, 1.0)))
