"""Traffic of the operators of a pass: between array and on-chip memory, and off chip.

The array streams its operands from on-chip memory once per array tile, as its dataflow says. How
often the off-chip memories have to supply what is not resident is a matter of blocking: with the
best tiles for the on-chip memory, or anew for every tile of the array.
"""

from __future__ import annotations

import numpy as np

from codesign.base.columns import FloatArray, IntArray
from codesign.models.hardware.array import DATAFLOWS, ORGANIZATIONS
from codesign.models.hardware.formula_operations import (
    inverse,
    larger,
    place_by_place,
    rounded_up,
    smaller,
    square_root,
    sums,
    where,
)
from codesign.models.machines.npu.placement import Levels, Three, Two, own_parts
from codesign.models.machines.npu.stage_records import (
    Moved,
    PlacedDesign,
    Shape,
    StageOperator,
    VectorOperands,
)

SCORE_BYTES = 2.0
"""A score between array and vector unit: 16 bits, as FlashAttention keeps the operand of PV."""
ACCUMULATOR_BYTES = 4.0
"""A partial sum: int32 or float32, as usual for 8- and 16-bit products."""
TILE_SHARE = 0.5
"""Rows or columns of a streamed tile, as a share of BLEN: half, for double buffering [fit]."""
_WS, _IS, _OS = (DATAFLOWS.index(name) for name in ("ws", "is", "os"))
_SYSTOLIC = ORGANIZATIONS.index("systolic")


def array_passes(
    m: FloatArray,
    k: FloatArray,
    n: FloatArray,
    depth: FloatArray,
    width: FloatArray,
    dataflow: IntArray,
    organization: IntArray,
    slots: FloatArray,
) -> Three:
    """Times that the array streams the stationary operand, the inputs, and partial sums again.

    A weight-stationary array keeps (depth x width) weights while all rows stream past;
    an input-stationary one the same of the inputs; both hand partial sums of the other
    ``ceil(k/depth) - 1`` inner blocks back. An output-stationary array keeps the sums of a
    (width x width) block, a systolic grid those of (depth x width). Columns side by side in
    the depth make a tile ``slots`` times as wide.

    Args:
        m: (n, o) rows of a product, of all query heads that share its keys in attention.
        k: (o,) inner size.
        n: (o,) columns.
        depth: (n, 1) MLEN.
        width: (n, 1) BLEN.
        dataflow: (n, 1) positions in ``DATAFLOWS``.
        organization: (n, 1) positions in ``ORGANIZATIONS``.
        slots: (n, o) columns side by side in the depth.
    """
    spills = _one_at_least(k / depth) - 1.0
    has_rows_in_depth = (organization == _SYSTOLIC) & (dataflow == _OS)
    row_tiles = _one_at_least(m / np.where(has_rows_in_depth, depth, width))
    return (
        np.where(dataflow == _WS, 1.0, row_tiles),
        np.where(dataflow == _IS, 1.0, _one_at_least(n / (slots * width))),
        np.where(dataflow == _OS, 0.0, spills),
    )


def array_streams(
    operator: StageOperator, shape: Shape, placed: PlacedDesign, weight_bytes: FloatArray
) -> Two:
    """Bytes that the array reads from on-chip memory and writes to it, partial sums included."""
    design = placed.design
    batch = placed.batch_size
    score_bytes = SCORE_BYTES * design.scores_on_chip
    kept_port_kv = operator.port_kv * design.kv_bytes + operator.state_read
    kept_port_kv = kept_port_kv + operator.port_activations * design.activation_bytes
    stationary = shape.weights_read * weight_bytes + kept_port_kv * batch
    streamed = operator.inputs * design.activation_bytes + operator.scores_in * score_bytes
    outputs = (operator.outputs + operator.port_outputs) * design.activation_bytes
    written = operator.port_kv_written * design.kv_bytes + operator.scores_out * score_bytes
    elements = operator.outputs + operator.port_outputs + operator.port_kv_written
    sums = elements * (batch * ACCUMULATOR_BYTES) * shape.near_spills
    written = written + operator.port_state_written
    return (
        stationary * shape.near_stationary + streamed * batch * shape.near_inputs + sums,
        (outputs + written) * batch + sums,
    )


def vector_streams(operands: VectorOperands, placed: PlacedDesign) -> Two:
    """Bytes that the vector unit reads from on-chip memory in a pass and writes to it."""
    design = placed.design
    requests = placed.batch_size * design.scores_on_chip
    scores = operands.scores * SCORE_BYTES
    return (
        (operands.reads * design.activation_bytes + scores) * requests,
        (operands.writes * design.activation_bytes + scores) * requests,
    )


def stationary_operand_bytes(
    operator: StageOperator, shape: Shape, placed: PlacedDesign, weight_bytes: FloatArray
) -> FloatArray:
    """Weights, and cached keys, values and states of all requests, each once."""
    kept_kv_read = operator.kv_read * placed.design.kv_bytes + operator.state_read
    return shape.weights_read * weight_bytes + kept_kv_read * placed.batch_size


