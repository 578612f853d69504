"""Measured attention kernels: prefill, encoder and decode.

Rows of ai-dynamo/aiconfigurator @095f58a, NVIDIA, Apache-2.0. A row is the fastest of the
frameworks and versions that ran the case; which they were is chance that no law of a device knows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from codesign.base.columns import BoolArray, FloatArray
from codesign.models.machines.device.attention import (
    Attention,
    AttentionConstants,
    attention_case,
    attention_time_s,
    attention_traffic_bytes,
    attention_work_flop,
)
from codesign.models.machines.device.rates import DeviceRates
from codesign.models.machines.roofline import roofline_times
from validation.studies.kernel_families.family import KernelFamily
from validation.studies.kernel_families.rows import (
    Reasons,
    find_reasons,
    multiplies_fp8,
)
from validation.studies.kernel_table import KernelTable

OPERATORS = ("attention_prefill", "attention_encoder", "attention_decode")
SIZES = ("batch", "input_tokens", "past_tokens", "query_heads", "kv_heads", "head_dim")
MAY_BE_0 = ("past_tokens",)
FORMATS = ("bf16", "fp16", "fp8")
_MOST_SHARED_HEADS = 32
START = AttentionConstants(
    matrix_fraction=0.7,
    eight_bit_gain=0.6,
    synchronous_flop_per_cycle=800,
    scores_per_cycle=25,
    bandwidth_fraction=0.85,
    cache_bytes_per_cycle=8,
    start_cycles=17_000,
    preparation_cycles=12_000,
    window_cycles=3_000,
    block_cycles=4_500,
    merge_cycles=1_500,
    recent_factor=0.8,
)
"""Start of the fit: round numbers."""
MOST = {"matrix_fraction": 1.0, "eight_bit_gain": 1.0, "bandwidth_fraction": 1.0}
"""No more than the datasheet."""


def left_out(table: KernelTable) -> Reasons:
    """(q,) why a row has no prediction; empty where it has one."""
    has_cache = table.words("operator") != "attention_encoder"
    return find_reasons(
        table,
        OPERATORS,
        SIZES,
        formats={"activation_dtype": FORMATS, "kv_dtype": (*FORMATS, "")},
        may_be_0=MAY_BE_0,
        more={
            "kv_dtype is not stated": has_cache & (table.words("kv_dtype") == ""),
            "window is not stated": has_cache & np.isnan(table["window"]),
        },
    )


def usable(table: KernelTable) -> BoolArray:
    """(q,) whether a row tells of the device: the fastest of a shape, whatever its formats."""
    names = zip(
        *(table.words(name).tolist() for name in ("device", "operator", *SIZES, "window")),
        strict=True,
    )
    shape = np.unique([" ".join(words) for words in names], return_inverse=True)[1]
    least = np.full(len(table), np.inf)
    np.minimum.at(least, shape, table["latency_s"])
    return np.asarray(has_kernel(table) & (table["latency_s"] <= least[shape]))


def has_kernel(table: KernelTable) -> BoolArray:
    """(q,) whether the framework has a kernel for a row.

    Decode of each head apart stands in where the good kernel does not take a shape.
    """
    is_decode = table.words("operator") == "attention_decode"
    group = table["query_heads"] / table["kv_heads"]
    return np.asarray(
        ~np.asarray(
            is_decode & (table.words("framework") == "TensorRT-LLM") & (group > _MOST_SHARED_HEADS)
        )
    )


def corrects(table: KernelTable) -> BoolArray:
    """(q,) whether a row tells what a device's libraries do.

    SGLang's decode on A100 of as many KV heads as query heads stands in, too: its long reads reach
    a quarter of the memory's bandwidth, those of vLLM 0.7.
    """
    is_alone = (table.words("operator") == "attention_decode") & (
        table["query_heads"] == table["kv_heads"]
    )
    is_slow = is_alone & (table.words("device") == "A100") & (table.words("framework") == "SGLang")
    return np.asarray(has_kernel(table) & ~is_slow)


def shape_roofline_s(shape: Attention, rates: DeviceRates) -> FloatArray:
    """The larger of the arithmetic over the peak and the least traffic over the bandwidth."""
    peak = np.multiply(rates.peak_16bit_flop_per_s, 16 / np.asarray(shape.math_bits))
    return roofline_times(
        attention_work_flop(shape),
        peak,
        attention_traffic_bytes(shape) / rates.bandwidth_bytes_per_s,
    ).time_s


def multiplies_8_bits(table: KernelTable) -> BoolArray:
    """(q,) whether the products are of 8 bits: the input is, or the cache is on recent devices."""
    is_8 = (table.words("activation_dtype") == "fp8") | (
        (np.asarray(table.rates.has_fp4) == 1) & (table.words("kv_dtype") == "fp8")
    )
    return np.asarray(multiplies_fp8(table) & is_8)


def shapes(table: KernelTable) -> Attention:
    """Shapes of the rows, (q,) each."""
    operators, head_dim, value_dim = (
        table.words("operator"),
        table["head_dim"],
        table["value_head_dim"],
    )
    return Attention(
        sequences=table["batch"],
        new_tokens=table["input_tokens"],
        past_tokens=table["past_tokens"],
        query_heads=table["query_heads"],
        kv_heads=table["kv_heads"],
        head_dim=head_dim,
        value_head_dim=np.where(np.isnan(value_dim), head_dim, value_dim),
        window=np.nan_to_num(table["window"]),  # encoders have none
        is_causal=operators != "attention_encoder",
        kv_bits=np.where(table.words("kv_dtype") == "fp8", 8.0, 16.0),
        math_bits=np.where(multiplies_8_bits(table), 8.0, 16.0),
        # TensorRT-LLM's prefill rotates inside the call (the table's notes).
        is_prepared=(operators == "attention_prefill")
        & (table.words("framework") == "TensorRT-LLM"),
        is_synchronous=np.char.find(table.words("kernel"), "triton") >= 0,
    )


def cached_law(shape: Attention, rates: DeviceRates) -> Callable[[AttentionConstants], FloatArray]:
    """Times of attention in a loop, as a function of constants."""
    return lambda constants: attention_time_s(shape, rates, constants, is_cached=True)


FAMILY = KernelFamily(
    file="attention",
    operators=OPERATORS,
    target=0.12,
    left_out=left_out,
    law=lambda table: cached_law(shapes(table), table.rates),
    roofline=lambda table: shape_roofline_s(shapes(table), table.rates),
    start=START,
    most=MOST,
    usable=usable,
    case=lambda table: attention_case(shapes(table)),
    corrects=corrects,
    transfer=0.8,
    geometry=("query_heads", "kv_heads", "head_dim"),
)
