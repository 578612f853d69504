"""Measured products that absorb a head's projection in latent attention (MLA).

Rows of ai-dynamo/aiconfigurator @095f58a, NVIDIA, Apache-2.0.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from codesign.base.columns import FloatArray
from codesign.models.machines.device.absorbing import (
    Absorbing,
    AbsorbingConstants,
    absorbing_case,
    absorbing_time_s,
    absorbing_traffic_bytes,
)
from codesign.models.machines.roofline import roofline_times
from validation.studies.kernel_families.family import KernelFamily
from validation.studies.kernel_families.rows import (
    Reasons,
    find_reasons,
    multiplies_fp8,
)
from validation.studies.kernel_table import KernelTable

OPERATORS = ("mla_absorb_query", "mla_absorb_value")
_LATENT, _UNROTATED = 512, 128
START = AbsorbingConstants(
    bandwidth_fraction=0.8,
    cache_bytes_per_cycle=18,
    start_cycles=5_000,
    convert_cycles=3_000,
    convert_bytes_per_cycle=5,
    tile_cycles=1_000,
)
"""Start of the fit: round numbers."""
MOST = {"bandwidth_fraction": 1.0}
"""No more than the datasheet."""


def left_out(table: KernelTable) -> Reasons:
    """(q,) why a row has no prediction; empty where it has one."""
    return find_reasons(
        table,
        OPERATORS,
        ("tokens", "query_heads"),
        formats={"weight_dtype": ("bf16", "fp16", "fp8")},
    )


def shapes(table: KernelTable) -> Absorbing:
    """Shapes of the rows, (q,) each."""
    is_query = table.words("operator") == "mla_absorb_query"
    has_8_bits = table.words("weight_dtype") == "fp8"
    recent = np.asarray(table.rates.has_fp4) == 1  # runs them in 16 bits (the table's notes)
    return Absorbing(
        tokens=table["tokens"],
        heads=table["query_heads"],
        inner=np.where(is_query, _UNROTATED, _LATENT),
        outer=np.where(is_query, _LATENT, _UNROTATED),
        weight_bits=np.where(has_8_bits, 8.0, 16.0),
        math_bits=np.where(has_8_bits & multiplies_fp8(table) & ~recent, 8.0, 16.0),
    )


def _law(table: KernelTable) -> Callable[[AbsorbingConstants], FloatArray]:
    shape, rates = shapes(table), table.rates
    return lambda constants: absorbing_time_s(shape, rates, constants, is_cached=True)


def _roofline_s(table: KernelTable) -> FloatArray:
    shape, rates = shapes(table), table.rates
    peak = np.multiply(rates.peak_16bit_flop_per_s, 16 / np.asarray(shape.math_bits))
    return roofline_times(
        absorbing_work_flop(shape),
        peak,
        absorbing_traffic_bytes(shape) / rates.bandwidth_bytes_per_s,
    ).time_s


FAMILY = KernelFamily(
    file="absorbing",
    operators=OPERATORS,
    target=0.15,
    left_out=left_out,
    law=_law,
    roofline=_roofline_s,
    start=START,
    most=MOST,
    case=lambda table: absorbing_case(shapes(table)),
    transfer=0.8,
    geometry=("tokens", "query_heads"),
)


def absorbing_work_flop(shape: Absorbing) -> FloatArray:
    """Arithmetic, 2 per multiply-accumulate."""
    return 2 * np.multiply(shape.tokens, shape.heads) * shape.inner * shape.outer
