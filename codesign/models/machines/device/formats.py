"""Formats of a product's operands: what they occupy, and in which format a device multiplies."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from codesign.base.errors import UnknownNameError
from codesign.base.records import frozen
from codesign.models.hardware.device import SAME_RATE, Device

Kind = Literal["float", "integer"]


@frozen
class OperandFormat:
    """A format in which weights or activations are stored.

    Attributes:
        stored_bits: Bits of an element in memory, its part of the shared scales included.
        multiply_bits: Width of the multiplier that it needs.
    """

    stored_bits: float
    kind: Kind
    multiply_bits: int


OPERANDS = {
    "bf16": OperandFormat(16, "float", 16),
    "fp16": OperandFormat(16, "float", 16),
    "fp8": OperandFormat(8, "float", 8),
    "fp4": OperandFormat(4, "float", 4),
    "int8": OperandFormat(8, "integer", 8),
    "int4": OperandFormat(4, "integer", 4),
    "mxfp16": OperandFormat(16.25, "float", 16),
    "mxfp8": OperandFormat(8.25, "float", 8),
    "mxfp4": OperandFormat(4.25, "float", 4),
    "mxint16": OperandFormat(16.25, "integer", 16),
    "mxint8": OperandFormat(8.25, "integer", 8),
    "mxint4": OperandFormat(4.25, "integer", 4),
    "nvfp4": OperandFormat(4.5, "float", 4),
    "fp8_static": OperandFormat(8, "float", 8),
    "fp8_block128": OperandFormat(8, "float", 8),
    "fp8_group128": OperandFormat(8, "float", 8),
}
"""Formats as :mod:`codesign.models.workload.precision` names them, then those that only the table
of measured kernels names (ai-dynamo/aiconfigurator @095f58a, NVIDIA, Apache-2.0): ``fp8_static``
comes quantized, ``fp8_group128`` are the activations of ``fp8_block128``."""
BLOCK_SCALED = "fp8_block128"
"""Weights whose products are scaled for every 128 elements that they add up: tensor cores do not,
so that sums leave them and come back [DeepSeek-V3 (2024), section 3.3.2]."""

_RATES: dict[tuple[Kind, int], str] = {
    ("float", 16): "bf16",
    ("float", 8): "fp8",
    ("float", 4): "fp4",
    ("integer", 8): "int8",
    ("integer", 4): "int4",
}
_GIVEN_QUANTIZED = ("fp8_static",)


@frozen
class ProductFormat:
    """Kernel of a product by the formats of its two operands.

    Attributes:
        weight_bits: Stored bits of a weight, scales included.
        activation_bits: Bits of an activation as the matrix units read it.
        multiply: Format of the multiplication, as datasheets name its peak.
        is_weight_converted: Whether weights are converted to the activations' format on the way to
            the multiplier ("weight only").
        is_input_quantized: Whether activations come with 16 bits and are quantized first, by a
            kernel of their own.
        has_fine_scales: Whether the multiplication itself scales every 16 or 32 elements, as that
            of 4-bit floating point does.
        has_block_scales: Whether sums of 128 products are scaled outside of the matrix units.
    """

    weight_bits: float
    activation_bits: float
    multiply: str
    is_weight_converted: bool
    is_input_quantized: bool
    has_fine_scales: bool
    has_block_scales: bool = False

    @property
    def is_integer(self) -> bool:
        """Whether integers are multiplied."""
        return self.multiply.startswith("int")


def product_format(
    weight: str, activation: str, *, is_input_quantized: bool | None = None
) -> ProductFormat:
    """The kernel that multiplies weights and activations of these formats.

    The product runs in the format of the activations; narrower weights, or weights of another
    kind, are converted to it in the kernel. Activations narrower than the weights are multiplied
    in the weights' format.

    Args:
        weight: Name of the weights' format, such as ``mxfp4`` or ``fp8_block128``.
        activation: Name of the activations' format.
        is_input_quantized: Whether the kernel's time includes quantizing its input from 16 bits.
            Left out: as libraries do, for floating point with scales found on the way, not for
            integers, which the kernel before writes.

    Raises:
        UnknownNameError: No such format; the nearest is offered.

    Examples:
        >>> product_format("int4", "bf16").multiply
        'bf16'
        >>> product_format("mxfp4", "mxfp8").is_weight_converted
        True
    """
    weights = operand_format(weight)
    inputs = operand_format(activation)
    wider = max(weights.multiply_bits, inputs.multiply_bits)
    number_kind = inputs.kind if wider < 16 else "float"
    is_native = weights.multiply_bits == 16 or (weights.multiply_bits, weights.kind) == (
        wider,
        number_kind,
    )
    quantized = number_kind == "float" and wider < 16 and activation not in _GIVEN_QUANTIZED
    return ProductFormat(
        weight_bits=weights.stored_bits,
        activation_bits=inputs.stored_bits,
        multiply=_RATES[number_kind, wider],
        is_weight_converted=not is_native,
        is_input_quantized=quantized if is_input_quantized is None else is_input_quantized,
        has_fine_scales=wider == 4 and number_kind == "float",
        has_block_scales=weight == BLOCK_SCALED and (wider, number_kind) == (8, "float"),
    )


def format_on(device: Device, stated_format: ProductFormat) -> ProductFormat:
    """The kernel that a device runs for a product: the wanted one, or one in a wider format.

    A device without the multiplier converts the weights on the way to a wider one. Whether that
    happened shows in ``multiply``.

    Raises:
        UnknownNameError: The device has no format as wide as the wanted one.
    """
    rate = device.multiply_format(stated_format.multiply)
    if rate in SAME_RATE[stated_format.multiply]:
        return stated_format
    width = operand_format(rate).stored_bits if rate in OPERANDS else 16.0
    return replace(
        stated_format,
        activation_bits=max(stated_format.activation_bits, width),
        multiply=rate,
        is_weight_converted=True,
        is_input_quantized=stated_format.is_input_quantized and width < 16,
        has_fine_scales=False,
        has_block_scales=False,
    )


def operand_format(name: str) -> OperandFormat:
    """The format of that name.

    Raises:
        UnknownNameError: No such format; the nearest is offered.
    """
    if name not in OPERANDS:
        raise UnknownNameError("number format", name, OPERANDS)
    return OPERANDS[name]
