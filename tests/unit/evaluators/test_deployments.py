"""Deployments: the search against brute force, and laws of its answers."""

import math
from functools import cache

import numpy as np
import pytest

from codesign.base.columns import design_columns
from codesign.base.errors import InputError
from codesign.evaluators.platform import (
    PlatformEvaluator,
    PlatformOptions,
    PlatformRequest,
    attention_ffn,
    deployments,
)
from codesign.evaluators.platform.attention_ffn import ExchangeTimes, exchange_ways
from codesign.evaluators.platform.deployments import DeploymentSearch
from codesign.evaluators.platform.fleet_sizing import simulated_fleet
from codesign.evaluators.platform.instances import Demand, Variant, columns_of, fitting, splits
from codesign.evaluators.platform.machine_pools import serving_machine
from codesign.models.deployments.parallelism import REPLICA_DEGREES
from codesign.models.deployments.queueing import EngineLimits, EngineStep, poisson_arrivals
from codesign.models.deployments.queueing.service_levels import LatencyLimits
from codesign.models.hardware.device import load_device
from codesign.models.workload import load_model

FP8 = {"weight_format": "fp8", "activation_format": "fp8", "kv_format": "bf16"}
LIMITS = LatencyLimits(0.5, 0.02)


def evaluator_of(model="llama-3-8b", on=("h100-sxm",), **tokens):
    devices = {load_device(name).key: load_device(name) for name in on}
    request = {"prompt_tokens": 1000, "generated_tokens": 200} | tokens
    return PlatformEvaluator(
        PlatformRequest(model=model, **request), PlatformOptions(), devices=devices
    )


def best(evaluator, demand, **settings):
    search = DeploymentSearch(evaluator, FP8, demand, **{"most_devices": 8, **settings})
    return {deployment.policy: deployment for deployment in reversed(search.best())}


