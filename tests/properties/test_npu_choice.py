"""The batch size and the order of the tiers that ``npu`` chooses, against trying all of them."""

import itertools
from functools import cache

import numpy as np
import pytest
import yaml
from scipy.optimize import linprog

from codesign.base.columns import column_of, taken
from codesign.base.resources import find
from codesign.evaluators.npu import NpuEvaluator, NpuOptions, compiled
from codesign.evaluators.npu.operator_times import Stage
from codesign.models.hardware.hierarchy import inverse, staged_time_s_at
from codesign.models.hardware.tier_order import fastest_first, orders_of, worth_trying
from codesign.models.machines.npu.placement import (
    PRIORITIES,
    balanced_tails,
    tier_shares,
    tier_tails,
)
from codesign.models.memtech import load_library
from codesign.models.workload import Request
from codesign.search.problem_builder import build_problem
from codesign.space import load_space, parse_space
from tests.laws import in_turn, is_at_most

LIBRARY = load_library()
N = 100
SIZES = [2**i for i in range(8)]
"""Batch sizes of the policy ``best``."""
ORDERS = orders_of(3)
ROUNDING = 1e-12
RATE, TIME = "throughput_tokens_per_s", "time_per_output_token_s"

MODELS = {"qwen3-32b": "osworld", "mixtral-8x7b": "gsm8k", "qwen3-next-80b-a3b": "bfcl"}
WAYS = {
    "staged": {"profile": "plain", "topology": "staged"},
    "parallel": {"profile": "plain", "topology": "parallel"},
    "calibrated": {"profile": "memexplorer", "batch": "best"},
    "serial": {"profile": "plain", "vector": "serial", "requests_in_flight": 16.0},
}


@cache
def space():
    return load_space("memexplorer", {"memtech": LIBRARY.catalog()})


@cache
def designs(n=N):
    """Random designs; the first has one tier."""
    base = space().encode(space().designs["Base"])
    return space().columns(
        np.concatenate([base, space().sample(np.random.default_rng(7), n - len(base))])
    )


@cache
def evaluator(model, phase="decode", batch=None, way="staged"):
    request = Request(model=model, phase=phase, trace=MODELS[model], batch=batch)
    return NpuEvaluator(request, NpuOptions(**WAYS[way]), library=LIBRARY)


def assert_best(found, rates, seconds, longest_s):
    """Of (c, n) choices, the highest rate within the limit is found, or the shortest time if none
    keeps it."""
    rate, time = found[RATE], found[TIME]
    keeps, shortest = time <= longest_s, seconds.min(axis=0)
    assert (keeps | (shortest > longest_s * (1 - ROUNDING))).all()
    assert (keeps | (time <= shortest * (1 + ROUNDING))).all()
    tight, loose = (
        np.where(seconds <= longest_s * (1 + change), rates, 0.0).max(axis=0)
        for change in (-ROUNDING, ROUNDING)
    )
    assert (~keeps | (rate >= tight * (1 - ROUNDING))).all()
    assert (~keeps | (rate <= loose * (1 + ROUNDING))).all()


def longest_times(model, way):
    """No limit, one that small batches keep, and one that no design keeps."""
    alone = evaluator(model, "decode", 1, way).evaluate(designs(), [TIME]).metrics[TIME]
    return [np.inf, float(np.quantile(alone, 0.7)), 0.5 * float(alone.min())]


