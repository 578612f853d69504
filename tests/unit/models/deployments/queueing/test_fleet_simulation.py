"""Requests through a fleet: conservation, laws of queues, and equalities that must hold exactly."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from codesign.base.errors import InputError
from codesign.models.deployments.queueing import (
    Arrivals,
    CacheLink,
    EngineLimits,
    EngineStep,
    Fleet,
    MachinePool,
    poisson_arrivals,
    simulate,
)
from codesign.models.deployments.queueing.service_levels import LatencyLimits


@dataclass(frozen=True)
class LinearStepTimes:
    """Step times that are linear in the work: a machine of four numbers."""

    start_s: float = 0.0
    prompt_token_s: float = 0.0
    request_s: float = 0.0
    context_token_s: float = 0.0

    def step_s(self, step):
        prompt = sum(chunk.tokens for chunk in step.chunks)
        decode = self.request_s * step.n_decoding + self.context_token_s * step.context_tokens
        return self.start_s + self.prompt_token_s * prompt + decode


MACHINE = LinearStepTimes(0.008, 4e-5, 1e-5, 6e-8)
LIMITS = EngineLimits(max_sequences=32, max_batched_tokens=512, cache_tokens=40_000)


@dataclass
class Recorder:
    """A machine that writes down its steps."""

    steps: list[EngineStep] = field(default_factory=list)

    def step_s(self, step):
        self.steps.append(step)
        return MACHINE.step_s(step)


def requests(*rows):
    times, prompts, generated = zip(*rows, strict=True)
    return Arrivals(np.array(times, dtype=float), np.array(prompts), np.array(generated))


def mixed(n, rate, seed=0):
    draw = np.random.default_rng(seed)
    times = np.cumsum(draw.exponential(1 / rate, n))
    return Arrivals(times, draw.integers(1, 900, n), draw.integers(1, 300, n))


def serve(
    arrivals, limits = LIMITS, n_machines = 1, routing = "",
    machine = MACHINE,
):  # fmt: skip
    pool = MachinePool("serve", n_machines, machine, limits)
    fleet = Fleet((pool,))
    return simulate(replace(fleet, routing=routing) if routing else fleet, arrivals)


POLICIES = [
    LIMITS,
    replace(LIMITS, policy="prefill-first"),
    replace(LIMITS, plans_ahead=True),
    replace(LIMITS, cache_tokens=3_000),
    replace(LIMITS, cache_tokens=3_000, plans_ahead=True, keeps_preempted=False),
    replace(LIMITS, cache_tokens=3_000, policy="prefill-first"),
    replace(LIMITS, cache_tokens=3_000, plans_ahead=True, reserves_answers=True),
]


@pytest.mark.parametrize("limits", POLICIES)
def test_every_token_is_computed_and_no_limit_is_exceeded(limits):
    arrivals, machine = mixed(60, 4.0), Recorder()
    served = serve(arrivals, limits, machine=machine)
    assert not np.isnan(served.last_token_s).any()
    assert (served.arrivals.arrival_s <= served.seen_s).all()
    assert (served.seen_s <= served.started_s).all()
    assert (served.started_s < served.first_token_s).all()
    assert (served.first_token_s <= served.last_token_s).all()
    prefilled = sum(chunk.tokens for step in machine.steps for chunk in step.chunks)
    decoded = sum(step.n_decoding for step in machine.steps)
    n_preempted = served.pools[0].n_preempted
    # A preempted request's newest token comes out of a prefill, not of a decode step.
    assert decoded <= int((arrivals.generated_tokens - 1).sum()) <= decoded + n_preempted
    assert prefilled >= int(arrivals.prompt_tokens.sum())
    assert (prefilled == arrivals.prompt_tokens.sum()) == (n_preempted == 0)
    for step in machine.steps:
        new = step.n_decoding + sum(chunk.tokens for chunk in step.chunks)
        is_long = limits.policy == "prefill-first" and len(step.chunks) == 1
        assert new <= limits.max_batched_tokens or is_long
        assert step.n_decoding + len(step.chunks) <= limits.max_sequences
        assert step.context_tokens <= limits.cache_tokens
        assert (step.context_tokens > 0) == (step.n_decoding > 0)


def test_few_blocks_preempt_and_kept_blocks_save_work():
    arrivals = mixed(60, 4.0)
    tight = replace(LIMITS, cache_tokens=3_000)
    prefilled = {}
    for keeps in (True, False):
        machine = Recorder()
        served = serve(arrivals, replace(tight, keeps_preempted=keeps), machine=machine)
        assert served.pools[0].n_preempted > 0
        prefilled[keeps] = sum(chunk.tokens for step in machine.steps for chunk in step.chunks)
    assert prefilled[True] < prefilled[False]


@pytest.mark.parametrize("policy", ["chunked", "prefill-first"])
@pytest.mark.parametrize("plans_ahead", [True, False])
def test_reserved_answers_are_never_preempted_and_fill_the_cache(policy, plans_ahead):
    """Of 48 tokens, three blocks each, a cache of 32 blocks holds ten requests at a time."""
    limits = replace(
        LIMITS, cache_tokens=512, policy=policy, plans_ahead=plans_ahead, reserves_answers=True
    )
    machine = Recorder()
    served = serve(poisson_arrivals(np.inf, 40, 8, 41, seed=0), limits, machine=machine)
    assert served.pools[0].n_preempted == 0
    assert max(step.n_decoding for step in machine.steps) == 10
    assert (served.arrivals.arrival_s == 0).all()
    # Ten at a time in four turns of 41 tokens, the first of which is of the prompt.
    n_decode_steps = sum(step.n_decoding > 0 for step in machine.steps)
    assert n_decode_steps == 4 * 40


def test_reserving_answers_changes_nothing_where_all_have_room():
    arrivals = mixed(60, 4.0)
    times = [
        serve(arrivals, replace(LIMITS, reserves_answers=reserves)).last_token_s
        for reserves in (True, False)
    ]
    assert (times[0] == times[1]).all()


def test_a_step_has_the_tokens_that_its_requests_see():
    machine = Recorder()
    served = serve(requests((0.0, 100, 3), (0.0, 600, 2)), machine=machine)
    steps = [(s.n_decoding, s.context_tokens, [tuple(c) for c in s.chunks]) for s in machine.steps]
    assert steps == [
        (0, 0, [(100, 0), (412, 0)]),
        (1, 101, [(188, 412)]),
        (2, 102 + 601, []),
    ]
    ends = np.cumsum([MACHINE.step_s(step) for step in machine.steps])
    assert served.first_token_s.tolist() == pytest.approx([ends[0], ends[1]])
    assert served.last_token_s.tolist() == pytest.approx([ends[2], ends[2]])


def test_a_planned_step_knows_nothing_of_what_arrives_in_the_step_before():
    machine = LinearStepTimes(1.0)
    arrivals = requests((0.0, 10, 5), (0.5, 10, 2))
    prompt = serve(arrivals, LIMITS, machine=machine)
    late = serve(arrivals, replace(LIMITS, plans_ahead=True), machine=machine)
    assert prompt.started_s.tolist() == [0.0, 1.0]
    assert late.seen_s.tolist() == [0.0, 1.0]
    assert late.started_s.tolist() == [0.0, 2.0]


def test_a_prompt_goes_before_decoding_where_prompts_go_first():
    machine = Recorder()
    first = replace(LIMITS, policy="prefill-first")
    serve(requests((0.0, 1000, 3), (0.01, 100, 2)), first, machine=machine)
    assert [(s.n_decoding, len(s.chunks)) for s in machine.steps] == [
        (0, 1),
        (0, 1),
        (2, 0),
        (1, 0),
    ]


@pytest.mark.parametrize("load", [0.3, 0.7])
def test_a_server_of_single_requests_waits_as_pollaczek_and_khinchine_say(load):
    """M/G/1: mean wait ``rate E[S^2] / (2 (1 - load))``; services of 1 to 199 tokens."""
    n, draw = 20_000, np.random.default_rng(1)
    service = draw.integers(1, 200, n)
    rate = load / service.mean()
    arrivals = Arrivals(np.cumsum(draw.exponential(1 / rate, n)), service, np.ones(n, dtype=int))
    served = serve(arrivals, EngineLimits(1, 256), machine=LinearStepTimes(0.0, 1.0))
    expected = rate * (service.astype(float) ** 2).mean() / (2 * (1 - load))
    assert served.queueing_s.mean() == pytest.approx(expected, rel=0.08)
    assert served.utilization(served.pools[0])[0] == pytest.approx(load, rel=0.03)


def test_equal_services_wait_half_as_long_as_memoryless_ones_would():
    """M/D/1: mean wait ``load S / (2 (1 - load))``."""
    arrivals = poisson_arrivals(0.6, 20_000, 1, 1, seed=3)
    served = serve(arrivals, EngineLimits(1, 16), machine=LinearStepTimes(1.0))
    assert served.queueing_s.mean() == pytest.approx(0.6 / (2 * 0.4), rel=0.05)


def test_requests_in_the_system_are_rate_times_latency():
    """Little's law, exactly: both sides count the same area."""
    served = serve(mixed(200, 5.0), n_machines=2)
    start = served.arrivals.arrival_s
    end = served.last_token_s
    edges = np.unique(np.concatenate([start, end]))
    middle = (edges[1:] + edges[:-1]) / 2
    inside = ((start <= middle[:, None]) & (middle[:, None] < end)).sum(axis=1)
    mean_inside = float((inside * np.diff(edges)).sum()) / served.makespan_s
    assert mean_inside == pytest.approx(
        served.requests_per_s * served.request_latency_s.mean(), rel=1e-9
    )


