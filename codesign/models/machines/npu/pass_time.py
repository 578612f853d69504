"""Time of a whole pass, its lower bound, and the better of two choices.

As in ``operator_stage.py``, the formulas work on NumPy arrays and compiled on single numbers.
"""

from __future__ import annotations

from codesign.base.columns import FloatArray, Floats
from codesign.models.hardware.formula_operations import inverse, larger, sum_of, where
from codesign.models.machines.npu.operator_stage import pinned_shares
from codesign.models.machines.npu.placement import Levels, Three, Tiers, Two
from codesign.models.machines.npu.stage_records import LeastWork, Modelling, StageDesign

ROUNDING = 1.0 - 1e-9
"""Lower bounds add up in another order than times do; far more than that can change."""

LEAST_GAIN = 1e-3
"""Relative gain for which an order of the tiers is tried that only latencies may favour [ours]: far
less than inputs are known."""


def whole_pass_s(
    array_and_memory_s: FloatArray, vector_s: FloatArray, modelling: Modelling
) -> FloatArray:
    """Time of one pass: the vector unit works beside array and memories, or after them."""
    if modelling.is_vector_serial:
        return array_and_memory_s + vector_s
    return larger(array_and_memory_s, vector_s)


def port_limited_s(
    reads: FloatArray,
    writes: FloatArray,
    vector: Two,
    byte_s: FloatArray,
    modelling: Modelling,
) -> FloatArray:
    """Least time of array and memories: all bytes of a pass cross the on-chip port.

    Args:
        reads: Bytes read at the on-chip port.
        writes: Bytes written there.
        vector: The vector unit's part of both, which a serial vector unit moves afterwards.
        byte_s: Seconds per byte of the port.
    """
    later = vector[0] + vector[1] if modelling.is_vector_serial else 0.0 * byte_s
    return (reads + writes - later) * byte_s


def power_limited_s(
    reads: Levels | FloatArray,
    writes: Levels | FloatArray,
    bandwidth_bytes_per_s: Levels | FloatArray,
    write_energy_ratio: Levels | FloatArray,
) -> FloatArray:
    """Least time of a pass in which no memory draws more than its TDP counts, on average.

    Arguments are tuples, or arrays with the level first.

    Args:
        reads: Bytes read in the pass at the port of each level.
        writes: Bytes written.
        bandwidth_bytes_per_s: Peak of each port.
        write_energy_ratio: Energy of a byte written over that of one read.
    """
    least_s = 0.0 * reads[0]
    for i in range(len(reads)):
        of_level = level_at_power_limit_s(
            reads[i], writes[i], bandwidth_bytes_per_s[i], write_energy_ratio[i]
        )
        least_s = larger(least_s, of_level)
    return least_s


def level_at_power_limit_s(
    reads: FloatArray, writes: FloatArray, bandwidth: FloatArray, ratio: FloatArray
) -> FloatArray:
    """:func:`power_limited_s` of one level; 0 where a byte written is no dearer than one read.

    A TDP counts reading at the peak bandwidth (MemExplorer Eq. 6). A byte written takes the energy
    of ``ratio`` bytes read, so a memory that is mostly written has to wait [ours].
    """
    return where(ratio > 1.0, (reads + writes * ratio) * inverse(bandwidth), 0.0)


def score(
    requests: FloatArray, busy_s: FloatArray, pass_s: FloatArray, longest_s: float
) -> FloatArray:
    """The larger, the better: requests per second of array, memories and links, which alone tell
    choices apart; where a pass is too long, below zero by its time.

    Args:
        requests: Requests in a pass.
        busy_s: Seconds of array and memories, and of messages between devices.
        pass_s: Seconds of the pass, with the vector unit.
        longest_s: Longest pass allowed.
    """
    return where(pass_s <= longest_s, requests / busy_s, -pass_s)


def least_pass_s(
    design: StageDesign, sizes: Three, work: LeastWork, modelling: Modelling
) -> FloatArray:
    """Least time of array and memories for a pass with a batch size and an order of tiers.

    Operators with shared weights and those with keys and values of each request follow each other.
    Both take the array for their cycles and a first tile, the on-chip port for what they read and
    for what comes from off chip before, and the first tier for the latter (or, in parallel, all
    tiers together). Activations and what is deeper count as nothing.

    Args:
        sizes: Bytes of each kind of data.
    """
    cycle_s = inverse(design.clock_hz)
    pinned = _most_pinned(design, sizes)
    shared_s = _least_s(
        design,
        modelling,
        work.shared_cycles * cycle_s,
        1.0 - pinned[2],
        (work.weight_operators, work.weight_tiles * design.weight_bytes),
        work.weight_elements * design.weight_bytes,
    )
    own_s = _least_s(
        design,
        modelling,
        work.own_cycles * cycle_s,
        1.0 - pinned[1],
        (work.kv_operators, work.kv_tiles * design.kv_bytes),
        work.kv_elements * design.kv_bytes,
    )
    return (shared_s + own_s) * ROUNDING


def _most_pinned(design: StageDesign, sizes: Three) -> Three:
    """Each kind with all of the room for data."""
    room = design.data_capacity_bytes
    return pinned_shares((room, room, room), sizes)


def _least_s(
    design: StageDesign,
    modelling: Modelling,
    compute_s: FloatArray,
    loose: FloatArray,
    first: Two,
    moved: FloatArray,
) -> FloatArray:
    """The operators that read one kind of data.

    Args:
        compute_s: Of the operators.
        loose: Part of the kind that is off chip, at least.
        first: How many operators wait for a first tile, and the bytes of these tiles.
        moved: Bytes that they read.
    """
    bandwidth = design.tier_bandwidth_bytes_per_s
    near_s = inverse(design.on_chip_bandwidth_bytes_per_s)
    far_s = fastest_byte_s(bandwidth, design.matrix_share, modelling)
    first_s = fastest_byte_s(bandwidth, 1.0, modelling)
    waits = where(loose > 0, design.tier_latency_s[0], 0.0) if modelling.is_staged else 0.0 * loose
    operators, tiles = first
    exposed_s = operators * waits + tiles * (near_s + loose * first_s)
    on_chip_s = moved * (1.0 + loose) * near_s
    off_chip_s = operators * waits + moved * loose * far_s
    return larger(compute_s + exposed_s, larger(on_chip_s, off_chip_s))


def fastest_byte_s(bandwidth: Tiers, share: Floats, modelling: Modelling) -> FloatArray:
    """Seconds that a byte of the matrix stream takes at least.

    Args:
        bandwidth: Of the tiers, the fastest first.
        share: Of the matrix stream.
    """
    together = sum_of(bandwidth)
    rate = bandwidth[0] if modelling.is_staged else together
    return inverse(modelling.offchip_efficiency * share * rate)


def least_in_any_order_s(
    design: StageDesign, sizes: Three, work: LeastWork, byte_s: FloatArray
) -> FloatArray:
    """No more than :func:`least_pass_s` of any order of the tiers, and quicker to work out.

    Args:
        sizes: Bytes of each kind of data.
        work: Of the batch size.
        byte_s: :func:`fastest_byte_s`.
    """
    pinned = _most_pinned(design, sizes)
    cycle_s = inverse(design.clock_hz)
    weights_s = work.weight_elements * design.weight_bytes * (1.0 - pinned[2]) * byte_s
    kv_s = work.kv_elements * design.kv_bytes * (1.0 - pinned[1]) * byte_s
    own_s = work.own_cycles * cycle_s
    return (larger(work.shared_cycles * cycle_s, weights_s) + larger(own_s, kv_s)) * ROUNDING
