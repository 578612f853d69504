"""Rounding of tensors to block formats: what is left of them once they were stored.

Blocks lie along the last axis, over which a product sums. The last block of an axis may be
shorter. A block that holds infinity or NaN becomes NaN, as its scale has no other code for it; a
block of zeros stays zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from codesign.models.quantization.block_formats import BlockFormat, SharedExponent
from codesign.models.quantization.element_types import (
    ElementType,
    exponent_of,
    float_type,
    power_of_two,
    rounded,
)

_FLOAT32_LARGEST = float(np.finfo(np.float32).max)
_SCALE_LARGEST = float_type(4, 3).largest
"""Largest scale of a block of NVFP4."""


def quantize(values: Any, block_format: BlockFormat) -> Any:
    """The values as a format stores them, in float32; an array or tensor of the same shape.

    Args:
        values: NumPy array or torch tensor.
        block_format: Format; without an element type, the values themselves.
    """
    values = _float32_values(values)
    if block_format.element is None or values.shape[-1] == 0:
        return values
    if isinstance(values, np.ndarray) or values.device.type != "cpu":
        return quantize_with_own_library(values, block_format.element, block_format)
    import torch

    # On a CPU, NumPy is several times as fast with the same memory.
    stored = quantize_with_own_library(values.numpy(), block_format.element, block_format)
    return torch.from_numpy(stored)


def quantize_with_own_library(values: Any, element: ElementType, block_format: BlockFormat) -> Any:
    """The same, computed by the library and on the device that the values are of.

    Args:
        values: NumPy array or torch tensor of float32, not empty along the last axis.
    """
    blocks = _split(values, block_format.block_size or values.shape[-1])
    with np.errstate(over="ignore", invalid="ignore"):  # of what becomes NaN, or saturates
        largest = _largest(abs(blocks))
        scale = block_format.scale
        if isinstance(scale, SharedExponent):
            first, second = _halves(_exponents(largest, element, scale))
            # The inverse of a power of two is one; two factors, so that neither is subnormal.
            stored = rounded(blocks * (1.0 / first) * (1.0 / second), element) * first * second
            if element.smallest < -element.largest:  # -2 times 2**127 is beyond float32
                stored = stored.clip(-_FLOAT32_LARGEST, _FLOAT32_LARGEST)
        else:
            tensor_scale = _tensor_scale(blocks, element) if block_format.has_tensor_scale else None
            factor = _factor(largest, element, scale, tensor_scale)
            divisor = _where(factor > 0, factor, np.inf)
            stored = rounded(blocks / divisor, element) * factor
        n = values.shape[-1]
        stored = _where(largest < np.inf, stored, np.nan)
        return stored.reshape(*values.shape[:-1], -1)[..., :n]


def relative_noise(values: Any, block_format: BlockFormat) -> float:
    """Energy of the rounding error over that of the values: the inverse of the SQNR."""
    values = _float32_values(values)
    error = quantize(values, block_format) - values
    energy = float((values * values).sum())
    return float((error * error).sum()) / energy if energy else 0.0


def _exponents(largest: Any, element: ElementType, scale: SharedExponent) -> Any:
    """Exponents of the scales of blocks with these largest magnitudes."""
    # The binary logarithm of subnormal numbers too: -191 of zero.
    is_small = largest < 2.0**-64
    scaled = _where(is_small, largest.clip(0.0, 2.0**-64) * 2.0**64, largest)
    exponents = exponent_of(scaled) - is_small * 64 - element.largest_exponent
    return exponents.clip(-scale.limit, scale.limit)


def _factor(largest: Any, element: ElementType, scale: ElementType, tensor_scale: Any) -> Any:
    of_block = _quotient(largest, element.largest / element.code_unit)
    if tensor_scale is not None:
        of_block = of_block / tensor_scale
    of_block = rounded(of_block, scale)
    return (of_block if tensor_scale is None else of_block * tensor_scale) / element.code_unit


def _tensor_scale(blocks: Any, element: ElementType) -> Any:
    """Maps the largest scale of a block to the largest number of E4M3; 1 of a tensor of zeros."""
    magnitudes = abs(blocks)
    finite = _where(magnitudes < np.inf, magnitudes, 0.0)
    scale = _quotient(finite.max(), element.largest * _SCALE_LARGEST)
    return _where(scale > 0, scale, 1.0)


def _halves(exponents: Any) -> tuple[Any, Any]:
    """Two powers of two with normal inverses, whose product has these exponents."""
    first = exponents >> 1
    return power_of_two(first), power_of_two(exponents - first)


def block_scales(values: Any, block_format: BlockFormat, tensor_scale: Any = None) -> Any:
    """(..., blocks, 1) scale of each block: its elements are the values over it, rounded.

    For callers that round one element after the other, as GPTQ does.

    Args:
        values: Array or tensor of float32; its last axis is a whole number of blocks.
        block_format: Format with an element type.
        tensor_scale: Of the tensor that the values are a part of, where the format has one.
    """
    element = block_format.element
    assert element is not None
    blocks = _split(values, block_format.block_size or values.shape[-1])
    largest = _largest(abs(blocks))
    scale = block_format.scale
    if isinstance(scale, SharedExponent):
        first, second = _halves(_exponents(largest, element, scale))
        return first * second
    return _factor(largest, element, scale, tensor_scale)


def scale_of_tensor(values: Any, block_format: BlockFormat) -> Any:
    """The float32 scale of a tensor in a format that has one, as NVFP4; None in others."""
    if not block_format.has_tensor_scale or block_format.element is None:
        return None
    return _tensor_scale(values, block_format.element)


# What NumPy and torch call differently


def _float32_values(values: Any) -> Any:
    if hasattr(values, "detach"):
        return values.detach().float()
    return np.ascontiguousarray(values, np.float32)


def _largest(blocks: Any) -> Any:
    """(..., 1); NaN where there is one."""
    if isinstance(blocks, np.ndarray):
        return blocks.max(axis=-1, keepdims=True)
    return blocks.amax(dim=-1, keepdim=True)


def _where(condition: Any, values: Any, otherwise: Any) -> Any:
    if isinstance(values, np.ndarray | np.generic):
        return np.where(condition, values, np.asarray(otherwise, np.float32))
    import torch

    return torch.where(condition, values, otherwise)


def _quotient(values: Any, divisor: float) -> Any:
    """The quotient, rounded as IEEE 754 says.

    On a GPU, torch multiplies by the inverse of a number, but divides by a tensor.
    """
    is_tensor = hasattr(values, "new_tensor")
    return values / (values.new_tensor(divisor) if is_tensor else divisor)


def _split(values: Any, size: int) -> Any:
    """(..., n) as (..., blocks, size), the last block filled with zeros."""
    *outer, n = values.shape
    missing = -n % size
    if missing and isinstance(values, np.ndarray):
        values = np.pad(values, [(0, 0)] * len(outer) + [(0, missing)])
    elif missing:
        from torch.nn.functional import pad

        values = pad(values, (0, missing))
    return values.reshape(*outer, (n + missing) // size, size)
