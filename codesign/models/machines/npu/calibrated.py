"""Traffic and time of one operator, as MemExplorer's printed tables have it.

The blocking ``array`` of profile ``memexplorer``: a calibration and not physics. Of the readings
of the paper that were tried, the one that comes closest to the 14 printed ratios of its Tables 4
to 6 [MemExplorer]_; ``python -m validation memexplorer`` shows every residual, all in-sample.

*Prefill.* Every projection streams its operands anew for every tile of the array, from the fastest
tier, whose usable bandwidth the design's bandwidth priority divides between weights and
activations. Without a weight-stationary dataflow, weights come once per tile of ``BLEN/2`` rows;
without an input-stationary one, inputs come once per tile of ``BLEN/2`` columns; weight
stationary, partial sums go off chip and back once per inner block. On-chip memory holds the
inputs of one operator and a share of all weights, and no keys or values. Attention moves nothing
off chip.

*Decode.* Weights and KV cache come once per step from all tiers side by side, and the array works
only before or after. Their elements take one bit more than in memory.

Like those of ``operator_stage.py``, the functions here work on NumPy arrays and compiled on single
numbers.
"""

from __future__ import annotations

import numpy as np

from codesign.base.columns import BoolArray, FloatArray, IntArray
from codesign.models.hardware.array import DATAFLOWS
from codesign.models.hardware.formula_operations import inverse, larger, smaller, where
from codesign.models.machines.npu.placement import PRIORITIES, tier_shares
from codesign.models.machines.npu.stage_records import (
    Modelling,
    Moved,
    PassTimes,
    PlacedDesign,
    Shape,
    StageOperator,
)
from codesign.models.machines.npu.traffic import array_streams
from codesign.models.workload.operators import OperatorTable

_WS, _IS = DATAFLOWS.index("ws"), DATAFLOWS.index("is")
_ACTIVATION, _WEIGHT, _EQUAL = (
    PRIORITIES.index(name) for name in ("activation", "weight", "equal")
)

TILE_SHARE = 0.5
"""Rows, or columns, of a streamed tile over BLEN: half, for double buffering [fitted]."""
SCALE_BYTES = 1.0 / 8.0
"""Bytes of a shared scale per element on its way from memory: one bit [fitted]."""
EVEN_SHARE = 1.0 / 3.0
"""On-chip memory for activations, and for weights, under the storage priority ``equal``."""


def calibrated_cycles(
    table: OperatorTable, m: FloatArray, depth: FloatArray, width: FloatArray, is_prefill: bool
) -> FloatArray:
    """(u, o) cycles of one product on a flattened array.

    A projection streams its weights once per tile of rows, and a decode its keys and values too.
    In a prefill, the heads of a group share the array's depth and leave the rest of it idle, and
    values narrower than ``BLEN`` are padded.

    Args:
        m: (u, o) rows of each product, of all query heads.
        depth: (u, 1) MLEN.
        width: (u, 1) BLEN.
        is_prefill: Whether this is the pass of a prefill.
    """
    streamed = np.ceil(m / width) * table.k * table.n / depth
    if not is_prefill:
        return np.asarray(streamed)
    heads = np.maximum(table.m_per_request / table.tokens_per_request, 1.0)
    ideal = m * table.k * table.n / (depth * width)
    idle = np.maximum(1.0, depth / np.maximum(table.k, 1.0) / heads)
    padding = np.maximum(1.0, width / np.maximum(table.n, 1.0))
    return np.select(
        [table.is_kind("attention_qk"), table.is_kind("attention_pv"), table.is_attention],
        [ideal * idle, ideal * padding, ideal],
        streamed,
    )


def calibrated_cost(
    operator: StageOperator,
    shape: Shape,
    placed: PlacedDesign,
    weight_bytes: FloatArray,
    modelling: Modelling,
) -> tuple[Moved, PassTimes]:
    """Traffic and times of one instance of an operator."""
    if modelling.is_series:
        moved = _decode_bytes(operator, shape, placed, weight_bytes)
    else:
        design = placed.design
        near_reads, near_writes = array_streams(operator, shape, placed, weight_bytes)
        is_ws, is_is = design.dataflow == _WS, design.dataflow == _IS
        tile = TILE_SHARE * design.width
        passes = weight_passes(shape.rows, design.width, design.dataflow)
        input_passes = where(is_is, 1.0, larger(1.0, operator.n / tile))
        spills = where(is_ws, larger(0.0, operator.k / design.depth - 1.0), 0.0)
        capacity, storage = design.on_chip_capacity_bytes, design.storage
        even = where(storage == _EQUAL, EVEN_SHARE * capacity, 0.0)
        held_activations, held_weights = (
            where(storage == _ACTIVATION, capacity, even),
            where(storage == _WEIGHT, capacity, even),
        )
        rows_bytes = shape.rows / shape.per_product * design.activation_bytes
        input_bytes = rows_bytes * operator.k
        loose = 1.0 - smaller(1.0, held_activations * inverse(input_bytes))
        # Only projections stream: attention and elementwise operators stay on chip.
        streams = where(operator.has_rows, 1.0, 0.0) * where(operator.is_attention, 0.0, 1.0)
        output_bytes = rows_bytes * operator.n * loose * streams
        streamed = shape.weights_read * weight_bytes * passes
        # A table that is looked up in has no rows; what is read of it still comes.
        pinned = 1.0 - smaller(1.0, held_weights * inverse(design.all_weight_bytes))
        nothing = 0.0 * streamed * pinned
        moved = Moved(
            array_reads=near_reads,
            array_writes=near_writes,
            weight_reads=where(operator.has_rows, streamed * pinned, nothing),
            kv_reads=nothing,
            kv_writes=nothing,
            activation_reads=input_bytes * input_passes * loose * streams + output_bytes * spills,
            activation_writes=output_bytes * (1.0 + spills),
        )
    return moved, _times(shape, placed, moved, modelling)


