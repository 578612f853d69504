"""Tables of constants and shipped devices: complete, dated, sourced; what is absent is named."""

import re

import numpy as np
import pytest

from codesign import api
from codesign.base.columns import taken
from codesign.base.errors import InputError
from codesign.evaluators.npu import NpuEvaluator, NpuOptions
from codesign.insight.uncertainty.uncertainty import design_uncertainty
from codesign.models.accounts.account_constants import (
    CONSTANTS,
    PROCESSES,
    constant_ranges,
    constants_at,
)
from codesign.models.accounts.shipped_devices import device_accounts
from codesign.models.hardware.device import list_devices
from codesign.models.memtech import load_library
from codesign.models.workload import Request
from codesign.report.exports.sheet_accounts import interval_words
from codesign.search.problem_builder import build_problem
from codesign.space import load_space


@pytest.mark.parametrize("process", PROCESSES)
def test_every_constant_has_a_range_a_date_and_a_source(process):
    ranges = constant_ranges(process)
    assert set(ranges) == set(CONSTANTS)
    for name, item in ranges.items():
        assert re.search(r"\b(19|20)\d\d\b|\[ours\]", item.source), name
        levels = [getattr(constants_at(process, end), name) for end in ("low", "typical", "high")]
        assert levels == sorted(levels)


def test_what_is_published_of_devices_is_of_known_ones():
    assert set(device_accounts()) <= set(list_devices())
    account = device_accounts()["h100-sxm"]
    assert account.area is not None and account.unit_cost is not None
    assert account.area.typical == pytest.approx(814e-6)
    assert account.unit_cost.low < 3320 < account.unit_cost.high
    assert "rubin" not in device_accounts()


def npu(**changes):
    library = dict(load_library())
    library["hbf"] = library["hbf"].model_copy(update=changes)
    request = Request(model="llama-3-8b", phase="prefill", trace="gsm8k")
    return NpuEvaluator(request, NpuOptions(), library=library)


def test_a_memory_that_a_design_lacks_takes_no_price_from_it():
    # Rows that are decoded together share the values of their parameters.
    space = load_space("memexplorer", {"memtech": load_library().catalog()})
    rows = np.concatenate([space.encode(space.designs[name]) for name in ("Base", "D1")])
    with_flash = npu(price=None).explain(taken(space.columns(rows), slice(1, 2)))
    without = npu(price=None).explain(taken(space.columns(rows), slice(0, 1)))
    assert any("hbf states no price" in note for note in with_flash.notes)
    assert not any("states no price" in note for note in without.notes)


def test_a_metric_without_a_value_has_a_dash_for_its_interval(monkeypatch):
    monkeypatch.setattr("codesign.report.exports.sheet_accounts.SAMPLES", 20)
    evaluator = npu(price=None)
    words = {
        name: interval_words(api.evaluate(design=name, evaluator=evaluator))
        for name in ("Base", "D1")
    }
    assert words["D1"]["unit_cost_usd"] == "–"
    assert " to " in words["Base"]["unit_cost_usd"]
    assert words["D1"]["throughput_tokens_per_s"] == "no range stated"


def test_a_limit_on_an_absent_account_is_refused_by_name():
    space = load_space("memexplorer", {"memtech": load_library().catalog()})
    objectives = ["maximize throughput_tokens_per_s"]
    with pytest.raises(InputError, match=r"unit_cost_usd <= 5000.*hbf states no price"):
        build_problem(space, npu(price=None), objectives, ["unit_cost_usd <= 5000"])
    build_problem(space, npu(price=None), objectives, ["area_mm2 <= 800"])
    with pytest.raises(InputError, match="hbf states no interface area"):
        build_problem(space, npu(interface_area=None), objectives, ["area_mm2 <= 800"])


def test_an_absent_account_says_why_and_is_no_zero():
    space = api.load_space("a100")
    workload = {"model": "llama-3-8b", "trace": "gsm8k", "phase": "decode"}
    account = api.evaluate(space=space, design=space.designs["A100"], workload=workload).explanation
    for name in ("area_mm2", "unit_cost_usd", "junction_temperature_celsius"):
        assert account.metrics[name] != account.metrics[name]
        assert any(note.startswith(f"no {name}: sram_a100") for note in account.notes)


def test_no_dies_are_counted_where_the_area_is_not_known():
    library = dict(load_library())
    library["hbf"] = library["hbf"].model_copy(update={"interface_area": None})
    workload = {"model": "llama-3.3-70b", "trace": "osworld", "phase": "decode"}
    space = api.load_space("memexplorer")
    columns = space.columns(space.encode(space.designs["D1"]))
    account = NpuEvaluator(Request(**workload), NpuOptions(), library=library).explain(columns)
    assert {row["n_dies"] for row in account.costs} == {None}
    assert not any("dies" in note for note in account.notes)
    absent = [note for note in account.notes if note.startswith("no ")]
    assert len(absent) == 9 and not any("wear" in note for note in absent)


def test_a_memory_that_wears_says_how_often_it_is_written():
    space = api.load_space("memexplorer")
    workload = {"model": "llama-3.3-70b", "trace": "osworld", "phase": "prefill"}
    account = api.evaluate(space=space, design=space.designs["P1"], workload=workload).explanation
    (note,) = [note for note in account.notes if "drive writes" in note]
    # 90,000 tokens of 80 layers, 8 heads, 128 keys and values of a byte, into 384 GB.
    rate = 90_000 * 80 * 8 * 128 * 2 / account.metrics["time_to_first_token_s"]
    a_day = rate * 86400 / 384e9
    assert note == (
        f"tier2, hbf x1, is written at {rate / 1e9:.3g} GB/s while the device serves: "
        f"{a_day:.3g} drive writes a day, of the 17,000 that it bears"
    )
    assert account.metrics["lifetime_years"] == pytest.approx(17_000 / a_day / 365.25, rel=2e-3)


def test_a_constant_may_be_stated_and_an_unknown_one_is_refused():
    dear = NpuOptions(constants={"wafer_usd": 20000.0})
    assert dear.constants["wafer_usd"] == 20000
    with pytest.raises(ValueError, match="Did you mean 'wafer_usd'"):
        NpuOptions(constants={"wafer_price_usd": 1.0})


def test_the_latency_of_flash_is_a_range_that_moves_a_decode():
    latency = load_library()["hbf"].latency
    assert (latency.low, latency.typical, latency.high) == pytest.approx((1e-6, 1e-6, 20e-6))
    space = api.load_space("memexplorer")
    evaluated = api.evaluate(
        space=space,
        design=space.designs["D1"],
        workload={"model": "llama-3.3-70b", "trace": "osworld", "phase": "decode"},
    )
    spread = design_uncertainty(evaluated, samples=5)
    (swing,) = spread.tornado["throughput_tokens_per_s"]
    assert (swing.technology, swing.number) == ("hbf", "latency")
    # By hand: every operator of a step waits for its first chunk at most once.
    operators = sum(row["count"] for row in evaluated.operators)
    step_s = evaluated.metrics["time_per_output_token_s"]
    slower_s = 16 / swing.at_high - step_s
    assert 0 < slower_s <= 19e-6 * operators
