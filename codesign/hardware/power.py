"""Power: what one multiply-accumulate, one vector lane and the memories draw.

Thermal design power is every unit at its peak at once: all MACs, all vector lanes, every memory
read at its full bandwidth (MemExplorer [MemExplorer]_ Eq. 6).

.. [Jouppi2021] Jouppi et al., "Ten Lessons From Three Generations Shaped Google's TPUv4i",
   ISCA 2021, Table 2: energy per operation at 7 nm.
"""

from __future__ import annotations

import numpy as np

from codesign.columns import FloatArray
from codesign.hardware.accelerator import AcceleratorBatch

MAC_ENERGY_JOULES = 0.722e-12
"""One 8-bit multiply-accumulate with its share of the array's registers and control, 7 nm.

Fitted to one number: the 300.09 W of Base (MemExplorer Table 5) less the 110.9 W of its
memories by Table 1, over 262,144 MACs at 1 GHz. With the vector unit on top, Base is 1.3 % high,
and the published TDPs of H1, H2, H3, P1 and P2 follow within 2.3 %; those of D1 and D2, whose
arrays are a half and a quarter of Base's, come out 28 % and 11 % high."""

VECTOR_LANE_ENERGY_JOULES = 0.32e-12
"""One operation of one vector lane: a bfloat16 multiply (0.21 pJ) and add (0.11 pJ) at 7 nm,
[Jouppi2021]_ Table 2. 3.9 W for 2048 lanes of six stages at 1 GHz."""

OPERATIONS_PER_LANE = 6.0
"""Operations that a lane of the vector unit does at once: it is a pipeline with a stage for each
operation of a softmax (scale, maximum, subtract, exponential, sum, divide), as the units of
FlashAttention-4 and of dedicated softmax hardware are [ours]. It takes in one score per cycle; any
other work uses one stage. Their energies are taken to be equal."""

_REFERENCE_BITS = 8.0
"""Bits of the operands for which ``MAC_ENERGY_JOULES`` holds."""


def mac_energy_joules(first_bits: FloatArray, second_bits: FloatArray) -> FloatArray:
    """Energy of a multiply-accumulate of two widths.

    Limiting assumption: the multiplier dominates and grows with the product of the widths
    ([Jouppi2021]_ Table 2: int8 0.07 pJ, float16 0.34 pJ, a factor of 4.9 for 4).
    """
    return np.asarray(MAC_ENERGY_JOULES * first_bits * second_bits / _REFERENCE_BITS**2)


def thermal_design_watts(
    accelerators: AcceleratorBatch, first_bits: FloatArray, second_bits: FloatArray
) -> dict[str, FloatArray]:
    """(n,) TDP by component: ``array``, ``vector``, ``on_chip``, ``tier1`` and so on.

    Args:
        accelerators: The designs.
        first_bits: (n,) width of the array's one operand.
        second_bits: (n,) width of the other.
    """
    levels = accelerators.levels
    clock = accelerators.clock_hz
    memory = levels.background_watts + levels.peak_read_watts
    array = accelerators.macs_per_cycle * clock * mac_energy_joules(first_bits, second_bits)
    lane_watts = clock * OPERATIONS_PER_LANE * VECTOR_LANE_ENERGY_JOULES
    vector = accelerators.vector_length * lane_watts
    # Of a stated TDP the array has what vector unit and memories leave.
    stated = accelerators.stated_tdp_watts
    left = np.maximum(stated - vector - memory.sum(axis=0), 0.0)
    parts = {
        "array": np.where(stated > 0, left, array),
        "vector": vector,
        "on_chip": memory[0],
    }
    return parts | {f"tier{i}": memory[i] for i in range(1, len(memory))}
