"""Inference on several devices: closed forms, laws, limits."""

from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from codesign import api
from codesign.base import resources
from codesign.base.columns import column_of
from codesign.base.errors import InputError, UnknownNameError
from codesign.base.metrics import PLATFORM_METRICS
from codesign.evaluators.platform import PlatformEvaluator, PlatformOptions, PlatformRequest
from codesign.evaluators.platform.instances import columns_of, factorizations, fitting, splits
from codesign.evaluators.platform.platform_limits import describe_limits, limits
from codesign.evaluators.platform.requirements import (
    size_requirements,
    size_steady_state,
)
from codesign.evaluators.platform.scaling import AXES, scale
from codesign.evaluators.platform.use_cases import load_use_case
from codesign.models.accounts.rents import list_rents
from codesign.models.deployments.queueing.service_levels import LatencyLimits
from codesign.models.hardware.device import load_device
from codesign.models.machines.device.constants import load_constants
from codesign.models.machines.device.engine import EngineConstants
from codesign.models.workload import load_model, parameter_count
from codesign.models.workload.expert_routing import partners
from codesign.models.workload.storage import kv_elements_per_token
from codesign.testing import check_evaluator
from tests.laws import is_at_most, never_falls, never_rises

IDEAL = {"profile": "ideal", "warm_up": "5 us"}


def build(model="llama-3-8b", options=None, **asked):
    tokens = {"prompt_tokens": 1024, "generated_tokens": 64} if "use_case" not in asked else {}
    request = PlatformRequest.model_validate({"model": model, **tokens, **asked})
    return PlatformEvaluator(request, PlatformOptions.model_validate(options or {}))


def designs(**values):
    given = {"device": "h100-sxm", "batch_size": 1} | values
    n = max(len(value) if isinstance(value, list) else 1 for value in given.values())
    return {
        name: column_of(value if isinstance(value, list) else [value] * n)
        for name, value in given.items()
    }


def metric(evaluator, name, **values):
    return evaluator.evaluate(designs(**values), [name]).metrics[name]


@pytest.mark.parametrize(
    ("space", "model", "options", "more"),
    [
        ("platform-llm", "mixtral-8x7b", {}, {}),
        ("platform-llm", "deepseek-v3", {"offload": True}, {}),
        ("platform-llm", "mixtral-8x7b", {"profile": "genz"}, {}),
        ("platform-next", "llama-3.1-405b",
         {"profile": "ideal", "overlap": True, "all_reduce": "tree", "node_size": 4},
         {"chunk_tokens": 900, "mixed": True}),
    ],
)  # fmt: skip
def test_the_evaluator_keeps_the_contract(space, model, options, more):
    where = api.load_space(space)
    columns = where.columns(where.sample(np.random.default_rng(0), 40))
    workload = {"model": model, "use_case": "chat", **more}
    check_evaluator(api.build_evaluator("platform", workload, options), columns, n_single=4)


def test_a_decode_step_of_one_request_reads_weights_and_cache_once():
    model = load_model("llama-3-8b")
    device = load_device("h100-sxm")
    found = metric(build(options=IDEAL), "time_per_output_token_s")[0]
    # All weights but the embedding table and the norms, and the mean context's keys and values.
    table = model.vocab_size * model.hidden_size
    weights = parameter_count(model) - table - 65 * model.hidden_size
    context = 1024 + (64 + 1) / 2
    bytes_read = 2 * (weights + context * kv_elements_per_token(model))
    assert found == pytest.approx(bytes_read / device.bandwidth, rel=2e-3)


def test_a_long_prefill_takes_its_arithmetic_at_the_peak():
    model = load_model("llama-3-8b")
    evaluator = build(options=IDEAL, prompt_tokens=8064)
    found = metric(evaluator, "time_to_first_token_s")[0]
    table = model.vocab_size * model.hidden_size
    per_token = parameter_count(model) - 2 * table
    scores = 32 * 2 * 8064 * (8065 / 2) * 4096  # layers, both products, causal half, width
    flop = 2 * (8064 * per_token + scores)
    assert found == pytest.approx(flop / 989.4e12, rel=5e-3)


@pytest.mark.parametrize(
    ("model", "options", "degrees"),
    [
        ("llama-3-8b", {}, {"tensor_parallel": 2}),
        ("llama-3.3-70b", {}, {"tensor_parallel": 4, "pipeline_parallel": 2}),
        ("llama-3.3-70b", {}, {"tensor_parallel": 4, "data_parallel": 2}),
        ("llama-3.3-70b", {"usable_memory": 0.9}, {"tensor_parallel": 8}),
        ("llama-3.3-70b", {}, {"tensor_parallel": 1}),
        ("mixtral-8x7b", {}, {"tensor_parallel": 2, "expert_parallel": 4}),
    ],
)
def test_the_largest_batch_is_the_last_that_memory_holds(model, options, degrees):
    evaluator = build(model, options)
    most = evaluator.most_requests({"device": "h100-sxm", **degrees})
    unit = degrees.get("data_parallel", 1) * degrees.get("expert_parallel", 1)
    assert most % unit == 0
    batches = [max(most, unit), most + unit]
    violations = evaluator.known_violations(
        designs(batch_size=batches, **{name: [degree] * 2 for name, degree in degrees.items()})
    )["memory"]
    assert (violations <= 0).tolist() == [most > 0, False]


def test_there_is_no_largest_batch_where_memory_has_no_limit():
    with pytest.raises(InputError, match="memory holds any"):
        build().most_requests({"device": "h100-sxm", "fast_capacity_bytes": np.inf})


def test_an_efficiency_divides_the_time_of_what_it_bounds():
    ideal = metric(build(options=IDEAL), "time_per_output_token_s")[0]
    half = metric(build(options=IDEAL | {"memory_efficiency": 0.5}), "time_per_output_token_s")[0]
    assert half == pytest.approx(2 * ideal, rel=1e-6)


def test_tensor_parallelism_splits_work_and_adds_two_all_reduces_a_layer():
    evaluator = build(options=IDEAL)
    linear = metric(evaluator, "decode_linear_s", tensor_parallel=[1, 8])
    assert linear[1] == pytest.approx(linear[0] / 8, rel=1e-3)
    row = [
        item
        for item in evaluator.explain(designs(tensor_parallel=8)).operators
        if item["phase"] == "decode" and item["part"] == "collective"
    ]
    assert {item["name"]: item["count"] for item in row} == {
        "embedding_sum": 1, "output_projection_sum": 32, "down_projection_sum": 32,
        "lm_head_gather": 1,
    }  # fmt: skip
    # 8 KiB of one token over eight ranks at 450 GB/s, Eq. 3.
    once = 5e-6 + 14 * (1e-6 + 8192 / 8 / 450e9)
    assert row[1]["time_s"] == pytest.approx(32 * once, rel=1e-9)


