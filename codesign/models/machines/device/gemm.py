"""Time of matrix products on a device: tiles in waves over its cores, its memory, its starts.

The output of a product is cut into tiles that the cores compute in waves; the last wave may be
almost empty. A core multiplies at its share of the peak or waits for its operands. Meanwhile the
weights come from memory. What depends on shape is this arithmetic; constants multiply numbers of
the datasheet, or are seconds that no datasheet states (:class:`GemmConstants`).

Fitted to kernels of ai-dynamo/aiconfigurator @095f58a, NVIDIA, Apache-2.0.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from codesign.base.columns import BoolArray, FloatArray, Floats
from codesign.base.records import frozen
from codesign.base.schema import Amount, PositiveAmount, Record, Seconds, Share, quantity
from codesign.models.machines.device.clock import product_share
from codesign.models.machines.device.corrections import KernelCase
from codesign.models.machines.device.rates import DeviceRates

Flags = BoolArray | bool

TILES = (
    (256, 128),
    (128, 256),
    (128, 128),
    (128, 64),
    (64, 128),
    (64, 64),
    (64, 256),
    (32, 128),
    (16, 128),
)
"""Rows and columns of the output that a core computes at a time, as matrix libraries offer; which
of them [ours]."""
SPLITS = (1, 2, 4, 8, 16)
"""Parts in which products of 16-bit operands may cut the inner size, to give every core work; the
libraries of narrower formats do so too rarely to show [ours]."""

POWER_LIMITED_FLOP_PER_BYTE = 300.0
"""Intensity from which arithmetic bounds products of 16 bits [ours]: of measured devices, the
datasheet's peak over bandwidth is 153 (A100) to 295 (H100), of L40S 419."""

_PARTIAL_BYTES = 4  # partial sums of a split product are kept in 32 bits [ours]
_UNQUANTIZED_BYTES = 2  # an input that is yet to be quantized comes in 16 bits


class GemmConstants(Record):
    """The free constants of products on a class of devices.

    Attributes:
        compute: Rate of a large product, in parts of what the power limit sustains at its width
            (:mod:`codesign.models.machines.device.clock`); at most the peak counts.
        integer_core_rate: The most that one core multiplies in integers: libraries kept the
            instructions of Ampere, whose rate newer cores did not raise.
        bandwidth: Rate of long streams, in parts of the memory's bandwidth.
        cache_bytes_per_cycle: Bytes that each core moves to or from the last cache per clock;
            memory may be faster.
        overlap: Exponent of the norm that joins arithmetic and traffic; large: they overlap
            perfectly.
        ramp: Most that a stream loses until it runs at its rate; a short one at most doubles.
        core_rate: Rate of a core within a tile, in parts of its share of the peak. It may pass 1:
            datasheets state a clock below the highest, which cores reach until the power limit
            (``compute``) binds.
        operand_rate: Bytes per second at which a core is fed with operands.
        synchronous_core_rate: ``core_rate`` of cores whose threads load operands for the matrix
            units themselves, in parts of that of cores with asynchronous matrix units; such are all
            products of integers.
        synchronous_operand_rate: Their ``operand_rate``, likewise.
        start: ``kernel_start`` of devices that state none.
        wave: Part of the start that every wave of tiles takes, to fill and to drain its pipeline.
        split: Starts that adding up a split product's partial sums takes.
        quantize: ``quantize_start`` of devices that state none.
        quantize_rows: Exponent with which quantizing more rows takes longer to start.
        fine_scales: Further time to quantize with a scale for 16 or 32 elements.
        converted_starts: Further starts of products whose weights are converted or whose operands
            are integers.
        convert_rate: Weights per second that a core converts.
        row_scale_starts: Further starts of integer products whose input is quantized inside, by
            rows.
        row_scale_operands: Rate at which cores of such products are fed, in parts of that of
            others.
    """

    compute: PositiveAmount
    integer_core_rate: Annotated[float, quantity("FLOP/s"), Field(gt=0)]
    bandwidth: Share
    cache_bytes_per_cycle: PositiveAmount
    overlap: Annotated[float, Field(ge=1)]
    ramp: Seconds
    core_rate: PositiveAmount
    operand_rate: Annotated[float, quantity("B/s"), Field(gt=0)]
    synchronous_core_rate: Share
    synchronous_operand_rate: Share
    start: Seconds
    wave: Share
    split: Amount
    quantize: Seconds
    quantize_rows: Annotated[float, Field(ge=0, le=1)]
    fine_scales: Seconds
    converted_starts: Amount
    convert_rate: Annotated[float, quantity("1/s"), Field(gt=0)]
    row_scale_starts: Amount
    row_scale_operands: Share


