"""Measured messages, experts and element-wise kernels: what is left out, and how well they fit."""

from __future__ import annotations

import numpy as np
import pytest

from codesign.base.errors import InputError
from codesign.base.schema import Record
from codesign.models.machines.device.expert_exchange import EXCHANGE_KINDS
from validation.studies.kernel_families import (
    collectives,
    elementwise,
    expert_exchange,
    experts,
)
from validation.studies.kernel_families.log_fit import fit_constants
from validation.studies.kernel_families.routing import FirstRankLoad, first_rank_load
from validation.studies.kernel_table import KernelTable, joined, read_kernel_table
from validation.studies.operator_rows import read_operator_rows

FAMILIES = (collectives, elementwise, expert_exchange, experts)


@pytest.fixture(scope="module")
def table():
    return read_kernel_table()


def rows(operator, **columns):
    """One row, as the file writes it."""
    basic = {"device": "H100", "operator": operator, "activation_dtype": "bf16", "latency_s": "1"}
    text = {name: np.array([value]) for name, value in (basic | columns).items()}
    return KernelTable(text, np.array([2]))


def median_error(family, sample):
    """Median of the error's size, as a part of the measured time."""
    return float(np.nanmedian(np.abs(family.FAMILY.predict(sample) / sample["latency_s"] - 1)))


def changed(sample, **columns):
    text = {name: np.array([value]) for name, value in columns.items()}
    return KernelTable(sample.text | text, sample.lines)


ALL_REDUCE = rows("all_reduce", message_bytes="1e6", devices="8")
DISPATCH = rows(
    "expert_dispatch_normal", tokens="8", experts="256", top_k="8", hidden="7168", devices="16",
    nodes="2",
)  # fmt: skip
MOE = rows(
    "moe_experts", tokens="8", experts="256", top_k="8", hidden="7168", expert_hidden="2048",
    matrices="3", tp="1", ep="8", routing="balanced", weight_dtype="fp8", activation_dtype="fp8",
)  # fmt: skip
QUANTIZE = rows("quantize_bf16_to_fp8", m="8", k="4096")


@pytest.mark.parametrize(
    ("family", "sample", "change", "reason"),
    [
        (collectives, ALL_REDUCE, {"device": "H999"}, "no file describes the device"),
        (collectives, ALL_REDUCE, {"operator": "broadcast"}, "not of this family"),
        (collectives, ALL_REDUCE, {"message_bytes": ""}, "message_bytes is not stated"),
        (collectives, ALL_REDUCE, {"devices": "16"}, "do not fit in one"),
        (collectives, ALL_REDUCE, {"device": "L40S", "nodes": "2"}, "states no network"),
        (expert_exchange, DISPATCH, {"top_k": ""}, "top_k is not stated"),
        (expert_exchange, DISPATCH, {"device": "A40"}, "states no network"),
        (experts, MOE, {"weight_dtype": "int3"}, "formats of the experts are not known"),
        (experts, MOE, {"routing": "zipf"}, "routing is not understood"),
        (experts, MOE, {"ep": "7"}, "do not spread evenly"),
        (elementwise, QUANTIZE, {"m": ""}, "m is not stated"),
        (elementwise, QUANTIZE, {"activation_dtype": "fp8"}, "activation_dtype is not known"),
    ],
)
def test_what_is_missing_or_unknown_is_left_out_with_a_reason(family, sample, change, reason):
    assert family.left_out(sample).tolist() == [""]
    assert np.isfinite(family.FAMILY.predict(sample)).all()
    bad = changed(sample, **change)
    assert reason in family.left_out(bad)[0]
    assert np.isnan(family.FAMILY.predict(bad)).all()
    assert np.isnan(family.FAMILY.roofline_s(bad)).all()


@pytest.mark.parametrize(
    ("family", "operators", "most"),
    [
        # In-sample medians of 6.8, 6.4, 16 and 10 %; a sample of every seventh row.
        (collectives, ("all_reduce", "all_gather", "reduce_scatter", "all_to_all"), 0.09),
        (collectives, ("custom_all_reduce",), 0.09),
        (expert_exchange, EXCHANGE_KINDS, 0.09),
        (experts, ("moe_experts",), 0.2),
        (experts, ("moe_experts_large_ep",), 0.22),
        (elementwise, ("quantize_bf16_to_fp8",), 0.14),
        (elementwise, elementwise.MIXING_KINDS, 0.14),
    ],
)
def test_shipped_constants_reproduce_the_measured_times(table, family, operators, most):
    sample = table.operator_rows(operators)
    sample = sample.take(np.arange(0, len(sample), 7))
    sample = sample.take(sample.words("device") != "L40S") if family is elementwise else sample
    error = median_error(family, sample)
    assert error < most
    roofline = np.abs(family.FAMILY.roofline_s(sample) / sample["latency_s"] - 1)
    assert error < np.nanmedian(roofline)


