"""The forecast evaluator: counts against closed forms, times against Eqs. 1 to 6, the contract."""

from dataclasses import replace

import numpy as np
import pytest

from codesign.api import build_evaluator
from codesign.base.columns import Column, column_of, design_columns
from codesign.base.errors import CodesignError, InputError
from codesign.evaluators.forecast import ForecastEvaluator
from codesign.evaluators.forecast.operator_work import OPS, READ, WRITTEN
from codesign.evaluators.forecast.performance import Efficiencies, ForecastMachine, demand
from codesign.evaluators.forecast.phases import Inference
from codesign.evaluators.forecast.plain import exponential_ops, lora_merge_ops
from codesign.evaluators.forecast.scenarios import lora_update_ops, timeline
from codesign.evaluators.forecast.variants import (
    VARIANTS,
    Variant,
    attention_variant,
    weight_bytes_per_element,
)
from codesign.models.workload import Request, kv_elements_per_token, list_models, load_model
from codesign.models.workload.model import describe_unlike_attention
from codesign.testing import check_evaluator
from tests.laws import is_at_most


def chunk_ratios(inference, prompt_tokens, chunk_tokens):
    """Cost of chunks, each quantity over that of a prefill in one pass (LIFE Fig. 6)."""
    quantities = {
        "ops": OPS,
        "read_bytes": READ,
        "written_bytes": WRITTEN,
        "dispatches": ("dispatches",),
    }
    unchunked = inference.prefill(prompt_tokens)
    rows = []
    for size in chunk_tokens:
        chunked = inference.prefill(prompt_tokens, size)
        ratios = {
            name: float(chunked.total(*split) / unchunked.total(*split))
            for name, split in quantities.items()
        }
        rows.append({"chunk_tokens": float(size), **ratios})
    return rows


def padded_attention_ops(inference, contexts, tiles):
    """(c,) operations of one layer's two attention products of a decode step, by tile.

    A tile of 1 is the ideal (LIFE Fig. 8).
    """
    layers = inference.model.num_hidden_layers
    ops_by_tile = {}
    for tile in (1, *tiles):
        steps = replace(inference, tile=tile).decode(contexts)
        is_product = np.array([class_name == "bmm" for class_name in steps.classes])
        ops_by_tile[tile] = steps.sums("matrix_ops")[:, is_product].sum(axis=1) / layers
    return ops_by_tile


def lora_linear_ops(k, n, tokens, ranks):
    """Operations of one product with an adapter merged inline, by rank; 0: none (LIFE Fig. 9)."""
    rows = np.asarray(tokens, dtype=np.float64)
    product = 2.0 * rows * k * n
    merged = {rank: product + lora_merge_ops(np.asarray(float(k * n)), rank) for rank in ranks}
    return {0: product, **merged}


LLAMA = load_model("llama-2-7b")
AUTOREGRESSIVE = [
    name
    for name in list_models()
    if not load_model(name).is_diffusion and describe_unlike_attention(load_model(name)) is None
]
WORKLOAD = {
    "model": "llama-2-7b",
    "prompt_tokens": 1024,
    "generated_tokens": 64,
}


def evaluator(options=None, **workload):
    built = build_evaluator("forecast", {**WORKLOAD, **workload}, options or {})
    assert isinstance(built, ForecastEvaluator)
    return built


def machine(peak=5e13, bandwidth=1e11, **more):
    values = {"peak_ops_per_s": peak, "bandwidth_bytes_per_s": bandwidth, **more}
    return design_columns(values)


def metric(built, name, designs):
    return float(built.evaluate(designs, [name]).metrics[name][0])


def some_designs(n, seed=0):
    values = {
        "peak_ops_per_s": tuple(np.linspace(1e13, 1e14, 40).tolist()),
        "bandwidth_bytes_per_s": tuple(np.linspace(1e10, 1e12, 40).tolist()),
        "compute_efficiency": (0.25, 0.5, 1.0),
        "memory_efficiency": (0.25, 0.5, 1.0),
        "dispatch_latency_s": (0.0, 1e-5),
        "memory_capacity_bytes": (4e9, 16e9),
        "weight_format": ("bf16", "int8", "int4"),
        "kv_format": ("bf16", "int4"),
        "fused": (False, True),
        "attention": ("native", "gqa", "mqa", "mla"),
        "chunk_tokens": (256,),
        "batch_size": (1, 4),
    }
    draw = np.random.default_rng(seed)
    absent = {"chunk_tokens"}
    return {
        name: Column(levels, draw.integers(-1 if name in absent else 0, len(levels), n))
        for name, levels in values.items()
    }


@pytest.mark.parametrize("profile", ["plain", "life"])
def test_it_keeps_the_contract_of_evaluators(profile):
    check_evaluator(evaluator({"profile": profile}), some_designs(40), n_single=4)


