"""Measured watts: work and traffic counted by hand, and what is left out."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.machines.device.constants import load_constants
from codesign.machines.device.energy import EnergyConstants
from codesign.studies.validation.kernel_families import energy as family
from codesign.studies.validation.kernel_table import KernelTable, read_kernel_table

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


def rows(*records: dict[str, str]) -> KernelTable:
    text = {name: np.array([record.get(name, "") for record in records]) for name in NAMES}
    return KernelTable(text, np.arange(len(records)))


def test_a_row_without_counted_work_or_reliable_watts_says_why() -> None:
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
    assert np.isfinite(family.FAMILY.predict(table)).tolist() == [True] + [False] * 7


def test_energy_of_a_decode_depends_on_the_cache_that_it_reads() -> None:
    decode = {"operator": "attention_decode", "batch": "64", "query_heads": "32", "kv_heads": "8"}
    decode |= {"head_dim": "128", "input_tokens": "1", "past_tokens": "4095", "kv_dtype": "bf16"}
    table = rows(GEMM | decode, GEMM | decode | {"kv_dtype": "fp8"})
    both = family.FAMILY.predict(table)
    read = 64 * 4096 * 8 * 256 * 1.0
    per_byte = load_constants("energy", EnergyConstants, "gpu").byte * 700 / 4800e9
    assert both[0] - both[1] == pytest.approx(read * per_byte, rel=1e-6)


@pytest.mark.parametrize(("device", "most"), [("H200", 0.02), ("B200", 0.03)])
def test_products_draw_the_documented_watts(device: str, most: float) -> None:
    table = read_kernel_table().of(["gemm"])
    table = table.take((table.words("device") == device) & (family.left_out(table) == ""))
    errors = np.abs(family.FAMILY.predict(table) / family.measured_joules(table) - 1)
    assert np.median(errors) < most
