"""Time of the kernels of linear attention: Gated DeltaNet, Kimi Delta Attention, Mamba-2.

A layer is a short causal convolution and a scan. In a decode step both stream states through the
device: the state of a head is a matrix of key elements by value elements. In a prefill the scan
goes over chunks of tokens, one after the other within a head [Yang2024]_. Recent kernels keep the
state of a head in its core for all chunks; older ones write every chunk's intermediate results to
memory, and are bound by that traffic.

Limiting assumption: as in :mod:`codesign.models.machines.device.attention`, one good kernel.

.. [Yang2024] S. Yang et al., Gated Delta Networks: Improving Mamba2 with Delta Rule, 2024.
"""

from __future__ import annotations

import numpy as np

from codesign.base.columns import BoolArray, FloatArray, Floats
from codesign.base.records import frozen
from codesign.base.schema import Fraction, Record
from codesign.models.machines.device.attention import Cycles
from codesign.models.machines.device.memory import memory_time_s
from codesign.models.machines.device.rates import DeviceRates

CHUNK_TOKENS = 64
"""Tokens of a chunk [Yang2024]_; the cycles of a chunk are of so many, and of a head of
``STATE_ELEMENTS``."""
STATE_ELEMENTS = 128 * 128
BLOCK_CHANNELS = 64
"""Channels that a block of a convolution takes."""
_TOKEN_BYTES = 2
_HIDDEN_START = 0.5
"""Part of a start that is left after another kernel as short [ours]."""


@frozen
class Convolution:
    """Sizes of causal convolutions, each channel by itself; numbers or arrays to broadcast.

    Attributes:
        sequences: Sequences in the batch.
        tokens: New tokens per sequence.
        channels: Channels on this device.
        width: Tokens that a result depends on, its own included.
        launches: Kernels among which the channels are parted: 3 where queries, keys and values
            have convolutions of their own.
        is_prefill: Whether sequences of many lengths are tiled, not stepped by a token or a few.
        takes_sequences: Whether a block is one sequence's channels, as in Mamba's kernel, not a
            tile of tokens.
    """

    sequences: Floats
    tokens: Floats
    channels: Floats
    width: Floats = 4.0
    launches: Floats = 1.0
    is_prefill: BoolArray | bool = False
    takes_sequences: BoolArray | bool = False


@frozen
class Scan:
    """Sizes of scans of linear attention on one device; numbers or arrays to broadcast.

    Attributes:
        sequences: Sequences in the batch.
        tokens: New tokens per sequence.
        key_heads: Heads of queries and keys; Mamba-2: groups.
        value_heads: Heads of values, each with a state.
        key_dim: Elements of a key; Mamba-2: state size.
        value_dim: Elements of a value; Mamba-2: head size.
        is_prefill: Whether the tokens are taken in chunks, not one by one.
        keeps_states: Whether a step writes the state after every token, to undo rejected drafts.
        is_fused: Whether a core keeps the state of a head over all chunks of a prefill.
        has_channel_gates: Whether every channel of a key has a decay of its own (Kimi).
        chunk_tokens: Tokens to which a prefill is filled up.
        state_bits: Bits of an element of a state in memory, mean of read and written.
    """

    sequences: Floats
    tokens: Floats
    key_heads: Floats
    value_heads: Floats
    key_dim: Floats
    value_dim: Floats
    is_prefill: BoolArray | bool = False
    keeps_states: BoolArray | bool = False
    is_fused: BoolArray | bool = True
    has_channel_gates: BoolArray | bool = False
    chunk_tokens: Floats = 64.0
    state_bits: Floats = 32.0


class ScanConstants(Record):
    """Constants of a class of devices in linear attention, relative to datasheet numbers.

    Attributes:
        bandwidth_fraction: Part of the main memory's rate that scans reach.
        convolution_bandwidth_fraction: Part of the main memory's rate that convolutions reach.
        convolution_bytes_per_cycle: Bytes that a core takes through a convolution per clock,
            wherever they lie: more bandwidth than cores can use is left over.
        cache_bytes_per_cycle: Bytes that each core reads from the shared cache per clock.
        convolution_start_cycles: Clocks of a convolution that moves nothing, per kernel.
        tiling_cycles: More clocks of a convolution that tiles sequences.
        sequence_start_cycles: Cycles like ``convolution_start_cycles``, of kernels that take
            sequences.
        sequence_block_cycles: Clocks of a core for a block of such a kernel, however few its
            tokens.
        step_start_cycles: Clocks of a scan of single tokens that moves nothing.
        fused_start_cycles: Clocks of a fused scan of chunks that moves nothing.
        gate_start_cycles: More clocks where channels have gates: another kernel.
        unfused_start_cycles: Cycles like ``fused_start_cycles``, of the five kernels of an unfused
            scan.
        head_cycles: Clocks of a core to begin and end a sequence's head.
        chunk_cycles: Clocks of a core for a chunk of a head, many heads at a time.
        serial_chunk_cycles: Clocks until the next chunk of the same head can begin.
        gate_work: Work of a chunk with gates of channels, beyond that without, as a part of it.
        passes: Times that unfused kernels move the keys and values of a chunk.
    """

    bandwidth_fraction: Fraction
    convolution_bandwidth_fraction: Fraction
    convolution_bytes_per_cycle: Cycles
    cache_bytes_per_cycle: Cycles
    convolution_start_cycles: Cycles
    tiling_cycles: Cycles
    sequence_start_cycles: Cycles
    sequence_block_cycles: Cycles
    step_start_cycles: Cycles
    fused_start_cycles: Cycles
    gate_start_cycles: Cycles
    unfused_start_cycles: Cycles
    head_cycles: Cycles
    chunk_cycles: Cycles
    serial_chunk_cycles: Cycles
    gate_work: Cycles
    passes: Cycles


