"""Time of the products that absorb a head's projection in latent attention (MLA).

One product per head, with a matrix of its own: the batched product of all heads.
"""

from __future__ import annotations

import numpy as np

from codesign.base.columns import FloatArray, Floats
from codesign.base.records import frozen
from codesign.base.schema import Fraction, Record
from codesign.models.machines.device.attention import Cycles
from codesign.models.machines.device.corrections import KernelCase
from codesign.models.machines.device.memory import memory_time_s
from codesign.models.machines.device.rates import DeviceRates

_TILE = 128
_LEAST_ROWS = 64
"""Rows of the smallest tile, which Hopper's matrix units multiply at once [ours]: of 16, 32, 64 and
128 as near as any to devices of all generations."""
_BITS = 16
_CONVERTED_BYTES = 3  # an element is read in 16 bits and written in 8


@frozen
class Absorbing:
    """Sizes of absorbing products; numbers or arrays to broadcast.

    Attributes:
        tokens: Rows of the product of each head.
        heads: Heads on this device.
        inner: Elements over which is summed.
        outer: Elements of a result.
        weight_bits: Bits of an element of a head's matrix.
        math_bits: Bits of the factors, 16 or 8.
    """

    tokens: Floats
    heads: Floats
    inner: Floats
    outer: Floats
    weight_bits: Floats = 16.0
    math_bits: Floats = 16.0


class AbsorbingConstants(Record):
    """Constants of a class of devices in absorbing products, relative to datasheet numbers.

    Attributes:
        bandwidth_fraction: Part of the main memory's rate that a long transfer reaches.
        cache_bytes_per_cycle: Bytes that each core moves to or from the shared cache per clock.
        start_cycles: Clocks of a call that does nothing.
        convert_cycles: More clocks of a call that converts its input to 8 bits.
        convert_bytes_per_cycle: Bytes that a core reads and writes per clock as it converts the
            input.
        tile_cycles: Clocks of a core to begin and end a tile of 128 x 128 results.
    """

    bandwidth_fraction: Fraction
    cache_bytes_per_cycle: Cycles
    start_cycles: Cycles
    convert_cycles: Cycles
    convert_bytes_per_cycle: Cycles
    tile_cycles: Cycles


def absorbing_time_s(
    shape: Absorbing,
    rates: DeviceRates,
    constants: AbsorbingConstants,
    *,
    is_cached: bool = False,
) -> FloatArray:
    """Time of the absorbing products of all heads.

    Limiting assumption: tiles of 128 columns and 64 to 128 rows of results, shared evenly by cores
    that reach their peak; measured products are bound by starts and traffic. Products of 8 bits
    convert their input first.

    Args:
        shape: Sizes; they broadcast with the rates.
        rates: Datasheet numbers of the devices.
        constants: Fitted efficiencies of a class of devices.
        is_cached: Whether the data may lie in the shared cache from the run before.

    Returns:
        Seconds, in the shape of all arguments together.
    """
    cycle = 1 / rates.clock_hz
    is_8 = shape.math_bits < _BITS
    inputs = shape.tokens * shape.inner * shape.heads
    converted_bytes = np.where(is_8, _CONVERTED_BYTES * inputs, 0.0)
    peak = rates.peak_16bit_flop_per_s * (_BITS / shape.math_bits)
    rows = np.maximum(shape.tokens, _LEAST_ROWS)
    tiles = shape.heads * rows * np.maximum(shape.outer, _TILE) / _TILE**2
    work_s = 2 * tiles * _TILE**2 * shape.inner / peak
    tile_flop = 2 * np.minimum(rows, _TILE) * _TILE * shape.inner
    work_s = np.maximum(work_s, tile_flop * rates.n_cores / peak)

    def moved_s(traffic_bytes: FloatArray) -> FloatArray:
        return memory_time_s(
            traffic_bytes,
            rates,
            constants.bandwidth_fraction,
            constants.cache_bytes_per_cycle,
            is_cached=is_cached,
        )

    memory_s = moved_s(absorbing_traffic_bytes(shape) - np.where(is_8, inputs, 0.0))
    convert_s = converted_bytes * cycle / (constants.convert_bytes_per_cycle * rates.n_cores)
    convert_s = np.maximum(convert_s, moved_s(converted_bytes))
    start = constants.start_cycles + np.where(is_8, constants.convert_cycles, 0.0)
    begun = start + constants.tile_cycles * tiles / rates.n_cores
    return begun * cycle + convert_s + np.hypot(work_s, memory_s)


def absorbing_traffic_bytes(shape: Absorbing) -> Floats:
    """Bytes of matrices, inputs and results, each moved once."""
    weights = shape.inner * shape.outer * shape.weight_bits
    moved = shape.tokens * (shape.inner + shape.outer) * _BITS
    return shape.heads * (weights + moved) / 8


def absorbing_case(shape: Absorbing) -> KernelCase:
    """Features of these products on which corrections depend."""
    sizes = np.log2(shape.tokens), np.log2(shape.heads)
    return KernelCase((shape.inner, shape.weight_bits, shape.math_bits), sizes)
