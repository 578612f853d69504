"""Energy of kernels: what a device draws while one runs, its arithmetic and its traffic.

A FLOP takes what a long loop of large products leaves for it: at its limit a device sustains a
measured part of its peak (``sustained_fraction``), less its base and memory. Widths share that
quotient. It says nothing of a device whose limit is above what its arithmetic can draw, such as an
H20, the chip of an H100 with a seventh of the peak: there a FLOP takes what it does on an H100. A
byte takes 31 pJ within the main memory [OConnor2017]_. On the die, bytes and attention scores take
their energy on an H100, times the ratio of the processes' power (``process_power``).

Orders of magnitude of others: 1.1 and 0.4 pJ for a multiplication and an addition in 16 bits at
45 nm, 0.75 pJ a FLOP [Horowitz2014]_, here 0.8 (H100) with the way of the operands.

Read off the watts of an H100 SXM (``validation/studies/data/h100_measured.csv``).

.. [Horowitz2014] M. Horowitz, Computing's Energy Problem (and what we can do about it), ISSCC 2014.
.. [OConnor2017] M. O'Connor et al., Fine-Grained DRAM: Energy-Efficient DRAM for Extreme Bandwidth
   Systems, MICRO 2017: 3.92 pJ/bit.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from codesign.base.columns import FloatArray, Floats
from codesign.base.records import frozen
from codesign.base.schema import Amount, Record, Share, quantity
from codesign.models.machines.device.clock import (
    CEILING,
    ENERGY_EXPONENT,
    POWER_EXPONENT,
    STREAM_CLOCK,
    BoardPower,
    KernelDraw,
    full_clock,
    product_share,
    stacked,
    sustained_clock,
)
from codesign.models.machines.device.constants import load_constants
from codesign.models.machines.device.rates import DeviceRates

_Picojoules = Annotated[float, quantity("pJ"), Field(ge=0)]

UNBOUND_JOULES_PER_FLOP = 0.8e-12
"""A FLOP in 16 bits on an H100 at the clock of its limit, beside base and memory. It stands for
that of devices whose power limit binds no product of 16 bits [ours]."""
STACK_JOULES_PER_BYTE = 31e-12
"""Part of a byte's energy that the stacks of the main memory take [OConnor2017]_."""
PRODUCT_TRAFFIC = 0.04
"""Power of the memory in a loop of large products, in parts of the limit: 0.4 GB in 1.64 ms on an
H100."""


class EnergyConstants(Record):
    """The free constants of energy of a class of devices.

    Attributes:
        idle: Watts of a device that waits between kernels, clocked up, in parts of its power limit.
        base: Watts of a device that runs a kernel at its highest clock, before its arithmetic and
            its main memory, likewise: leakage, clocks, caches and vector units.
        static: Part of them that does not fall with the clock, in the same parts.
        flop_8bit: Joules of a FLOP in 8 bits, in parts of those in 16.
        flop_4bit: Joules of a FLOP in 4 bits, likewise.
        score: Joules of an attention score on an H100, without its products: scale, exponential,
            sum, conversion.
        byte: Joules of a byte of main memory, on its way to the cores and in them.
        limit: The most that the board draws, in parts of its power limit.
    """

    idle: Share
    base: Share
    static: Share
    flop_8bit: Amount
    flop_4bit: Amount
    score: _Picojoules
    byte: _Picojoules
    limit: Share

    def board(self, rates: DeviceRates) -> BoardPower:
        """Power of devices beside their kernels, and their limits."""
        return BoardPower(
            static_watts=self.static * rates.power_watts,
            clocked_watts=(self.base - self.static) * rates.power_watts,
            limit_watts=self.limit * rates.power_limit_watts,
            highest=full_clock(rates),
        )


def shipped_energy() -> EnergyConstants:
    """The constants of every class of devices: of GPUs, which alone were measured."""
    constants: EnergyConstants = load_constants("energy", EnergyConstants, "gpu")
    return constants


@frozen
class KernelWork:
    """Work of a kernel that takes energy; every field is a number or an array to broadcast.

    Attributes:
        flop: Arithmetic of the matrix units, 2 per multiply-accumulate.
        traffic_bytes: Bytes to and from main memory.
        multiply_bits: Width at which the matrix units multiply: 16, 8 or 4; 16 for attention,
            whatever its width, since its scores are converted on their way.
        scores: Scores of attention.
    """

    flop: Floats
    traffic_bytes: Floats
    multiply_bits: Floats
    scores: Floats = 0.0


