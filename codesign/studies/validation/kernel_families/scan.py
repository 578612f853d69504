"""Measured kernels of linear attention: Gated DeltaNet, Kimi Delta Attention, Mamba-2.

Rows of ai-dynamo/aiconfigurator @095f58a, NVIDIA, Apache-2.0. The label of a kernel says which of
two algorithms a prefill ran: fused (FlashInfer, FlashKDA) or chunk by chunk through the memory.
"""

from __future__ import annotations

import numpy as np

from codesign.columns import BoolArray, FloatArray
from codesign.machines.device.scan import (
    Convolution,
    Scan,
    ScanConstants,
    convolution_time_s,
    convolution_traffic_bytes,
    scan_time_s,
    scan_traffic_bytes,
    scan_work_flop,
)
from codesign.studies.validation.kernel_families.record_fit import (
    Reasons,
    fill,
    fit_record,
    missing_reasons,
    predict_rows,
    shipped,
)
from codesign.studies.validation.kernel_table import KernelTable

FAMILIES = ("gdn", "kda", "mamba2")
_FUSED = ("chunk_gated_delta_rule_flashinfer", "flashkda_fwd")
_MIXED = "fused_recurrent_gated_delta_rule"
"""A decode that reads 16 bits of a state and writes 32 [ours]: it is faster than 32 both ways allow
on H100, H200 and A100, and states are of 16 or 32 bits (the table's notes)."""
_MAMBA_CHUNK_TOKENS = 256
START = ScanConstants(
    bandwidth_fraction=0.85,
    convolution_bandwidth_fraction=0.65,
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
"""Where the fit starts: round numbers."""
MOST = {"bandwidth_fraction": 1.0, "convolution_bandwidth_fraction": 1.0}
"""No more than the datasheet."""


def left_out(table: KernelTable) -> Reasons:
    """(q,) why a row has no prediction; empty where it has one."""
    formats = {"activation_dtype": ("bf16", "fp16")}
    shared = ("batch", "input_tokens")
    scans = (*shared, "key_heads", "value_heads", "key_head_dim", "value_head_dim")
    of_scan = missing_reasons(table, scans, formats)
    of_convolution = missing_reasons(table, (*shared, "conv_width", "conv_channels"), formats)
    reasons = np.where(has_scan(table), of_scan, of_convolution)
    return np.where(
        (reasons == "") & ~np.isin(table.words("family"), FAMILIES), "no linear attention", reasons
    )


def predict_s(table: KernelTable, constants: ScanConstants | None = None) -> FloatArray:
    """(q,) seconds by the shipped constants or by these; NaN where left out."""
    load = shipped("scan", ScanConstants, constants)
    return predict_rows(table, left_out(table), _times_s, load)


def roofline_s(table: KernelTable) -> FloatArray:
    """(q,) the larger of arithmetic over peak and traffic over bandwidth; NaN where left out."""
    return fill(table, left_out(table), _roofline_s)


def fit(table: KernelTable) -> ScanConstants:
    """Constants that make the rows come out best."""
    rows = table.take(left_out(table) == "")
    return fit_record(
        START, tuple(START.model_dump()), lambda c: _times_s(rows, c), rows["latency_s"], MOST
    )


def has_scan(table: KernelTable) -> BoolArray:
    """(q,) whether the call scans, maybe after a convolution in the same kernel."""
    return np.asarray(np.char.find(table.words("operator"), "scan") >= 0)


def convolutions(table: KernelTable) -> Convolution:
    """What the rows of convolutions ask for, (q,) each."""
    return Convolution(
        sequences=table["batch"],
        tokens=table["input_tokens"],
        channels=table["conv_channels"],
        width=table["conv_width"],
        launches=np.where(table.words("family") == "kda", 3.0, 1.0),  # queries, keys, values
        is_prefill=_is_prefill(table),
        # The convolution of Mamba's authors, which TensorRT-LLM runs for all models.
        takes_sequences=table.words("framework") == "TensorRT-LLM",
    )


def scans(table: KernelTable) -> Scan:
    """What the rows of scans ask for, (q,) each."""
    families = table.words("family")
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
        has_channel_gates=families == "kda",
        state_bits=np.where(table.words("kernel") == _MIXED, 24.0, 32.0),
        chunk_tokens=np.where(families == "mamba2", _MAMBA_CHUNK_TOKENS, 64.0),
    )


def _is_prefill(table: KernelTable) -> BoolArray:
    return np.asarray(np.char.find(table.words("operator"), "prefill") >= 0)


def _times_s(table: KernelTable, constants: ScanConstants) -> FloatArray:
    convolution_s = convolution_time_s(convolutions(table), table.rates, constants, is_cached=True)
    scan_s = scan_time_s(scans(table), table.rates, constants, is_cached=True)
    return np.where(has_scan(table), scan_s, convolution_s)


def _roofline_s(table: KernelTable) -> FloatArray:
    scan, rates, is_scan = scans(table), table.rates, has_scan(table)
    convolution = convolution_traffic_bytes(convolutions(table))
    traffic = np.where(is_scan, scan_traffic_bytes(scan), convolution)
    work_s = np.where(is_scan, scan_work_flop(scan) / np.asarray(rates.peak_16bit_flop_per_s), 0.0)
    return np.asarray(np.maximum(work_s, traffic / np.asarray(rates.bandwidth_bytes_per_s)))