def test_doubling_every_count_doubles_the_rates():
    arrivals = mixed(80, 6.0)
    twice = Arrivals(*(np.repeat(values, 2) for values in (
        arrivals.arrival_s, arrivals.prompt_tokens, arrivals.generated_tokens)))  # fmt: skip
    small = serve(arrivals, n_machines=2, routing="round-robin")
    large = serve(twice, n_machines=4, routing="round-robin")
    assert (np.repeat(small.last_token_s, 2) == large.last_token_s).all()
    assert large.requests_per_s == 2 * small.requests_per_s
    assert large.tokens_per_s == 2 * small.tokens_per_s


def split(link, n_prefill=1, n_decode=1):
    prefill = MachinePool("prefill", n_prefill, MACHINE, LIMITS)
    return Fleet((prefill, MachinePool("decode", n_decode, MACHINE, LIMITS)), link)


def test_an_infinite_link_equals_no_hand_over():
    arrivals = mixed(60, 3.0)
    served = simulate(split(CacheLink(bytes_per_token=1e9)), arrivals)
    free = simulate(split(CacheLink()), arrivals)
    assert (served.last_token_s == free.last_token_s).all()
    slow = simulate(split(CacheLink(131_072, 1e9, 1e-5, 32)), arrivals)
    assert (slow.first_token_s == free.first_token_s).all()
    assert slow.request_latency_s.sum() > free.request_latency_s.sum()


