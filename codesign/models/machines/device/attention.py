"""Time of an attention kernel: prefill, encoder, chunks of a prefill, and decode by one law.

A core takes the queries of one KV head in blocks of at most 128 rows, in which the query heads of
a group lie side by side, and passes over the keys that they see [Dao2023]_. Every score costs two
products and one exponential: the exponentials bound small heads, since matrix units grew faster
than the special function units [Shah2024]_. Where blocks are fewer than cores, the keys of a block
are parted among the idle cores, and the partial results are merged (flash-decoding). Blocks that
are many and small pay for their beginning.

Limiting assumption: one good kernel. Measured kernels of one shape differ by a factor of up to two
between serving frameworks and versions, which no number of a device explains.

.. [Dao2023] T. Dao, FlashAttention-2: Faster Attention with Better Parallelism and Work
   Partitioning, 2023.
.. [Shah2024] J. Shah et al., FlashAttention-3: Fast and Accurate Attention with Asynchrony and
   Low-precision, 2024: 3.9 T exponentials against 989 T products per second of an H100.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from codesign.base.columns import BoolArray, FloatArray, Floats
from codesign.base.records import frozen
from codesign.base.schema import Fraction, Record, quantity
from codesign.models.machines.device.corrections import KernelCase
from codesign.models.machines.device.memory import memory_time_s
from codesign.models.machines.device.rates import DeviceRates

BLOCK_ROWS = 128
"""Queries that a core takes at once [Dao2023]_."""
LEAST_ROWS = 16
"""Rows of the smallest matrix product: fewer queries cost as much."""
KEY_TILE = 128
"""Keys that a core loads at once; a window begins inside such a tile."""
_BITS = 16

Cycles = Annotated[float, quantity("1")]


@frozen
class Attention:
    """Sizes of attention kernels on one device; every field is a number or an array to broadcast.

    Attributes:
        sequences: Sequences in the batch.
        new_tokens: Query tokens per sequence: the prompt in a prefill, 1 in a decode step.
        past_tokens: Tokens of each sequence that the cache held before.
        query_heads: Query heads on this device.
        kv_heads: Key and value heads on this device.
        head_dim: Elements of a query and of a key.
        window: Newest tokens that a query sees; 0: all.
        is_causal: Whether a token sees no later ones; False for encoders.
        kv_bits: Bits of an element of the cache.
        math_bits: Bits of the factors of the products, 16 or 8: 8 only on a device that multiplies
            them twice as fast.
        shares_values: Whether the values are part of the keys, as in absorbed latent attention.
        is_prepared: Whether the call also rotates queries and keys, or converts them to 8 bits, in
            a kernel before; such kernels take each query head apart.
        is_synchronous: Whether the kernel is a portable one (Triton's) with the matrix instructions
            of devices before Hopper, as runs where nobody wrote a better one for a shape.
    """

    sequences: Floats
    new_tokens: Floats
    past_tokens: Floats
    query_heads: Floats
    kv_heads: Floats
    head_dim: Floats
    value_head_dim: Floats
    window: Floats = 0.0
    is_causal: BoolArray | bool = True
    kv_bits: Floats = 16.0
    math_bits: Floats = 16.0
    shares_values: BoolArray | bool = False
    is_prepared: BoolArray | bool = False
    is_synchronous: BoolArray | bool = False


class AttentionConstants(Record):
    """Constants of a class of devices in attention, relative to datasheet numbers.

    Attributes:
        matrix_fraction: Part of the 16-bit peak that the power limit sustains which the products of
            a core reach.
        eight_bit_gain: Part of the doubled peak that 8-bit products keep of it: values are
            transposed, scores are converted.
        synchronous_flop_per_cycle: Arithmetic per clock of a core that portable kernels reach at
            most, whatever its peak.
        scores_per_cycle: Scores that a core raises to a power and sums per clock, at the peak's
            clock; of it remains what the power limit sustains.
        bandwidth_fraction: Part of the main memory's rate that a long read reaches.
        cache_bytes_per_cycle: Bytes that each core reads from the shared cache per clock.
        start_cycles: Clocks from the start of the kernel to its first block and from its last block
            to the end, the write of the cache included.
        preparation_cycles: Cycles like ``start_cycles``, of the kernel that rotates or converts
            queries and keys.
        window_cycles: More clocks of a kernel with a window shorter than the context: the keys are
            parted by the whole context.
        block_cycles: Clocks of a core to begin and end a block of queries.
        merge_cycles: Clocks to merge one more part of a block's keys.
        recent_factor: Part of all these clocks that is left in decode on devices with 4-bit
            products, whose small kernels start while the one before ends.
    """

    matrix_fraction: Fraction
    eight_bit_gain: Fraction
    synchronous_flop_per_cycle: Cycles
    scores_per_cycle: Cycles
    bandwidth_fraction: Fraction
    cache_bytes_per_cycle: Cycles
    start_cycles: Cycles
    preparation_cycles: Cycles
    window_cycles: Cycles
    block_cycles: Cycles
    merge_cycles: Cycles
    recent_factor: Cycles


class _Keys(NamedTuple):
    """Keys that queries see: scores of a sequence's head, mean and most of a block, and of all."""

    scores: FloatArray
    per_block: FloatArray
    most: FloatArray
    read: FloatArray


def has_portable_kernels_only(head_dim: Floats, rates: DeviceRates) -> BoolArray | bool:
    """Whether devices have no kernel of their own for heads of a size.

    Those of Blackwell's data center devices are for heads of 64, 128, 256 and 512 elements: all
    measured kernels for 192 are Triton's, of every framework.
    """
    is_blackwell = (rates.has_fp4 > 0) & (rates.has_asynchronous_cores > 0)
    return is_blackwell & (head_dim == 192.0)


def attention_work_flop(shape: Attention) -> FloatArray:
    """Arithmetic of the scores that a mask leaves, 2 per multiply-accumulate.

    Examples:
        >>> float(attention_work_flop(Attention(1, 2, 0, 1, 1, 64, 64)))  # 3 scores of 4
        768.0
    """
    heads = shape.sequences * shape.query_heads
    return 2 * heads * (shape.head_dim + shape.value_head_dim) * _keys(shape, 1.0).scores


def attention_traffic_bytes(shape: Attention) -> FloatArray:
    """Bytes to and from memory if each is moved once: queries, results, and the cache."""
    return _traffic_bytes(shape, _keys(shape, 1.0).read)


def attention_time_s(
    shape: Attention,
    rates: DeviceRates,
    constants: AttentionConstants,
    *,
    is_cached: bool = False,
) -> FloatArray:
    """Time of one call of an attention kernel.

    Limiting assumption: products and exponentials of a block add up, and overlap with the reads
    of other blocks; the blocks of a batch are equally long on average. See the module.

    Args:
        shape: Sizes; they broadcast with the rates.
        rates: Datasheet numbers of the devices.
        constants: Fitted efficiencies of a class of devices.
        is_cached: Whether the data may lie in the shared cache from the run before, as in
            measurements that repeat on the same data.

    Returns:
        Seconds, in the shape of all arguments together.
    """
    is_recent_decode = (shape.new_tokens == 1.0) & (rates.has_fp4 > 0)
    cycle = np.where(is_recent_decode, constants.recent_factor, 1.0) / rates.clock_hz
    groups = np.where(shape.is_prepared, shape.query_heads, shape.kv_heads)
    rows = shape.new_tokens * shape.query_heads / groups
    keys = _keys(shape, BLOCK_ROWS * groups / shape.query_heads)
    blocks = shape.sequences * groups * np.maximum(rows / BLOCK_ROWS, 1.0)
    gain = np.where(shape.math_bits < _BITS, constants.eight_bit_gain, 1.0)
    peak = rates.peak_16bit_flop_per_s * (_BITS / shape.math_bits)
    flop = 2 * (shape.head_dim + shape.value_head_dim)
    product_s = flop * rates.n_cores / (peak * constants.matrix_fraction * gain)
    least_s = flop / (constants.synchronous_flop_per_cycle * rates.clock_hz)
    product_s = np.maximum(product_s, np.where(shape.is_synchronous, least_s, 0.0))
    exponential_s = 1 / (constants.scores_per_cycle * rates.clock_hz)
    score_s = (product_s + exponential_s) / rates.burst_fraction

    all_rows = shape.sequences * groups * np.maximum(rows, LEAST_ROWS)
    shared_s = all_rows * keys.per_block * score_s / rates.n_cores
    alone_s = keys.most * np.clip(rows, LEAST_ROWS, BLOCK_ROWS) * score_s
    merge_s = constants.merge_cycles * cycle
    splits = np.clip(np.sqrt(alone_s / merge_s), 1.0, np.maximum(rates.n_cores / blocks, 1.0))
    longest_s = alone_s / splits + merge_s * (splits - 1)
    memory_s = memory_time_s(
        _traffic_bytes(shape, keys.read),
        rates,
        constants.bandwidth_fraction,
        constants.cache_bytes_per_cycle,
        is_cached=is_cached,
    )
    cuts = (shape.window > 0) & (keys.read < _context(shape))
    start = constants.start_cycles + np.where(shape.is_prepared, constants.preparation_cycles, 0.0)
    start = start + np.where(cuts, constants.window_cycles, 0.0)
    begun_s = (start + constants.block_cycles * blocks / rates.n_cores) * cycle
    return np.asarray(begun_s + np.hypot(np.maximum(shared_s, longest_s), memory_s))


def attention_case(shape: Attention) -> KernelCase:
    """Features of these calls on which corrections depend.

    Windows that cut keys off, and head sizes, count more than their octaves [ours].
    """
    context = _context(shape)
    is_decode = shape.new_tokens == 1.0
    cuts = (shape.window > 0) & (shape.window < context)
    return KernelCase(
        (is_decode, shape.is_causal, shape.kv_bits, shape.math_bits, shape.is_synchronous),
        (
            np.log2(shape.sequences),
            np.log2(context),
            np.where(is_decode, 0.0, np.log2(context / shape.new_tokens)),
            np.log2(shape.query_heads),
            np.log2(shape.query_heads / shape.kv_heads),
            2.0 * np.log2(shape.head_dim),
            np.where(cuts, 3.0, 0.0),
        ),
    )


def _context(shape: Attention) -> Floats:
    return shape.past_tokens + shape.new_tokens


def _keys(shape: Attention, block_tokens: Floats) -> _Keys:
    """Keys of queries whose blocks span so many tokens of a sequence."""
    new = shape.new_tokens
    past = shape.past_tokens
    context = _context(shape)
    window = np.where(shape.window > 0, np.minimum(shape.window, context), context)
    growing = np.clip(window - past, 0.0, new)  # tokens that see all before them
    causal = growing * (past + (growing + 1) / 2) + (new - growing) * window
    scores = np.where(shape.is_causal, causal, new * context)
    masked = np.where(shape.is_causal, np.minimum(new, block_tokens) / 2, 0.0)
    beginning = np.where(window < context, float(KEY_TILE), 0.0)
    per_block = np.minimum(scores / new + masked + beginning / 2, context)
    most = np.minimum(window + beginning + np.minimum(new, BLOCK_ROWS), context)
    return _Keys(scores, per_block, most, np.minimum(window + beginning + new - 1, context))


def _traffic_bytes(shape: Attention, read_keys: FloatArray) -> FloatArray:
    dims = shape.head_dim + shape.value_head_dim
    width_of_values = np.where(shape.shares_values, shape.head_dim, dims)
    cached = shape.kv_heads * width_of_values * (read_keys + shape.new_tokens)
    queries = shape.query_heads * shape.new_tokens * dims
    prepared = (shape.query_heads + shape.kv_heads) * shape.new_tokens * shape.head_dim
    moved = queries + np.where(shape.is_prepared, 2 * prepared, 0.0)
    return shape.sequences * (shape.kv_bits * cached + _BITS * moved) / 8
