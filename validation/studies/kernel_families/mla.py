"""Measured kernels of latent attention (MLA) of DeepSeek.

Rows of ai-dynamo/aiconfigurator @095f58a, NVIDIA, Apache-2.0. Prefill is expanded: 192 elements of
a query and key, 128 of a value, per head. Decode is absorbed: all query heads share one latent
head of 576 elements, of which 512 are also the value.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from codesign.base.columns import BoolArray
from codesign.models.machines.device.attention import (
    Attention,
    AttentionConstants,
    attention_case,
)
from codesign.models.machines.device.constants import load_constants
from validation.studies.kernel_families import attention
from validation.studies.kernel_families.family import KernelFamily
from validation.studies.kernel_families.rows import (
    Reasons,
    find_reasons,
    multiplies_fp8,
)
from validation.studies.kernel_table import KernelTable

OPERATORS = ("mla_prefill", "mla_decode")
FITTED = (
    "matrix_fraction",
    "eight_bit_gain",
    "bandwidth_fraction",
    "start_cycles",
    "preparation_cycles",
    "block_cycles",
    "merge_cycles",
)
"""Constants that are fitted anew; the others are those of attention of grouped heads."""
_OLD = ("A100", "L40S")
"""Devices for which nobody wrote kernels of latent attention: those of their generation convert
nothing before and part no keys."""


def left_out(table: KernelTable) -> Reasons:
    """(q,) why a row has no prediction; empty where it has one."""
    return find_reasons(
        table,
        OPERATORS,
        (*attention.SIZES, "value_head_dim"),
        formats=dict.fromkeys(("activation_dtype", "kv_dtype"), attention.FORMATS),
        may_be_0=attention.MAY_BE_0,
    )


def usable(table: KernelTable) -> BoolArray:
    """(q,) whether a row tells of the device, not of a missing kernel.

    Before Hopper, TensorRT-LLM gives each sequence one core, for however long a context, and
    vLLM's prefill is not expanded.
    """
    frameworks, is_decode = table.words("framework"), table.words("operator") == "mla_decode"
    return np.asarray(
        ~(
            _is_old(table)
            & (
                ((frameworks == "TensorRT-LLM") & is_decode)
                | (table.words("kernel") == "vllm_triton_mla")
            )
        )
    )


def shapes(table: KernelTable) -> Attention:
    """Shapes of the rows, (q,) each."""
    is_decode = table.words("operator") == "mla_decode"
    is_8 = multiplies_fp8(table) & is_decode & (table.words("kv_dtype") == "fp8")
    return replace(
        attention.shapes(table),
        shares_values=is_decode,
        math_bits=np.where(is_8, 8.0, 16.0),
        is_prepared=~is_decode & ~_is_old(table) & (table.words("kv_dtype") == "fp8"),
    )


def _is_old(table: KernelTable) -> BoolArray:
    return np.isin(table.words("device"), _OLD)


FAMILY = KernelFamily(
    file="mla",
    operators=OPERATORS,
    target=0.15,
    left_out=left_out,
    law=lambda table: attention.cached_law(shapes(table), table.rates),
    roofline=lambda table: attention.shape_roofline_s(shapes(table), table.rates),
    start=attention.START,
    most=attention.MOST,
    first_guess=lambda _: load_constants("attention", AttentionConstants, "gpu"),
    free=FITTED,
    usable=usable,
    case=lambda table: attention_case(shapes(table)),
    geometry=("batch", "input_tokens", "past_tokens", "query_heads"),
)
