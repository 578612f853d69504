"""Every machine works in every deployment, and more devices obey the laws of one."""

from functools import cache

import numpy as np
import pytest

from codesign.columns import Column, taken
from codesign.deployments.parallelism import PIPELINE_PARALLEL, TENSOR_PARALLEL
from codesign.evaluators.npu import NpuEvaluator, NpuOptions, compiled
from codesign.evaluators.simulation import SimulationEvaluator
from codesign.memtech import load_library
from codesign.space import load_space
from codesign.workload import Request

MODELS = {
    "llama-3.3-70b": "osworld",
    "mixtral-8x7b": "gsm8k",
    "deepseek-v3": "bfcl",
    "qwen3-next-80b-a3b": "osworld",
}
DEPLOYMENTS = [(1, 1), (4, 1), (1, 4), (2, 2)]
PROFILES = ("plain", "memexplorer")
LIBRARY = load_library()


@cache
def space():
    return load_space("memexplorer", {"memtech": LIBRARY.catalog()})


def designs(n, seed=3):
    return space().columns(space().sample(np.random.default_rng(seed), n))


def deployed(columns, tensor, pipeline):
    n = len(columns["pe_array"])
    code = np.zeros(n, dtype=np.int64)
    degrees = {
        TENSOR_PARALLEL: Column((tensor,), code),
        PIPELINE_PARALLEL: Column((pipeline,), code),
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


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("phase", ["prefill", "decode"])
@pytest.mark.parametrize("deployment", DEPLOYMENTS)
def test_every_machine_works_in_every_deployment(model, phase, deployment):
    analytical = npu(model, phase)
    columns = deployed(designs(400), *deployment)
    known = analytical.known_violations(columns)
    feasible = np.flatnonzero(np.all([values <= 0 for values in known.values()], axis=0))[:2]
    few = taken(columns, feasible)
    closed = analytical.evaluate(few).metrics
    simulated = SimulationEvaluator(analytical.workload, library=LIBRARY).evaluate(few).metrics
    assert all(np.isfinite(values).all() for values in closed.values())
    rate = "throughput_tokens_per_s"
    np.testing.assert_allclose(simulated[rate], closed[rate], rtol=0.05)
    np.testing.assert_array_equal(simulated["tdp_watts"], closed["tdp_watts"])
    explained = analytical.explain(taken(few, slice(0, 1)))
    assert explained.metrics[rate] == closed[rate][0]


@pytest.mark.parametrize("deployment", DEPLOYMENTS[1:])
@pytest.mark.parametrize("profile", PROFILES)
def test_compiled_and_not_are_the_same(deployment, profile, monkeypatch):
    evaluator = npu("llama-3.3-70b", "decode", profile, batch="best")
    columns = deployed(designs(200), *deployment)
    monkeypatch.setenv(compiled.SWITCH, "0")
    on_arrays = evaluator.evaluate(columns).metrics
    monkeypatch.setenv(compiled.SWITCH, "1")
    for name, values in evaluator.evaluate(columns).metrics.items():
        np.testing.assert_array_equal(values, on_arrays[name], err_msg=name)


def test_figures_of_all_devices_are_those_of_one_times_their_number():
    evaluator, columns = npu("llama-3.3-70b", "decode"), designs(40)
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
    assert (slow[rate] <= fast[rate]).all() and (slow[rate] < fast[rate]).any()
    assert (costly[energy] > fast[energy]).all()


def test_a_limit_on_latency_holds_for_all_stages_together():
    evaluator = npu("llama-3.3-70b", "decode").within_limits({"time_per_output_token_s": 0.05})
    columns = deployed(designs(200), 4, 2)
    limited = evaluator.evaluate(columns).metrics
    free = npu("llama-3.3-70b", "decode").evaluate(columns).metrics
    seconds = "time_per_output_token_s"
    assert (limited[seconds] <= 0.05).sum() > (free[seconds] <= 0.05).sum()


def test_more_devices_than_heads_break_a_limit():
    columns = deployed(designs(1), 128, 1)  # 64 heads
    assert npu("llama-3.3-70b", "decode").known_violations(columns)["devices"][0] == 1.0


def test_rent_gives_dollars_per_million_tokens():
    evaluator = npu("llama-3.3-70b", "decode", usd_per_hour=2.0)
    metrics = evaluator.evaluate(deployed(designs(5), 4, 1)).metrics
    by_hand = 4 * 2.0 / 3600 / metrics["throughput_tokens_per_s"] * 1e6
    np.testing.assert_allclose(metrics["usd_per_million_tokens"], by_hand)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("model", ["llama-3.3-70b", "qwen3-next-80b-a3b"])
def test_no_design_on_several_devices_beats_its_best_case(model, profile):
    evaluator = npu(model, "decode", profile)
    columns = designs(150)
    for deployment in DEPLOYMENTS:
        spread = deployed(columns, *deployment)
        metrics = evaluator.evaluate(spread).metrics
        bounds = evaluator.best_case(spread, {}, list(metrics))
        for metric in evaluator.metrics:
            if metric.name in bounds:
                better = metric.flipped(metrics[metric.name]) < metric.flipped(bounds[metric.name])
                assert not better.any(), (metric.name, deployment)
