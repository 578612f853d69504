"""Measured products: what is left out and why, and how well the shipped constants predict."""

import numpy as np
import pytest

from validation.studies.kernel_families import gemm as family
from validation.studies.kernel_table import KernelTable, read_kernel_table

COLUMNS = {
    "operator": "gemm",
    "device": "H100",
    "framework": "SGLang",
    "weight_dtype": "bf16",
    "activation_dtype": "bf16",
    "m": "64",
    "n": "4096",
    "k": "4096",
    "latency_s": "1e-5",
    "fastest": "1",
}


def rows(*changes):
    records = [COLUMNS | change for change in changes]
    text = {name: np.array([record[name] for record in records]) for name in COLUMNS}
    return KernelTable(text, np.arange(len(records)))


@pytest.fixture(scope="module")
def products():
    return read_kernel_table().operator_rows(family.FAMILY.operators)


def test_a_row_that_cannot_be_predicted_says_why():
    eager = {"framework": "vLLM", "weight_dtype": "fp8_block128"}
    eager |= {"activation_dtype": "fp8_group128"}
    table = rows(
        {},
        {"m": ""},
        {"m": "0"},
        {"device": "Abacus 9"},
        {"weight_dtype": "fp9"},
        {"operator": "moe_experts"},
        {"fastest": "0"},
        eager,
        eager | {"m": "8192", "n": "16384", "k": "16384"},
    )
    reasons = family.left_out(table).tolist()
    assert reasons[0] == ""
    assert "m is not stated" in reasons[1]
    assert "m is too small" in reasons[2]
    assert "device" in reasons[3]
    assert "fp9" in reasons[4]
    assert "not of this family" in reasons[5]
    assert "faster" in reasons[6]
    assert "host" in reasons[7]
    assert reasons[8] == ""
    is_predicted = np.isfinite(family.FAMILY.predict(table))
    assert is_predicted.tolist() == [not reason for reason in reasons]


def test_the_roofline_of_a_row_is_its_work_or_its_traffic():
    table = rows({"m": "1"}, {"m": "16384"}, {"m": "1", "weight_dtype": "int4"})
    found = family.FAMILY.roofline_s(table)
    assert found[0] == pytest.approx((2 * 4096**2 + 2 * 2 * 4096) / 3350e9)
    assert found[1] == pytest.approx(2 * 16384 * 4096**2 / 989.4e12)
    assert found[2] == pytest.approx((4096**2 / 2 + 2 * 2 * 4096) / 3350e9)


def test_products_in_eight_bits_of_an_a100_run_at_its_sixteen_bit_peak():
    large = {"m": "16384", "weight_dtype": "fp8", "activation_dtype": "fp8", "device": "A100"}
    assert family.FAMILY.roofline_s(rows(large)) == pytest.approx(2 * 16384 * 4096**2 / 312e12)


def test_every_product_of_the_table_is_predicted_or_left_out_with_a_reason(
    products,
):
    is_left_out = family.left_out(products) != ""
    assert (np.isnan(family.FAMILY.predict(products)) == is_left_out).all()
    assert np.sum(~is_left_out) == 5102


@pytest.mark.parametrize(
    ("device", "most"),
    [("A100", 0.09), ("L40S", 0.125), ("H100", 0.075), ("H200", 0.10), ("B200", 0.115)],
)
def test_the_shipped_constants_have_the_documented_medians(products, device, most):
    chosen = products.take((products.words("device") == device) & (family.left_out(products) == ""))
    chosen = chosen.take(np.arange(0, len(chosen), 2))
    errors = np.abs(family.FAMILY.predict(chosen) / chosen["latency_s"] - 1)
    assert np.median(errors) < most


def test_a_bare_roofline_is_never_better_for_a_device_and_format(products):
    chosen = products.take(family.left_out(products) == "")
    measured, groups = chosen["latency_s"], np.array(family.groups(chosen))
    law = np.abs(family.FAMILY.predict(chosen) / measured - 1)
    roofline = np.abs(family.FAMILY.roofline_s(chosen) / measured - 1)
    for group in sorted(set(groups.tolist())):
        own = groups == group
        assert np.median(law[own]) < np.median(roofline[own]), group


def test_a_fit_finds_the_constants_that_made_the_times():
    grid = [
        {"device": device, "m": str(m), "n": str(n), "k": str(n)}
        for device in ("A100", "H100", "B200")
        for m in (1, 64, 512, 4096)
        for n in (512, 2048, 8192, 16384)
    ]
    true = family.START.model_copy(update={"bandwidth": 0.7, "compute": 0.9})
    table = rows(*grid)
    text = table.text | {"latency_s": family.FAMILY.predict(table, true).astype(np.str_)}
    fitted = family.FAMILY.fit(KernelTable(text, table.lines))
    assert fitted.bandwidth == pytest.approx(0.7, rel=0.05)
    assert fitted.compute == pytest.approx(0.9, rel=0.05)
