"""Number formats as they store tensors, and what they do to a model's answers."""

from codesign.models.quantization.block_formats import (
    BlockFormat,
    SharedExponent,
    find_block_format,
    float_scaled_format,
    mxfp,
    mxint,
)
from codesign.models.quantization.element_types import ElementType, float_type, integer_type
from codesign.models.quantization.rounding import quantize, relative_noise

__all__ = [
    "BlockFormat",
    "ElementType",
    "SharedExponent",
    "find_block_format",
    "float_scaled_format",
    "float_type",
    "integer_type",
    "mxfp",
    "mxint",
    "quantize",
    "relative_noise",
]
