"""Measured kernels that only move data.

Of Vidur's profile of a layer (see :mod:`validation.studies.operator_rows`), ``m`` is the
tokens and ``k`` the elements that a token reads and writes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from codesign.base.columns import FloatArray, Floats
from codesign.models.machines.device.elementwise import (
    ElementwiseConstants,
    row_time_s,
    stream_time_s,
    uncached_s,
)
from validation.studies.kernel_families.family import KernelFamily, device_operators
from validation.studies.kernel_families.rows import (
    Reasons,
    find_reasons,
)
from validation.studies.kernel_table import KernelTable

MIXING_KINDS = ("hyper_connection_pre", "hyper_connection_post")
STREAM_BYTES = 4
"""Bytes of an element of a residual stream: float32. [derived: only then do the measured times of
both calls come to the bandwidth that other streams reach]"""

STREAMS = ("quantize_bf16_to_fp8", "add")
ROW_KERNELS = ("input_layernorm", "mlp_act", "attn_rope")
OPERATORS = (*STREAMS, *ROW_KERNELS, *MIXING_KINDS)
_BYTES = {"quantize_bf16_to_fp8": 3.0}
"""Bytes read and written per element of ``k``; of the others 2, as ``k`` counts both."""
START = ElementwiseConstants.model_validate(
    {
        "stream_start": "1.6 us",
        "row_start": "4 us",
        "mixing_start": "6 us",
        "projection_start": "15 us",
        "memory": 0.85,
        "cache": 0.7,
        "stream_core": "40 GB/s",
        "row_core": "8 GB/s",
    }
)
"""Start of the fit: round numbers."""
MOST = {"memory": 1.0, "cache": 1.0}


def left_out(table: KernelTable) -> Reasons:
    """(q,) why a row is not predicted; empty where it is."""
    formats = {"activation_dtype": ("bf16", "fp16")}
    mixing = find_reasons(table, MIXING_KINDS, ("tokens", "hidden", "streams"), formats=formats)
    moving = find_reasons(table, (*STREAMS, *ROW_KERNELS), ("m", "k"), formats=formats)
    return np.where(np.isin(table.words("operator"), MIXING_KINDS), mixing, moving)


def _moved_bytes(table: KernelTable) -> FloatArray:
    operator = table.words("operator")
    each = np.array([_BYTES.get(name, 2.0) for name in operator.tolist()])
    mixed = mixing_bytes(table["tokens"], table["hidden"], table["streams"])
    return np.where(np.isin(operator, MIXING_KINDS), mixed, table["m"] * table["k"] * each)


def _law(table: KernelTable) -> Callable[[ElementwiseConstants], FloatArray]:
    """The time of rows that are not left out, as a function of the constants."""
    operator, rates = table.words("operator"), table.rates
    moved, rows = _moved_bytes(table), table["m"]

    def times_s(constants: ElementwiseConstants) -> FloatArray:
        with np.errstate(invalid="ignore"):
            by_row = row_time_s(rows, moved / rows, rates, constants)
        # Before a block, the streams are read for their weights and once more for their sum; after
        # it, they are read and written. The arithmetic is not counted.
        mixing_s = np.maximum(
            moved / (constants.stream_core * rates.n_cores),
            uncached_s(moved, rates, constants, is_cached=True),
        )
        before, after = (operator == mixing for mixing in MIXING_KINDS)
        return np.select(
            [before, after, np.isin(operator, ROW_KERNELS)],
            [constants.projection_start + mixing_s, constants.mixing_start + mixing_s, by_row],
            stream_time_s(moved, rates, constants),
        )

    return times_s


FAMILY = KernelFamily(
    file="elementwise",
    operators=OPERATORS,
    target=0.20,
    left_out=left_out,
    law=_law,
    # Bytes, each once, over the memory's datasheet rate.
    roofline=lambda table: _moved_bytes(table) / table.rates.bandwidth_bytes_per_s,
    start=START,
    most=MOST,
    groups=device_operators,
)


def mixing_bytes(tokens: Floats, hidden: Floats, streams: Floats) -> FloatArray:
    """Bytes of the streams twice, and of the block's input or output in 16 bits."""
    return np.asarray(tokens * hidden * (2.0 * STREAM_BYTES * streams + 2.0))