def test_pipeline_stages_do_not_shorten_a_token_but_serve_more_prompts():
    evaluator = build(options=IDEAL | {"warm_up": "0 s"})
    values = {"pipeline_parallel": [1, 4], "batch_size": 8}
    step = metric(evaluator, "decode_linear_s", **values)
    assert step[1] == pytest.approx(step[0], rel=1e-2)
    prompts = metric(evaluator, "prefill_requests_per_s", **values)
    assert 3.5 < prompts[1] / prompts[0] <= 4.0


def test_an_uneven_pipeline_is_paced_by_its_longest_stage():
    # 32 layers in 5 stages: 7 in the longest; five micro-batches wait for it.
    evaluator = build(options=IDEAL | {"warm_up": "0 s"})
    serving = evaluator.serving(designs(pipeline_parallel=5, batch_size=5))
    assert float(serving.time_per_output_token_s[0]) == pytest.approx(
        5 * float(serving.decode_pass.stage_s[0])
    )
    assert float(serving.time_per_output_token_s[0]) > float(serving.decode_pass.total_s[0])


def test_replicas_multiply_throughput_and_devices_and_change_no_time():
    evaluator = build()
    values = {"data_parallel": [1, 4], "batch_size": [2, 8]}
    throughput = metric(evaluator, "throughput_tokens_per_s", **values)
    step = metric(evaluator, "time_per_output_token_s", **values)
    assert throughput[1] == pytest.approx(4 * throughput[0])
    assert step[1] == pytest.approx(step[0])
    assert metric(evaluator, "n_devices", **values).tolist() == [1.0, 4.0]


def test_a_sequence_over_devices_splits_prefill_and_cache_but_not_weights():
    evaluator = build(options=IDEAL, prompt_tokens=8064)
    values = {"sequence_parallel": [1, 4]}
    linear = metric(evaluator, "prefill_linear_s", **values)
    assert linear[1] == pytest.approx(linear[0] / 4, rel=1e-2)
    serving = evaluator.serving(designs(**values))
    assert serving.decode_footprint.kv_bytes[1] == serving.decode_footprint.kv_bytes[0] / 4
    assert serving.decode_footprint.weight_bytes[1] == serving.decode_footprint.weight_bytes[0]
    decode = metric(evaluator, "decode_attention_s", **values)
    assert decode[1] < decode[0] / 3


def test_beams_read_the_prompt_once_and_their_own_tokens_each():
    evaluator = build(options=IDEAL, beams=4, prompt_tokens=1000, generated_tokens=200)
    explained = evaluator.explain(designs())
    rows = {row["name"]: row for row in explained.operators if row["phase"] == "decode"}
    per_token = 2 * kv_elements_per_token(load_model("llama-3-8b")) / 2  # keys or values, bf16
    prompt, own = (
        rows[f"attention_qk_of_{part}"]["traffic_bytes"] for part in ("prompt", "generated")
    )
    assert prompt == pytest.approx(1000 * per_token, rel=0.05)
    assert own == pytest.approx(4 * 100.5 * per_token, rel=0.05)
    kept = evaluator.serving(designs()).decode_footprint.kv_bytes[0]
    assert kept == (1000 + 4 * 200) * 2 * per_token  # GenZ section VII-A


DRAFT = {"draft": "llama-3.2-1b", "acceptance": 0.5}


@pytest.mark.parametrize("options", [IDEAL, {}])
def test_a_draft_is_checked_in_one_pass_for_all_tokens_that_it_yields(options):
    split = {"tensor_parallel": 8, "batch_size": 1}
    names = ("time_to_first_token_s", "time_per_output_token_s", "memory_used_per_device_bytes")
    alone, draft, both = (
        [metric(build(model, options, **drafts), name, **split)[0] for name in names]
        for model, drafts in (("llama-3.3-70b", {}), ("llama-3.2-1b", {}), ("llama-3.3-70b", DRAFT))
    )
    assert both[::2] == pytest.approx(np.add(alone, draft)[::2])
    # One request's check reads what a step of one token reads.
    expected = (alone[1] + 4 * draft[1]) / (1 + 1 / 2 + 1 / 4 + 1 / 8 + 1 / 16)
    assert both[1] == pytest.approx(expected, rel=6e-3 if options else 0.08)


def test_more_accepted_tokens_are_never_slower_and_a_check_multiplies_each_token():
    times = [
        metric(build("llama-3.3-70b", **DRAFT | {"acceptance": a}), "time_per_output_token_s")[0]
        for a in (0.1, 0.5, 0.9, 1.0)
    ]
    assert never_rises(times)
    serving = build("deepseek-v3").serving(designs())
    rules = serving.rules
    model = serving.model
    one, five = (rules.decode_table(model, 4000.0, 0.0, n) for n in (1, 5))
    assert five.tokens_per_request == 5
    np.testing.assert_allclose(five.mac_per_request, 5 * one.mac_per_request, rtol=1e-3)
    for name in ("weight_elements", "kv_read_elements_per_request"):
        np.testing.assert_allclose(getattr(five, name), getattr(one, name), rtol=1e-3)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"acceptance": None}, "draft needs acceptance"),
        ({"draft": "qwen3-0.6b"}, "expected the vocabulary of llama-3-8b, 128,256 tokens"),
        ({"beams": 2}, "draft needs beams 1 and passes that are not mixed"),
        ({"model": "qwen3-next-80b-a3b", "draft": "qwen3-0.6b"}, "without linear attention"),
    ],
)
def test_a_draft_that_cannot_be_checked_is_refused(keys, words):
    tokens = {"prompt_tokens": 10, "generated_tokens": 1}
    with pytest.raises((ValidationError, InputError), match=words):
        PlatformRequest.model_validate({"model": "llama-3-8b", **tokens, **DRAFT, **keys})


def test_one_chunk_is_the_whole_prefill_and_more_chunks_read_the_weights_again():
    whole = metric(build(options=IDEAL), "time_to_first_token_s")[0]
    one = metric(build(options=IDEAL, chunk_tokens=1024), "time_to_first_token_s")[0]
    assert one == whole
    times = [
        metric(build(options=IDEAL, chunk_tokens=chunk), "time_to_first_token_s")[0]
        for chunk in (512, 100, 16)
    ]
    assert whole < times[0] < times[1] < times[2]
    # 16 tokens a pass are bound by the weights: 64 readings of 15 GB.
    assert times[2] == pytest.approx(64 * 15.0e9 / 3.35e12, rel=0.02)


def test_chunks_of_a_prompt_have_the_arithmetic_of_the_whole():
    def macs(**asked):
        serving = build(prompt_tokens=1000, **asked).serving(designs())
        return sum(
            n * sum(float(item.mac[0]) for item in one.operators if item.name != "lm_head")
            for n, one in serving.prefill_passes
        )

    assert macs(chunk_tokens=300) == pytest.approx(macs(), rel=1e-12)


