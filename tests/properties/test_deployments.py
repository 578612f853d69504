"""Every machine works in every deployment, and more devices obey the laws of one."""

from functools import cache
from itertools import product

import numpy as np
import pytest

from codesign.base.columns import Column, taken
from codesign.evaluators.npu import NpuEvaluator, NpuOptions, compiled
from codesign.evaluators.simulation import SimulationEvaluator
from codesign.models.deployments.parallelism import (
    EXPERT_PARALLEL,
    PIPELINE_PARALLEL,
    TENSOR_PARALLEL,
    Parallelism,
)
from codesign.models.memtech import load_library
from codesign.models.workload import Request
from codesign.space import load_space
from tests.laws import in_turn, is_at_most

MODELS = {
    "llama-3.3-70b": "osworld",
    "mixtral-8x7b": "gsm8k",
    "deepseek-v3.2": "bfcl",
    "qwen3-next-80b-a3b": "osworld",
}
DEPLOYMENTS = [(1, 1), (4, 1), (1, 4), (2, 2)]
WITH_EXPERTS = [(1, 1, 8), (2, 2, 4)]
MIXTURES = ["mixtral-8x7b", "deepseek-v3.2", "qwen3-next-80b-a3b"]
PROFILES = ("plain", "memexplorer")
LIBRARY = load_library()


@cache
def space():
    return load_space("memexplorer", {"memtech": LIBRARY.catalog()})


def designs(n, seed=3):
    return space().columns(space().sample(np.random.default_rng(seed), n))


def deployed(columns, tensor, pipeline, expert=1):
    n = len(columns["pe_array"])
    code = np.zeros(n, dtype=np.int64)
    degrees = {
        TENSOR_PARALLEL: Column((tensor,), code),
        PIPELINE_PARALLEL: Column((pipeline,), code),
        EXPERT_PARALLEL: Column((expert,), code),
    }
    return {**columns, **degrees}


@cache
def npu(model, phase, profile="plain", **options):
    request = Request(model=model, phase=phase, trace=MODELS[model])
    return NpuEvaluator(request, NpuOptions(profile=profile, **options), library=LIBRARY)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("phase", ["prefill", "decode"])
@pytest.mark.parametrize("model", MODELS)
def test_one_device_is_the_same_with_degrees_of_one_and_without_any(model, phase, profile):
    evaluator, columns = npu(model, phase, profile), designs(40)
    alone, stated = evaluator.evaluate(columns), evaluator.evaluate(deployed(columns, 1, 1))
    for name, values in alone.metrics.items():
        np.testing.assert_array_equal(values, stated.metrics[name], err_msg=name)


@pytest.mark.parametrize(
    ("machine", "phase"),
    in_turn(
        [*product(MODELS, DEPLOYMENTS), *product(MIXTURES, WITH_EXPERTS)], ["prefill", "decode"]
    ),
)
def test_every_machine_works_in_every_deployment(machine, phase):
    model, deployment = machine
    analytical = npu(model, phase)
    columns = deployed(designs(400), *deployment)
    known = analytical.known_violations(columns)
    feasible = np.flatnonzero(np.all([values <= 0 for values in known.values()], axis=0))[:1]
    few = taken(columns, feasible)
    closed = analytical.evaluate(few).metrics
    simulated = SimulationEvaluator(analytical.workload, library=LIBRARY).evaluate(few).metrics
    assert all(np.isfinite(values).all() for values in closed.values())
    rate = "throughput_tokens_per_s"
    np.testing.assert_allclose(simulated[rate], closed[rate], rtol=0.05)
    np.testing.assert_array_equal(simulated["tdp_watts"], closed["tdp_watts"])
    explained = analytical.explain(few)
    assert explained.metrics[rate] == closed[rate][0]


@pytest.mark.parametrize(
    ("model", "deployment"),
    [*product(["llama-3.3-70b"], DEPLOYMENTS[1:]), ("deepseek-v3.2", WITH_EXPERTS[1])],
)
@pytest.mark.parametrize("profile", PROFILES)
def test_compiled_and_not_are_the_same(model, deployment, profile, monkeypatch):
    evaluator = npu(model, "decode", profile, batch="best")
    columns = deployed(designs(200), *deployment)
    monkeypatch.setenv(compiled.SWITCH, "0")
    on_arrays = evaluator.evaluate(columns).metrics
    monkeypatch.setenv(compiled.SWITCH, "1")
    for name, values in evaluator.evaluate(columns).metrics.items():
        np.testing.assert_array_equal(values, on_arrays[name], err_msg=name)