@frozen
class Products:
    """Launches of matrix products y[m,n] = x[m,k] W[k,n]; all fields broadcast.

    Attributes:
        m: Rows of the output: tokens.
        n: Columns of the output.
        k: Inner size.
        peak_flop_per_s: Dense datasheet peak of the format in which they multiply.
        count: Independent products of one launch, each with weights of its own.
        weight_bits: Stored bits of a weight, scales included.
        activation_bits: Bits of an input as the matrix units read it.
        is_weight_converted: Whether weights are converted on the way to the multiplier.
        is_input_quantized: Whether the launch quantizes its input from 16 bits first.
        has_fine_scales: Whether the multiplication scales every 16 or 32 elements.
        has_block_scales: Whether sums of 128 products are scaled outside of the matrix units.
        cached_weight_share: Part of the weights that the last cache still holds. 0 in a model,
            whose layers take turns; a benchmark that repeats one product may find them all.
    """

    m: Floats
    n: Floats
    k: Floats
    peak_flop_per_s: Floats
    count: Floats = 1.0
    weight_bits: Floats = 16.0
    activation_bits: Floats = 16.0
    output_bits: Floats = 16.0
    is_weight_converted: Flags = False
    is_input_quantized: Flags = False
    is_integer: Flags = False
    has_fine_scales: Flags = False
    has_block_scales: Flags = False
    cached_weight_share: Floats = 0.0

    @property
    def work_flop(self) -> Floats:
        """Arithmetic, 2 per multiply-accumulate."""
        return 2 * self.count * self.m * self.n * self.k

    @property
    def weight_bytes(self) -> Floats:
        """Bytes of all weights, each once."""
        return self.count * self.n * self.k * self.weight_bits / 8

    @property
    def activation_bytes(self) -> Floats:
        """Bytes of inputs and outputs, each once."""
        return self.count * self.m * (self.k * self.activation_bits + self.n * self.output_bits) / 8


def gemm_time_s(products: Products, rates: DeviceRates, constants: GemmConstants) -> FloatArray:
    """Seconds of a launch of products, its start on the device included, the host's not.

    Limiting assumptions: one tile size for a launch, the best of ``TILES``, so that time rises in
    steps of tiles and never falls with m, n or k; inputs and outputs that fit the last cache are
    in it, as the kernels before and after find them there. At a given peak, more cores may slow a
    product of few tiles, since each is then smaller.

    Args:
        rates: The device, or one for each product.
        constants: Those of the class of devices.

    Returns:
        Seconds, in the shape in which all arguments broadcast. Never less than the work over the
        peak, nor than the traffic beyond the cache over the bandwidth.
    """
    start = np.where(np.isnan(rates.kernel_start_s), constants.start, rates.kernel_start_s)
    tiles_s = _tiles_s(products, rates, constants, start)
    bits = np.where(products.is_integer, 16.0, products.activation_bits)
    share = np.minimum(constants.compute * product_share(rates, bits), 1.0)
    arithmetic_s = np.maximum(tiles_s, products.work_flop / (share * products.peak_flop_per_s))
    cached = products.cached_weight_share * products.weight_bytes
    weights_s = _traffic_s(products.weight_bytes - cached, cached, rates, constants)
    streams_s = weights_s + _stream_s(products.activation_bytes, rates, constants)
    memory_s = streams_s * (1 + constants.ramp / (streams_s + constants.ramp))
    larger = np.maximum(np.maximum(arithmetic_s, memory_s), 1e-30)
    norm = (arithmetic_s / larger) ** constants.overlap + (memory_s / larger) ** constants.overlap
    is_integer = np.asarray(products.is_integer)
    is_quantized = products.is_input_quantized
    starts = np.where(is_integer | products.is_weight_converted, constants.converted_starts, 0.0)
    starts = np.where(is_integer & is_quantized, constants.row_scale_starts, starts)
    quantize = np.where(
        np.isnan(rates.quantize_start_s), constants.quantize, rates.quantize_start_s
    )
    quantize = quantize * np.power(products.m, constants.quantize_rows)
    quantize = np.where(~is_integer & is_quantized, quantize, 0.0)
    element_bytes = _UNQUANTIZED_BYTES + products.activation_bits / 8
    return np.asarray(
        start * (1 - constants.wave)
        + larger * norm ** (1 / constants.overlap)
        + (starts * start + quantize + np.where(products.has_fine_scales, constants.fine_scales, 0))
        + np.where(
            products.is_input_quantized,
            _stream_s(products.count * products.m * products.k * element_bytes, rates, constants),
            0.0,
        )
    )


