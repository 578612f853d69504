"""Measured attention, latent attention, absorbing products and scans: what the rows ask for."""

import numpy as np
import pytest

from validation.studies.kernel_families import attention, mla, mla_bmm, scan
from validation.studies.kernel_table import KernelTable, read_kernel_table

ROW = {
    "device": "H100",
    "family": "attention",
    "operator": "attention_decode",
    "framework": "vLLM",
    "kernel": "vllm_flash_attn",
    "batch": "8",
    "input_tokens": "1",
    "past_tokens": "1023",
    "query_heads": "32",
    "kv_heads": "8",
    "head_dim": "128",
    "window": "0",
    "weight_dtype": "",
    "activation_dtype": "bf16",
    "kv_dtype": "bf16",
    "latency_s": "1e-5",
}
LATENT = ROW | {"operator": "mla_decode", "head_dim": "576", "value_head_dim": "512"}
PRODUCT = ROW | {"operator": "mla_absorb_query", "tokens": "64", "weight_dtype": "bf16"}
SCAN = ROW | {
    "family": "gdn",
    "operator": "gdn_scan_decode",
    "key_heads": "16",
    "value_heads": "32",
    "key_head_dim": "128",
    "value_head_dim": "128",
}
CONVOLUTION = SCAN | {
    "operator": "gdn_conv_decode",
    "conv_width": "4",
    "conv_channels": "8192",
    "key_heads": "",
}
CASES = {attention: ROW, mla: LATENT, mla_bmm: PRODUCT, scan: SCAN}

DOCUMENTED = {
    ("attention", "attention_prefill"): 0.14,
    ("attention", "attention_encoder"): 0.12,
    ("attention", "attention_decode"): 0.14,
    ("mla", "mla_prefill"): 0.13,
    ("mla", "mla_decode"): 0.07,
    ("mla_bmm", "mla_absorb_query"): 0.10,
    ("gdn", "gdn_scan_prefill"): 0.06,
    ("gdn", "gdn_conv_prefill"): 0.09,
    ("kda", "kda_scan_prefill"): 0.10,
    ("mamba2", "mamba2_conv_prefill"): 0.10,
}
"""Median error of the shipped constants on H100: rows of which none is near the cache's size."""


def table_of(*rows):
    names = sorted(set().union(*rows))
    text = {name: np.array([row.get(name, "") for row in rows]) for name in names}
    return KernelTable(text, np.arange(2, len(rows) + 2))


@pytest.fixture(scope="module")
def measured():
    table = read_kernel_table()
    return table.take(table.words("device") == "H100")


@pytest.mark.parametrize("family", CASES, ids=lambda module: module.__name__.rsplit(".", 1)[1])
def test_a_complete_row_is_predicted(family):
    table = table_of(CASES[family])
    assert family.left_out(table).tolist() == [""]
    assert family.FAMILY.predict(table)[0] > family.FAMILY.roofline_s(table)[0] > 0


@pytest.mark.parametrize(
    ("family", "change", "reason"),
    [
        (attention, {"batch": ""}, "batch is not stated"),
        (attention, {"batch": "0"}, "batch is too small"),
        (attention, {"device": "abacus"}, "no file describes the device"),
        (attention, {"kv_dtype": ""}, "kv_dtype is not stated"),
        (attention, {"kv_dtype": "int4"}, "kv_dtype is not known"),
        (attention, {"activation_dtype": "fp6"}, "activation_dtype is not known"),
        (attention, {"window": ""}, "window is not stated"),
        (attention, {"past_tokens": "-1"}, "past_tokens is too small"),
        (attention, {"operator": "gemm"}, "the operator is not of this family"),
        (mla, {"value_head_dim": ""}, "value_head_dim is not stated"),
        (mla, {"operator": "attention_decode"}, "the operator is not of this family"),
        (mla_bmm, {"tokens": ""}, "tokens is not stated"),
        (mla_bmm, {"weight_dtype": "nvfp4"}, "weight_dtype is not known"),
        (scan, {"key_heads": ""}, "key_heads is not stated"),
        (scan, {"operator": "gemm"}, "the operator is not of this family"),
    ],
)
def test_a_row_that_lacks_something_says_what(family, change, reason):
    table = table_of(CASES[family] | change, CASES[family])
    assert family.left_out(table).tolist() == [reason, ""]
    assert np.isnan(family.FAMILY.predict(table)).tolist() == [True, False]
    assert np.isnan(family.FAMILY.roofline_s(table)).tolist() == [True, False]


def test_a_convolution_needs_channels_and_no_heads():
    table = table_of(CONVOLUTION, CONVOLUTION | {"conv_channels": ""})
    assert scan.left_out(table).tolist() == ["", "conv_channels is not stated"]


def test_products_are_of_8_bits_if_the_device_can_and_someone_asks():
    rows = [
        ROW | {"device": device, "activation_dtype": activation, "kv_dtype": kept}
        for device in ("A100", "H100", "B200")
        for activation, kept in (("fp8", "fp8"), ("bf16", "fp8"), ("bf16", "bf16"))
    ]
    is_8 = attention.multiplies_8_bits(table_of(*rows)).reshape(3, 3).tolist()
    assert is_8 == [[False, False, False], [True, False, False], [True, True, False]]


def test_the_shapes_of_latent_attention():
    shape = mla.shapes(table_of(LATENT, LATENT | {"operator": "mla_prefill"}))
    assert np.asarray(shape.shares_values).tolist() == [True, False]
    assert np.asarray(shape.value_head_dim).tolist() == [512, 512]


def test_every_measured_row_is_predicted(measured):
    families = measured.words("family")
    for name, module in (("attention", attention), ("mla", mla), ("mla_bmm", mla_bmm)):
        assert set(module.left_out(measured.take(families == name)).tolist()) == {""}
    linear = measured.operator_rows(scan.OPERATORS)
    assert set(scan.left_out(linear).tolist()) == {""}


@pytest.mark.parametrize(("family", "operator"), DOCUMENTED)
def test_the_shipped_constants_give_the_documented_medians(measured, family, operator):
    module = {"attention": attention, "mla": mla, "mla_bmm": mla_bmm}.get(family, scan)
    table = measured.operator_rows([operator])
    error = np.median(np.abs(module.FAMILY.predict(table) / table["latency_s"] - 1))
    bare = np.median(np.abs(module.FAMILY.roofline_s(table) / table["latency_s"] - 1))
    assert error == pytest.approx(DOCUMENTED[family, operator], abs=0.02)
    assert error < bare


def test_a_fit_finds_the_constants_that_made_the_times(measured):
    rows = measured.operator_rows(["mla_decode", "mla_prefill"])
    rows = rows.take(np.arange(0, len(rows), 3))
    start = mla.FAMILY.fit(rows)
    made = start.model_copy(update={"start_cycles": 30_000.0, "bandwidth_fraction": 0.7})
    times = mla.FAMILY.predict(rows, made)
    text = rows.text | {"latency_s": np.array([repr(float(time)) for time in times])}
    refitted = mla.FAMILY.fit(KernelTable(text, rows.lines))
    assert refitted.start_cycles == pytest.approx(30_000, rel=0.02)
    assert refitted.bandwidth_fraction == pytest.approx(0.7, rel=0.02)


def test_rows_of_a_missing_kernel_are_predicted_but_not_fitted_to():
    unparted = LATENT | {"device": "A100", "framework": "TensorRT-LLM", "kv_dtype": "bf16"}
    table = table_of(LATENT, unparted)
    assert mla.left_out(table).tolist() == ["", ""]
    assert len(mla.FAMILY.fitted_rows(table)) == 1
