"""Rate of large products that a device's power limit sustains, by the width of the products.

A device that draws its power limit slows its clock until it does not exceed it. A narrower product
is faster by its width and takes less energy, but not so much less: what the limit sustains of the
peak falls with the width. Devices of little arithmetic for their power never meet the limit.
"""

from __future__ import annotations

import numpy as np

from codesign.base.columns import FloatArray
from codesign.models.machines.device.rates import DeviceRates, Floats

CEILING = 0.95
"""Part of the peak that large products reach where no power limit binds: 0.952 of an H20 in
alibaba/InferSim @7505de9, bench_data/gemm/h20/data.csv."""
PICOJOULES_PER_FLOP = 0.88
"""Energy of a whole board in large products of 16 bits: 700 W over 794.5 TFLOP/s of an H100
(Bekman, Machine Learning Engineering, 2025). Asked for only where ``sustained_fraction`` says that
the limit does not bind in 16 bits."""
EIGHT_BITS, FOUR_BITS = 0.64, 0.39
"""Joules of a FLOP in 8 and in 4 bits, over those in 16. [ours] Products beyond 4,096 in m, n and k
of ai-dynamo/aiconfigurator @095f58a sustain 0.80 (H100, H200) and 0.72 to 0.77 (B200) of the share
in 16 bits with 8, and 0.64 with 4; their watts say 0.62 (H200) and 0.37 (B200)."""


def sustained_share(rates: DeviceRates, multiply_bits: Floats) -> FloatArray:
    """Share of the peak at some width that the power limit lets large products sustain.

    Limiting assumption: the power limit is all that slows large products of 16 bits, where their
    ``sustained_fraction`` is below the ceiling. All arguments broadcast.

    Args:
        multiply_bits: Bits of the factors as the matrix units read them, scales included.

    Examples:
        >>> from codesign.models.hardware.device import load_device
        >>> from codesign.models.machines.device.rates import device_rates
        >>> rates = device_rates(lambda number: number(load_device("h100-sxm")))
        >>> [round(float(sustained_share(rates, bits)), 3) for bits in (16, 8, 4.5)]
        [0.803, 0.627, 0.515]
    """
    in_16 = np.asarray(rates.sustained_fraction, dtype=np.float64)
    at_limit = np.asarray(rates.power_watts) / (
        PICOJOULES_PER_FLOP * 1e-12 * np.asarray(rates.peak_16bit_flop_per_s)
    )
    # Where nobody states a limit, nothing is known beyond 16 bits.
    unbound = np.maximum(np.where(np.isnan(at_limit), in_16, at_limit), in_16)
    by_power = np.where(in_16 < CEILING, in_16, unbound)
    joules = np.where(
        np.greater(multiply_bits, 9),
        1.0,
        np.where(np.greater(multiply_bits, 5), 2.0 * EIGHT_BITS, 4.0 * FOUR_BITS),
    )
    return np.minimum(np.maximum(in_16, CEILING), by_power / joules)
