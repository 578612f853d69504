"""Measured kernels of linear attention: Gated DeltaNet, Kimi Delta Attention, Mamba-2.

Rows of ai-dynamo/aiconfigurator @095f58a, NVIDIA, Apache-2.0. The label of a kernel says which of
two algorithms a prefill ran: fused (FlashInfer, FlashKDA) or chunk by chunk through the memory.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from codesign.base.columns import BoolArray, FloatArray, StringArray
from codesign.models.machines.device.scan import (
    Convolution,
    Scan,
    ScanConstants,
    convolution_time_s,
    convolution_traffic_bytes,
    scan_time_s,
    scan_traffic_bytes,
)
from codesign.models.machines.roofline import roofline_times
from codesign.models.workload.layer_dims import LINEAR_FORMS
from validation.studies.kernel_families.family import KernelFamily
from validation.studies.kernel_families.rows import (
    Reasons,
    find_reasons,
)
from validation.studies.kernel_table import KernelTable

_CONVOLUTIONS = (
    *("gdn_conv_prefill", "gdn_conv_decode", "mamba2_conv_prefill", "mamba2_conv_decode"),
    *("kda_conv_prefill", "kda_conv_decode", "kda_conv_verify"),
)
_SCANS = (
    *("gdn_scan_prefill", "gdn_scan_decode", "mamba2_scan_prefill", "kda_scan_prefill"),
    *("kda_scan_decode", "kda_scan_verify"),
    *("kda_conv_and_scan_decode", "kda_conv_and_scan_verify"),
)
OPERATORS = (*_CONVOLUTIONS, *_SCANS)
_FUSED = ("chunk_gated_delta_rule_flashinfer", "flashkda_fwd")
_MIXED = "fused_recurrent_gated_delta_rule"
"""A decode that reads 16 bits of a state and writes 32 [ours]. It is faster than 32 both ways allow
on H100, H200 and A100, and states are of 16 or 32 bits (the table's notes)."""
START = ScanConstants(
    bandwidth_fraction=0.85,
    convolution_bandwidth_fraction=0.7,
    convolution_bytes_per_cycle=12,
    cache_bytes_per_cycle=18,
    convolution_start_cycles=3_000,
    tiling_cycles=2_500,
    sequence_start_cycles=7_000,
    sequence_block_cycles=15_000,
    step_start_cycles=7_500,
    fused_start_cycles=17_500,
    gate_start_cycles=10_000,
    unfused_start_cycles=40_000,
    head_cycles=9_000,
    chunk_cycles=5_500,
    serial_chunk_cycles=5_000,
    gate_work=1.7,
    passes=11,
)
"""Start of the fit: round numbers."""
MOST = {"bandwidth_fraction": 1.0, "convolution_bandwidth_fraction": 1.0}
"""No more than the datasheet."""


def left_out(table: KernelTable) -> Reasons:
    """(q,) why a row has no prediction; empty where it has one."""
    formats = {"activation_dtype": ("bf16", "fp16")}
    shared = ("batch", "input_tokens")
    of_scan = find_reasons(
        table,
        _SCANS,
        (*shared, *(("key_heads", "value_heads", "key_head_dim", "value_head_dim"))),
        formats=formats,
    )
    of_convolution = find_reasons(
        table, _CONVOLUTIONS, (*shared, *(("conv_width", "conv_channels"))), formats=formats
    )
    return np.where(has_scan(table), of_scan, of_convolution)


def has_scan(table: KernelTable) -> BoolArray:
    """(q,) whether the call scans, maybe after a convolution in the same kernel."""
    return np.isin(table.words("operator"), _SCANS)


def convolutions(table: KernelTable) -> Convolution:
    """Convolutions of the rows, (q,) each."""
    return Convolution(
        sequences=table["batch"],
        tokens=table["input_tokens"],
        channels=table["conv_channels"],
        width=table["conv_width"],
        launches=np.where(_model(table) == "kda", 3.0, 1.0),  # queries, keys, values
        is_prefill=_is_prefill(table),
        # The convolution of Mamba's authors, which TensorRT-LLM runs for all models.
        takes_sequences=table.words("framework") == "TensorRT-LLM",
    )


def scans(table: KernelTable) -> Scan:
    """Scans of the rows, (q,) each."""
    family = _model(table)
    return Scan(
        sequences=table["batch"],
        tokens=table["input_tokens"],
        key_heads=table["key_heads"],
        value_heads=table["value_heads"],
        key_dim=table["key_head_dim"],
        value_dim=table["value_head_dim"],
        is_prefill=_is_prefill(table),
        keeps_states=np.char.find(table.words("operator"), "verify") >= 0,
        is_fused=np.isin(table.words("kernel"), _FUSED),
        has_channel_gates=family == "kda",
        state_bits=np.where(table.words("kernel") == _MIXED, 24.0, 32.0),
        chunk_tokens=np.where(family == "mamba2", LINEAR_FORMS["mamba2"].chunk_tokens, 64.0),
    )


def _model(table: KernelTable) -> StringArray:
    """(q,) which kind of linear attention a row is of."""
    return np.asarray(np.char.partition(table.words("operator"), "_")[:, 0])


def _is_prefill(table: KernelTable) -> BoolArray:
    return np.asarray(np.char.find(table.words("operator"), "prefill") >= 0)


def _law(table: KernelTable) -> Callable[[ScanConstants], FloatArray]:
    is_scan, rates = has_scan(table), table.rates
    scan, convolution = scans(table), convolutions(table)

    def times_s(constants: ScanConstants) -> FloatArray:
        scan_s = scan_time_s(scan, rates, constants, is_cached=True)
        return np.where(
            is_scan, scan_s, convolution_time_s(convolution, rates, constants, is_cached=True)
        )

    return times_s


def _roofline_s(table: KernelTable) -> FloatArray:
    scan, rates, is_scan = scans(table), table.rates, has_scan(table)
    traffic = np.where(
        is_scan, scan_traffic_bytes(scan), convolution_traffic_bytes(convolutions(table))
    )
    work_flop, memory_s = scan_work_flop(scan), traffic / rates.bandwidth_bytes_per_s
    work_flop = np.where(is_scan, work_flop, 0.0)
    return roofline_times(work_flop, rates.peak_16bit_flop_per_s, memory_s).time_s


FAMILY = KernelFamily(
    file="scan",
    operators=OPERATORS,
    target=0.15,
    left_out=left_out,
    law=_law,
    roofline=_roofline_s,
    start=START,
    most=MOST,
)


def scan_work_flop(shape: Scan) -> FloatArray:
    """Arithmetic of the recurrence, 2 per multiply-accumulate: read, correct and update a state."""
    elements = np.multiply(shape.key_dim, shape.value_dim) * shape.value_heads
    return 6 * elements * np.multiply(shape.sequences, shape.tokens)