def test_co_located_devices_are_the_fewest_of_all_splits_and_batches():
    evaluator, users = evaluator_of(), 60
    answer = best(evaluator, Demand(LIMITS, users), policies=["co-located"])["co-located"]
    fewest = math.inf
    for stages in ([1], [2]):  # deeper pipelines have more devices than the answer
        degrees = splits(load_model("llama-3-8b"), stages, 8)
        others = {**FP8, "device": "h100-sxm"}
        passes = [
            evaluator.serving(columns_of(degrees, others, np.full(len(degrees), stages[0] * k)))
            for k in (1, 2, 4, 8)
        ]  # of 8,192 tokens at most
        firsts = np.array([each.time_to_first_token_s for each in passes])
        for batch in range(stages[0], users + stages[0], stages[0]):
            serving = evaluator.serving(columns_of(degrees, others, np.full(len(degrees), batch)))
            rates = np.array([each.prefill_requests_per_s for each in passes])
            rates[batch // stages[0] < np.array([1, 2, 4, 8])] = 0.0  # so many prompts there are
            rates[1:][firsts[1:] > LIMITS.time_to_first_token_s - 0.02] = 0.0
            chosen = rates.argmax(axis=0)
            step, own = serving.time_per_output_token_s, np.arange(len(degrees))
            pace = step + batch / 200 / rates[chosen, own]
            first = firsts[chosen, own] + step
            keeps = fitting(serving) & (pace <= 0.02) & (first <= 0.5)
            counts = np.where(keeps, -(-users // batch) * serving.n_devices, np.inf)
            fewest = min(fewest, float(counts.min()))
    assert answer.n_devices == fewest
    (pool,) = answer.pools
    assert pool.instances * pool.batch_size >= users
    assert answer.time_per_output_token_s <= 0.02 and answer.time_to_first_token_s <= 0.5


def test_a_pipeline_whose_stages_differ_by_a_layer_is_tried():
    evaluator = evaluator_of("llama-3.3-70b", ("rtx-4090",))
    demand = Demand(LatencyLimits(5.0, 0.1), 50)
    formats = {"weight_format": "int4", "activation_format": "int4", "kv_format": "bf16"}
    (deployment,) = DeploymentSearch(evaluator, formats, demand, ["co-located"], 8).best()
    assert deployment.n_devices == 3 and deployment.pools[0].pipeline_parallel == 3


@pytest.mark.parametrize("model", ["llama-3-8b", "mixtral-8x7b"])
def test_batches_that_bounds_leave_out_change_no_answer(monkeypatch, model):
    def tried_and_best(demand):
        search = DeploymentSearch(evaluator_of(model), FP8, demand, most_devices=4)
        return len(search.instances), [search.best(is_priced=priced) for priced in (False, True)]

    demands = Demand(LIMITS, 700), Demand(LIMITS, 9)
    bounded = [tried_and_best(demand) for demand in demands]
    every = deployments.batches_between
    monkeypatch.setattr(deployments, "batches_between", lambda table, _: every(table, math.inf))
    unbounded = [tried_and_best(demand) for demand in demands]
    for (n_tried, found), (n_all, expected) in zip(bounded, unbounded, strict=True):
        assert found == expected and n_tried <= n_all
    assert bounded[0][0] < unbounded[0][0]


@cache
def search_of_two():
    evaluator = evaluator_of(on=("h100-sxm", "l40s"))
    return evaluator, DeploymentSearch(evaluator, FP8, Demand(LIMITS, 400), most_devices=4)


def test_pools_carry_the_rate_that_users_ask_for():
    (evaluator, search), users = search_of_two(), 400
    found = [each for each in search.best() if each.policy == "disaggregated"]
    assert len({tuple(pool.device for pool in each.pools) for each in found}) == len(found) > 1
    for deployment in found:
        prefill, decode = deployment.pools
        latency = deployment.time_to_first_token_s + 200 * deployment.time_per_output_token_s
        assert deployment.requests_per_s == pytest.approx(users / latency)  # Little's law
        in_decode = deployment.requests_per_s * 200 * deployment.time_per_output_token_s
        assert decode.instances * decode.batch_size >= in_decode * (1 - 1e-9)
        degrees = np.array([[*(getattr(prefill, name) for name in REPLICA_DEGREES), 1]])
        others = {**FP8, "device": prefill.device}
        serving = evaluator.serving(columns_of(degrees, others, np.array([prefill.batch_size])))
        rate = float(serving.prefill_requests_per_s[0])
        assert prefill.instances * rate >= deployment.requests_per_s * (1 - 1e-9)
        # A prompt waits for the pass that runs, then for its own.
        first = 2 * float(serving.sustained_time_to_first_token_s[0])
        assert deployment.time_to_first_token_s == pytest.approx(first)


def test_more_users_and_tighter_limits_never_take_fewer_devices():
    def devices(users, output_s):
        demand = Demand(LatencyLimits(0.5, output_s), users)
        return {name: each.n_devices for name, each in best(evaluator_of(), demand).items()}

    base = devices(200, 0.02)
    assert set(base) == {"co-located", "chunked", "disaggregated", "attention-ffn"}
    for harder in (devices(400, 0.02), devices(200, 0.012)):
        assert all(harder[name] >= base[name] for name in harder)


def exchange_of(evaluator, link=450e9, waves=1, limits=LIMITS):
    """Instances of attention and feed-forward devices of one sort, whose links are so fast."""
    ((key, device),) = evaluator.devices.items()
    rates = dict.fromkeys(("link_bandwidth", "network_bandwidth"), link)
    devices = {key: device.model_copy(update=rates)}
    sides = [
        PlatformEvaluator(evaluator.workload.updated({"layers": side}), evaluator.options,
                          devices=devices)
        for side in ("attention", "ffn")
    ]  # fmt: skip
    variant = Variant("decode", "attention-ffn", devices[key], sides[0], waves, ffn=devices[key])
    ways = exchange_ways(evaluator, 4)
    return ExchangeTimes(variant, sides[1], 0, {**FP8, "device": key}, ways, Demand(limits, 400))


def test_one_micro_batch_behind_a_free_link_takes_the_time_of_both_parts(monkeypatch):
    """Up to the clock: devices that compute less attention sustain another one."""
    monkeypatch.setattr(attention_ffn, "LINK_LATENCY_S", 0.0)
    evaluator = evaluator_of()
    for batch in (1, 16, 128):
        one = np.zeros(1, np.int64), np.array([batch])
        steps = [exchange_of(evaluator, 1e30, waves)(*one).pace_s[0] for waves in (1, 2, 3)]
        degrees = np.ones((1, 4), np.int64)
        joint = evaluator.serving(columns_of(degrees, {**FP8, "device": "h100-sxm"}, one[1]))
        assert steps[0] == pytest.approx(float(joint.time_per_output_token_s[0]), rel=0.03)
        # Micro-batches hide at most half of a way: both parts work at once.
        assert steps[0] <= steps[1] <= 2 * steps[0] and steps[1] <= steps[2] <= 1.5 * steps[1]
        slow = exchange_of(evaluator, 1e8)(*one).pace_s[0]
        sent = 2 * 32 * batch * 4096 * 2 / 1e8
        assert slow == pytest.approx(steps[0] + sent)


def test_attention_devices_hold_the_cache_of_all_micro_batches():
    evaluator = evaluator_of(prompt_tokens=7900)
    grid = np.zeros(2000, np.int64), np.arange(1, 2001)
    most = [exchange_of(evaluator, waves=waves)(*grid).fits.sum() for waves in (1, 2, 3)]
    assert most[1] == most[0] // 2 and most[2] == most[0] // 3
    weights = load_model("llama-3-8b")
    cached = 8100 * weights.num_hidden_layers * 2 * 8 * 128 * 2
    assert most[0] == pytest.approx(80e9 / cached, rel=0.1)


def test_parts_on_devices_of_their_own_are_the_fewest_of_all_splits_and_batches():
    evaluator, users = evaluator_of(), 120
    search = DeploymentSearch(evaluator, FP8, Demand(LIMITS, users), ["attention-ffn"], 4)
    (answer,) = search.best()
    fewest = math.inf
    prefill = search.instances.rows(search.instances.prompts_per_s < np.inf)
    prefill = prefill.rows(prefill.keeps)
    for waves in (1, 2, 3):
        times = exchange_of(evaluator, load_device("h100-sxm").network_bandwidth, waves)
        for way in range(len(times.ways)):
            rows = times(np.full(users, way), np.arange(1, users + 1))
            for k in np.flatnonzero(rows.keeps):
                rate = users / (prefill.first_s + 200 * rows.pace_s[k])
                n = np.ceil(rate * 200 * rows.pace_s[k] / rows.batch[k] - 1e-9)
                n_first = np.ceil(rate / prefill.prompts_per_s - 1e-9)
                counts = n * rows.n_devices[k] + n_first * prefill.n_devices
                fewest = min(fewest, counts.min())
    assert answer.n_devices == fewest
    first, attention, ffn = answer.pools
    assert [first.role, attention.role, ffn.role] == ["prefill", "attention", "ffn"]
    assert ffn.batch_size * ffn.instances == attention.batch_size * attention.instances


def test_rented_devices_are_ranked_by_what_they_cost():
    search = search_of_two()[1]
    rents = [each.usd_per_hour(None) for each in search.best(is_priced=True)]
    counts = [each.n_devices for each in search.best()]
    assert rents == sorted(rents) and counts == sorted(counts)


def test_a_device_without_a_rent_comes_last_with_the_fewest_of_it():
    evaluator = evaluator_of(on=("h100-sxm", "mi210"))
    search = DeploymentSearch(evaluator, FP8, Demand(LIMITS, 100), ["co-located"], 4)
    by_rent, by_count = search.best(is_priced=True), search.best()
    assert [each.pools[0].device for each in by_rent] == ["h100-sxm", "mi210"]
    assert {each.n_devices for each in by_rent} == {each.n_devices for each in by_count}


def test_copies_of_experts_let_more_devices_share_them():
    request = {"prompt_tokens": 2000, "generated_tokens": 1}
    plain = PlatformRequest(model="deepseek-v3", **request)
    copied = PlatformRequest(model="deepseek-v3", expert_copies=64, **request)
    assert plain.language_model.moe_dims.n_routed_experts == 256
    assert copied.language_model.moe_dims.n_routed_experts == 320
    assert "expert_copies" not in plain.model_dump()  # stored requests keep their definition
    with pytest.raises(ValueError, match="has no experts; expected 0"):
        PlatformRequest(model="llama-3-8b", expert_copies=1, **request)


def test_the_search_has_groups_that_share_experts_and_their_copies():
    evaluator = evaluator_of("deepseek-v3")
    demand, fixed = Demand(LatencyLimits(2.0, 0.05), 10_000), {"expert_parallel": 96}
    search = DeploymentSearch(evaluator, FP8, demand, most_devices=96, has_stages=False)
    assert 96 in search.instances.degrees[:, 2]  # 96 divides 288, not the 256 of the model
    with pytest.raises(InputError, match="expert_parallel: expected one of 1, 2, 4"):
        DeploymentSearch(evaluator, FP8, demand, ["co-located"], 96, fixed)


def test_a_chunk_of_each_group_s_prompt_passes_beside_the_decode_step():
    def rate(groups):
        mixed = evaluator_of("mixtral-8x7b", chunk_tokens=500, mixed=True)
        design = {**FP8, "device": "h100-sxm"}
        degrees, batch = np.array([[1, 1, groups, 1]]), np.array([8 * groups])
        return float(mixed.serving(columns_of(degrees, design, batch)).prefill_requests_per_s[0])

    # Devices that wait for more messages run at a higher clock.
    assert 3.0 < rate(8) / rate(2) < 4.7


def test_a_draft_is_tried_beside_none_and_serves_fast_users_with_fewer_devices():
    demand = Demand(LatencyLimits(0.5, 0.004), 10)
    drafts = {"draft": "llama-3.2-1b", "acceptance": 0.8}
    search = DeploymentSearch(evaluator_of(**drafts), FP8, demand, most_devices=4)
    found = {(x.policy, x.pools[-1].draft): x for x in search.best()}
    plain, drafted = (found["co-located", name] for name in (None, "llama-3.2-1b"))
    assert plain.n_devices == best(evaluator_of(), demand, most_devices=4)["co-located"].n_devices
    assert drafted.n_devices < plain.n_devices
    assert drafted.pools[-1].draft_tokens == 4 and plain.pools[-1].draft_tokens == 0
    design = {**FP8, "device": "h100-sxm", "batch_size": 8}
    arrivals = poisson_arrivals(1.0, 1, 1100, 100, 0)
    steps = serving_machine(search.evaluator, design, EngineLimits(8), arrivals).step_times
    step_s = search.evaluator.serving(design_columns(design)).time_per_output_token_s[0]
    assert steps.step_s(EngineStep([], 8, 8 * 1100)) == pytest.approx(step_s, rel=0.01)


def test_a_demand_that_nothing_serves_is_refused_with_the_nearest_times():
    with pytest.raises(InputError, match="output token within 100 µs, at best"):
        best(evaluator_of(), Demand(LatencyLimits(1.0, 1e-4), 10))
    with pytest.raises(InputError, match="generated_tokens: expected at least 1 where requests"):
        best(evaluator_of(generated_tokens=0), Demand(LIMITS, 10))


def test_a_simulated_fleet_keeps_the_limits_and_a_smaller_one_does_not():
    evaluator = evaluator_of()
    demand = Demand(LIMITS, requests_per_s=60.0)
    policies = ["co-located", "disaggregated"]
    for deployment in best(evaluator, demand, policies=policies, has_stages=False).values():
        fleet, fields = simulated_fleet(evaluator, demand, deployment, FP8)
        assert fields["attainment"] >= 0.9 and 0.0 < fields["utilization"] <= 1.0
        assert fleet.n_devices >= deployment.n_devices - 1
        assert fields["time_per_output_token_s"] <= 0.02
    hasty = Demand(LatencyLimits(1e-6, 1.0), requests_per_s=1.0)
    with pytest.raises(InputError, match="a request alone: "):
        simulated_fleet(evaluator, hasty, deployment, FP8)
