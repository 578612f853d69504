"""Block formats: elements that share a scale, by name or by their numbers.

======================  ==========================================================================
``mxfp8``, ``mxfp6``    OCP MX [OCP2023]_ with E4M3 and E2M3; ``mxfp8-e5m2``, ``mxfp6-e3m2``
``mxfp4``, ``mxint8``   OCP MX with E2M1 and two's complement elements
``mxfp16``, ``mxint4``  as MemExplorer has them besides: E5M10 (ours, the width alone is stated),
                        and integers of any width
``nvfp4``               E2M1, an E4M3 scale for 16 elements and a float32 scale for the tensor
``int8``, ``int4``      symmetric integers with a float16 scale for a row, or a group: ``int4-g128``
``fp8``, ``fp4``        E4M3 and E2M1 with a float16 scale for a row, or a group
``fp8_block128``        taken as ``fp8``: a scale for a row stands for that of 128 x 128
``bf16``, ``fp16``      no block; rounding to them is neglected
======================  ==========================================================================

An element type may follow a name (``mxfp6-e3m2``), then a block size (``mxfp4-b16``), then the
bits of the shared exponent (``mxint8-b16-s4``).
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

from codesign.base.errors import InputError, UnknownNameError
from codesign.base.records import frozen
from codesign.models.quantization.element_types import ElementType, float_type, integer_type

MX_BLOCK = 32
"""Elements of a block in OCP MX 1.0, Table 1."""


@frozen
class SharedExponent:
    """A scale that is a power of two, E8M0 for 8 bits.

    Its exponent and that of the element type's largest number add up to the exponent of the
    largest element (OCP MX 1.0, §6.3).

    Attributes:
        bits: Its exponents run from ``-limit`` to ``limit``; one code is NaN.
    """

    bits: int = 8

    @property
    def limit(self) -> int:
        """Largest exponent."""
        return int(2 ** (self.bits - 1)) - 1


@frozen
class BlockFormat:
    """A format of numbers in blocks.

    Attributes:
        name: As :func:`find_block_format` reads it.
        element: Type of the elements; None: no quantization.
        block_size: Elements along the last axis that share a scale; 0: the whole axis.
        scale: Of a block: a power of two, or a number of a type.
        has_tensor_scale: A float32 scale for the whole tensor besides, as in NVFP4.
        nominal_bits: Bits of an element, its scale apart.
    """

    name: str
    element: ElementType | None
    block_size: int
    scale: SharedExponent | ElementType
    has_tensor_scale: bool = False
    nominal_bits: int = 16

    @property
    def bits_per_element(self) -> float:
        """Bits of an element with its part of the block's scale; scales of rows are neglected."""
        if self.element is None or not self.block_size:
            return float(self.nominal_bits)
        return self.element.bits + self.scale.bits / self.block_size


def mxfp(
    exponent_bits: int, mantissa_bits: int, block_size: int = MX_BLOCK, scale_bits: int = 8
) -> BlockFormat:
    """Floating-point elements that share a power of two.

    Raises:
        InputError: A number is out of range.
    """
    element = float_type(exponent_bits, mantissa_bits)
    name = f"mxfp{element.bits}-{element.name}"
    return _scaled_format(name, element, block_size, scale_bits)


def mxint(bits: int, block_size: int = MX_BLOCK, scale_bits: int = 8) -> BlockFormat:
    """Integer elements that share a power of two.

    Raises:
        InputError: A number is out of range.
    """
    return _scaled_format(f"mxint{bits}", integer_type(bits), block_size, scale_bits)


def _scaled_format(
    name: str, element: ElementType, block_size: int, scale_bits: int
) -> BlockFormat:
    if block_size < 1 or not 2 <= scale_bits <= 8:
        expected = "expected blocks of 1 or more elements and a shared exponent of 2 to 8 bits"
        raise InputError(f"{name}: {expected}, got {block_size} and {scale_bits}")
    name += f"-b{block_size}" * (block_size != MX_BLOCK) + f"-s{scale_bits}" * (scale_bits != 8)
    exponent = SharedExponent(scale_bits)
    return BlockFormat(name, element, block_size, exponent, nominal_bits=element.bits)


def float_scaled_format(name: str, element: ElementType, group_size: int = 0) -> BlockFormat:
    """Elements that share a float16 scale, which maps the largest of them to the type's largest.

    Args:
        group_size: Elements along the last axis; 0: all of a row.
    """
    return BlockFormat(name, element, group_size, float_type(5, 10), nominal_bits=element.bits)


NVFP4 = BlockFormat("nvfp4", float_type(2, 1), 16, float_type(4, 3), True, nominal_bits=4)
"""NVIDIA, Introducing NVFP4 (2025): two levels of scales."""

_MXFP = re.compile(r"^mxfp(\d+)-e(\d)m(\d+)(?:-b(\d+))?(?:-s(\d))?$")
_MXINT = re.compile(r"^mxint(\d+)(?:-b(\d+))?(?:-s(\d))?$")
_GROUPED = re.compile(r"^(int(\d+)|fp8|fp4)(?:-g(\d+))?$")
_SHORT = {
    "mxfp4": "mxfp4-e2m1", "mxfp6": "mxfp6-e2m3", "mxfp8": "mxfp8-e4m3", "mxfp16": "mxfp16-e5m10",
    "fp8_block128": "fp8",
}  # fmt: skip
"""Names that stand for those of a pattern."""
_FLOATS = {"fp8": float_type(4, 3), "fp4": float_type(2, 1)}
NAMED_FORMATS = (
    *_SHORT, "mxfp6-e2m3", "mxfp6-e3m2", "mxfp8-e4m3", "mxfp8-e5m2", "mxint4", "mxint8", "mxint16",
    "nvfp4", "int8", "int4", *_FLOATS, "bf16", "fp16",
)  # fmt: skip
"""The formats that messages offer; others follow the patterns above."""


@cache
def find_block_format(name: str, where: str | None = None) -> BlockFormat:
    """The format of that name.

    Raises:
        UnknownNameError: No such format; the nearest is offered.
        InputError: Its numbers do not fit together.

    Examples:
        >>> find_block_format("mxfp6-e3m2-b16").bits_per_element
        6.5
    """
    if name in _SHORT:
        return replace(find_block_format(_SHORT[name]), name=name)
    if name == NVFP4.name:
        return NVFP4
    if name in ("bf16", "fp16"):
        return BlockFormat(name, None, 0, SharedExponent())
    if match := _MXFP.match(name):
        width, exponent_bits, mantissa_bits = (int(match[i]) for i in (1, 2, 3))
        block_format = mxfp(exponent_bits, mantissa_bits, *_block_and_scale(match, 4))
        if width != block_format.nominal_bits:
            problem = f"expected {width} bits with the sign, got {block_format.nominal_bits}"
            raise InputError(f"format {name!r}: {problem}", where)
        return block_format
    if match := _MXINT.match(name):
        return mxint(int(match[1]), *_block_and_scale(match, 2))
    if match := _GROUPED.match(name):
        element = integer_type(int(match[2])) if match[2] else _FLOATS[match[1]]
        return float_scaled_format(name, element, int(match[3] or 0))
    raise UnknownNameError("number format", name, NAMED_FORMATS, where)


def _block_and_scale(match: re.Match[str], first: int) -> tuple[int, int]:
    return int(match[first] or MX_BLOCK), int(match[first + 1] or 8)