def test_the_profile_of_a_layer_is_reproduced():
    profile = read_operator_rows()[0].operator_rows(elementwise.OPERATORS)
    assert len(profile) == 256
    assert set(profile.words("operator")) == {"add", *elementwise.ROW_KERNELS}
    # 2 x 4096 elements of a token in a norm of Llama-2-7B; median in-sample 13 %.
    norms = profile.operator_rows(("input_layernorm",))
    assert norms["k"].min() == 2 * 4096
    assert median_error(elementwise, profile) < 0.2


def test_a_large_all_reduce_is_no_longer_half_as_fast_as_measured(table):
    sample = table.operator_rows(("all_reduce",))
    large = (sample["message_bytes"] > 1e8) & (sample.words("device") == "A100")
    sample = sample.take(large)
    ratio = collectives.FAMILY.predict(sample) / sample["latency_s"]
    assert ((ratio > 0.85) & (ratio < 1.15)).all()


def test_balanced_and_skewed_draws_of_the_source():
    # 4 tokens of 2 of 8 experts: the source's stride is 4, every expert gets one pair.
    assert first_rank_load(4, 8, 2, 2, 0.0) == FirstRankLoad(4.0, 4.0, 4.0)
    # One token alone leaves a pair on the first device even of many.
    assert first_rank_load(1, 256, 8, 256, 0.0) == FirstRankLoad(1.0, 1.0, 1.0)
    # 16 tokens of 2 of 8 experts, twice 8 of them: tokens 0 and 4 of 8 take expert 0.
    assert first_rank_load(16, 8, 2, 8, 0.0) == FirstRankLoad(4.0, 1.0, 4.0)
    skewed = first_rank_load(4096, 256, 8, 8, 1.2)
    assert 4096 < skewed.pairs < 4 * 4096
    assert 28 <= skewed.active_experts <= 32
    assert skewed.pairs / 8 <= skewed.tokens <= 4096
    alone = first_rank_load(4096, 256, 8, 1, 1.2)
    assert (alone.pairs, alone.tokens) == (4096 * 8, 4096)


def test_sglang_measures_only_tokens_of_the_first_device_and_their_remote_pairs_too():
    def work(**columns):
        return experts.expert_work(changed(MOE, **columns))

    # 256 tokens, 8 of 256 experts 32 apart, 8 devices of 32: each token has one expert here.
    own = {"tokens": "256", "framework": "SGLang", "version": "0.5.14", "kernel": "triton"}
    assert work(tokens="256").pairs == 256
    assert work(**own).pairs == 256
    assert work(**own).experts == 32
    # 64 devices of 4 experts: 4 of 32 tokens have one here, with 7 remote pairs each.
    own |= {"ep": "64"}
    assert (work(**own).pairs, work(**own).all_pairs) == (32, 32 * 8)
    assert work(**own | {"version": "0.5.10"}).pairs == 32 * 8
    assert work(**own | {"version": "0.5.9"}).pairs == 32
    assert work(**own | {"version": "0.5.9", "kernel": "marlin"}).pairs == 32 * 8
    whole = work(**own | {"weight_dtype": "mxfp4"})
    assert (whole.pairs, whole.all_pairs, whole.experts) == (32, 256 * 8, 256)


class Line(Record):
    """Constants of a test: a start, slopes by kind, and one that no row depends on."""

    start: float
    slopes: dict[str, float]
    unused: float
    kept: float = 5.0


def test_a_fit_finds_the_constants_that_made_the_times():
    size = np.geomspace(1, 1e4, 50)
    fitted = fit_constants(
        Line(start=1.0, slopes={"all": 0.1}, unused=7.0),
        lambda line: line.start + line.slopes["all"] * size,
        3.0 + 0.02 * size,
        groups=["small"] * 20 + ["large"] * 30,
        free=("start", "slopes", "unused"),
        most={"slopes": 1.0},
    )
    assert fitted.start == pytest.approx(3.0, rel=1e-2)
    assert fitted.slopes == pytest.approx({"all": 0.02}, rel=1e-2)
    assert fitted.unused == pytest.approx(7.0)
    assert fitted.kept == 5.0


def test_a_fit_without_rows_is_an_error():
    with pytest.raises(InputError, match="got none"):
        fit_constants(Line(start=1.0, slopes={}, unused=1.0), lambda _: np.array([]), np.array([]))


def test_a_refit_on_a_sample_stays_near_the_shipped_constants(table):
    sample = table.take(table.words("family") == "collective")
    sample = sample.take(np.arange(0, len(sample), 3))
    again = collectives.FAMILY.fit(sample)
    shipped = collectives.FAMILY.predict(sample)
    np.testing.assert_allclose(collectives.FAMILY.predict(sample, again), shipped, rtol=0.12)


def test_joined_tables_keep_the_columns_of_both():
    both = joined(QUANTIZE, ALL_REDUCE)
    assert both.words("m").tolist() == ["8", ""]
    assert both.words("devices").tolist() == ["", "8"]
    assert both.lines.tolist() == [2, 2]