def gemm_case(products: Products) -> KernelCase:
    """Features of these products on which corrections depend.

    Products of much arithmetic are not corrected to be faster than the law: loops of benchmarks
    are too short for the power limit, which passes of a model meet.
    """
    traffic = products.weight_bytes + products.activation_bytes
    return KernelCase(
        (
            products.weight_bits,
            products.activation_bits,
            products.is_weight_converted,
            products.is_input_quantized,
            products.is_integer,
            products.has_fine_scales,
            products.has_block_scales,
        ),
        (np.log2(products.m), np.log2(products.n), np.log2(products.k)),
        np.where(products.work_flop / traffic > POWER_LIMITED_FLOP_PER_BYTE, 1.0, 0.0),
    )


def _tiles_s(
    products: Products, rates: DeviceRates, constants: GemmConstants, start: FloatArray
) -> FloatArray:
    """Time of the waves of tiles, with the tile and the split for which it is least."""
    is_integer = products.is_integer
    is_synchronous = (
        is_integer | products.is_weight_converted | np.logical_not(rates.has_asynchronous_cores)
    )
    share = np.where(is_synchronous, constants.synchronous_core_rate, 1.0) * constants.core_rate
    rate = share * products.peak_flop_per_s / rates.n_cores
    rate = np.where(is_integer, np.minimum(rate, constants.integer_core_rate), rate)
    fed = np.where(is_synchronous, constants.synchronous_operand_rate, 1.0)
    scales_rows = is_integer & products.is_input_quantized
    fed = fed * np.where(scales_rows, constants.row_scale_operands, 1.0)
    feed = constants.operand_rate * fed
    convert = np.where(products.is_weight_converted, 1 / constants.convert_rate, 0.0)
    wave_s = constants.wave * start
    activation = products.activation_bits / 8
    weight = products.weight_bits / 8
    can_split = products.weight_bits >= 16
    tilings = []
    for rows, columns in TILES:
        operands = np.minimum(rows, products.m) * activation + columns * weight
        per_k = np.maximum(2.0 * rows * columns / rate, operands / feed)
        per_k = np.maximum(per_k, columns * convert)
        tiles = products.count * np.ceil(products.m / rows)
        tilings.append((tiles * np.ceil(products.n / columns), per_k))
    outputs = products.count * products.m * products.n
    starts = np.where(can_split, constants.split * start, np.inf)
    best: FloatArray = np.asarray(np.inf)
    for split in SPLITS if np.any(can_split) else SPLITS[:1]:
        depth = np.ceil(products.k / split)
        partial = 2 * _PARTIAL_BYTES * split * outputs / (rates.n_cores * feed)
        for tiles, per_k in tilings:
            time = np.ceil(tiles * split / rates.n_cores) * (per_k * depth + wave_s)
            best = np.minimum(best, time + starts + partial if split > 1 else time)
    return best


def _stream_s(traffic_bytes: Floats, rates: DeviceRates, constants: GemmConstants) -> FloatArray:
    """Time of bytes that the last cache holds as far as they fit."""
    beyond = np.maximum(traffic_bytes - rates.cache_bytes, 0.0)
    return _traffic_s(beyond, traffic_bytes - beyond, rates, constants)


def _traffic_s(
    memory_bytes: Floats, cached_bytes: Floats, rates: DeviceRates, constants: GemmConstants
) -> FloatArray:
    """Time of bytes from the memory and of those that the last cache holds."""
    memory_rate = constants.bandwidth * rates.bandwidth_bytes_per_s
    cache_rate = constants.cache_bytes_per_cycle * (rates.n_cores * rates.clock_hz)
    return memory_bytes / memory_rate + cached_bytes / np.maximum(memory_rate, cache_rate)