def test_a_lonely_request_takes_its_prefill_the_exposed_transfer_and_its_steps():
    link = CacheLink(bytes_per_token=1e5, bandwidth_bytes_per_s=1e9, latency_s=1e-3, n_layers=10)
    served = simulate(split(link), requests((0.0, 400, 3)))
    prefill = MACHINE.step_s(EngineStep([], 0, 0)) + 4e-5 * 400
    transfer = 400 * 1e5 / 1e9
    exposed = max(transfer / 10, transfer - prefill * 9 / 10) + 1e-3
    steps = sum(MACHINE.step_s(EngineStep([], 1, context)) for context in (401, 402))
    assert served.first_token_s[0] == pytest.approx(prefill)
    assert served.last_token_s[0] == pytest.approx(prefill + exposed + steps)


def test_caches_go_over_a_link_one_after_the_other():
    link = CacheLink(bytes_per_token=1.0, bandwidth_bytes_per_s=1.0)
    first = link.sent_s(10, 0.0, 5.0, link_free_s=0.0)
    assert (first, link.sent_s(10, 0.0, 5.0, link_free_s=first)) == (15.0, 25.0)


def test_a_request_of_one_token_needs_no_decoding_machine():
    served = simulate(split(CacheLink(1.0, 1.0)), requests((0.0, 50, 1), (0.1, 60, 1)))
    assert (served.last_token_s == served.first_token_s).all()
    assert served.pools[1].n_steps == 0


def test_the_least_loaded_machine_gets_the_request():
    arrivals = requests((0.0, 500, 200), (0.01, 5, 1), (1.0, 5, 1), (1.1, 5, 1))
    even = serve(arrivals, n_machines=2)
    turns = serve(arrivals, n_machines=2, routing="round-robin")
    assert even.pools[0].busy_s[1] > turns.pools[0].busy_s[1]


def test_the_same_inputs_give_the_same_bits():
    arrivals = poisson_arrivals(5.0, 100, 300, 100, seed=4)
    tight = replace(LIMITS, cache_tokens=4_000)
    runs = [serve(arrivals, tight, n_machines=3) for _ in range(2)]
    assert (runs[0].last_token_s == runs[1].last_token_s).all()
    other = poisson_arrivals(5.0, 100, 300, 100, seed=5)
    assert (other.arrival_s != arrivals.arrival_s).all()


def test_goodput_counts_the_requests_that_keep_both_limits():
    served = serve(requests((0.0, 100, 3), (0.0, 600, 1), (5.0, 10, 1)))
    ttft = served.time_to_first_token_s
    tpot = served.time_per_output_token_s
    assert np.isnan(tpot[1:]).all()
    assert served.meets(ttft[0], tpot[0]).tolist() == [True, False, True]
    assert served.meets(1.0, tpot[0] / 2).tolist() == [False, True, True]
    expected = 2 / served.makespan_s
    limits = LatencyLimits(ttft[0], tpot[0])
    assert limits.goodput_requests_per_s(served) == pytest.approx(expected)
    empty = replace(served, last_token_s=served.first_token_s)
    assert empty.percentiles()["time_per_output_token_s"]["p50"] == 0.0


def test_a_request_that_exceeds_the_cache_is_refused():
    arrivals = requests((0.0, 10, 2), (1.0, 900, 200))
    with pytest.raises(InputError, match=r"request 2: expected at most the 1,024 tokens .* 1,099"):
        serve(arrivals, replace(LIMITS, cache_tokens=1_024))


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"max_sequences": 0}, "max_sequences: expected at least 1"),
        (
            {"max_sequences": 64, "max_batched_tokens": 32},
            r"expected at least max_sequences \(64\)",
        ),
        ({"cache_tokens": 8}, "expected at least a block of 16 tokens, got 8"),
    ],
)
def test_limits_without_room_are_refused(limits, words):
    with pytest.raises(InputError, match=words):
        EngineLimits(**limits)


def test_a_pool_without_machines_is_refused():
    with pytest.raises(InputError, match="decode: expected at least 1 machine, got 0"):
        split(CacheLink(), n_decode=0)
    pools = split(CacheLink()).pools
    with pytest.raises(InputError, match="expected 1 or 2 pools, got 4"):
        Fleet((*pools, *pools))