def blocked_passes(
    m: FloatArray,
    n: FloatArray,
    stationary_bytes: FloatArray,
    input_bytes: FloatArray,
    buffer_bytes: FloatArray,
    dataflow: IntArray,
) -> Two:
    """Times that the stationary operand and the inputs come from off chip with the largest tiles.

    The stationary operand is cut into blocks of the buffer's size and the other is streamed
    once per block; outputs are cut into square blocks of partial sums. If either operand fits
    whole, both are read once.

    Args:
        m: (n, o) rows of a product.
        n: (o,) columns.
        stationary_bytes: (n, o) weights, or keys or values, of a product.
        input_bytes: (n, o) activations that a product reads.
        buffer_bytes: (n, 1) room for tiles.
        dataflow: (n, 1) positions in ``DATAFLOWS``.
    """
    room = buffer_bytes / ACCUMULATOR_BYTES
    per_byte = inverse(buffer_bytes)
    per_row = inverse(square_root(room))
    by_stationary = _one_at_least(stationary_bytes * per_byte)
    by_inputs = _one_at_least(input_bytes * per_byte)
    fits = smaller(by_stationary, by_inputs) <= 1.0
    # A product narrower than the square tile leaves room for a longer one.
    tiles = m * n * inverse(room)
    row_blocks = _one_at_least(smaller(m * per_row, tiles))
    column_blocks = _one_at_least(smaller(n * per_row, tiles))
    is_os = dataflow == _OS
    return (
        where(fits | (dataflow == _WS), 1.0, where(is_os, row_blocks, by_inputs)),
        where(fits | (dataflow == _IS), 1.0, where(is_os, column_blocks, by_stationary)),
    )


def array_blocked_passes(
    operator: StageOperator, rows: FloatArray, width: FloatArray, dataflow: IntArray
) -> Two:
    """Number of times that weights and inputs come from off chip, streamed for every array tile.

    Keys and values come once.

    Args:
        rows: Rows of a product.
        width: BLEN.
        dataflow: Position in ``DATAFLOWS``.
    """
    tile = TILE_SHARE * width
    weights = where(dataflow == _WS, 1.0, larger(rows / tile, 1.0))
    inputs = where(dataflow == _IS, 1.0, larger(operator.n / tile, 1.0))
    return (
        where(operator.is_attention, 1.0, weights),
        where(operator.is_attention, 1.0, inputs),
    )


def _one_at_least(blocks: FloatArray) -> FloatArray:
    """Whole blocks; one at least, as an operator without rows reads its weights."""
    return larger(rounded_up(blocks), 1.0)


def read_off_chip_bytes(
    operand_bytes: FloatArray,
    passes: FloatArray,
    pinned_share: FloatArray,
    cache_bytes: FloatArray,
) -> FloatArray:
    """Bytes of weights or KV cache that an operator reads from off chip.

    On-chip memory either pins the same share of everything for good, or caches the operand at
    hand, which has to come once and is then re-read from on chip as far as it fits. The better
    of the two is taken.

    Args:
        passes: Times it is streamed.
        pinned_share: Share of all data of its kind that on-chip memory holds.
        cache_bytes: On-chip bytes for its kind.
    """
    by_pinning = operand_bytes * ((1.0 - pinned_share) * passes)
    beyond = operand_bytes - smaller(operand_bytes, cache_bytes)
    return smaller(by_pinning, operand_bytes + beyond * (passes - 1.0))


def port_bytes(
    moved: Moved, vector: Two, placed: PlacedDesign, is_staged: bool
) -> tuple[Levels, Levels]:
    """Bytes read and written at every level's port, on chip first.

    Staged, a byte owned by a level is read there, and written and read again at every level
    above it; a byte written passes the same way down.

    Args:
        moved: Bytes by kind.
        vector: Bytes that the vector unit reads and writes on chip.
        placed: Gives the share of each kind in each deeper tier and below.
        is_staged: Whether bytes pass from tier to tier.
    """
    of_activations = placed.activation_tails
    of_kv = placed.kv_tails
    of_weights = placed.weight_tails
    weights = moved.weight_reads
    kv = moved.kv_reads
    activations = moved.activation_reads
    deeper = _crossing(weights, of_weights, kv, of_kv, activations, of_activations)
    up = (weights + kv + activations, *deeper)
    kv = moved.kv_writes
    activations = moved.activation_writes
    down = (
        kv + activations,
        *_crossing(0.0 * kv, of_weights, kv, of_kv, activations, of_activations),
    )
    near_reads = moved.array_reads + down[0] + vector[0]
    near_writes = moved.array_writes + up[0] + vector[1]
    if is_staged:
        return (
            (near_reads, *sums(up[:-1], down[1:]), up[-1]),
            (near_writes, *sums(up[1:], down[:-1]), down[-1]),
        )
    return (near_reads, *own_parts(up)), (near_writes, *own_parts(down))


@place_by_place
def _crossing(
    weights: FloatArray,
    weight_tail: FloatArray,
    kv: FloatArray,
    kv_tail: FloatArray,
    activations: FloatArray,
    activation_tail: FloatArray,
) -> FloatArray:
    return weights * weight_tail + kv * kv_tail + activations * activation_tail
