"""Products of the formats of a batch of designs on their devices; one array per property."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from codesign.base.columns import BoolArray, Column, FloatArray, IntArray, combined, distinct
from codesign.models.hardware.device import SAME_RATE, Device
from codesign.models.machines.device.experts import expert_kernel
from codesign.models.machines.device.formats import (
    ProductFormat,
    format_on,
    product_format,
)


@dataclass(frozen=True)
class ProductColumns:
    """The kernels that multiply weights and activations, (n,) each.

    Attributes:
        peak_flop_per_s: Peak of the format in which they multiply, stated or the design's own.
        multiply_bits: Width of that format.
        is_weight_converted: Whether weights are converted on the way to the multiplier.
        is_input_quantized: Whether a kernel of its own quantizes the activations first.
        has_fine_scales: Whether the multiplication itself scales every 16 or 32 elements.
        has_block_scales: Whether sums of 128 products are scaled outside of the matrix units.
        wanted: Format in which the operands would multiply.
        multiply: Format in which the device multiplies them.
        rate: Format of the datasheet whose peak that is.
        expert_kernels: Name of the kernels that multiply experts of these formats.
    """

    peak_flop_per_s: FloatArray
    multiply_bits: FloatArray
    is_integer: BoolArray
    is_weight_converted: BoolArray
    is_input_quantized: BoolArray
    has_fine_scales: BoolArray
    has_block_scales: BoolArray
    multiplied: NDArray[np.str_]
    multiply: NDArray[np.str_]
    rate: NDArray[np.str_]
    expert_kernels: NDArray[np.str_]

    @property
    def is_widened(self) -> BoolArray:
        """(n,) whether the device lacks a multiplier and takes a wider one."""
        pairs = zip(self.multiplied.tolist(), self.multiply.tolist(), strict=True)
        return np.array([multiply not in SAME_RATE[multiplied] for multiplied, multiply in pairs])


def product_columns(
    devices: Column, find: Callable[[str], Device], weights: Column, activations: Column
) -> ProductColumns:
    """The kernels of a batch.

    Args:
        devices: (n,) name of each design's device.
        find: The device of a name.
        weights: (n,) format of the weights.
        activations: (n,) format of the activations.

    Raises:
        UnknownNameError: A device or format that is not known, or a format wider than all that a
            device multiplies.
    """
    number, positions = distinct(*combined(devices.codes, weights.codes, activations.codes))
    kernels = [
        _kernel(devices, find, weights, activations, position) for position in positions.tolist()
    ]
    return ProductColumns(
        peak_flop_per_s=_gathered(number, [peak for _, peak, *_ in kernels]),
        multiply_bits=_gathered(number, [_WIDTHS[kernel.multiply] for *_, kernel in kernels]),
        is_integer=_gathered(number, [kernel.is_integer for *_, kernel in kernels]) > 0,
        is_weight_converted=_gathered(number, [k.is_weight_converted for *_, k in kernels]) > 0,
        is_input_quantized=_gathered(number, [k.is_input_quantized for *_, k in kernels]) > 0,
        has_fine_scales=_gathered(number, [k.has_fine_scales for *_, k in kernels]) > 0,
        has_block_scales=_gathered(number, [k.has_block_scales for *_, k in kernels]) > 0,
        multiplied=np.array([multiplied for multiplied, *_ in kernels])[number],
        multiply=np.array([kernel.multiply for *_, kernel in kernels])[number],
        rate=np.array([rate for _, _, rate, _ in kernels])[number],
        expert_kernels=np.array([expert_kernel(k) for *_, k in kernels])[number],
    )


def _kernel(
    devices: Column, find: Callable[[str], Device], weights: Column, activations: Column, i: int
) -> tuple[str, float, str, ProductFormat]:
    device, weight, activation = (
        str(column.values[column.codes[i]]) for column in (devices, weights, activations)
    )
    multiplied = product_format(weight, activation)
    kernel = format_on(find(device), multiplied)
    rate = find(device).multiply_format(kernel.multiply)
    return multiplied.multiply, find(device).peak[rate], rate, kernel


_WIDTHS = {
    "fp4": 4.0, "int4": 4.0, "fp8": 8.0, "int8": 8.0, "bf16": 16.0, "fp16": 16.0, "tf32": 32.0,
    "fp32": 32.0,
}  # fmt: skip
"""Bits of the formats in which products run, as datasheets name their peaks."""


def _gathered(number: IntArray, values: list[float] | list[bool]) -> FloatArray:
    return np.asarray(values, dtype=np.float64)[number]