# Batch sizes.


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("model", MODELS)
def test_the_batch_size_is_the_best_of_all_that_fit(model, way):
    fixed = [evaluator(model, "decode", size, way).evaluate(designs()) for size in SIZES]
    fits = np.stack([result.violations["capacity"] <= 0 for result in fixed])
    fits[0] = True
    rates, seconds = (
        np.where(fits, np.stack([result.metrics[name] for result in fixed]), other)
        for name, other in ((RATE, 0.0), (TIME, np.inf))
    )
    is_smaller = False
    for longest_s in longest_times(model, way):
        one = evaluator(model, "decode", None, way).keep_limits({TIME: longest_s})
        metrics = one.evaluate(designs()).metrics
        assert_best(metrics, rates, seconds, longest_s)
        chosen = fits & (metrics["batch_size"] == np.array(SIZES)[:, None])
        assert (chosen.sum(axis=0) == 1).all()
        largest = np.array(SIZES)[len(SIZES) - 1 - fits[::-1].argmax(axis=0)]
        is_smaller |= bool((metrics["batch_size"] < largest).any())
    assert is_smaller  # the limit matters


@pytest.mark.parametrize("way", WAYS)
def test_a_list_of_batch_sizes_is_chosen_from_likewise(way):
    each = [
        evaluator("mixtral-8x7b", "decode", size, way).evaluate(designs()) for size in (24, 3, 1)
    ]
    longest_s = float(np.median(each[0].metrics[TIME]))
    some = evaluator("mixtral-8x7b", "decode", (3, 1, 24), way).keep_limits({TIME: longest_s})
    found = some.evaluate(designs()).metrics
    fits = np.stack([result.violations["capacity"] <= 0 for result in each])
    fits[-1] = True
    rates = np.where(fits, np.stack([result.metrics[RATE] for result in each]), 0.0)
    seconds = np.where(fits, np.stack([result.metrics[TIME] for result in each]), np.inf)
    assert_best(found, rates, seconds, longest_s)
    assert set(found["batch_size"].tolist()) == {1.0, 3.0, 24.0}


@pytest.mark.parametrize("batch", [None, "best"])
def test_requests_are_prefilled_one_by_one_so_the_smallest_batch_is_best(batch):
    held = evaluator("qwen3-32b", "prefill", batch).evaluate(designs(), ["batch_size"])
    assert (held.metrics["batch_size"] == 1).all()


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_a_space_may_state_the_batch_size(phase):
    sizes = np.resize([1, 2, 16, 5], N)
    stated = {**designs(), "batch_size": column_of(sizes.tolist())}
    one = evaluator("qwen3-32b", phase).keep_limits({TIME: 1e-3})
    metrics = one.evaluate(stated)
    for size in set(sizes.tolist()):
        here = np.flatnonzero(sizes == size)
        alone = evaluator("qwen3-32b", phase, size).evaluate(taken(designs(), here))
        for name, values in alone.metrics.items():
            assert values.tobytes() == metrics.metrics[name][here].tobytes(), name
        for name, values in alone.violations.items():
            assert values.tobytes() == metrics.violations[name][here].tobytes(), name


# Limits of a problem.

LIMIT = "time_per_output_token_s <= 30 ms"
OBJECTIVES = ["maximize throughput_tokens_per_s", "minimize tdp_watts"]


def test_a_problem_with_a_limit_on_latency_finds_designs_that_keep_it():
    rows = space().sample(np.random.default_rng(0), 2000)
    one = evaluator("qwen3-32b")
    limited = build_problem(space(), one, OBJECTIVES, [LIMIT]).evaluate(rows)
    free = build_problem(space(), one, OBJECTIVES).evaluate(rows)
    keeps = limited.metrics[TIME] <= 0.03
    assert keeps.sum() > 3 * (free.metrics[TIME] <= 0.03).sum()
    assert (limited.feasible <= keeps).all() and limited.feasible.sum() > 50
    assert limited.metrics["batch_size"][limited.feasible].max() > 1
    # Nothing is gained beyond the limit.
    assert is_at_most(limited.metrics[RATE], free.metrics[RATE])


def test_a_limit_in_token_per_second_and_user_is_the_same_limit():
    one = evaluator("qwen3-32b")
    by_time, by_rate = (
        one.keep_limits(limit).evaluate(designs()).metrics["batch_size"]
        for limit in ({TIME: 0.03}, {"tokens_per_s_per_user": 1 / 0.03})
    )
    assert (by_time == by_rate).all()
    free = one.keep_limits({"tdp_watts": 300.0}).evaluate(designs()).metrics["batch_size"]
    assert (free == one.evaluate(designs()).metrics["batch_size"]).all() and (by_time < free).any()