def test_attention_takes_the_kernels_for_chosen_tokens_from_the_first_that_is_chosen():
    lengths = (2049, 2100)
    few, more = (
        metric(
            build("deepseek-v3.2", {"profile": "fitted"}, prompt_tokens=n, generated_tokens=1),
            "prefill_attention_s", device="h200-sxm", tensor_parallel=8, weight_format="fp8",
        )
        for n in lengths
    )  # fmt: skip
    assert more[0] / few[0] == pytest.approx(lengths[1] / lengths[0], rel=0.05)


def test_a_mixed_pass_costs_less_than_a_chunk_and_a_step_apart():
    asked = {"chunk_tokens": 256}
    mixed = build(options=IDEAL, mixed=True, **asked)
    apart = build(options=IDEAL, **asked)
    step = metric(mixed, "time_per_output_token_s", batch_size=16)[0]
    chunk = float(apart.serving(designs()).prefill_passes[0][1].total_s[0])
    alone = metric(apart, "time_per_output_token_s", batch_size=16)[0]
    assert max(chunk, alone) < step < chunk + alone
    assert metric(mixed, "time_to_first_token_s")[0] == pytest.approx(
        4 * metric(mixed, "time_per_output_token_s")[0]
    )


def test_mixed_passes_keep_the_cache_of_the_prompt_in_progress_too():
    def cache(**asked):
        serving = build(prompt_tokens=1000, generated_tokens=200, **asked).serving(
            designs(batch_size=4)
        )
        return float(serving.decode_footprint.kv_bytes[0])

    per_token = 2 * kv_elements_per_token(load_model("llama-3-8b"))
    assert cache() == 4 * 1200 * per_token
    assert cache(chunk_tokens=250, mixed=True) == (4 * 1200 + 1000) * per_token


def test_overlap_hides_the_shorter_of_operators_and_messages():
    values = {"tensor_parallel": 8, "batch_size": 16}
    apart, hidden = (build(options={"overlap": overlap}) for overlap in (False, True))
    sums = metric(apart, "time_to_first_token_s", **values)[0]
    busy = sum(metric(apart, f"prefill_{part}_s", **values)[0] for part in ("linear", "attention"))
    talk = metric(apart, "prefill_collective_s", **values)[0]
    assert sums == pytest.approx(busy + talk)
    found = metric(hidden, "time_to_first_token_s", **values)[0]
    assert max(busy, talk) <= found * (1 + 1e-12) and found < sums


def test_offload_is_genz_equation_1():
    # 16.1 GB of weights on a device of 10 GB; the rest is read at 64 GB/s at the same time.
    values = {"fast_capacity_bytes": 10e9}
    options = IDEAL | {"offload": True}
    evaluator = build(options=options)
    serving = evaluator.serving(designs(**values))
    kept = float(serving.decode_footprint.need_bytes[0])
    share = (kept - 10e9) / kept
    assert float(serving.offloaded_share[0]) == pytest.approx(share)
    read = build(options=IDEAL).serving(designs()).decode_pass
    bytes_read = sum(
        float(item.bytes[0]) for item in read.operators if item.part in ("linear", "attention")
    )
    expected = bytes_read * share / 64e9  # the slow memory takes longer than the fast one
    found = metric(evaluator, "time_per_output_token_s", **values)[0]
    assert found == pytest.approx(expected, rel=0.01)
    assert limits(serving)["memory"][0] < 0
    assert limits(build(options=IDEAL).serving(designs(**values)))["memory"][0] > 0


def test_a_batch_of_tokens_reads_the_experts_it_can_expect_to_touch():
    evaluator = build("mixtral-8x7b", options=IDEAL)
    serving = evaluator.serving(designs(batch_size=[1, 4, 64]))
    work = {w.name: w for w in serving.work(serving.passes.decode(serving.micro_batch))}
    one = 2 * 4096 * 14336 * 2.0  # gate and up of one expert, bf16
    touched = work["expert_gate_up_projection"].weight_bytes / one
    assert touched == pytest.approx([2.0, 8 * (1 - 0.75**4), 8 * (1 - 0.75**64)])


def test_groups_that_share_experts_serve_their_own_requests_and_keep_their_cache_alone():
    evaluator = build("deepseek-v3", options=IDEAL)
    serving = evaluator.serving(designs(expert_parallel=[1, 8, 8], batch_size=[8, 8, 9]))
    work = {w.name: w for w in serving.work(serving.passes.decode(serving.micro_batch))}
    weights = work["expert_down_projection"].weight_bytes
    assert weights[1] == pytest.approx(weights[0] / 8)
    # Eight requests in eight groups are one each; of nine, one group has two.
    kv = serving.decode_footprint.kv_bytes
    assert kv.tolist() == [kv[0], kv[0] / 8, kv[0] / 4]
    assert work["query_projection"].rows.tolist() == [8.0, 1.0, 2.0]
    assert work["expert_down_projection"].rows.tolist() == [8.0, 8.0, 9.0]


