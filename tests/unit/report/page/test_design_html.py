"""Accounts and charts of one design on a page."""

import pytest

import codesign
from codesign.base.evaluator import Explanation
from codesign.insight.uncertainty.uncertainty_results import Swing
from codesign.report.design_charts import scales_of
from codesign.report.edge import edge_words, memory_edge_mm
from codesign.report.page.design_html import Account, above_tdp, design_html
from codesign.report.pass_account import pass_account
from codesign.report.roofline_picture import operator_documents, roofline


def _evaluated(design, phase):
    return codesign.evaluate(design=design, model="llama-3.3-70b", workload="osworld", phase=phase)


@pytest.fixture(scope="module")
def base():
    return _evaluated("Base", "prefill")


def _roofline(evaluated):
    return roofline(operator_documents(evaluated), evaluated)


@pytest.mark.parametrize("design", ["Base", "P1", "D1"])
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_no_operator_is_above_the_roofs_of_its_levels(design, phase):
    found = _roofline(_evaluated(design, phase))
    roof = {item["level"]: item["bytes_per_s"] for item in found["ceilings"]}
    assert {point["level"] for point in found["points"]} == set(roof)
    for point in found["points"]:
        assert point["flop_per_s"] <= found["peak_flop_per_s"] * (1 + 1e-9)
        reach = point["flop_per_byte"] * roof[point["level"]]
        assert point["flop_per_s"] <= reach * (1 + 1e-9)


def test_a_platform_is_under_the_roof_of_its_only_memory():
    evaluated = codesign.evaluate(
        space="platform-llm",
        design="HGX-H100",
        evaluator="platform",
        workload={"model": "llama-3.3-70b", "use_case": "rag-qa"},
    )
    found = _roofline(evaluated)
    assert [item["level"] for item in found["ceilings"]] == ["fast memory"]
    assert all(
        point["flop_per_s"] <= found["ceilings"][0]["bytes_per_s"] * point["flop_per_byte"] * 1.001
        for point in found["points"]
    )


def test_a_forecast_has_both_sides_of_every_operator():
    evaluated = codesign.evaluate(
        space="forecast-edge",
        design={
            "peak_ops_per_s": 1e13, "bandwidth_bytes_per_s": 2.56e11, "fused": True,
            "memory_capacity_bytes": 32e9, "compute_efficiency": 0.5, "memory_efficiency": 0.75,
            "dispatch_latency_s": 5e-6, "weight_format": "int4", "kv_format": "int4",
            "chunk_tokens": 4096,
        },
        evaluator="forecast",
        options={"profile": "plain"},
        workload={"model": "llama-3-8b", "prompt_tokens": 4096, "generated_tokens": 512},
    )  # fmt: skip
    rows = operator_documents(evaluated)
    assert len(rows) > 5 and all(max(row["compute_s"], row["memory_s"]) > 0 for row in rows)


def test_the_matrix_work_of_a_prefill_is_that_of_its_shapes(base):
    # Llama-3.3-70B: gate and up projection are 2 x 8192 x 28672 weights in 80 layers; OSWorld has
    # 90,000 tokens of prompt; 2 FLOP per weight and token, one request at a time on Base.
    gate_up = next(
        item for item in operator_documents(base) if item["name"] == "gate up projection"
    )
    assert gate_up["work_flop"] == pytest.approx(2 * 2 * 8192 * 28672 * 80 * 90_000)


def test_the_edge_is_that_of_two_sides_of_a_reticle(base):
    # MemExplorer section 2: two edges of 33 mm; HBM3E takes 11 mm a stack, Base has four.
    assert memory_edge_mm(base) == 66.0
    assert sum(level["shoreline_mm"] for level in base.levels) == pytest.approx(44.0)
    assert edge_words(base) == "44 of 66 mm"


def test_power_adds_up_to_the_tdp(base):
    total = sum(row["tdp_watts"] for row in base.power)
    assert total == pytest.approx(_evaluated("Base", "prefill").metrics["tdp_watts"])