@pytest.mark.parametrize("name", AUTOREGRESSIVE)
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_plain_counts_what_the_lowering_has(name, phase):
    request = Request(model=name, prompt_tokens=300, generated_tokens=20, phase=phase)
    table = request.operators()
    built = evaluator(model=name, prompt_tokens=300, generated_tokens=20)
    work = getattr(built.forecast({}), phase)
    per_pass = {
        "matrix_ops": 2.0 * table.mac_per_request,
        "vector_ops": table.vector_ops_per_request,
        "kv_read_bytes": 2.0 * table.kv_read_elements_per_request,
        "kv_written_bytes": 2.0 * table.kv_written_elements_per_request,
        "weight_bytes": 2.0 * table.weights_read(np.array(1.0)),
    }
    for quantity, each in per_pass.items():
        expected = float((each * table.count).sum())
        assert float(work.total(quantity)) == pytest.approx(expected, rel=1e-12), quantity


@pytest.mark.parametrize("profile", ["plain", "life"])
@pytest.mark.parametrize("name", AUTOREGRESSIVE)
def test_steps_at_any_context_are_on_the_line_through_two(name, profile):
    inference = Inference.build(load_model(name), Variant(kv_format="int8"), profile)
    steps = inference.decode([1, 7, 1000])
    for values, context in zip(steps.values, (1, 7, 1000), strict=True):
        own = inference._step(float(context), 1)
        np.testing.assert_allclose(values, own.values, rtol=1e-12)


def test_the_mean_step_is_the_mean_of_all_steps():
    inference = Inference.build(LLAMA, Variant(), "plain")
    steps = inference.decode(100 + np.arange(1, 31))
    mean = inference.mean_step(100, 30)
    np.testing.assert_allclose(steps.values.mean(axis=0), mean.values, rtol=1e-12)


@pytest.mark.parametrize("chunk", [1, 100, 256, 1000])
def test_chunks_of_a_causal_prompt_add_up_to_its_products(chunk):
    inference = Inference.build(LLAMA, Variant(), "plain")
    whole, parts = inference.prefill(1000), inference.prefill(1000, chunk)
    assert float(parts.total("matrix_ops")) == pytest.approx(float(whole.total("matrix_ops")))
    assert parts.total("kv_written_bytes") == whole.total("kv_written_bytes")
    read = {"weight": whole.total("weight_bytes"), "chunks": parts.total("weight_bytes")}
    assert read["chunks"] >= read["weight"]


def test_the_smallest_chunk_of_life_takes_64_times_the_dispatches():
    # LIFE §5.2: "number of dispatch calls also increases by 64x for smallest chunk-size".
    (row,) = chunk_ratios(Inference.build(LLAMA, Variant(), "life"), 4096, [64])
    assert row["dispatches"] == 64
    assert row["ops"] == pytest.approx(1.0, abs=0.1)


