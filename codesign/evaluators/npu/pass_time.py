"""How long a whole pass takes, how long at least, and which of two choices is better.

As in ``operator_stage.py``, the formulas work on NumPy arrays and compiled on single numbers.
"""

from __future__ import annotations

from codesign.columns import FloatArray
from codesign.evaluators.npu.records import DesignInputs, LeastWork, Modelling
from codesign.hardware.elementwise import inverse, larger, where

ROUNDING = 1.0 - 1e-9
"""Lower bounds add up in another order than times do; far more than that can change."""


def whole_pass_s(
    array_and_memory_s: FloatArray, vector_s: FloatArray, modelling: Modelling
) -> FloatArray:
    """Time of one pass: the vector unit works beside array and memories, or after them."""
    if modelling.is_vector_serial:
        return array_and_memory_s + vector_s
    return larger(array_and_memory_s, vector_s)


def score(
    requests: FloatArray, array_and_memory_s: FloatArray, pass_s: FloatArray, longest_s: float
) -> FloatArray:
    """The larger, the better: requests per second of array and memories, which alone tell choices
    apart; where a pass is too long, below zero by its time.

    Args:
        requests: In a pass.
        array_and_memory_s: Of the pass.
        pass_s: With the vector unit.
        longest_s: Longest pass allowed.
    """
    return where(pass_s <= longest_s, requests / array_and_memory_s, -pass_s)


def least_pass_s(inputs: DesignInputs, work: LeastWork, modelling: Modelling) -> FloatArray:
    """What array and memories need at least for a pass, batch size and order of the tiers given.

    Operators with shared weights and those with keys and values of each request follow each other.
    Both take the array for their cycles, the on-chip port for what they read and for what comes
    from off chip before, and the first tier for the latter (or, in parallel, all tiers together).
    The first chunk of a transfer, latencies, activations and what is deeper count as nothing.
    """
    cycle_s = inverse(inputs.clock_hz)
    shared_s, own_s = work.shared_cycles * cycle_s, work.own_cycles * cycle_s
    if modelling.blocks_for_capacity:
        kv, weights = inputs.sizes[1], inputs.sizes[2]
        held = inputs.on_chip_capacity_bytes
        loose_weights = larger(weights - held, 0.0) * inverse(weights)
        loose_kv = larger(kv - held, 0.0) * inverse(kv)
        bandwidth = inputs.tier_bandwidth_bytes_per_s
        rate = bandwidth[0] if modelling.is_staged else bandwidth[0] + bandwidth[1] + bandwidth[2]
        far_s = inverse(modelling.offchip_efficiency * inputs.matrix_share * rate)
        near_s = inverse(inputs.on_chip_bandwidth_bytes_per_s)
        weight_s = larger((1.0 + loose_weights) * near_s, loose_weights * far_s)
        kv_s = larger((1.0 + loose_kv) * near_s, loose_kv * far_s)
        shared_s = larger(shared_s, work.weight_elements * inputs.weight_bytes * weight_s)
        own_s = larger(own_s, work.kv_elements * inputs.kv_bytes * kv_s)
    return (shared_s + own_s) * ROUNDING
