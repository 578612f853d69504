"""Clock of a device: what its power limit leaves of it, in bursts and in steady state.

Arithmetic takes energy by the square of the voltage, which falls with the clock; a byte of main
memory takes the same at any clock. So a device at its limit lowers the clock until the energy of a
pass is the limit times its time (:func:`sustained_clock`): one state per pass. The first requests
after idling end before that. Then only the regulator of the board limits the clock
(:func:`product_share`).

Clocks are in parts of that at which a long loop of large products of 16 bits draws the limit.
Measured on an H100 SXM (``validation/studies/data/h100_measured.csv``): 8192 x 8192 x 8192 runs at
806 TFLOP/s for 30 ms, at 697 after 0.8 s, at 671 and 1338 of 1980 MHz in a hot loop; in 8 bits at
1,535, then 1,278.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from codesign.base.columns import FloatArray, Floats
from codesign.base.records import frozen
from codesign.models.hardware.device import UNLIMITED_FRACTION
from codesign.models.machines.device.rates import DeviceRates

CEILING = UNLIMITED_FRACTION
EIGHT_BITS, FOUR_BITS = 0.95, 0.64
"""Share of their peak that products of 8 and 4 bits reach, over that of 16 bits. [ours] 1,535 of
1,979 TFLOP/s against 806 of 989 on an H100 (``h100_measured.csv``); products beyond 4,096 in m, n
and k on a B200 in ai-dynamo/aiconfigurator @095f58a."""
VOLTAGE_EXPONENT = 0.75
"""Relative change of the supply voltage for one of the clock, as TSMC's steps of process state it
(``codesign/models/accounts/constants.yaml``, there 0.6 to 0.86)."""
ENERGY_EXPONENT = 2.0 * VOLTAGE_EXPONENT
POWER_EXPONENT = 1.0 + ENERGY_EXPONENT
STREAM_CLOCK = 0.5
"""Part of the highest clock that a stream needs to run at the memory's rate [ours]."""
BURST_S = 0.1
"""Time after idling for which products run as in a burst.

It is what an H100 gains on its steady state in the first 0.4 s of a loop of 8192 x 8192 x 8192 in
bf16 (``h100_measured.csv``), over its gain in the first 0.03 s."""
_LEAST_CLOCK = 0.02
_HALVINGS = 40


@frozen
class KernelDraw:
    """Energy of kernels, and how their time follows the clock; all fields broadcast.

    Attributes:
        time_s: Time in a burst.
        core_joules: Energy of the arithmetic at a clock of 1.
        memory_joules: Energy of the main memory, at any clock.
        clock: Clock in a burst.
        follows: Part of that clock below which the time follows the clock: 1 of arithmetic.
    """

    time_s: FloatArray
    core_joules: FloatArray
    memory_joules: Floats
    clock: FloatArray
    follows: FloatArray

    def time_at(self, clock: FloatArray) -> FloatArray:
        """Time at a clock, never below that of a burst."""
        return self.time_s * np.maximum(1.0, self.follows * self.clock / clock)

    def joules_at(self, clock: FloatArray) -> FloatArray:
        """Energy at a clock, the base of the device not included."""
        core = self.core_joules * np.minimum(clock, self.clock) ** ENERGY_EXPONENT
        return core + self.memory_joules


def stacked(draws: Sequence[KernelDraw]) -> KernelDraw:
    """(k, n) kernels that run one after the other, from (n,) draws of each."""
    columns = zip(*(vars(draw).values() for draw in draws), strict=True)
    return KernelDraw(*(np.stack(np.broadcast_arrays(*column)) for column in columns))


@frozen
class BoardPower:
    """Power of a board beside its kernels, and the most that it may draw; all fields broadcast.

    Attributes:
        static_watts: Power at any clock.
        clocked_watts: Further power at the highest clock.
        limit_watts: Most mean power; NaN where none is stated.
        highest: The highest clock.
    """

    static_watts: Floats
    clocked_watts: Floats
    limit_watts: Floats
    highest: FloatArray

    def base_watts(self, clock: Floats) -> FloatArray:
        """Power at a clock."""
        share = (clock / self.highest) ** POWER_EXPONENT
        return self.static_watts + self.clocked_watts * share


def product_share(rates: DeviceRates, multiply_bits: Floats) -> FloatArray:
    """Share of the peak at some width that large products reach in a burst.

    All arguments broadcast.

    Args:
        multiply_bits: Bits of the factors as the matrix units read them, scales included.

    Examples:
        >>> from codesign.models.hardware.device import load_device
        >>> from codesign.models.machines.device.rates import device_rates
        >>> rates = device_rates(lambda number: number(load_device("h100-sxm")))
        >>> [round(float(product_share(rates, bits)), 3) for bits in (16, 8, 4.5)]
        [0.803, 0.763, 0.514]
    """
    in_16 = np.asarray(rates.burst_fraction, np.float64)
    narrow = np.where(multiply_bits > 5, EIGHT_BITS, FOUR_BITS)
    is_full = (multiply_bits > 9) | (in_16 >= CEILING)
    return in_16 * np.where(is_full, 1.0, narrow)


def full_clock(rates: DeviceRates) -> FloatArray:
    """Highest clock of a device."""
    sustained = rates.sustained_fraction
    return np.maximum(CEILING, sustained) / sustained


def sustained_clock(
    draw: KernelDraw, board: BoardPower, wait_s: Floats, wait_joules: Floats
) -> FloatArray:
    """(n,) highest clock at which a pass that repeats draws no more than the limit.

    Args:
        draw: (k, n) kernels of the pass.
        wait_s: (n,) time of the pass in which no kernel runs.
        wait_joules: (n,) energy in that time.

    Returns:
        The clock; the highest one where no limit is stated or none binds.
    """

    def is_beyond(clock: FloatArray) -> FloatArray:
        seconds = draw.time_at(clock).sum(axis=0)
        joules = draw.joules_at(clock).sum(axis=0) + wait_joules
        limit = board.limit_watts * (seconds + wait_s)
        return np.asarray(joules + board.base_watts(clock) * seconds > limit)

    high = board.highest + np.zeros(draw.time_s.shape[1:])
    beyond = is_beyond(high)
    if not beyond.any():
        return high
    low = np.where(beyond, _LEAST_CLOCK * high, high)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        beyond = is_beyond(middle)
        low = np.where(beyond, low, middle)
        high = np.where(beyond, middle, high)
    return low
