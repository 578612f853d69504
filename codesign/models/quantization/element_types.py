"""Element types: what one number of a block can be, and rounding to it.

A floating-point type has E exponent and M mantissa bits, an integer is a fixed-point number with
one integer bit and a sign, as MXINT8 has it [OCP2023]_. Largest and smallest numbers of the types
that ``ml_dtypes`` has are read from there; of others, no code stands for infinity or NaN.

The functions take NumPy arrays and torch tensors alike, in float32, on any device, with the same
bits for both: they use shifts, products by powers of two and rounding to even, which IEEE 754
defines exactly.

.. [OCP2023] Open Compute Project, Microscaling Formats (MX) Specification, version 1.0, 2023.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from codesign.base.errors import InputError
from codesign.base.records import frozen

_MANTISSA_BITS, _EXPONENT_BIAS = 23, 127
"""Mantissa bits and exponent bias of float32."""
_MOST_EXPONENT_BITS, _MOST_MANTISSA_BITS, _MOST_INTEGER_BITS = 5, 10, 16
"""So that every product by a power of two is exact in float32."""
_WITH_SPECIAL_CODES = {
    (4, 3): ml_dtypes.float8_e4m3fn,
    (5, 2): ml_dtypes.float8_e5m2,
    (5, 10): np.float16,
}
"""Types in which some codes are no numbers, by exponent and mantissa bits."""


@frozen
class ElementType:
    """Numbers that an element can be.

    Attributes:
        name: Such as ``e2m1`` or ``int8``.
        bits: Of one element, with its sign.
        largest: Largest number; the most negative one is below ``-largest`` for an integer.
        smallest: Most negative number.
        least_exponent: Exponent below which the step stays the same.
        mantissa_bits: Bits behind the leading one; the step at an exponent ``e`` is
            ``2 ** (e - mantissa_bits)``.
        is_integer: Whether the step is the same everywhere.
    """

    name: str
    bits: int
    largest: float
    smallest: float
    least_exponent: int
    mantissa_bits: int
    is_integer: bool

    @property
    def largest_exponent(self) -> int:
        """Exponent of the largest number: 8 of E4M3, 0 of an integer."""
        return math.frexp(self.largest)[1] - 1

    @property
    def code_unit(self) -> float:
        """Value of the code 1 of an integer, ``2 ** -6`` of int8; 1 of other types."""
        return 2.0**-self.mantissa_bits if self.is_integer else 1.0


@cache
def float_type(exponent_bits: int, mantissa_bits: int) -> ElementType:
    """The floating-point type with so many bits; its bias is that of IEEE 754.

    E4M3, E5M2 and E5M10 have codes for NaN or infinity and thus a smaller largest number.

    Raises:
        InputError: There is no such type, or it is wider than this arithmetic is exact.

    Examples:
        >>> float_type(2, 1).largest, float_type(4, 3).largest
        (6.0, 448.0)
    """
    name = f"e{exponent_bits}m{mantissa_bits}"
    if not (1 <= exponent_bits <= _MOST_EXPONENT_BITS and 0 <= mantissa_bits <= 10):
        expected = f"1 to {_MOST_EXPONENT_BITS} exponent and 0 to {_MOST_MANTISSA_BITS} mantissa"
        raise InputError(f"element type {name!r}: expected {expected} bits")
    bias = 2 ** (exponent_bits - 1) - 1
    special_codes = _WITH_SPECIAL_CODES.get((exponent_bits, mantissa_bits))
    if special_codes is None:
        # No code is lost: all exponents but 0 are those of normal numbers.
        largest = 2.0 ** (2**exponent_bits - 1 - bias) * (2 - 2.0**-mantissa_bits)
    else:
        largest = float(
            ml_dtypes.finfo(special_codes).max  # type: ignore[no-untyped-call] # finfo has no types
        )
    bits = 1 + exponent_bits + mantissa_bits
    return ElementType(name, bits, largest, -largest, 1 - bias, mantissa_bits, False)


@cache
def integer_type(bits: int) -> ElementType:
    """The two's complement number with one integer bit and ``bits - 2`` behind the point.

    The most negative code is -2, which OCP MX 1.0 (§5.3.4) allows to use or to leave unused; it
    is used here.

    Raises:
        InputError: So many bits are not supported.

    Examples:
        >>> integer_type(8).largest, integer_type(8).smallest
        (1.984375, -2.0)
    """
    if not 2 <= bits <= _MOST_INTEGER_BITS:
        raise InputError(f"element type 'int{bits}': expected 2 to {_MOST_INTEGER_BITS} bits")
    step = 2.0 ** (2 - bits)
    return ElementType(f"int{bits}", bits, 2.0 - step, -2.0, 0, bits - 2, True)


def power_of_two(exponents: Any) -> Any:
    """``2 ** e`` as float32, exactly, of exponents from -126 to 127.

    Args:
        exponents: Array or tensor.
    """
    is_array = isinstance(exponents, np.ndarray)
    bits = (exponents + _EXPONENT_BIAS) << _MANTISSA_BITS
    return _viewed(bits.astype(np.int32) if is_array else bits.int(), "float32")


def exponent_of(values: Any) -> Any:
    """int32 exponents of float32 values: the floor of their binary logarithm.

    -127 of zero and of all subnormal numbers of float32, 128 of infinity and NaN.

    Args:
        values: Array or tensor.
    """
    return ((_viewed(values, "int32") >> _MANTISSA_BITS) & 255) - _EXPONENT_BIAS


def rounded(values: Any, element: ElementType) -> Any:
    """Each value as the nearest number of a type, ties to even; too large ones saturate.

    NaN stays NaN.

    Args:
        values: Array or tensor of float32.
        element: Type of the result; it is held in float32.
    """
    if element.is_integer:
        step = element.code_unit
        inverse_step = 1.0 / element.code_unit
    else:
        exponents = exponent_of(values).clip(element.least_exponent, element.largest_exponent)
        step = power_of_two(exponents - element.mantissa_bits)
        inverse_step = power_of_two(element.mantissa_bits - exponents)
    return (values.clip(element.smallest, element.largest) * inverse_step).round() * step


def _viewed(values: Any, kind: str) -> Any:
    """The same bits read as another type of 32 bits."""
    if isinstance(values, np.ndarray):
        return values.view(kind)
    import torch

    return values.view(getattr(torch, kind))