def test_int4_weights_take_half_a_byte_and_a_scale_and_a_zero_per_group():
    # LIFE, Appendix 8.1, lines 12 to 16.
    k = 4096
    n = 11008
    expected = k * n / 2 + (k // 128) * n * (2 + 0.5)
    assert weight_bytes_per_element(VARIANTS["bf16-int4"]) * k * n == pytest.approx(expected)
    assert weight_bytes_per_element(Variant()) == 2.0


def test_dequantization_costs_two_operations_per_weight():
    plain, int4 = (
        Inference.build(LLAMA, VARIANTS[name], "life").decode([1]).total(*OPS)[0]
        for name in ("bf16-bf16", "bf16-int4")
    )
    projections = 32 * (4 * 4096**2 + 3 * 4096 * 11008) + 4096 * 32000
    assert int4 - plain == 2.0 * projections


@pytest.mark.parametrize(("degree", "expected"), [(1, 2.0), (2, 5.0), (4, 14.0)])
def test_a_polynomial_takes_the_operations_of_table_1(degree, expected):
    variant = Variant(nonlinear="polynomial", polynomial_degree=degree)
    assert exponential_ops(variant) == expected
    assert exponential_ops(Variant(nonlinear="pwl")) == 2.0


@pytest.mark.parametrize("tile", [16, 64])
def test_padding_rounds_every_size_of_attentions_products_up(tile):
    contexts = np.array([1.0, 100.0, 128.0, 2001.0])
    ops = padded_attention_ops(Inference.build(LLAMA, Variant(), "life"), contexts, [tile])
    padded = np.ceil(contexts / tile) * tile
    np.testing.assert_allclose(ops[1], 2 * 2 * 32 * 128 * contexts)
    np.testing.assert_allclose(ops[tile], 2 * 2 * 32 * tile * 128 * padded)


def test_padding_costs_operations_and_no_traffic():
    ideal = Inference.build(LLAMA, Variant(), "life")
    tiled = replace(ideal, tile=64)
    np.testing.assert_allclose(
        tiled.decode([100, 999]).total(*READ, *WRITTEN),
        ideal.decode([100, 999]).total(*READ, *WRITTEN),
    )


@pytest.mark.parametrize(
    ("kind", "expected"), [("mha", 8192), ("gqa", 2048), ("mqa", 256), ("mla", 576)]
)
def test_kinds_of_attention_keep_their_cache(kind, expected):
    model = attention_variant(LLAMA, Variant(attention=kind))
    assert kv_elements_per_token(model) == 32 * expected


def test_adapters_merged_inline_add_what_a_merge_takes():
    without, inline, merged = (
        float(
            Inference.build(LLAMA, Variant(lora=how, lora_rank=64)).prefill(256).total("matrix_ops")
        )
        for how in ("none", "inline", "merged")
    )
    updates = {
        rank: lora_update_ops(Inference.build(LLAMA, Variant(lora_rank=rank))) for rank in (64, 128)
    }
    assert inline - without == pytest.approx(updates[64])
    assert merged == without
    # §5.5: at 256 tokens the update at rank 128 is almost half of the prefill.
    assert updates[128] / without == pytest.approx(0.49, abs=0.02)
    # §5.5 again, for one product: short prompts nearly double.
    ops = lora_linear_ops(4096, 4096, [128], [128])
    assert ops[128][0] / ops[0][0] == pytest.approx(2.0, abs=0.02)


def test_fusion_lowers_traffic_and_dispatches_and_leaves_the_products():
    for profile in ("plain", "life"):
        eager, fused = (
            Inference.build(LLAMA, Variant(fused=is_fused), profile).prefill(512)
            for is_fused in (False, True)
        )
        assert fused.total("matrix_ops") == eager.total("matrix_ops")
        assert fused.total(*READ, *WRITTEN) < eager.total(*READ, *WRITTEN)
        assert fused.total("dispatches") < eager.total("dispatches")


def test_without_kv_compression_decode_slows_and_with_it_by_less_than_a_tenth():
    # LIFE §5.3.2: "With KV compression, TPS does not drop more than 10% for any prompt length".
    box = ForecastMachine(5e13, 5e10)
    lines = {
        name: timeline(Inference.build(LLAMA, VARIANTS[name], "life"), box, 4096, 2000, 3)
        for name in ("bf16-bf16", "bf16-int4", "bf16-int4-kv4")
    }
    drops = {name: -line["change"][-1] for name, line in lines.items()}
    assert drops["bf16-int4-kv4"] < 0.1 < drops["bf16-bf16"] < drops["bf16-int4"]
    assert list(lines["bf16-int4"]["token"]) == [1, 1000, 2000]


# Times


def test_a_phase_takes_the_longer_of_both_times_and_launches_on_top():
    built = evaluator({"dispatch_latency_s": 1e-5})
    counted = built.forecast({})
    ops, moved = counted.prefill.total(*OPS), counted.prefill.total(*READ, *WRITTEN)
    launches = 1e-5 * counted.prefill.total("dispatches")
    for peak, bandwidth in ((1e12, 1e13), (1e16, 1e10)):
        expected = max(ops / peak, moved / bandwidth) + launches
        got = metric(built, "time_to_first_token_s", machine(peak, bandwidth))
        assert got == pytest.approx(float(expected))


def test_life_takes_a_decode_step_by_its_traffic_alone():
    slow = machine(peak=1e9)
    life, plain = evaluator({"profile": "life"}), evaluator()
    moved = float(life.forecast({}).decode.total(*READ, *WRITTEN))
    assert metric(life, "time_per_output_token_s", slow) == pytest.approx(moved / 1e11)
    assert metric(plain, "time_per_output_token_s", slow) > 1.0


def test_efficiencies_of_an_operator_go_before_those_of_its_kind():
    work = Inference.build(LLAMA, Variant()).prefill(64)
    linear = float(work.sums(*OPS)[np.array(work.classes) == "linear"].sum())
    head = float(work.sums(*OPS)[work.names.index("lm_head")])
    everything = float(work.total(*OPS))
    asked = demand(work, Efficiencies(compute={"linear": 0.5, "lm_head": 0.25}))
    expected = everything - linear + (linear - head) / 0.5 + head / 0.25
    assert float(asked.ops) == pytest.approx(expected)


def test_more_of_anything_never_slows():
    built = evaluator()
    names = ["time_to_first_token_s", "time_per_output_token_s"]
    designs = some_designs(200)
    before = built.evaluate(designs, names).metrics
    for name in ("peak_ops_per_s", "bandwidth_bytes_per_s", "compute_efficiency"):
        column = designs[name]
        more = np.minimum(column.codes + 1, len(column.values) - 1)
        after = built.evaluate({**designs, name: Column(column.values, more)}, names).metrics
        assert all(is_at_most(after[key], before[key]) for key in names)


def test_what_does_not_fit_the_memory_is_a_violation():
    built = evaluator()
    used = metric(built, "memory_used_bytes", machine())
    assert used == pytest.approx(6_738_415_616 * 2 + 1088 * 524_288)
    found = built.known_violations(machine(memory_capacity_bytes=used / 2))
    assert found["capacity"][0] == pytest.approx(1.0)
    assert built.known_violations(machine()) == {}


def test_what_the_request_says_goes_before_the_profile():
    life, said = evaluator({"profile": "life"}), evaluator({"profile": "life"}, causal=True)
    assert said.forecast({}).prefill.total(*OPS) < life.forecast({}).prefill.total(*OPS)


@pytest.mark.parametrize(
    ("options", "workload", "message"),
    [
        ({"compute_efficiency": 0.0}, {}, "compute_efficiency: expected a share above 0 .*got 0.0"),
        (
            {"memory_efficiency": {"linear": 1.5}},
            {},
            "share of linear above 0 and at most 1, got 1.5",
        ),
        ({"compute_efficiency": {"liner": 0.5}}, {}, "unknown operator 'liner'.*'linear'"),
        ({"dispatch_latency_s": float("inf")}, {}, "dispatch_latency_s: .*finite"),
        ({"variant": "bf16-in4"}, {}, "unknown variant 'bf16-in4'.*'bf16-int4'"),
        ({"variant": {"attention": "mla"}}, {"model": "qwen3-32b"}, "qwen3-32b cannot have mla"),
        ({"variant": {"attention": "gqa", "kv_heads": 5}}, {}, "expected a divisor"),
        ({"variant": {"attention": "mqa"}}, {"model": "deepseek-v3"}, "which has MLA"),
        ({}, {"model": "llada-8b"}, "diffusion"),
        ({}, {"model": "llama-2-7"}, "unknown language model 'llama-2-7'"),
        ({}, {"batch": "capacity"}, "batch"),
    ],
)
def test_bad_input_is_named_in_one_line(options, workload, message):
    with pytest.raises(InputError, match=message) as caught:
        evaluator(options, **workload)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("peak_ops_per_s", 0.0),
        ("bandwidth_bytes_per_s", float("nan")),
        ("compute_efficiency", 1.01),
        ("memory_efficiency", -0.5),
        ("dispatch_latency_s", -1e-6),
        ("chunk_tokens", 0),
        ("batch_size", 1.5),
        ("weight_format", "int3"),
    ],
)
def test_a_design_outside_its_range_is_refused(name, value):
    # Of a format the value alone is named: a space's file says at which key it stands.
    named = "int3" if name == "weight_format" else name.removesuffix("_per_s")
    with pytest.raises(CodesignError, match=named):
        evaluator().evaluate(machine(**{name: value}) if name not in machine() else
                             {**machine(), name: column_of([value])})  # fmt: skip