def convolution_time_s(
    shape: Convolution,
    rates: DeviceRates,
    constants: ScanConstants,
    *,
    is_cached: bool = False,
) -> FloatArray:
    """Time of a causal convolution.

    Limiting assumption: nothing but traffic, what cores take of it, starts, and blocks that are
    too small.

    Args:
        shape: Sizes; they broadcast with the rates.
        rates: Datasheet numbers of the devices.
        constants: Fitted efficiencies of a class of devices.
        is_cached: Whether the data may lie in the shared cache from the run before.

    Returns:
        Seconds, in the shape of all arguments together.
    """
    cycle = 1 / rates.clock_hz
    tiled = np.where(shape.is_prefill, constants.tiling_cycles, 0.0)
    later = np.where(shape.is_prefill, 1.0, _HIDDEN_START) * (shape.launches - 1)
    start = (1 + later) * (constants.convolution_start_cycles + tiled)
    start = np.where(shape.takes_sequences, constants.sequence_start_cycles, start)
    blocks = shape.sequences * shape.channels / BLOCK_CHANNELS
    has_blocks = np.logical_and(shape.takes_sequences, shape.is_prefill)
    begun = np.where(has_blocks, constants.sequence_block_cycles * blocks / rates.n_cores, 0.0)
    moved = convolution_traffic_bytes(shape)
    memory_s = memory_time_s(
        moved,
        rates,
        constants.convolution_bandwidth_fraction,
        constants.cache_bytes_per_cycle,
        is_cached=is_cached,
    )
    cores_s = moved * cycle / (constants.convolution_bytes_per_cycle * rates.n_cores)
    return start * cycle + np.hypot(begun * cycle, np.maximum(cores_s, memory_s))


def convolution_traffic_bytes(shape: Convolution) -> Floats:
    """Bytes of inputs, results and the tokens before them in each sequence, read and written once.

    Examples:
        >>> float(convolution_traffic_bytes(Convolution(1, 1, 1, width=4)))  # 1 new, 3 kept
        16.0
    """
    window_columns = shape.width - 1
    moved = shape.sequences * shape.channels * (shape.tokens + window_columns)
    return 2 * _TOKEN_BYTES * moved


def scan_time_s(
    shape: Scan,
    rates: DeviceRates,
    constants: ScanConstants,
    *,
    is_cached: bool = False,
) -> FloatArray:
    """Time of a scan: of single tokens in decode and verification, of chunks in prefill.

    Limiting assumption: the work of a chunk is bound by clocks of a core, not by its peak, which
    chunks of 64 tokens do not fill.

    Args:
        shape: Sizes; they broadcast with the rates.
        rates: Datasheet numbers of the devices.
        constants: Fitted efficiencies of a class of devices.
        is_cached: Whether the data may lie in the shared cache from the run before.

    Returns:
        Seconds, in the shape of all arguments together.
    """
    cycle = 1 / rates.clock_hz
    chunks = np.maximum(shape.tokens, shape.chunk_tokens) / CHUNK_TOKENS
    heads = shape.sequences * shape.value_heads
    unfused = np.logical_and(shape.is_prefill, np.logical_not(shape.is_fused))
    fused = np.logical_and(shape.is_prefill, shape.is_fused)

    gated = np.where(shape.has_channel_gates, 1.0, 0.0)
    size = shape.key_dim * shape.value_dim / STATE_ELEMENTS * (1 + constants.gate_work * gated)
    shared = (
        heads / rates.n_cores * (chunks * constants.chunk_cycles * size + constants.head_cycles)
    )
    work = np.maximum(shared, chunks * constants.serial_chunk_cycles * size)
    chunk_elements = CHUNK_TOKENS * (shape.key_dim + shape.value_dim)
    again = constants.passes * heads * chunks * chunk_elements * _TOKEN_BYTES
    memory_s = memory_time_s(
        scan_traffic_bytes(shape) + np.where(unfused, again, 0.0),
        rates,
        constants.bandwidth_fraction,
        constants.cache_bytes_per_cycle,
        is_cached=is_cached,
    )
    long_start = np.where(
        fused,
        constants.fused_start_cycles + constants.gate_start_cycles * gated,
        constants.unfused_start_cycles,
    )
    start = np.where(shape.is_prefill, long_start, constants.step_start_cycles)
    return start * cycle + np.hypot(np.where(fused, work, 0.0) * cycle, memory_s)


def scan_traffic_bytes(shape: Scan) -> Floats:
    """Bytes of tokens and states, each read and written once; every state if they are kept."""
    keys = shape.key_heads * shape.key_dim
    values = shape.value_heads * shape.value_dim
    tokens = _TOKEN_BYTES * 2 * (shape.tokens * (keys + values))
    written = np.where(shape.keeps_states, shape.tokens, 1.0)
    states = shape.state_bits / 8 * values * shape.key_dim * (1 + written)
    return shape.sequences * (tokens + states)