def test_figures_of_all_devices_are_those_of_one_times_their_number():
    evaluator, columns = npu("llama-3.3-70b", "decode", work="padded"), designs(40)
    one = evaluator.evaluate(columns).metrics
    eight = evaluator.evaluate(deployed(columns, 4, 2)).metrics
    for name in ("tdp_watts", "memory_capacity_bytes", "peak_flop_per_s"):
        np.testing.assert_allclose(eight[name], 8 * one[name], rtol=1e-12)
    np.testing.assert_array_equal(eight["shoreline_mm"], one["shoreline_mm"])


def test_a_decode_step_is_as_much_shorter_as_there_are_devices():
    """Base takes 2,048 weights a cycle, the embedding aside, at 1 GHz: by hand 34 ms for 69.5e9 of
    them, a quarter on four devices, and 5 us for the start of each of 162 messages. The latency of
    560 operators' first chunks, 1 ms in all, comes on top and does not shrink much."""
    request = Request(
        model="llama-3.3-70b", phase="decode", prompt_tokens=16, generated_tokens=16, batch=1
    )
    options = NpuOptions(link_bandwidth="1e9 GB/s", link_latency="0 us")
    evaluator = NpuEvaluator(request, options, library=LIBRARY)
    columns = space().columns(space().encode(space().designs["Base"]))
    by_hand = (request.weight_elements - 8192 * 128256) / 2048 / 1e9
    seconds = "time_per_output_token_s"
    assert evaluator.evaluate(columns).metrics[seconds][0] == pytest.approx(by_hand, rel=0.04)
    four = evaluator.evaluate(deployed(columns, 4, 1)).metrics[seconds][0]
    assert four == pytest.approx(by_hand / 4 + 162 * 5e-6 + 0.5e-3, abs=0.5e-3)
    options = options.model_copy(update={"link_warm_up": 0.0})
    unstarted = NpuEvaluator(request, options, library=LIBRARY).evaluate(deployed(columns, 4, 1))
    assert four - unstarted.metrics[seconds][0] == pytest.approx(162 * 5e-6, rel=1e-9)


def test_a_pipeline_multiplies_the_rate_and_not_the_speed_of_a_request():
    evaluator = npu("llama-3.3-70b", "prefill")
    columns = space().columns(space().encode(space().designs["P1"]))
    one = evaluator.evaluate(columns).metrics
    four = evaluator.evaluate(deployed(columns, 1, 4)).metrics
    rate, first = "throughput_tokens_per_s", "time_to_first_token_s"
    assert four[rate][0] / one[rate][0] == pytest.approx(4, rel=0.02)
    assert four[first][0] / one[first][0] == pytest.approx(1, rel=0.02)
    assert four["energy_joules_per_token"][0] == pytest.approx(
        one["energy_joules_per_token"][0], rel=0.05
    )


def test_features_that_are_metrics_too_are_of_all_devices():
    evaluator = npu("llama-3.3-70b", "decode", "memexplorer")
    columns = deployed(designs(60), 2, 4)
    known, metrics = evaluator.features(columns), evaluator.evaluate(columns).metrics
    shared = known.keys() & metrics.keys()
    assert len(shared) == 5
    for name in shared:
        np.testing.assert_allclose(known[name], metrics[name], rtol=1e-12, err_msg=name)


def test_slower_links_never_help_and_their_energy_counts():
    columns = deployed(designs(60), 8, 1)
    fast = npu("llama-3.3-70b", "decode").evaluate(columns).metrics
    slow = npu("llama-3.3-70b", "decode", link_bandwidth="20 GB/s").evaluate(columns).metrics
    costly = npu("llama-3.3-70b", "decode", link_energy="100 pJ/bit").evaluate(columns).metrics
    rate, energy = "throughput_tokens_per_s", "energy_joules_per_token"
    assert is_at_most(slow[rate], fast[rate]) and (slow[rate] < fast[rate]).any()
    assert (costly[energy] > fast[energy]).all()


def test_a_limit_on_latency_holds_for_all_stages_together():
    evaluator = npu("llama-3.3-70b", "decode").keep_limits({"time_per_output_token_s": 0.05})
    columns = deployed(designs(200), 4, 2)
    limited = evaluator.evaluate(columns).metrics
    free = npu("llama-3.3-70b", "decode").evaluate(columns).metrics
    seconds = "time_per_output_token_s"
    assert (limited[seconds] <= 0.05).sum() > (free[seconds] <= 0.05).sum()