def known_tiers(tiers: FloatArray, modelling: Modelling) -> FloatArray:
    """(t, n) capacity or bandwidth of the tiers, as far as they count.

    Calibrated, a prefill knows the fastest tier alone.

    Args:
        tiers: (t, n), the fastest first.
    """
    if not modelling.is_calibrated or modelling.is_series:
        return tiers
    return np.asarray(tiers * (np.arange(len(tiers)) == 0)[:, None])


def scale_bytes(modelling: Modelling) -> float:
    """Bytes of scale that an element adds on its way from memory in a calibrated decode."""
    return SCALE_BYTES if modelling.is_series else 0.0


def shared_evenly(share: float, modelling: Modelling) -> float:
    """Share of the bandwidth that weights and KV cache have of an even one.

    Calibrated, nothing else asks for it in a decode.
    """
    return 1.0 if modelling.is_series else share


def off_chip_passes(
    rows: FloatArray,
    has_rows: BoolArray,
    width: FloatArray,
    dataflow: IntArray,
    modelling: Modelling,
) -> tuple[FloatArray, float]:
    """Least number of times that weights, and keys and values, come from off chip.

    Once; calibrated, those of a prefill come as often as they stream, and attention moves nothing.

    Args:
        rows: Rows of a product.
        has_rows: Whether it is a product at all.
        width: BLEN.
        dataflow: Position in ``DATAFLOWS``.
    """
    if not modelling.is_calibrated or modelling.is_series:
        return np.ones((1, 1)), 1.0
    return np.where(has_rows, weight_passes(rows, width, dataflow), 0.0), 0.0


def weight_passes(rows: FloatArray, width: FloatArray, dataflow: IntArray) -> FloatArray:
    """Number of times that a prefill streams its weights: once for every tile of rows.

    Args:
        rows: Rows of a product.
        width: BLEN.
        dataflow: Position in ``DATAFLOWS``.
    """
    return where(dataflow == _WS, 1.0, larger(1.0, rows / (TILE_SHARE * width)))


def _decode_bytes(
    operator: StageOperator, shape: Shape, placed: PlacedDesign, weight_bytes: FloatArray
) -> Moved:
    batch = placed.batch_size
    near_reads, near_writes = array_streams(operator, shape, placed, weight_bytes)
    weights = shape.weights_read * (weight_bytes + SCALE_BYTES)
    kv_element = batch * (placed.design.kv_bytes + SCALE_BYTES)
    loose_kv = 1.0 - placed.pinned[1]
    nothing = 0.0 * weights * loose_kv
    return Moved(
        array_reads=near_reads,
        array_writes=near_writes,
        weight_reads=weights * (1.0 - placed.pinned[2]),
        kv_reads=(operator.kv_read * kv_element + operator.state_read * batch) * loose_kv,
        kv_writes=(operator.kv_written * kv_element + operator.state_written * batch) * loose_kv,
        activation_reads=nothing,
        activation_writes=nothing,
    )


def _times(shape: Shape, placed: PlacedDesign, moved: Moved, modelling: Modelling) -> PassTimes:
    design = placed.design
    compute = shape.cycles * placed.cycle_s
    matrix = moved.weight_reads + moved.kv_reads + moved.kv_writes
    vector = moved.activation_reads + moved.activation_writes
    on_chip = moved.array_reads + moved.array_writes + matrix + vector
    on_chip_s = on_chip * placed.on_chip_byte_s
    usable = modelling.offchip_efficiency
    if modelling.is_series:
        bandwidth = placed.design.tier_bandwidth_bytes_per_s
        shares = tier_shares(placed.weight_tails)
        longest = shares[0] * inverse(bandwidth[0])
        for tier in range(1, len(shares)):
            longest = larger(longest, shares[tier] * inverse(bandwidth[tier]))
        transfer = matrix * longest * inverse(usable * design.matrix_share)
    else:
        fastest = usable * design.tier_bandwidth_bytes_per_s[0]
        # Without shares of their own, both have all of it in turn.
        vector_share = where(design.is_shared, 1.0, 1.0 - design.matrix_share)
        transfer = matrix * inverse(fastest * design.matrix_share)
        transfer = transfer + vector * inverse(fastest * vector_share)
    time_s = busiest_s(compute, on_chip_s, transfer, modelling)
    return PassTimes(compute, on_chip_s, transfer, time_s)


def busiest_s(
    compute_s: FloatArray, on_chip_s: FloatArray, off_chip_s: FloatArray, modelling: Modelling
) -> FloatArray:
    """Time of array and memories, which work side by side, or the array before or after."""
    if modelling.is_series:
        return larger(compute_s + off_chip_s, on_chip_s)
    return larger(larger(compute_s, on_chip_s), off_chip_s)
