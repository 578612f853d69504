"""Products of the formats of a batch of designs on their devices; one array per property."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from codesign.base.columns import BoolArray, Column, FloatArray, JsonObject, combined, distinct
from codesign.models.hardware.device import SAME_RATE, Device
from codesign.models.machines.device.experts import expert_kernel
from codesign.models.machines.device.formats import (
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
        multiplied: Format in which the operands would multiply.
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
    multiplied, rates, peaks, kernels = [], [], [], []
    for i in positions.tolist():
        name, weight, activation = (
            str(column.values[column.codes[i]]) for column in (devices, weights, activations)
        )
        device, product = find(name), product_format(weight, activation)
        kernel = format_on(device, product)
        rate = device.multiply_format(kernel.multiply)
        multiplied.append(product.multiply)
        rates.append(rate)
        peaks.append(device.peak[rate])
        kernels.append(kernel)
    flags: JsonObject = {
        name: np.array([getattr(kernel, name) for kernel in kernels], dtype=np.bool_)[number]
        for name in _FLAGS
    }
    return ProductColumns(
        peak_flop_per_s=np.array(peaks, dtype=np.float64)[number],
        multiply_bits=np.array([_WIDTHS[kernel.multiply] for kernel in kernels])[number],
        multiplied=np.array(multiplied)[number],
        multiply=np.array([kernel.multiply for kernel in kernels])[number],
        rate=np.array(rates)[number],
        expert_kernels=np.array([expert_kernel(kernel) for kernel in kernels])[number],
        **flags,
    )


_FLAGS = (
    "is_integer", "is_weight_converted", "is_input_quantized", "has_fine_scales",
    "has_block_scales",
)  # fmt: skip
_WIDTHS = {
    "fp4": 4.0, "int4": 4.0, "fp8": 8.0, "int8": 8.0, "bf16": 16.0, "fp16": 16.0, "tf32": 32.0,
    "fp32": 32.0,
}  # fmt: skip
"""Bits of the formats in which products run, as datasheets name their peaks."""
