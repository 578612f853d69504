"""Products of the formats of a batch of designs on their devices; one array per property."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from codesign.base.columns import BoolArray, Column, FloatArray, StringArray, combined, distinct
from codesign.base.records import frozen
from codesign.models.hardware.device import SAME_RATE, Device
from codesign.models.machines.device.experts import expert_kernel
from codesign.models.machines.device.formats import (
    format_on,
    product_format,
)


@frozen
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

    multiplied: StringArray
    multiply: StringArray
    rate: StringArray
    peak_flop_per_s: FloatArray
    multiply_bits: FloatArray
    expert_kernels: StringArray
    is_integer: BoolArray
    is_weight_converted: BoolArray
    is_input_quantized: BoolArray
    has_fine_scales: BoolArray
    has_block_scales: BoolArray

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
    rows = []
    for i in positions.tolist():
        name, weight, activation = (
            str(column.values[column.codes[i]]) for column in (devices, weights, activations)
        )
        device = find(name)
        product = product_format(weight, activation)
        kernel = format_on(device, product)
        rate = device.multiply_format(kernel.multiply)
        rows.append((
            product.multiply, kernel.multiply, rate, float(device.peak[rate]),
            _WIDTHS[kernel.multiply], expert_kernel(kernel),
            *(bool(getattr(kernel, flag)) for flag in _FLAGS),
        ))  # fmt: skip
    return ProductColumns(
        *(
            np.array([row[place] for row in rows], dtype)[number]
            for place, dtype in enumerate(_TYPES)
        )
    )


_FLAGS = (
    "is_integer", "is_weight_converted", "is_input_quantized", "has_fine_scales",
    "has_block_scales",
)  # fmt: skip
_TYPES: tuple[Any, ...] = ("U16", "U16", "U16", float, float, "U16", *[bool] * len(_FLAGS))
"""Types of the columns, also of a batch without designs."""
_WIDTHS = {
    "fp4": 4.0, "int4": 4.0, "fp8": 8.0, "int8": 8.0, "bf16": 16.0, "fp16": 16.0, "tf32": 32.0,
    "fp32": 32.0,
}  # fmt: skip
"""Bits of the formats in which products run, as datasheets name their peaks."""
