"""Energy of kernels: what a device draws while one runs, its arithmetic and its traffic.

A FLOP takes a part of what the datasheet implies: a device that spends its power limit on
arithmetic at its peak needs power over peak for one. Better processes lower that quotient, which is
what carries the constants to them. It says nothing of a device whose limit is above what its
arithmetic can draw, such as an H20, the chip of an H100 with a seventh of the peak: there a FLOP
takes what it does on an H100. A byte of main memory and a score of attention take the same
energy everywhere: with them, fits predict devices that they have not seen better than with parts
of the power limit over bandwidth or over the rate of the special functions.

Orders of magnitude of others: 1.1 and 0.4 pJ for a multiplication and an addition in 16 bits at
45 nm, 0.75 pJ a FLOP [Horowitz2014]_, here 0.71 (H200) and 0.44 pJ (B200) with the way of the
operands; 31 pJ for a byte within HBM2 [OConnor2017]_, to which controllers, caches and the way over
the die come. A device whose clock and voltage fall together draws power by the cube of the clock
[Mudge2001]_.

Fitted to the watts of ai-dynamo/aiconfigurator @095f58a, NVIDIA, Apache-2.0.

.. [Horowitz2014] M. Horowitz, Computing's Energy Problem (and what we can do about it), ISSCC 2014.
.. [OConnor2017] M. O'Connor et al., Fine-Grained DRAM: Energy-Efficient DRAM for Extreme Bandwidth
   Systems, MICRO 2017: 3.92 pJ/bit.
.. [Mudge2001] T. Mudge, Power: A First-Class Architectural Design Constraint, Computer 34(4), 2001.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from codesign.base.columns import FloatArray
from codesign.base.schema import Record, Share, quantity
from codesign.models.machines.device.rates import DeviceRates, Floats
from codesign.models.machines.device.sustained import CEILING

_Part = Annotated[float, Field(ge=0)]
_Picojoules = Annotated[float, quantity("pJ"), Field(ge=0)]

CLOCK_POWER = 3.0
"""Power of the clock with which that of arithmetic grows [Mudge2001]_. At it, products in loops of
a second at the limit are as much slower than short ones as measured; 2 and 5 fit them worse."""

UNBOUND_JOULES_PER_FLOP = 700.0 / 989.4e12
"""Power limit over 16-bit peak of an H100 (its datasheet), which stands for that of devices whose
power limit binds no product of 16 bits [ours]."""


class EnergyConstants(Record):
    """The free constants of energy of a class of devices."""

    idle: Annotated[float, Field(ge=0, le=1)]
    """Watts of a device that waits between kernels, clocked up, in parts of its power limit."""
    base: Annotated[float, Field(ge=0, le=1)]
    """Watts of a device that runs a kernel, before its arithmetic and its main memory, likewise:
    leakage, clocks, caches and vector units."""
    flop_16bit: _Part
    """Joules of a FLOP in 16 bits or wider, in parts of power limit over 16-bit peak."""
    flop_8bit: _Part
    """Joules of a FLOP in 8 bits, in parts of the same quotient."""
    flop_4bit: _Part
    """Joules of a FLOP in 4 bits, in parts of the same quotient."""
    score: _Picojoules
    """Joules of a score of attention besides its products: scale, exponential, sum, conversion."""
    byte: _Picojoules
    """Joules of a byte of main memory, on its way to the cores and in them."""
    limit: Share
    """The most that the board draws, in parts of its power limit."""


@dataclass(frozen=True)
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
    return constants.idle * np.asarray(rates.power_watts)


def kernel_energy_joules(
    time_s: Floats, work: KernelWork, rates: DeviceRates, constants: EnergyConstants
) -> FloatArray:
    """Joules of kernels on one device, its host's not included.

    Limiting assumptions: caches and vector units draw with the base; operands are as random as
    those of the benchmark, of which equal utilization drew from 0.4 to 1.0 of the power limit. All
    arguments broadcast.

    Args:
        time_s: Seconds that the kernels take, at the clocks that the power limit leaves them: of
            measured times those of long runs, of predicted ones :func:`sustained_time_s`.
        rates: The device, or one for each kernel.
        constants: Those of the class of devices.

    Returns:
        Joules, never more than the power limit over the time; NaN where no limit is stated.
    """
    watts, seconds = np.asarray(rates.power_watts), np.asarray(time_s)
    core, memory = _switching_joules(work, rates, constants)
    joules = constants.base * watts * seconds + core + memory
    return np.asarray(np.minimum(joules, constants.limit * watts * seconds))


def sustained_time_s(
    time_s: Floats, work: KernelWork, rates: DeviceRates, constants: EnergyConstants
) -> FloatArray:
    """Seconds of kernels of which a device runs nothing else, so that its clock falls to its limit.

    What arithmetic would draw beyond the limit lowers the clock of the cores by its cube root; that
    of the memory stays. Limiting assumption: the time follows the clock by the share of arithmetic
    in what the kernel switches.

    Args:
        time_s: Seconds of a short run, at full clocks.
        rates: The device, or one for each kernel.
        constants: Those of the class of devices.

    Returns:
        Seconds, never fewer than ``time_s``; as many where no limit is stated.
    """
    seconds = np.asarray(time_s)
    core, memory = _switching_joules(work, rates, constants)
    switched = core + memory
    room = (constants.limit - constants.base) * np.asarray(rates.power_watts) * seconds
    is_beyond = switched > room  # never of NaN
    excess = np.where(is_beyond, switched, 1.0) / np.where(is_beyond, room, 1.0)
    share = np.where(is_beyond, core, 0.0) / np.where(is_beyond, switched, 1.0)
    return seconds * excess ** (share / CLOCK_POWER)


def _switching_joules(
    work: KernelWork, rates: DeviceRates, constants: EnergyConstants
) -> tuple[FloatArray, FloatArray]:
    """Joules of the arithmetic, which the clock of the cores paces, and of the main memory."""
    share = np.where(
        np.greater(work.multiply_bits, 8),
        constants.flop_16bit,
        np.where(np.greater(work.multiply_bits, 4), constants.flop_8bit, constants.flop_4bit),
    )
    joules = share * np.asarray(rates.power_watts) / rates.peak_16bit_flop_per_s
    is_unbound = np.asarray(rates.sustained_fraction) >= CEILING
    core = np.where(
        is_unbound, np.minimum(joules, share * UNBOUND_JOULES_PER_FLOP), joules
    ) * work.flop + constants.score * np.asarray(work.scores)
    return np.asarray(core), constants.byte * np.asarray(work.traffic_bytes)
