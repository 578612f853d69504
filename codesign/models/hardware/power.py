"""Power: what one multiply-accumulate, one vector lane and the memories draw.

Thermal design power is every unit at its peak at once: all MACs, all vector lanes, every memory
read at its full bandwidth (MemExplorer [MemExplorer]_ Eq. 6).

What an operation takes is a constant with a range, like those of what designs cost: see
``codesign/models/accounts/constants.yaml``.

.. [Jouppi2021] Jouppi et al., "Ten Lessons From Three Generations Shaped Google's TPUv4i",
   ISCA 2021, Table 2: energy per operation at 7 nm.
"""

from __future__ import annotations

import numpy as np

from codesign.base.columns import Arrays, FloatArray, Floats
from codesign.base.records import frozen
from codesign.models.hardware.accelerator import DEFAULT_CLOCK_HZ, AcceleratorBatch

OPERATIONS_PER_LANE = 6.0
"""Operations that a lane of the vector unit does at once. It is a pipeline with a stage for each
operation of a softmax (scale, maximum, subtract, exponential, sum, divide). So are the units of
FlashAttention-4 and of dedicated softmax hardware [ours]. It takes in one score per cycle; any
other work uses one stage. Their energies are taken to be equal."""

_REFERENCE_BITS = 8.0
"""Bits of the operands for which ``OperationEnergies.mac_joules`` holds."""


@frozen
class OperationEnergies:
    """Energies of operations, the same for all designs that are compared.

    Attributes:
        mac_joules: One 8-bit multiply-accumulate with its share of the array's registers and
            control.
        lane_joules: One operation of one lane of the vector unit.
        score_buffer_joules_per_byte: A byte read from the buffer for scores, or written to it.
        voltage_exponent: Relative change of the supply voltage for one of the clock.
    """

    mac_joules: float
    lane_joules: float
    score_buffer_joules_per_byte: float
    voltage_exponent: float = 0.0

    def clock_scale(self, clock_hz: FloatArray) -> FloatArray:
        """Energy of an operation at a clock over that at 1 GHz: as the square of the voltage."""
        return (clock_hz / DEFAULT_CLOCK_HZ) ** (2.0 * self.voltage_exponent)


BOARD_IDLE_SHARE = 0.19
"""Power of a board at rest over its limit: leakage, clocks, memory interfaces, fans. A TPU v2 takes
53 of 280 W and a TPU v3 84 of 450 W ([Jouppi2021]_ Table 1) [unchecked]. Range 0.11, an H200 with
80 of 700 W (serialalice.pt, 2026, secondary), to 0.31, a TPU v4i with 55 of 175 W."""
MOVEMENT_JOULES_PER_BYTE = 80e-12
"""Energy of moving a byte over the die from the memory's interface to the operands' registers,
which energies of memories and arrays omit. 4.0 pJ/bit from second to first cache and 6.0 to
registers, measured on a K40 (Arunkumar et al., HPCA 2019, Table 1) [unchecked]; range 40 to 100 pJ
[ours]."""
REGULATOR_EFFICIENCY = 0.88
"""Power of chip and memories over that of the board's input [ours]: two steps of 94 %, from 48 to
12 V and to the core; range 0.85 to 0.92."""


def board_joules_per_token(metrics: Arrays) -> FloatArray:
    """(n,) energy per token at the input of a board, as devices state it.

    Limiting assumption: clocks and schedulers of cores take no more at work than at rest, of which
    refresh of memories is counted in both energies. No power limit caps a board: with regulators,
    it may draw more than the TDP of chip and memories.

    Args:
        metrics: Metrics of designs; their energy covers only chip and memories.
    """
    moved = MOVEMENT_JOULES_PER_BYTE * metrics["offchip_bytes_per_token"]
    switched = (metrics["energy_joules_per_token"] + moved) / REGULATOR_EFFICIENCY
    return switched + BOARD_IDLE_SHARE * metrics["tdp_watts"] / metrics["throughput_tokens_per_s"]


SCORE_BUFFER_BYTES_PER_LANE = 8.0
"""Bytes through the buffer for scores for each score, once for each lane and cycle: 16 bits written
and read on both sides of the vector unit."""


def mac_energy_joules(
    first_bits: FloatArray, second_bits: FloatArray, energies: OperationEnergies
) -> FloatArray:
    """Energy of a multiply-accumulate of two widths.

    Limiting assumption: the multiplier dominates and grows with the product of the widths
    ([Jouppi2021]_ Table 2: int8 0.07 pJ, float16 0.34 pJ, a factor of 4.9 for 4). Whole boards
    save less with narrower formats, as most of their energy is in moving operands.
    """
    return energies.mac_joules * first_bits * second_bits / _REFERENCE_BITS**2


def thermal_design_watts(
    accelerators: AcceleratorBatch,
    first_bits: FloatArray,
    second_bits: FloatArray,
    energies: OperationEnergies,
    filled_rows: Floats = 1.0,
) -> Arrays:
    """(n,) TDP by component: ``array``, ``vector``, ``on_chip``, ``tier1`` and so on.

    The vector unit has the buffer for scores. Rows of the array without data draw no power.

    Args:
        filled_rows: Share of the array's rows that hold data at most.
        first_bits: (n,) width of the array's one operand.
        second_bits: (n,) width of the other.
        energies: Of an operation.
    """
    levels = accelerators.levels
    clock = accelerators.clock_hz * energies.clock_scale(accelerators.clock_hz)
    memory = levels.background_watts + levels.peak_read_watts
    mac_joules = mac_energy_joules(first_bits, second_bits, energies)
    array = accelerators.macs_per_cycle * clock * mac_joules * filled_rows
    buffer_joules = SCORE_BUFFER_BYTES_PER_LANE * energies.score_buffer_joules_per_byte
    lane_watts = clock * (
        OPERATIONS_PER_LANE * energies.lane_joules + accelerators.scores_are_local * buffer_joules
    )
    vector = accelerators.vector_length * lane_watts + accelerators.score_buffer_watts
    # Of a stated TDP the array has what vector unit and memories leave.
    stated = accelerators.stated_tdp_watts
    return {
        "array": np.where(stated > 0, np.maximum(stated - vector - memory.sum(axis=0), 0.0), array),
        "vector": vector,
        "on_chip": memory[0],
    } | {f"tier{i}": memory[i] for i in range(1, len(memory))}