def test_the_batch_size_of_a_space_meets_the_limits_of_a_problem():
    record = yaml.safe_load(find("spaces", "memexplorer").read_text())
    del record["designs"]  # the published ones state no batch size
    record["parameters"]["batch_size"] = [1, 2, 8, 64]
    batched = parse_space(yaml.safe_dump(record, sort_keys=False), {"memtech": LIBRARY.catalog()})
    rows = batched.sample(np.random.default_rng(0), 2000)
    problem = build_problem(batched, evaluator("qwen3-32b"), OBJECTIVES, [LIMIT, "batch_size >= 2"])
    observed = problem.evaluate(rows)
    stated = batched.columns(rows)["batch_size"].lookup(float)
    assert (observed.metrics["batch_size"] == stated).all()
    assert observed.feasible.any()
    assert (stated[observed.feasible] >= 2).all()
    assert (observed.metrics[TIME][observed.feasible] <= 0.03).all()


# The order of the tiers.


def stands(bandwidth):
    """(p, n) the orders in which no missing tier stands before another."""
    there = bandwidth[np.array(orders_of(len(bandwidth)))] > 0
    return np.asarray((there[:, :-1] >= there[:, 1:]).all(axis=1))


def tried(one, size, order):
    """(n,) array and memories in a pass, with a batch size and an order of the tiers."""
    places = np.repeat(np.array(ORDERS[order])[:, None], N, axis=1)
    working = one.preparation.prepared(designs()).working(np.full(N, float(size)), places)
    return Stage(working).totals[0]


@pytest.mark.parametrize("phase", ["prefill", "decode"])
@pytest.mark.parametrize("model", MODELS)
def test_the_choice_is_the_best_of_all_batch_sizes_and_orders(model, phase):
    one = evaluator(model, phase)
    prepared = one.preparation.prepared(designs())
    levels = prepared.accelerators.levels
    ratio = levels.write_energy_ratio[1:]
    by_bytes = worth_trying(levels.bandwidth_bytes_per_s[1:], levels.capacity_bytes[1:], ratio) > 0
    stand = stands(levels.bandwidth_bytes_per_s[1:])
    capacity = levels.capacity_bytes.sum(axis=0)
    choices = list(itertools.product([1] if phase == "prefill" else SIZES, range(len(ORDERS))))
    seconds = np.stack([tried(one, size, order) for size, order in choices])
    sizes, orders = (np.array(part) for part in zip(*choices, strict=True))
    held = prepared.all_weight_bytes + sizes[:, None] * prepared.kv_request_bytes
    is_possible = (held <= capacity) | (sizes[:, None] == 1)
    requests = sizes[:, None]
    for longest_s in (np.inf, float(np.median(seconds[0]))):
        limited = one.keep_limits({"phase_time_s": longest_s * float(one.pass_.table.n_passes)})
        chosen = limited.choose(designs())
        vector_s = (
            one.pass_.vector_s(np.ones(N), prepared.accelerators, prepared.activation_bytes)
            * requests
        )
        pass_s = np.maximum(seconds, vector_s)
        scores = np.where(pass_s <= longest_s, requests / seconds, -pass_s)
        best, best_of_all = (
            np.where(among, scores, -np.inf).max(axis=0)
            for among in (is_possible & by_bytes[orders], is_possible & stand[orders])
        )
        pass_requests = chosen.batch_size if phase == "decode" else np.ones(N)
        chosen_s = np.maximum(chosen.totals.time_s, vector_s[0] * pass_requests)
        score = np.where(chosen_s <= longest_s, pass_requests / chosen.totals.time_s, -chosen_s)
        assert (score >= best - ROUNDING * np.abs(best)).all()
        assert (score <= best_of_all + ROUNDING * np.abs(best_of_all)).all()
        # Orders that are left out gain next to nothing, unless they alone just keep the limit.
        gained = best_of_all - score
        assert np.median(gained) == 0
        assert (gained <= 0.005 * np.abs(best)).mean() >= (1.0 if np.isinf(longest_s) else 0.98)
    is_first = (chosen.working.tier_order == prepared.tier_order).all(axis=0)
    assert 0 < is_first.sum() < N  # orders matter