def test_a_design_has_its_charts_and_the_swings_of_the_objectives(base):
    swings = [Swing("hbf", f"number_{i}", 1.0, 9.0 - i, 8.0 - i, None) for i in range(8)]
    account = Account(base, {"tdp_watts": swings, "batch_size": swings})
    text = design_html(account, ["tdp_watts", "throughput_tokens_per_s"], scales_of([base]))
    assert text.count("<svg") == 6  # die, time, power, roofline, traffic, swings
    assert "HBM3E, 8-high ×4" in text and "hbm3e_8h" not in text
    assert "What moves TDP" in text and "What moves batch" not in text
    assert "HBF number 5" in text and "HBF number 6" not in text
    assert "Edge for memory: 44 of 66 mm." in text


def test_a_component_above_its_tdp_on_average_is_explained_by_the_assumption_on_its_time():
    power = [
        {"name": "array", "tdp_watts": 10.0, "average_watts": 9.0},
        {"name": "vector", "tdp_watts": 0.041, "average_watts": 1.23},
        {"name": "tier2", "title": "tier 2", "tdp_watts": 1.0, "average_watts": 2.0},
        {"name": "links", "tdp_watts": None, "average_watts": 2.0},
    ]
    why = {"vector": "one pass: vector work is not counted", "array": "the array idles"}
    said = above_tdp(Explanation({}, {}, [], [], power, list(why.values()), why))
    assert len(said) == 2
    assert said[0].startswith("vector: 1.23 W on average, 41 mW at TDP.")
    assert said[0].endswith("The evaluator assumes: one pass: vector work is not counted.")
    assert said[1].startswith("tier 2: 2 W") and "do not say why" in said[1]


def test_a_vector_unit_that_is_busy_all_the_time_keeps_within_its_tdp():
    # A lane's TDP counts six operations a cycle, and a prefill is nearly all softmax, which has as
    # many per score.
    design = dict(_evaluated("P1", "prefill").design) | {"vector_length": 128}
    short = codesign.evaluate(
        design=design, model="llama-3.3-70b", workload="osworld", phase="prefill",
        options={"profile": "plain"},
    )  # fmt: skip
    needed = sum(row["vector_s"] for row in short.operators)
    assert short.metrics["time_to_first_token_s"] == pytest.approx(needed)
    vector = next(row for row in short.power if row["name"] == "vector")
    assert 0.9 < vector["average_watts"] / vector["tdp_watts"] <= 1.0
    assert above_tdp(short.explanation) == []


@pytest.mark.parametrize("vector", ["overlapped", "serial"])
@pytest.mark.parametrize("design", ["Base", "P1"])
def test_a_pass_takes_as_long_as_its_units_side_by_side_or_one_after_the_other(design, vector):
    evaluated = codesign.evaluate(
        design=design, model="llama-3.3-70b", workload="osworld", phase="prefill",
        options={"vector": vector},
    )  # fmt: skip
    found = pass_account(evaluated)
    assert found["pass_s"] == pytest.approx(evaluated.metrics["time_to_first_token_s"])
    joined = max if vector == "overlapped" else float.__add__
    assert found["pass_s"] == pytest.approx(joined(found["matrix_s"], found["vector_s"]))
    assert found["is_side_by_side"] == (vector == "overlapped")
    assert sum(found["bounds"].values()) == pytest.approx(found["matrix_s"])
    assert "vector" not in found["bounds"]


def test_where_the_evaluator_tells_no_times_of_units_there_is_no_account_of_the_pass():
    evaluated = codesign.evaluate(
        space="platform-llm",
        design="HGX-H100",
        evaluator="platform",
        workload={"model": "llama-3.3-70b", "use_case": "rag-qa"},
    )
    assert pass_account(evaluated) is None


@pytest.mark.parametrize(
    ("formats", "unit"),
    [(("mxint8", "mxint8"), "OP"), (("mxint4", "mxfp8"), "FLOP"), (("mxfp8", "mxfp8"), "FLOP")],
)
def test_the_roofline_counts_operations_where_the_array_multiplies_integers(formats, unit):
    design = dict(_evaluated("P1", "prefill").design) | dict(
        zip(("weight_format", "activation_format"), formats, strict=True)
    )
    evaluated = codesign.evaluate(
        design=design, model="llama-3.3-70b", workload="osworld", phase="prefill"
    )
    assert _roofline(evaluated)["unit"] == unit
