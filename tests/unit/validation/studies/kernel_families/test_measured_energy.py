"""Measured watts: work and traffic counted by hand, and what is left out."""

import numpy as np
import pytest

from codesign.models.machines.device.energy import shipped_energy
from validation.studies.kernel_families import energy as family
from validation.studies.kernel_table import KernelTable, read_kernel_table

NAMES = (
    *("operator", "device", "framework", "weight_dtype", "activation_dtype", "kv_dtype"),
    *("latency_s", "power_watts", "m", "n", "k", "batch", "query_heads", "kv_heads", "head_dim"),
    *("value_head_dim", "input_tokens", "past_tokens", "window"),
    "routing",
)
GEMM = {
    "operator": "gemm",
    "device": "H200",
    "weight_dtype": "bf16",
    "activation_dtype": "bf16",
    "latency_s": "1e-3",
    "power_watts": "500",
    "m": "4096",
    "n": "4096",
    "k": "4096",
}


def rows(*records):
    text = {name: np.array([record.get(name, "") for record in records]) for name in NAMES}
    return KernelTable(text, np.arange(len(records)))


def predicted(table):
    return family.energy_joules(table, table["latency_s"])


def test_a_row_without_counted_work_or_reliable_watts_says_why():
    eager = {"framework": "vLLM", "weight_dtype": "fp8_block128"}
    table = rows(
        GEMM,
        GEMM | {"operator": "mla_module_decode"},
        GEMM | {"power_watts": ""},
        GEMM | {"latency_s": "5e-5"},
        GEMM | {"device": "Abacus 9"},
        GEMM | {"m": ""},
        GEMM | eager,
        GEMM | {"operator": "moe_experts", "routing": "power_law_1.2"},
    )
    reasons = family.left_out(table).tolist()
    assert reasons[0] == ""
    words = ("family", "measured", "short", "device", "missing", "host", "routing")
    assert all(word in reason for word, reason in zip(words, reasons[1:], strict=True))


def test_energy_of_a_decode_depends_on_the_cache_that_it_reads():
    decode = {"operator": "attention_decode", "batch": "64", "query_heads": "32", "kv_heads": "8"}
    decode |= {"head_dim": "128", "input_tokens": "1", "past_tokens": "4095", "kv_dtype": "bf16"}
    table = rows(GEMM | decode, GEMM | decode | {"kv_dtype": "fp8"})
    both = predicted(table)
    saved_bytes = 64 * 4097 * 8 * 256 * 1.0  # 4,096 keys are read, the last is written
    per_byte = shipped_energy().byte
    # 64 sequences are prepared in 0.518 s. The loop lasts 1 s: the part of the second before that
    # lies in the preparation is 0.518 for 0.482 s, then falls to 0.
    share = 0.518 * 0.482 + 0.518**2 / 2
    assert both[0] - both[1] == pytest.approx((1 - share) * saved_bytes * per_byte, rel=1e-6)


@pytest.mark.parametrize(
    ("latency_s", "share"),
    [("1e-3", 0.07 * 0.93 + 0.07**2 / 2), ("1e-4", 0.07), ("1", 0.06755 / 6)],
)
def test_a_reading_is_partly_of_what_ran_in_the_second_before(latency_s, share):
    # Loops of 1 s, of 3000 runs and 0.3 s, and of 6 runs and 6 s; no arithmetic to speak of.
    scan = {"operator": "quantize_bf16_to_fp8", "device": "H200", "m": "1", "k": "1"}
    row = rows(GEMM | scan | {"latency_s": latency_s})
    base = shipped_energy().base
    watts = predicted(row) / float(latency_s)
    assert watts == pytest.approx(700 * (base + share * (0.49 - base)), rel=1e-4)


def test_kernels_that_read_what_nobody_wrote_are_told_apart():
    vllm = {"framework": "vLLM"}
    table = rows(
        GEMM,
        GEMM | vllm,
        GEMM | vllm | {"weight_dtype": "nvfp4"},
        GEMM | vllm | {"operator": "attention_prefill"},
        GEMM | vllm | {"operator": "attention_decode"},
        GEMM | {"operator": "mla_decode"},
    )
    assert family.has_written_operands(table).tolist() == [True, False, True, False, True, False]


@pytest.mark.parametrize(("device", "most"), [("H200", 0.05), ("B200", 0.05)])
def test_products_draw_the_documented_watts(device, most):
    table = read_kernel_table().operator_rows(["gemm"])
    table = table.take((table.words("device") == device) & (family.left_out(table) == ""))
    errors = np.abs(predicted(table) / family.measured_joules(table) - 1)
    assert np.median(errors) < most