def test_how_a_design_lists_its_tiers_makes_no_difference():
    values = {name: column.decoded() for name, column in designs().items()}
    n_tiers = [sum(values[f"tier{i}_stacks"][j] is not None for i in (1, 2, 3)) for j in range(N)]
    assert set(n_tiers) == {1, 2, 3}
    one = evaluator("mixtral-8x7b")
    expected = one.evaluate(designs()).metrics
    for order in ORDERS[1:]:
        mixed = dict(designs())
        for part in ("technology", "stacks"):
            for tier, place in enumerate(order, 1):
                mixed[f"tier{tier}_{part}"] = designs()[f"tier{place + 1}_{part}"]
        found = one.evaluate(mixed).metrics
        for name, values_ in expected.items():
            # Sums over tiers add up in another order.
            np.testing.assert_allclose(found[name], values_, rtol=1e-12, err_msg=name)


@pytest.mark.parametrize("n_tiers", [3, 4])
def test_no_order_that_could_be_the_fastest_is_left_out(n_tiers):
    """By the bytes that pass the ports, summed over kinds of data, as operators do."""
    rng, orders = np.random.default_rng(0), orders_of(n_tiers)
    n, shape = 20_000, (n_tiers, 20_000)
    capacity = rng.choice([1.0, 2.0, 3.0, 5.0, 9.0, 40.0], shape) * rng.choice([1, 1.1], shape)
    bandwidth = rng.choice([1.0, 1.2, 1.9, 2.0, 3.0, 8.0], shape) * rng.choice([1, 1.1], shape)
    n_present = rng.integers(1, n_tiers + 1, n)
    is_absent = np.arange(n_tiers)[:, None] >= n_present
    capacity[is_absent] = bandwidth[is_absent] = 0.0
    order = fastest_first(bandwidth, capacity)
    assert order is not None
    bandwidth, capacity = (
        np.take_along_axis(values, order, axis=0) for values in (bandwidth, capacity)
    )
    parts = rng.dirichlet([0.5] * 3, n).T * capacity.sum(axis=0) * rng.random(n)
    priority = rng.integers(0, len(PRIORITIES), n)
    reads = rng.random((3, n))  # how often a byte of each kind is read
    seconds = np.stack([_steady_s(parts, bandwidth, capacity, priority, reads, o) for o in orders])
    seconds = np.where(stands(bandwidth), seconds, np.inf)
    allowed = worth_trying(bandwidth, capacity, np.ones(shape)) > 0
    assert allowed[0].all() and (allowed <= stands(bandwidth)).all()
    best = np.where(allowed, seconds, np.inf)
    assert (best.min(axis=0) <= seconds.min(axis=0) * (1 + 1e-12)).all()
    assert (allowed[1:].mean(axis=1) < 0.4).all()  # most are left out,
    assert {0, 1, 2, 4} <= set(best.argmin(axis=0).tolist())  # and the others matter


def _steady_s(
    sizes,
    bandwidth,
    capacity,
    priority,
    reads,
    order,
):
    tails = tier_tails((sizes[0], sizes[1], sizes[2]), tuple(capacity[list(order)]), priority)
    seconds_per_byte = list(inverse(bandwidth[list(order)]))
    total = np.zeros(sizes.shape[1])
    for size, read, of_kind in zip(sizes, reads, tails, strict=True):
        crossing = [size * read, *(size * read * tail for tail in of_kind)]
        nothing = [np.zeros_like(total)] * len(order)
        total += staged_time_s_at(crossing, seconds_per_byte, nothing, np.zeros(1))
    return total