def test_imported_caches_wear_a_device_as_much_as_its_own_requests_write():
    """A decode writes once, to each device, what it holds of the prompts of its own batch."""
    columns = designs(300)
    for parallelism in (Parallelism(), Parallelism(1, 4), Parallelism(1, 1, 8)):
        evaluator = npu("qwen3-next-80b-a3b", "decode").group_of(parallelism)
        results = evaluator.metrics_of(evaluator.choose(columns))
        tokens = evaluator.workload.tokens
        prompt_share = tokens.prompt_tokens / (tokens.prompt_tokens + tokens.generated_tokens)
        generated = results.writes / results.pass_s
        imported = (results.written_bytes_per_s - generated).sum(axis=0) * results.phase_time_s
        held = (
            results.chosen.designs.kv_request_bytes * results.batch_size / evaluator.part.n_batches
        )
        np.testing.assert_allclose(imported, held * prompt_share, rtol=1e-6)


def test_experts_over_groups_are_served_with_one_cache_for_each_request():
    """DeepSeek-V3 on eight devices: the latent cache is on each under tensor parallelism, so that
    a device has room for as many requests as eight have; spread experts keep each request once."""
    evaluator = npu("deepseek-v3.2", "decode")
    columns = space().columns(space().encode(space().designs["D1"]))
    cut, spread = (
        evaluator.evaluate(deployed(columns, *degrees)).metrics for degrees in ((8, 1), (1, 1, 8))
    )
    assert spread["batch_size"][0] == 8 * cut["batch_size"][0]
    assert spread["throughput_tokens_per_s"][0] > 5 * cut["throughput_tokens_per_s"][0]
    assert spread["tdp_watts"][0] == cut["tdp_watts"][0]


def test_an_explanation_says_how_many_requests_each_group_has_and_why():
    columns = deployed(designs(1), 1, 2, 4)
    ruled = npu("mixtral-8x7b", "decode", batch="best").explain(columns)
    assert any("in each of 8 groups of requests, set by the rule 'best'" in x for x in ruled.notes)
    columns |= {"batch_size": Column((3,), np.zeros(1, dtype=np.int64))}
    stated = npu("mixtral-8x7b", "decode").explain(columns)
    words = "batch size 24, 3 in each of 8 groups of requests, stated by the design"
    assert any(words in note for note in stated.notes)


def test_more_groups_than_experts_break_a_limit():
    columns = deployed(designs(1), 1, 1, 16)
    assert npu("mixtral-8x7b", "decode").known_violations(columns)["devices"][0] == 1.0
    assert npu("llama-3.3-70b", "decode").known_violations(columns)["devices"][0] == 15.0


def test_more_devices_than_heads_break_a_limit():
    columns = deployed(designs(1), 128, 1)  # 64 heads
    assert npu("llama-3.3-70b", "decode").known_violations(columns)["devices"][0] == 1.0


def test_rent_gives_dollars_per_million_tokens():
    evaluator = npu("llama-3.3-70b", "decode", usd_per_hour=2.0)
    metrics = evaluator.evaluate(deployed(designs(5), 4, 1)).metrics
    by_hand = 4 * 2.0 / 3600 / metrics["throughput_tokens_per_s"] * 1e6
    np.testing.assert_allclose(metrics["usd_per_million_tokens"], by_hand)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("phase", ["prefill", "decode"])
@pytest.mark.parametrize("model", ["llama-3.3-70b", "qwen3-next-80b-a3b"])
def test_no_design_on_several_devices_beats_its_best_case(model, phase, profile):
    evaluator = npu(model, phase, profile)
    columns = designs(150)
    for deployment in [*DEPLOYMENTS, *(WITH_EXPERTS if model in MIXTURES else ())]:
        spread = deployed(columns, *deployment)
        metrics = evaluator.evaluate(spread).metrics
        bounds = evaluator.best_case(spread, {}, list(metrics))
        for metric in evaluator.metrics:
            if metric.name in bounds:
                better = metric.flipped(metrics[metric.name]) < metric.flipped(bounds[metric.name])
                assert not better.any(), (metric.name, deployment)
        if phase == "prefill":  # batches of requests on their way, times tokens of each
            rate, first_s = "throughput_tokens_per_s", "time_to_first_token_s"
            on_their_way = metrics[rate] * metrics[first_s]
            np.testing.assert_allclose(bounds[rate] * bounds[first_s], on_their_way, rtol=1e-6)
