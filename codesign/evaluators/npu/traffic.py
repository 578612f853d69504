"""What the operators of a pass move: between array and on-chip memory, and off chip.

Two rules of on-chip blocking are modelled (see ``options.py``). In both the array streams its
operands from on-chip memory once per array tile, as its dataflow says; they differ in how often
the off-chip memories have to supply what is not resident.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from codesign.columns import BoolArray, FloatArray
from codesign.evaluators.npu.options import (
    ACCUMULATOR_BYTES,
    ARRAY_TILE_SHARE,
    TILE_BUFFER_SHARE,
    Blocking,
)


@dataclass(frozen=True)
class Products:
    """The matrix products of ``o`` operators for ``n`` designs; arrays broadcast to (n, o).

    Attributes:
        m: Rows of one product.
        k: Inner size.
        n: Columns.
        heads: Query heads that share one KV head; 1 for products with weights.
        stationary_bytes: Weights or KV cache that one product multiplies with.
        input_bytes: Activations that one product reads.
        output_bytes: Activations that one product writes.
    """

    m: FloatArray
    k: FloatArray
    n: FloatArray
    heads: FloatArray
    stationary_bytes: FloatArray
    input_bytes: FloatArray
    output_bytes: FloatArray


@dataclass(frozen=True)
class Passes:
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
    products: Products, depth: FloatArray, width: FloatArray, is_ws: BoolArray, is_os: BoolArray
) -> Passes:
    """What the array streams from on-chip memory, tile by tile.

    A weight-stationary array keeps (depth x width) weights while all rows stream past;
    an input-stationary one the same of the inputs; both hand partial sums of the other
    ``ceil(k/depth) - 1`` inner blocks back. An output-stationary array keeps the sums of a
    (width x width) block.

    Args:
        products: Shapes.
        depth: (n, 1) MLEN.
        width: (n, 1) BLEN.
        is_ws: (n, 1) whether weight-stationary.
        is_os: (n, 1) whether output-stationary; neither is input-stationary.
    """
    row_tiles = np.ceil(products.m / products.heads / width)
    column_tiles = np.ceil(products.n / width)
    is_is = ~(is_ws | is_os)
    return Passes(
        stationary=np.where(is_ws, 1.0, row_tiles),
        inputs=np.where(is_is, 1.0, column_tiles),
        spills=np.where(is_os, 0.0, np.maximum(np.ceil(products.k / depth) - 1.0, 0.0)),
    )


def off_chip_passes(
    blocking: Blocking,
    products: Products,
    depth: FloatArray,
    width: FloatArray,
    on_chip_bytes: FloatArray,
    is_ws: BoolArray,
    is_os: BoolArray,
) -> Passes:
    """How often what is not resident has to come from off chip.

    Args:
        blocking: ``array`` or ``capacity``.
        products: Shapes.
        depth: (n, 1) MLEN.
        width: (n, 1) BLEN.
        on_chip_bytes: (n, 1) on-chip capacity.
        is_ws: (n, 1) whether weight-stationary.
        is_os: (n, 1) whether output-stationary.
    """
    if blocking == "array":
        return _streamed_passes(products, depth, width, is_ws)
    return _blocked_passes(products, TILE_BUFFER_SHARE * on_chip_bytes, is_ws, is_os)


def _streamed_passes(
    products: Products, depth: FloatArray, width: FloatArray, is_ws: BoolArray
) -> Passes:
    """PLENA's execution, as far as MemExplorer's Table 4 shows it [calibrated].

    OS and IS read the weights anew for every tile of rows and the inputs once (a tile's rows
    stay on chip while the columns go by); WS reads weights and inputs once and spills the
    partial sums of every inner block, rounded to the width of activations.
    """
    row_tiles = np.ceil(products.m / products.heads / (ARRAY_TILE_SHARE * width))
    spills = np.maximum(np.ceil(products.k / depth) - 1.0, 0.0)
    return Passes(
        stationary=np.where(is_ws, 1.0, row_tiles),
        inputs=np.ones_like(row_tiles),
        spills=np.where(is_ws, spills, 0.0),
    )


def _blocked_passes(
    products: Products, buffer_bytes: FloatArray, is_ws: BoolArray, is_os: BoolArray
) -> Passes:
    """The best tile that fits ``buffer_bytes`` (n, 1).

    The stationary operand is cut into blocks of the buffer's size and the other is streamed
    once per block; outputs are cut into square blocks of partial sums. If either operand fits
    whole, both are read once.
    """
    buffer = np.maximum(buffer_bytes, 1.0)
    by_weights = np.ceil(products.stationary_bytes / buffer)
    by_inputs = np.ceil(products.input_bytes / buffer)
    sums = buffer / ACCUMULATOR_BYTES
    side = np.sqrt(sums)
    rows = np.where(products.n < side, sums / np.maximum(products.n, 1.0), side)
    columns = np.where(products.m < side, sums / np.maximum(products.m, 1.0), side)
    fits = np.minimum(by_weights, by_inputs) <= 1.0
    re_read_weights = np.where(is_os, np.ceil(products.m / rows), by_inputs)
    re_read_inputs = np.where(is_os, np.ceil(products.n / columns), by_weights)
    return Passes(
        stationary=np.where(fits | is_ws, 1.0, re_read_weights),
        inputs=np.where(fits | ~(is_ws | is_os), 1.0, re_read_inputs),
        spills=np.zeros(()),
    )


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
    cached = np.minimum(1.0, cache_bytes / np.maximum(operand_bytes, 1.0))
    by_pinning = (1.0 - pinned_share) * passes
    by_caching = 1.0 + (1.0 - cached) * (passes - 1.0)
    return operand_bytes * np.minimum(by_pinning, by_caching)
