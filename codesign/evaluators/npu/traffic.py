"""What the operators of a pass move: between array and on-chip memory, and off chip.

Two rules of on-chip blocking are modelled (see ``options.py``). In both the array streams its
operands from on-chip memory once per array tile, as its dataflow says; they differ in how often
the off-chip memories have to supply what is not resident.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from codesign.columns import FloatArray, IntArray
from codesign.evaluators.npu.options import ACCUMULATOR_BYTES, ARRAY_TILE_SHARE, TILE_BUFFER_SHARE
from codesign.hardware.array import DATAFLOWS, ORGANIZATIONS
from codesign.hardware.elementwise import larger, smaller, square_root, where, whole_blocks

_WS, _IS, _OS = (DATAFLOWS.index(name) for name in ("ws", "is", "os"))
_SYSTOLIC = ORGANIZATIONS.index("systolic")


class Passes(NamedTuple):
    """How often each operand of a product is streamed; (n, o).

    Attributes:
        stationary: Times the weights or keys and values are read.
        inputs: Times the input activations are read.
        spills: Times the partial sums are written and read again.
    """

    stationary: FloatArray
    inputs: FloatArray
    spills: FloatArray


def array_passes(
    m: FloatArray,
    k: FloatArray,
    n: FloatArray,
    depth: FloatArray,
    width: FloatArray,
    dataflow: IntArray,
    organization: IntArray,
    slots: FloatArray,
) -> Passes:
    """What the array streams from on-chip memory, tile by tile.

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
    spills = _blocks(k, depth) - 1.0
    has_rows_in_depth = (organization == _SYSTOLIC) & (dataflow == _OS)
    row_tiles = _blocks(m, np.where(has_rows_in_depth, depth, width))
    return Passes(
        stationary=np.where(dataflow == _WS, 1.0, row_tiles),
        inputs=np.where(dataflow == _IS, 1.0, _blocks(n, slots * width)),
        spills=np.where(dataflow == _OS, 0.0, spills),
    )


def streamed_passes(
    m: FloatArray, k: FloatArray, depth: FloatArray, width: FloatArray, dataflow: IntArray
) -> Passes:
    """Off-chip streams of PLENA's execution, as far as MemExplorer's Table 4 shows it [calibrated].

    OS and IS read the weights anew for every tile of rows and the inputs once (a tile's rows
    stay on chip while the columns go by); WS reads weights and inputs once and spills the
    partial sums of every inner block, rounded to the width of activations. Arguments as in
    :func:`array_passes`, but ``m`` is the rows of one query head.
    """
    is_ws = dataflow == _WS
    row_tiles = _blocks(m, ARRAY_TILE_SHARE * width)
    spills = _blocks(k, depth) - 1.0
    return Passes(
        stationary=np.where(is_ws, 1.0, row_tiles),
        inputs=np.ones_like(row_tiles),
        spills=np.where(is_ws, spills, 0.0),
    )


def blocked_passes(
    m: FloatArray,
    n: FloatArray,
    stationary_bytes: FloatArray,
    input_bytes: FloatArray,
    on_chip_bytes: FloatArray,
    dataflow: IntArray,
) -> Passes:
    """Off-chip streams with the largest tiles that the on-chip memory holds.

    The stationary operand is cut into blocks of the buffer's size and the other is streamed
    once per block; outputs are cut into square blocks of partial sums. If either operand fits
    whole, both are read once.

    Args:
        m: (n, o) rows of a product.
        n: (o,) columns.
        stationary_bytes: (n, o) weights, or keys or values, of a product.
        input_bytes: (n, o) activations that a product reads.
        on_chip_bytes: (n, 1) on-chip capacity.
        dataflow: (n, 1) positions in ``DATAFLOWS``.
    """
    buffer = larger(TILE_BUFFER_SHARE * on_chip_bytes, 1.0)
    by_stationary = _blocks(stationary_bytes, buffer)
    by_inputs = _blocks(input_bytes, buffer)
    fits = smaller(by_stationary, by_inputs) <= 1.0
    sums = buffer / ACCUMULATOR_BYTES
    side = square_root(sums)
    # A product narrower than the square block leaves room for a longer one.
    row_blocks = _blocks(m, larger(side, sums / larger(n, 1.0)))
    column_blocks = _blocks(n, larger(side, sums / larger(m, 1.0)))
    is_os = dataflow == _OS
    re_read = where(is_os, row_blocks, by_inputs)
    re_read_inputs = where(is_os, column_blocks, by_stationary)
    return Passes(
        stationary=where(fits | (dataflow == _WS), 1.0, re_read),
        inputs=where(fits | (dataflow == _IS), 1.0, re_read_inputs),
        spills=0.0 * buffer,
    )


def _blocks(size: FloatArray, block: FloatArray) -> FloatArray:
    """Blocks that cover a size; one at least, as an operator without rows reads its weights."""
    return larger(whole_blocks(size, block), 1.0)


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
        operand_bytes: Bytes of the operand.
        passes: Times it is streamed.
        pinned_share: Share of all data of its kind that on-chip memory holds.
        cache_bytes: On-chip bytes for its kind.
    """
    cached = smaller(1.0, cache_bytes / larger(operand_bytes, 1.0))
    by_pinning = (1.0 - pinned_share) * passes
    by_caching = 1.0 + (1.0 - cached) * (passes - 1.0)
    return operand_bytes * smaller(by_pinning, by_caching)
