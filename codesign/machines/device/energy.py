"""Energy of kernels: what a device draws while one runs, its arithmetic and its traffic.

Constants of arithmetic are parts of what the datasheet implies: a device that spent its whole power
limit on arithmetic at its peak would need power over peak for a FLOP. Better processes lower that
quotient, which is what carries the constants to them. A byte of main memory takes the same energy
everywhere: with it, fits predict devices that they have not seen better than with parts of power
over bandwidth.

Fitted to the watts of ai-dynamo/aiconfigurator @095f58a, NVIDIA, Apache-2.0.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from codesign.columns import FloatArray
from codesign.machines.device.rates import DeviceRates, Floats
from codesign.schema import Record, quantity

_Part = Annotated[float, Field(ge=0)]


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
    byte: Annotated[float, quantity("pJ"), Field(ge=0)]
    """Joules of a byte of main memory, on its way to the cores and in them."""
    limit: Annotated[float, Field(gt=0, le=1)]
    """The most that the board draws, in parts of its power limit."""


def idle_watts(rates: DeviceRates, constants: EnergyConstants) -> FloatArray:
    """What a device draws while it waits for the next kernel; NaN where no limit is stated."""
    return np.asarray(constants.idle * np.asarray(rates.power_watts))


def kernel_energy_joules(
    time_s: Floats,
    work_flop: Floats,
    traffic_bytes: Floats,
    multiply_bits: Floats,
    rates: DeviceRates,
    constants: EnergyConstants,
) -> FloatArray:
    """Joules of kernels on one device, its host's not included.

    Limiting assumptions: caches and vector units draw with the base; operands are as random as
    those of the benchmark, of which equal utilization drew from 0.4 to 1.0 of the power limit;
    a device whose clock falls at its power limit takes no longer than ``time_s``. All arguments
    broadcast.

    Args:
        time_s: Seconds that the kernels take.
        work_flop: Arithmetic of the matrix units, 2 per multiply-accumulate.
        traffic_bytes: Bytes to and from main memory.
        multiply_bits: Width at which the matrix units multiply: 16, 8 or 4; 16 for attention,
            whatever its width, since its exponentials draw most.
        rates: The device, or one for each kernel.
        constants: Those of the class of devices.

    Returns:
        Joules, never more than the power limit over the time; NaN where no limit is stated.
    """
    part = np.where(
        np.greater(multiply_bits, 8),
        constants.flop_16bit,
        np.where(np.greater(multiply_bits, 4), constants.flop_8bit, constants.flop_4bit),
    )
    arithmetic_s = part * work_flop / rates.peak_16bit_flop_per_s
    at_limit_s = constants.base * np.asarray(time_s) + arithmetic_s
    joules = rates.power_watts * at_limit_s + constants.byte * np.asarray(traffic_bytes)
    return np.minimum(joules, constants.limit * np.asarray(rates.power_watts) * time_s)