def idle_watts(rates: DeviceRates, constants: EnergyConstants) -> FloatArray:
    """Power of a device that waits for the next kernel; NaN where no limit is stated."""
    return np.asarray(constants.idle * rates.power_watts)


def burst_under(rates: DeviceRates, constants: EnergyConstants) -> FloatArray:
    """Part of the peak that large products reach in a burst under the limit in force.

    The regulator allows bursts the same multiple of every limit.
    """
    burst = rates.burst_fraction
    sustained = rates.sustained_fraction
    static = constants.static + PRODUCT_TRAFFIC
    clocked = (constants.limit - static) * (burst / sustained) ** POWER_EXPONENT
    cap = rates.power_limit_watts / rates.power_watts
    room = np.maximum((cap * (static + clocked) - static) / clocked, 1e-3)
    return burst * np.where((cap < 1.0) & (burst < CEILING), room, 1.0) ** (1.0 / POWER_EXPONENT)


def kernel_draw(
    time_s: Floats, work: KernelWork, rates: DeviceRates, constants: EnergyConstants
) -> KernelDraw:
    """Energy of kernels on one device and its parts that follow the clock, the host's not included.

    Limiting assumptions: caches and vector units draw with the base; operands are random. A kernel
    runs at the highest clock at which its arithmetic draws no more than a large product of its
    width in a burst.

    Args:
        time_s: Seconds that the kernels take in a burst.
        rates: The device, or one for each kernel.
        constants: Those of the class of devices.
    """
    seconds = np.asarray(time_s, np.float64)
    bits = work.multiply_bits
    per_flop = _joules_per_flop(rates, constants)
    peak = rates.peak_16bit_flop_per_s
    share = np.where(bits > 8, 1.0, np.where(bits > 4, constants.flop_8bit, constants.flop_4bit))
    process = rates.process_power
    core = per_flop * share * work.flop + constants.score * process * work.scores
    narrow = np.minimum(bits, 16.0) / 16.0
    burst = rates.burst_fraction / rates.sustained_fraction
    most_flop = product_share(rates, bits) * peak / narrow * seconds
    room = per_flop * share * burst**ENERGY_EXPONENT * most_flop
    with np.errstate(divide="ignore", invalid="ignore"):  # without arithmetic, any clock
        clock = (room / core) ** (1 / ENERGY_EXPONENT)
    arithmetic_s = work.flop * narrow / peak
    memory_s = work.traffic_bytes / rates.bandwidth_bytes_per_s
    stacks = min(STACK_JOULES_PER_BYTE, constants.byte)
    return KernelDraw(
        time_s=seconds,
        core_joules=core,
        memory_joules=(stacks + process * (constants.byte - stacks)) * work.traffic_bytes,
        clock=np.fmin(clock, full_clock(rates)),
        follows=np.clip(arithmetic_s / np.maximum(memory_s, 1e-30), STREAM_CLOCK, 1.0),
    )


def kernel_energy_joules(
    time_s: Floats, work: KernelWork, rates: DeviceRates, constants: EnergyConstants
) -> FloatArray:
    """Joules of kernels that repeat, from the time that each then takes.

    Returns:
        Joules, never more than the power limit over the time; NaN where no limit is stated.
    """
    draw = kernel_draw(time_s, work, rates, constants)
    board = constants.board(rates)
    joules = draw.joules_at(draw.clock) + board.base_watts(board.highest) * time_s
    return np.minimum(joules, board.limit_watts * time_s)


def sustained_time_s(
    time_s: Floats, work: KernelWork, rates: DeviceRates, constants: EnergyConstants
) -> FloatArray:
    """Seconds of kernels that repeat without a pause, at the clock of the power limit.

    Args:
        time_s: Seconds in a burst.
        rates: The device, or one for each kernel.
        constants: Those of the class of devices.

    Returns:
        Seconds, never fewer than ``time_s``; as many where no limit is stated.
    """
    draw = kernel_draw(time_s, work, rates, constants)
    return draw.time_at(sustained_clock(stacked([draw]), constants.board(rates), 0.0, 0.0))


def _joules_per_flop(rates: DeviceRates, constants: EnergyConstants) -> FloatArray:
    """Joules of a FLOP in 16 bits at a clock of 1, at which large products draw the limit."""
    watts = rates.power_watts
    sustained = rates.sustained_fraction
    room = (constants.limit - PRODUCT_TRAFFIC) * watts - constants.board(rates).base_watts(1.0)
    joules = room / (sustained * rates.peak_16bit_flop_per_s)
    return np.where(sustained >= CEILING, np.minimum(joules, UNBOUND_JOULES_PER_FLOP), joules)