def test_work_is_counted_once_per_variant_however_many_machines(
    monkeypatch,
):
    built = evaluator()
    counts = []
    count = ForecastEvaluator._count

    def counting(self, settings):
        counts.append(settings)
        return count(self, settings)

    monkeypatch.setattr(ForecastEvaluator, "_count", counting)
    designs = some_designs(10_000)
    built.evaluate(designs)
    assert len(counts) == 3 * 2 * 2 * 4 * 2 * 2  # formats, fusion, attention, chunks or not, batch
    built.evaluate(designs)
    assert len(counts) == 3 * 2 * 2 * 4 * 2 * 2


def test_chunks_are_attended_to_whole_first_and_chosen_from_later():
    inference, chunk, prompt = Inference.build(load_model("deepseek-v3.2"), Variant()), 2048, 8192
    whole, first, chunks = (
        inference.prefill(*sizes) for sizes in ((prompt,), (chunk,), (prompt, chunk))
    )
    assert "key_value_projection" in first.names
    assert "index_scores" not in first.names
    assert chunks.names[: len(first.names)] == first.names
    scores, all_scores = (
        work.sums("matrix_ops")[work.names.index("index_scores")] for work in (chunks, whole)
    )
    within = 61 * 2 * 64 * 128 * chunk * (chunk + 1) / 2  # nothing is chosen in the first chunk
    assert scores == pytest.approx(all_scores - within, rel=1e-12)
    up = chunks.sums("matrix_ops")[chunks.names.index("key_value_projection")]
    assert up == first.sums("matrix_ops")[first.names.index("key_value_projection")]