def test_a_token_is_sent_once_to_each_group_that_has_an_expert_of_its():
    groups = np.array([1.0, 2.0, 32.0, 256.0])
    reached = partners(groups, 256.0, 8.0)
    # Eight of 256 experts: none of 128 others, and at 256 groups an expert each.
    missed = float(np.prod([(128 - i) / (256 - i) for i in range(8)]))
    assert reached[:2] == pytest.approx([0.0, 1 - missed])
    assert reached[3] == pytest.approx(255 * 8 / 256)
    drawn = np.random.default_rng(0).permuted(np.tile(np.arange(256), (20_000, 1)), axis=1)[:, :8]
    own = (drawn // 8 == 0).any(axis=1)
    counted = np.mean([len(set(row.tolist())) for row in drawn[:2000] // 8]) - own.mean()
    assert reached[2] == pytest.approx(counted, rel=0.02)

    evaluator = build("deepseek-v3", options={"profile": "ideal"}, prompt_tokens=8192)
    serving = evaluator.serving(designs(device="h200-sxm", expert_parallel=8, batch_size=64))
    rows = {row.name: row for row in serving.prefill_passes[0][1].operators}
    tokens = 8 * 8192  # of a group, two bytes an element, 58 layers with experts
    sent = 58 * 2 * 7168 * tokens * float(partners(8.0, 256.0, 8.0))
    assert rows["expert_dispatch"].bytes[0] == pytest.approx(sent)
    latencies = 58 * 1e-6  # tokens go to all partners at once
    assert rows["expert_dispatch"].time_s[0] == pytest.approx(sent / 450e9 + latencies)
    assert not {"expert_gather", "token_gather"} & {
        name for name, row in rows.items() if row.count[0] > 0
    }


def test_what_16_devices_exchange_in_a_prefill_is_what_their_links_take():
    """DeepSeek-V3, 64 prompts of 8192 tokens, TP 8 in each of two nodes; once 23.3 s."""
    evaluator = build("deepseek-v3", prompt_tokens=8192, generated_tokens=100)
    formats = dict.fromkeys(("weight_format", "activation_format", "kv_format"), "fp8")
    serving = evaluator.serving(
        designs(device="h200-sxm", tensor_parallel=8, expert_parallel=2, batch_size=64, **formats)
    )
    rows = {row.name: row.time_s[0] for row in serving.prefill_passes[0][1].operators}
    tokens, width, layers, network, link = 32 * 8192, 7168, 58, 50e9, 450e9
    # Nearly every token has an expert in the other node; each of 8 devices sends an eighth of them.
    bounds = {
        "expert_dispatch": tokens / 8 * width * (1 + 4 / 128) / network,
        "expert_combine": tokens / 8 * width * 2.0 / network,
        "expert_gather": 7 / 8 * tokens * width * (1 + 4 / 128) / link,
        "expert_sum": 7 / 8 * 2 * tokens * width * 2.0 / link,
        "token_gather": 7 / 8 * tokens * width * 2.0 / link,
    }
    for name, bound in bounds.items():
        assert layers * bound < 1.005 * rows[name] < 1.6 * layers * bound, name
    assert rows["expert_dispatch"] + rows["expert_combine"] == pytest.approx(0.90, abs=0.05)
    assert sum(rows[name] for name in bounds) == pytest.approx(2.95, abs=0.2)


def test_an_exchange_brings_a_device_no_pairs_of_others():
    formats = dict.fromkeys(("weight_format", "activation_format"), "fp8")

    def experts_s(**values):
        serving = build("deepseek-v3", prompt_tokens=4096).serving(designs(**values, **formats))
        rows = {row.name: row.time_s[0] for row in serving.decode_pass.operators}
        return float(rows["experts"])

    # 64 requests a device: 128 devices have half the experts of 64 each, and as many pairs.
    few = experts_s(expert_parallel=64, batch_size=64 * 64)
    many = experts_s(expert_parallel=128, batch_size=64 * 128)
    # Corrections of measured sizes differ by a few percent.
    assert 0.4 * few < many < 1.1 * few
    # Two experts' weights, 512 pairs and the starts: far from 65,536 pairs that pass the memory.
    assert many < 58 * 400e-6


def test_an_exchange_of_long_batches_takes_cores_from_the_operators_that_hide_it():
    evaluator = build("deepseek-v3", options={"overlap": True}, prompt_tokens=4096)
    formats = dict.fromkeys(("weight_format", "activation_format"), "fp8")
    serving = evaluator.serving(
        designs(device="h800-sxm", expert_parallel=32, batch_size=64, **formats)
    )
    prefill, step = serving.prefill_passes[0][1], serving.decode_pass
    busy, talking = prefill.part_s("linear", "attention")[0], prefill.part_s("collective")[0]
    assert busy > talking
    assert prefill.total_s[0] == pytest.approx(busy + talking * 20 / 132)
    # The exchange of a decode step leaves all cores free.
    busy, talking = step.part_s("linear", "attention")[0], step.part_s("collective")[0]
    ends = [row.time_s[0] for row in step.operators if not row.is_in_layers]
    assert step.total_s[0] == pytest.approx(max(busy - sum(ends), talking) + sum(ends))


def test_experts_over_groups_that_share_all_requests_add_up_what_they_give():
    evaluator = build("mixtral-8x7b", options=IDEAL | {"attention": "tensor"})
    explained = evaluator.explain(designs(expert_parallel=8, batch_size=8))
    names = {row["name"] for row in explained.operators}
    assert "expert_output" in names and not names & {"expert_dispatch", "expert_combine"}
    serving = evaluator.serving(designs(expert_parallel=[1, 8], batch_size=8))
    kv = serving.decode_footprint.kv_bytes
    assert kv[1] == kv[0] / 8


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("compute_flop_per_s", [1e14, 3e14, 1e15, 1e16]),
        ("fast_bandwidth_bytes_per_s", [1e12, 2e12, 8e12]),
        ("link_bandwidth_bytes_per_s", [1e10, 1e11, 1e12]),
        ("link_latency_s", [1e-5, 1e-6, 1e-7]),
    ],
)
def test_a_better_platform_is_never_slower(name, values):
    profile = "ideal" if name == "link_latency_s" else "fitted"
    evaluator = build("mixtral-8x7b", options={"profile": profile}, use_case="rag-qa")
    more = {"tensor_parallel": 4, "expert_parallel": 2, "pipeline_parallel": 2, "batch_size": 8}
    for result in ("time_to_first_token_s", "time_per_output_token_s"):
        times = metric(evaluator, result, **{name: values}, **more)
        assert never_rises(times)


def test_a_latency_of_links_means_nothing_to_fitted_messages_and_is_refused():
    with pytest.raises(InputError, match="link_latency_s: expected profile ideal or genz"):
        metric(build(), "time_to_first_token_s", link_latency_s=1e-6, tensor_parallel=2)


def test_a_path_between_cards_is_a_range_until_an_option_states_it():
    pair = designs(device="l40s", tensor_parallel=4)
    slow, fast = (
        build(options={"link": f"pcie4-{path}"}).explain(pair) for path in ("host", "switch")
    )
    ranged = build().explain(pair)
    for name in ("time_to_first_token_s", "time_per_output_token_s"):
        assert ranged.ranges[name] == pytest.approx((fast.metrics[name], slow.metrics[name]))
        assert ranged.metrics[name] == slow.metrics[name] > fast.metrics[name]
        assert name not in slow.ranges
    assert "one switch" in ranged.notes[-1]
    bridged = build(options={"link": "pcie4-bridge"}).devices["a100-pcie-80gb"]
    assert (bridged.link_bandwidth, bridged.n_linked, bridged.link_kind) == (32e9, 8, "pcie-bridge")
    assert build(options={"link": "pcie-host"}).devices["a100-pcie-80gb"].n_linked == 2
    with pytest.raises(ValidationError, match="such as pcie5-host; got 'pcie7-host'"):
        build(options={"link": "pcie7-host"})


def test_a_group_over_two_nodes_pays_for_the_network():
    evaluator = build("llama-3.3-70b")
    flat = build("llama-3.3-70b", options={"has_nodes": False})
    spanning, joined = (
        metric(one, "prefill_collective_s", tensor_parallel=[8, 16]) for one in (evaluator, flat)
    )
    assert spanning[0] == joined[0]
    assert spanning[1] > 1.1 * joined[1]


def test_narrow_formats_use_the_device_s_faster_rate_where_it_has_one():
    formats = {
        "weight_format": ["bf16", "fp8", "int4"],
        "activation_format": ["bf16", "fp8", "int4"],
    }

    def rates(**values):
        peaks = build().platform(designs(**values)).products.peak_flop_per_s
        return peaks.tolist()

    assert rates(**formats) == [989.4e12, 1978.9e12, 1978.9e12]  # no 4-bit rate: the 8-bit one
    assert rates(device="b200-sxm", **formats) == [2250e12, 4500e12, 4500e12]  # no int4: int8
    assert rates(weight_format="int4", activation_format="bf16") == [989.4e12]
    # 8-bit floating point on hardware that has 8-bit integers only: 16-bit products.
    old = {"device": "a100-sxm-80gb", "weight_format": "fp8", "activation_format": "fp8"}
    assert rates(**old) == [312e12]
    four = {"device": "b200-sxm", "weight_format": "mxfp4", "activation_format": "mxfp4"}
    assert rates(**four) == [9000e12]


def test_experts_with_block_scales_take_the_kernels_for_blocks():
    formats = {"activation_format": "fp8", "kv_format": "bf16", "batch_size": 32}
    on = {"device": "h100-sxm", "tensor_parallel": 4, **formats}
    deepseek, mixtral = build("deepseek-v3"), build("mixtral-8x22b")
    name = "time_to_first_token_s"
    per_tensor = metric(mixtral, name, weight_format="fp8", **on)
    blocks = metric(mixtral, name, weight_format="fp8_block128", **on)
    assert (blocks > 1.1 * per_tensor).all()
    # DeepSeek-V3 is published with a scale for 128 x 128 weights.
    published = metric(deepseek, name, weight_format="fp8", **on)
    assert published == metric(deepseek, name, weight_format="fp8_block128", **on)
    notes = deepseek.explain(designs(weight_format="fp8", **on)).notes
    assert any("a scale for 128 x 128" in note for note in notes)
    assert deepseek.provenance()["weight_block_size"] == [128, 128]
    # A100s multiply no 8-bit floats: their kernels convert both alike.
    on["device"] = "a100-sxm-80gb"
    assert metric(mixtral, name, weight_format="fp8", **on) == metric(
        mixtral, name, weight_format="fp8_block128", **on
    )


def test_a_file_with_more_bandwidth_is_no_slower_than_the_device_it_was_copied_from(
    tmp_path,
):
    source = (
        Path(resources.__file__).parents[1] / "models" / "hardware" / "devices" / "h100-sxm.yaml"
    )
    file = tmp_path / "mine.yaml"
    file.write_text(source.read_text("utf-8").replace("3350 GB/s", "3450.5 GB/s"), "utf-8")
    for model, tp in (("llama-3-8b", 1), ("mixtral-8x22b", 8)):
        evaluator = build(model, {"device_files": (str(file),)})
        devices = ["h100-sxm", "mine", "h200-sxm"]
        for name in ("time_to_first_token_s", "time_per_output_token_s"):
            h100, mine, h200 = metric(evaluator, name, device=devices, tensor_parallel=tp)
            assert h200 <= mine <= h100
        notes = evaluator.explain(designs(device="mine", tensor_parallel=tp)).notes
        assert any("those of its chip correct its laws (h100-sxm, h200-sxm)" in n for n in notes)


def test_a_narrow_cache_of_latents_is_multiplied_as_it_is_and_converted_in_a_prefill():
    deepseek = build("deepseek-v3", prompt_tokens=4096)
    on = {"tensor_parallel": 8, "batch_size": 64, "weight_format": "fp8"}
    narrow, wide = ({**on, "kv_format": name} for name in ("fp8", "bf16"))
    for device in ("h100-sxm", "b200-sxm"):
        steps = [
            metric(deepseek, "decode_attention_s", device=device, **formats)[0]
            for formats in (narrow, wide)
        ]
        assert steps[0] < 0.9 * steps[1]
        prompts = [
            metric(deepseek, "prefill_attention_s", device=device, **formats)[0]
            for formats in (narrow, wide)
        ]
        assert prompts[0] > 0.95 * prompts[1]


@pytest.mark.parametrize(
    ("model", "values", "words"),
    [
        ("llama-3-8b", {"tensor_parallel": 3}, "divisor of the 32 attention heads"),
        ("llama-3-8b", {"tensor_parallel": 3}, "choices: 1, 2, 4, 8, 16, 32"),
        ("llama-3-8b", {"expert_parallel": 2}, "llama-3-8b has no experts; expected 1, got 2"),
        ("mixtral-8x7b", {"expert_parallel": 3}, "divisor of the 8 experts of mixtral-8x7b"),
        ("llama-3-8b", {"pipeline_parallel": 33}, "at most the 32 layers of llama-3-8b, got 33"),
        ("llama-3-8b", {"data_parallel": 3}, "multiple of data_parallel 3, got 1; nearest: 3"),
        ("llama-3.3-70b", {}, "61.46 GB too much"),
        ("llama-3.3-70b", {}, "would fit: 2 times as many devices, a narrower format, offload"),
        ("llama-3-8b", {"batch_size": 10_000}, "19 times as many devices, batch_size 448"),
        ("llama-3-8b", {"device": "h100-pcie", "tensor_parallel": 4}, "links join 2"),
        ("llama-3-8b", {"device": "ryzen-9-hx-370-cpu", "tensor_parallel": 2}, "link_bandwidth"),
    ],
)  # fmt: skip
def test_what_cannot_run_says_why_and_what_could(model, values, words):
    serving = build(model).serving(designs(**values))
    assert words in "\n".join(map(str, describe_limits(serving)))
    assert any(value[0] > 0 for value in limits(serving).values())


@pytest.mark.parametrize(
    "workload",
    [
        {"prompt_tokens": 10},
        {"use_case": "chat", "prompt_tokens": 10, "generated_tokens": 1},
        {"use_case": "chta"},
        {"use_case": "chat", "mixed": True},
        {"use_case": "chat", "chunk_tokens": 4000},
        {"use_case": "chat", "beams": 0},
        {"use_case": "chat", "model": "llada-8b"},
    ],
)
def test_a_workload_that_makes_no_sense_is_refused(workload):
    with pytest.raises((ValidationError, InputError)):
        PlatformRequest.model_validate({"model": "llama-3-8b", **workload})


@pytest.mark.parametrize("value", [0, -0.1, 1.01, float("nan"), float("inf"), "nan"])
@pytest.mark.parametrize("name", ["compute_efficiency", "link_efficiency", "usable_memory"])
def test_an_efficiency_lies_above_0_and_at_most_at_1(name, value):
    with pytest.raises((ValidationError, InputError)):
        PlatformOptions.model_validate({name: value})


def test_genz_has_no_mixed_passes_and_says_so():
    with pytest.raises(InputError, match="mixed: expected profile 'fitted' or 'ideal'"):
        build(options={"profile": "genz"}, chunk_tokens=256, mixed=True)


def test_devices_draw_between_a_fifth_and_all_of_their_power_and_each_joule_is_counted():
    evaluator = build("llama-3.3-70b")
    serving = evaluator.serving(designs(tensor_parallel=8, batch_size=[1, 16, 128]))
    watts = serving.average_power_watts
    assert (watts > 0.2 * serving.board_power_watts).all()
    assert is_at_most(watts, serving.board_power_watts) and watts[2] > watts[0]
    per_token = serving.energy_joules_per_token
    assert (np.diff(per_token) < 0).all()  # a batch shares the reading of the weights
    assert per_token * serving.throughput_tokens_per_s == pytest.approx(watts)
    assert (serving.prefill_energy_joules_per_token < per_token).all()
    bound = build("llama-3.3-70b", options=IDEAL).serving(designs(tensor_parallel=8))
    assert np.isnan(bound.energy_joules_per_token).all()  # no law of energy there


def test_an_engine_without_graphs_waits_for_its_ranks_and_for_its_host():
    steps = [
        metric(
            build("llama-3.3-70b", options={"engine": engine}), "time_per_output_token_s",
            tensor_parallel=[1, 8],
        )
        for engine in ("graphs", "streams", "eager")
    ]  # fmt: skip
    # On one rank engines with and without graphs differ by norms and activations alone.
    assert steps[0][0] < steps[1][0] < 1.1 * steps[0][0]
    assert steps[1][0] < steps[2][0]
    assert steps[0][1] < steps[1][1] < steps[2][1]
    # The host starts the 80 layers' kernels one after the other, whatever the devices.
    host = load_constants("engine", EngineConstants, "gpu")
    assert steps[2][1] > 80 * 8 * host.host_start + host.host_step
    # Where the device is the slower one, a step of one rank takes what the host adds.
    assert steps[2][0] - steps[1][0] == pytest.approx(host.host_step)


@pytest.mark.parametrize("device", ["a100-sxm-80gb", "h100-sxm"])
def test_no_number_of_devices_makes_a_step_faster_than_its_host_starts_kernels(device):
    host = load_constants("engine", EngineConstants, "gpu")
    start_s = host.earlier_host_start if device.startswith("a100") else host.host_start
    platforms = designs(device=device, tensor_parallel=[1, 2, 4, 8])
    serving = build("llama-3.3-70b", options={"engine": "eager"}).serving(platforms)
    operators = serving.decode_pass.operators
    starts_s = start_s * sum(item.count for item in operators if item.is_in_layers)
    ends_s = sum(item.time_s for item in operators if not item.is_in_layers)
    layers_s = serving.time_per_output_token_s - ends_s - host.host_step
    assert (layers_s >= starts_s * (1 - 1e-9)).all()
    # On eight devices the host is the slower one, so that the layers take its time exactly.
    assert layers_s[3] == pytest.approx(starts_s[3])
    assert layers_s[0] > 1.01 * starts_s[0]


@pytest.mark.parametrize(
    "rate", ["compute_flop_per_s", "fast_bandwidth_bytes_per_s", "link_bandwidth_bytes_per_s"]
)
def test_a_slow_host_hides_what_a_faster_device_gains_but_never_makes_it_a_loss(rate):
    factors = np.geomspace(0.25, 16.0, 13)
    device = load_device("a100-sxm-80gb")
    stated = {
        "compute_flop_per_s": device.peak["bf16"],
        "fast_bandwidth_bytes_per_s": device.bandwidth,
        "link_bandwidth_bytes_per_s": device.link_bandwidth,
    }
    values = {
        "device": "a100-sxm-80gb",
        "tensor_parallel": 4,
        rate: (stated[rate] * factors).tolist(),
    }
    for phase in ("time_per_output_token_s", "time_to_first_token_s"):
        seconds = {
            engine: metric(build("llama-3.3-70b", options={"engine": engine}), phase, **values)
            for engine in ("streams", "eager")
        }
        assert never_rises(seconds["eager"])
        assert (seconds["eager"] > seconds["streams"]).all()


def burst_prefill(engine, prompt, **degrees):
    """A pass at full clocks, which a host that is waited for does not change."""
    evaluator = build("llama-3.3-70b", options={"engine": engine}, prompt_tokens=prompt)
    serving = evaluator.serving(designs(**degrees))
    streams = serving.passes.prefill(serving.passes.prompts[0], serving.micro_batch)
    return serving.time(streams, serving.prefill_footprint)


def test_stages_have_hosts_of_their_own_and_a_pass_waits_for_one():
    """The hosts of later stages do their own part while those before still run."""
    host = load_constants("engine", EngineConstants, "gpu")
    own = host.host_step + host.host_prompt
    passes = [
        burst_prefill(engine, 2048, tensor_parallel=2, pipeline_parallel=[1, 4])
        for engine in ("streams", "eager")
    ]
    for name in ("total_s", "stage_s"):
        added = getattr(passes[1], name) - getattr(passes[0], name)
        assert added == pytest.approx(own, rel=1e-6)


def test_prompts_beyond_2048_tokens_wait_for_the_memory_of_a_slow_host():
    """4,096 tokens of Llama-3.3-70B are messages of 64 MiB, two in each of 80 layers and one for
    the embedding; a ring of two devices sends each once. Devices draw their limit meanwhile."""
    host, device = load_constants("engine", EngineConstants, "gpu"), load_device("h100-sxm")
    assert device.slow_bandwidth is not None and device.power is not None
    passes = [burst_prefill(engine, 4096, tensor_parallel=2) for engine in ("streams", "eager")]
    copied_s = 161 * 4096 * 8192 * 2 / (host.host_copy * device.slow_bandwidth)
    added_s = passes[1].total_s - passes[0].total_s
    own_s = host.host_step + host.host_prompt
    assert added_s == pytest.approx(copied_s + own_s, rel=1e-6)
    joules = [
        sum(item.joules for item in timed.operators if item.kernel is None) for timed in passes
    ]
    assert joules[1] - joules[0] == pytest.approx(copied_s * device.power, rel=1e-6)


def test_fitted_kernels_are_never_faster_than_the_ideal_ones():
    where = api.load_space("platform-llm")
    columns = where.columns(where.sample(np.random.default_rng(5), 300))
    for model in ("llama-3.3-70b", "mixtral-8x7b", "deepseek-v3"):
        for name in ("time_to_first_token_s", "time_per_output_token_s"):
            fitted, ideal = (
                build(model, options={"profile": profile}).evaluate(columns, [name]).metrics[name]
                for profile in ("fitted", "ideal")
            )
            known = ~np.isnan(fitted)
            assert known.any() and (fitted[known] >= ideal[known] * (1 - 1e-9)).all()


def test_what_is_predicted_is_a_bound_and_board_power_is_exact():
    where = api.load_space("platform-llm")
    columns = where.columns(where.sample(np.random.default_rng(6), 300))
    for model in ("llama-3.3-70b", "mixtral-8x22b", "deepseek-v3"):
        for engine in ("graphs", "streams", "eager"):
            evaluator = build(model, options={"engine": engine})
            within = np.all(
                [values <= 0 for values in evaluator.known_violations(columns).values()], axis=0
            )
            names = [item.name for item in evaluator.metrics]
            results = evaluator.evaluate(columns, names).metrics
            predicted = evaluator.predict(columns, names)
            assert within.any() and {"throughput_tokens_per_s", "time_to_first_token_s"} < set(
                predicted
            )
            for name, bounds in predicted.items():
                sign = -1 if PLATFORM_METRICS[name].sense == "maximize" else 1
                known = within & ~np.isnan(results[name])  # some devices have no rent
                values = sign * results[name][known]
                assert (values >= sign * bounds[known] - 1e-9 * np.abs(values)).all(), name
            power = results["board_power_watts"]
            known = ~np.isnan(power)
            assert (predicted["board_power_watts"][known] == power[known]).all()


PRICE = "usd_per_million_output_tokens"


def test_a_price_is_the_rent_over_what_is_generated_beside_the_prefills():
    asked = {"tensor_parallel": 4, "batch_size": 64}
    evaluator = build("llama-3.3-70b")
    step, prefills = (
        metric(evaluator, name, **asked)[0]
        for name in ("time_per_output_token_s", "prefill_requests_per_s")
    )
    # 64 requests of 64 tokens: as many steps, and 64 prefills, in the time of a generation.
    tokens_per_s = 64 * 64 / (64 * step + 64 / prefills)
    expected = 4 * list_rents()["h100-sxm"].typical / 3600 / tokens_per_s * 1e6
    assert metric(evaluator, PRICE, **asked)[0] == pytest.approx(expected, rel=1e-12)
    stated = build("llama-3.3-70b", {"device_usd_per_hour": 30.0})
    assert metric(stated, PRICE, **asked)[0] == pytest.approx(10 * expected, rel=1e-12)
    explanation = evaluator.explain(designs(**asked))
    low, high = explanation.ranges[PRICE]
    assert low < explanation.metrics[PRICE] < high
    assert "3 USD per hour (1.99 to 5 USD/h" in " ".join(explanation.notes)


def test_mixed_passes_generate_no_more_than_their_prompts_allow():
    mixed = build("llama-3.3-70b", mixed=True, chunk_tokens=64)
    few, many = (
        {name: metric(mixed, name, tensor_parallel=4, batch_size=batch)[0]
         for name in ("output_tokens_per_s", "throughput_tokens_per_s", "prefill_requests_per_s")}
        for batch in (1, 64)
    )  # fmt: skip
    assert few["output_tokens_per_s"] == few["throughput_tokens_per_s"]
    assert many["output_tokens_per_s"] == 64 * many["prefill_requests_per_s"]


def test_a_device_without_a_rent_has_no_price_unless_one_is_stated():
    absent = build().absent_metrics({"device": ["h100-sxm", "gaudi-3"]})
    assert "no rent is listed of gaudi-3" in absent[PRICE]
    assert np.isnan(metric(build(), PRICE, device="gaudi-3"))
    stated = build(options={"device_usd_per_hour": 2.0})
    assert stated.absent_metrics({"device": ["gaudi-3"]}) == {}
    assert metric(stated, PRICE, device="gaudi-3") > 0


def test_profiles_that_are_bounds_or_conventions_predict_nothing():
    for options in ({"profile": "ideal"}, {"profile": "genz"}):
        assert build(options=options).predict(designs(), ["throughput_tokens_per_s"]) == {}


def test_unknown_devices_metrics_and_formats_are_refused_with_the_nearest():
    evaluator = build()
    with pytest.raises(UnknownNameError, match="Did you mean 'h100-sxm'"):
        evaluator.evaluate(designs(device="h100-sxn"))
    with pytest.raises(UnknownNameError, match="time_to_first_token_s"):
        evaluator.evaluate(designs(), ["time_to_first_token"])


def test_the_use_cases_are_those_of_table_iv_and_section_viii():
    names = (
        "question-answering",
        "chat",
        "rag-qa",
        "summarization",
        "code-generation",
        "personal-assistant",
    )
    rows = [
        (c.prompt_tokens, c.generated_tokens, c.beams, c.time_to_first_token_s,
               round(c.time_per_output_token_s * 1e3, 9))
        for c in map(load_use_case, names)
    ]  # fmt: skip
    assert rows == [
        (1000, 200, 4, 0.2, 10), (3000, 1000, 2, 0.2, 10), (10_000, 200, 4, 0.4, 10),
        (15_000, 1000, 4, 2, 20), (20_000, 50, 4, 0.5, 20), (2_000_000, 2000, 4, 2, 200),
    ]  # fmt: skip


@pytest.mark.parametrize("n_devices", [1, 7, 8, 12])
def test_every_factorization_is_tried_those_without_replicas_too(n_devices):
    found = {tuple(row) for row in factorizations(n_devices).tolist()}
    numbers = range(1, n_devices + 1)
    brute = {
        (a, b, c, d)
        for a in numbers for b in numbers for c in numbers for d in numbers
        if a * b * c * d == n_devices
    }  # fmt: skip
    assert found == brute
    # GenZ's tool misses those in which tensor and pipeline parallelism use all devices.
    assert {(t, p, 1, 1) for t in numbers for p in numbers if t * p == n_devices} <= found


def test_splits_are_the_factorizations_that_a_model_allows():
    evaluator = build("mixtral-8x7b")
    others = {"device": "b200-sxm", "batch_size": 16}
    degrees = factorizations(16)
    fits = fitting(evaluator.serving(columns_of(degrees, others)))
    allowed = {tuple(row) for row in degrees[fits & (degrees[:, 3] == 1)].tolist()}
    tried = splits(evaluator.workload.language_model, range(1, 33), 16)
    assert allowed <= {tuple(row) for row in tried.tolist()}


def test_requirements_are_arithmetic_bytes_and_bytes_over_the_limits():
    evaluator = build("llama-3.3-70b", use_case="rag-qa")
    formats = dict.fromkeys(("weight_format", "activation_format", "kv_format"), "fp8")
    needed = size_requirements(evaluator, LatencyLimits(0.4, 0.01), {"batch_size": 1, **formats})
    model = load_model("llama-3.3-70b")
    cache = (10_000 + 4 * 200) * kv_elements_per_token(model)  # GenZ section VII-A
    assert needed.kv_bytes == cache
    head = model.vocab_size * model.hidden_size  # as many as the embedding's, both in 16 bits
    assert needed.weight_bytes == pytest.approx(parameter_count(model) + 2 * head, rel=1e-4)
    assert needed.capacity_bytes == needed.kv_bytes + needed.weight_bytes
    assert needed.flop_per_s == needed.flop / 0.4
    read = parameter_count(model)  # not the embedding, twice the head
    assert needed.bandwidth_bytes_per_s == pytest.approx((read + cache) / 0.01, rel=1e-3)


def test_weights_that_checkpoints_do_not_quantize_keep_16_bits():
    """Llama-3-8B in AWQ is 5.7 GB, gpt-oss-120b in MXFP4 65.2 GB, as published."""
    for name, word, expected in (("llama-3-8b", "int4", 5.7e9), ("gpt-oss-120b", "mxfp4", 65.2e9)):
        serving = build(name).serving(designs(weight_format=word))
        assert serving.decode_footprint.weight_bytes == pytest.approx(expected, rel=0.02)
    (head,) = (each for each in serving.decode_pass.operators if each.name == "lm_head")
    assert head.bytes == pytest.approx(2 * 201_088 * 2880, rel=1e-2)


def test_the_personal_assistant_takes_the_bandwidth_of_figure_17():
    model = "validation/studies/data/models/super-llm-10t.yaml"
    evaluator = build(model, options={"profile": "genz"}, use_case="personal-assistant")
    case = load_use_case("personal-assistant")
    slo = LatencyLimits(case.time_to_first_token_s, case.time_per_output_token_s)
    needed = size_requirements(evaluator, slo, {**FP8, "batch_size": 1})
    assert needed.bandwidth_bytes_per_s == pytest.approx(40e12, rel=0.05)  # section VIII
    assert needed.capacity_bytes == pytest.approx(16.6e12, rel=0.01)  # "around 15 TB"


FP8 = dict.fromkeys(("weight_format", "activation_format", "kv_format"), "fp8")


def test_users_in_a_steady_state_ask_for_their_prompts_one_after_another():
    evaluator = build("llama-2-7b", prompt_tokens=1000, generated_tokens=100)
    slo = LatencyLimits(0.5, 0.02)
    together = size_requirements(evaluator, slo, {**FP8, "batch_size": 400})
    steady = size_steady_state(evaluator, slo, 400, FP8)
    assert steady.flop == pytest.approx(together.flop / 400)
    parameters = parameter_count(load_model("llama-2-7b"))
    # 400 users, each with a prompt in every 100 steps of 20 ms, and their steps.
    prompts, steps = 400 / (100 * 0.02) * 1000, 400 / 0.02
    assert steady.flop_per_s == pytest.approx(2 * parameters * (prompts + steps), rel=0.06)
    assert steady.capacity_bytes == together.capacity_bytes
    assert steady.bandwidth_bytes_per_s == together.bandwidth_bytes_per_s
    # A single user waits for one prompt.
    alone = size_steady_state(evaluator, slo, 1, FP8)
    assert alone.flop_per_s == pytest.approx(steady.flop / 0.5)
    with pytest.raises(InputError, match="generated_tokens: expected at least 1"):
        size_steady_state(build("llama-2-7b", prompt_tokens=9, generated_tokens=0), slo, 1, FP8)


def test_a_study_is_its_designs_one_by_one_with_their_limits():
    # From 8 requests on an L4 with 24 GB holds the cache no longer.
    evaluator = build("llama-3-8b", prompt_tokens=4096, generated_tokens=512)
    design = {"device": "l4", "batch_size": 1}
    study = scale(evaluator, design, AXES["offload"])
    assert study.factors.tolist() == study.values.tolist() == list(AXES["offload"].factors)
    alone = evaluator.evaluate(designs(device="l4", batch_size=[int(n) for n in study.values]))
    assert set(study.violations) == set(alone.violations) and study.violations
    for name, values in alone.violations.items():
        np.testing.assert_array_equal(study.violations[name], values)
    for name, values in alone.metrics.items():
        np.testing.assert_array_equal(study.metrics[name], values)
    fits = [row["fits"] for row in study.rows()]
    assert fits[0] and not fits[-1]


def test_a_lower_power_limit_costs_speed_and_saves_energy_and_is_in_range():
    def serving(**options):
        return build("llama-3-8b", options=options, prompt_tokens=2048).serving(designs())

    board = serving()
    assert board.time_to_first_token_s < board.sustained_time_to_first_token_s
    limits = [serving(power_limit=f"{watts} W") for watts in (200, 350, 500, 700)]
    for name in ("prefill_requests_per_s", "throughput_tokens_per_s", "board_power_watts"):
        assert never_falls(np.array([float(getattr(each, name)[0]) for each in limits])), name
    joules = [float(each.prefill_energy_joules_per_token[0]) for each in limits]
    assert never_falls(np.array(joules[1:]))
    assert float(limits[-1].prefill_requests_per_s[0]) == float(board.prefill_requests_per_s[0])
    with pytest.raises(InputError, match="expected 200 to 700 W, the range of h100-sxm, got 150 W"):
        serving(power_limit="150 W")
    with pytest.raises(ValueError, match="expected profile fitted; ideal has no law of power"):
        serving(power_limit="500 W", profile="ideal")
    with pytest.raises(InputError, match="the file of groq-lpu states no power"):
        load_device("groq-lpu").check_power_limit(300.0)


def test_a_scheduled_chip_takes_its_streams_steps_and_hops_and_is_filled_evenly():
    name = "time_per_output_token_s"
    chip = {"tensor_parallel": 8, "pipeline_parallel": 32, "weight_format": "int8"}
    mixed = designs(device=["groq-lpu", "h100-sxm"], **{k: [v] * 2 for k, v in chip.items()})
    found = build().evaluate(mixed, [name])
    # Weights are stored in 8 bits and multiply in 16; 8 steps a layer, a norm and the head.
    weights = 2.0 * (parameter_count(load_model("llama-3-8b")) - 128_256 * 4096)
    latency = (32 * 8 + 2) * 4.23e-6 + (2 * 65 + 1) * 0.6e-6 + 31 * 1.8e-6
    expected = weights / 8 / (0.23 * 80e12) + latency
    assert found.metrics[name][0] == pytest.approx(expected, rel=0.02)
    assert found.metrics[name][1] == metric(build(), name, **chip)[0]
    assert found.violations["memory"][0] == pytest.approx(-0.843, abs=1e-3)
    assert is_at_most(build().predict(mixed, [name])[name], found.metrics[name])