# Data spread over tiers side by side.


@pytest.mark.parametrize("n_tiers", [3, 4])
def test_data_side_by_side_take_the_least_time_that_there_is(n_tiers):
    rng = np.random.default_rng(1)
    n = 150
    shape = (n_tiers, n)
    capacity, bandwidth = rng.lognormal(0, 1.5, shape), rng.lognormal(0, 1.5, shape)
    is_absent = np.arange(n_tiers)[:, None] >= rng.integers(1, n_tiers + 1, n)
    capacity[is_absent] = bandwidth[is_absent] = 0.0
    size = capacity.sum(axis=0) * np.where(rng.random(n) < 0.1, 1.0, rng.random(n))
    tails = balanced_tails(size, tuple(capacity), tuple(bandwidth))
    owned = size * np.stack(tier_shares(tails))
    assert (owned >= -1e-12 * size).all() and (owned <= capacity * (1 + 1e-9) + 1e-12).all()
    for i in range(n):
        there = np.flatnonzero(capacity[:, i])
        # Least t with bytes x in the tiers, x <= capacity, x <= t bandwidth, all data placed.
        cost = [0.0] * len(there) + [1.0]
        result = linprog(
            cost,
            A_ub=np.column_stack([np.eye(len(there)), -bandwidth[there, i]]),
            b_ub=np.zeros(len(there)),
            A_eq=[[1.0] * len(there) + [0.0]],
            b_eq=[size[i]],
            bounds=[*((0, room) for room in capacity[there, i]), (0, None)],
        )
        assert (owned[there, i] / bandwidth[there, i]).max() == pytest.approx(result.fun, rel=1e-6)


def test_what_no_tier_holds_goes_to_the_one_that_takes_longest():
    one = np.ones(1)
    beyond, last = balanced_tails(12 * one, (4 * one, 3 * one, 2 * one), (2 * one, one, one))
    assert beyond.item() == pytest.approx((3 + 3 + 2) / 12)
    assert last.item() == pytest.approx(2 / 12)


# Compiled.


@pytest.mark.skipif(not compiled.has_numba(), reason="numba is not installed")
@pytest.mark.parametrize(
    ("batch", "model", "way"), in_turn([None, 4, (2, 7, 30), "stated"], MODELS, WAYS)
)
def test_limited_or_stated_batches_have_the_same_bits_compiled(batch, model, way, monkeypatch):
    some = dict(designs(60))
    if batch == "stated":
        some["batch_size"] = column_of(np.resize([1, 3, 64], 60).tolist())
    one = evaluator(model, "decode", None if batch == "stated" else batch, way)
    for longest_s in longest_times(model, way):
        answers = []
        for switch in "01":
            monkeypatch.setenv(compiled.SWITCH, switch)
            answers.append(one.keep_limits({TIME: longest_s}).evaluate(some).metrics)
        for name, values in answers[0].items():
            assert values.tobytes() == answers[1][name].tobytes(), name


def test_no_place_without_a_tier_stands_before_a_tier_whatever_its_writes_cost():
    """Else the latency of flash with dear writes would hide behind the empty place."""
    bandwidth = np.array([[3e12, 3e12], [0.0, 2e12], [0.0, 0.0]])
    capacity = np.array([[5e11, 1e10], [0.0, 5e11], [0.0, 0.0]])
    ratio = np.array([[2.5, 2.5], [1.0, 2.5], [1.0, 1.0]])
    allowed = worth_trying(bandwidth, capacity, ratio, np.array([[5e-6] * 2, [0.0] * 2, [0.0] * 2]))
    first = np.array(orders_of(3))
    assert allowed[0].all()
    assert not allowed[first[:, 0] == 1, 0].any()  # one tier alone
    assert allowed[(first == (1, 0, 2)).all(axis=1), 1].all()  # two of them
    assert not allowed[first[:, 2] != 2, 1].any()
