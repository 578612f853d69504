"""Prompts that share blocks: replayed against an LRU list, limits, and the closed form."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace

import numpy as np
import pytest

from codesign.models.deployments.cache_levels import machine_times
from codesign.models.deployments.queueing import (
    Arrivals,
    EngineLimits,
    Fleet,
    MachinePool,
    simulate,
)
from codesign.models.deployments.queueing.prefix_cache import StoreLimits
from codesign.models.deployments.queueing.request_arrivals import PromptBlocks, session_arrivals
from codesign.models.workload.reuse import SessionReuse
from codesign.models.workload.sessions import Session, Turn, load_session
from tests.laws import in_turn

BLOCK = 64
LIMITS = EngineLimits(max_sequences=64, max_batched_tokens=4096, cache_tokens=10**9)


CHAT = Session(
    description="a chat of short answers", n_turns=5, shared_tokens=1000, sources={"all": "ours"},
    turns=(Turn(turn=1, new_tokens=400, generated_tokens=8),
           Turn(turn=2, new_tokens=400, generated_tokens=8, think_time="60 s")),
)  # fmt: skip


@dataclass(frozen=True)
class Machine:
    """A machine whose prompts take time by tokens and by pairs of tokens."""

    token_s: float = 1e-4
    pair_s: float = 4e-9
    decode_s: float = 1e-6

    def prompt_s(self, tokens, past):
        return tokens * (self.token_s + self.pair_s * (past + tokens / 2))

    def step_s(self, step):
        prompts = sum(self.prompt_s(*chunk) for chunk in step.chunks)
        return prompts + self.decode_s * (step.n_decoding > 0)


def serve(arrivals, limits=LIMITS, stores=(), machine=None, n=1, routing="session"):
    pool = MachinePool("serve", n, machine or Machine(), limits, tuple(stores))
    return simulate(Fleet((pool,), routing=routing), arrivals)


def trace(n, seed, gap_s=100.0, n_sessions=12):
    """Sessions that grow by some blocks a turn, in random order; some prompts come twice."""
    rng = np.random.default_rng(seed)
    grown = [[1_000_000 * i] for i in range(n_sessions)]
    hashes, tokens = [], []
    for _ in range(n):
        i = int(rng.integers(n_sessions))
        if rng.random() < 0.8:
            grown[i] = [*grown[i], *range(grown[i][-1] + 1, grown[i][-1] + rng.integers(2, 6))]
        hashes.append(list(grown[i]))
        tokens.append(len(grown[i]) * BLOCK - int(rng.integers(BLOCK)) * (rng.random() < 0.5))
    counts = np.array(tokens)
    blocks = PromptBlocks(hashes, counts, BLOCK, np.zeros(n, dtype=int))
    return Arrivals(np.arange(n) * gap_s, counts, np.ones(n, dtype=int), blocks)


def replayed(arrivals, capacities):
    """Tokens of each prompt found in levels of so many blocks, by one list in order of use."""
    used = OrderedDict()
    ends = np.cumsum(capacities)
    found = np.zeros((len(capacities), len(arrivals)), dtype=int)
    for r, blocks in enumerate(arrivals.blocks.hashes):
        newest = list(reversed(used))
        prompt = int(arrivals.prompt_tokens[r])
        for k, block in enumerate(blocks):
            place = newest.index(block) if block in used else ends[-1]
            if place >= ends[-1]:
                break
            level = int(np.searchsorted(ends, place, side="right"))
            found[level, r] += min((k + 1) * BLOCK, prompt - 1) - k * BLOCK
        for block in reversed(blocks):
            used[block] = None
            used.move_to_end(block)
    return found


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("capacities", [[10**6], [300], [100], [110, 100, 100]])
def test_what_is_found_is_what_an_lru_list_holds(seed, capacities):
    arrivals = trace(300, seed)
    stores = [StoreLimits("store", n * BLOCK, 1e12) for n in capacities[1:]]
    limits = replace(LIMITS, cache_tokens=capacities[0] * BLOCK)
    served = serve(arrivals, limits, stores)
    expected = replayed(arrivals, capacities)
    assert 0.2 < expected.sum() / arrivals.prompt_tokens.sum() < 0.99
    # The last token of a prompt that is found as a whole may need room for itself.
    differences = abs(served.reused_tokens - expected)
    assert differences.max() <= BLOCK
    assert differences.sum() < 0.001 * arrivals.prompt_tokens.sum()


def test_prompts_that_share_nothing_are_served_as_without_a_cache():
    arrivals = trace(60, 0, gap_s=0.01)
    own = [[10**9 * r + k for k in range(len(h))] for r, h in enumerate(arrivals.blocks.hashes)]
    alone = replace(arrivals, blocks=replace(arrivals.blocks, hashes=own))
    stores = [StoreLimits("store", 10**6, 1e6)]
    shared, plain = serve(alone, stores=stores), serve(replace(arrivals, blocks=None))
    for name in ("first_token_s", "last_token_s", "started_s"):
        assert (getattr(shared, name) == getattr(plain, name)).all()
    assert not shared.reused_tokens.any()


def test_a_context_that_is_found_leaves_the_prefill_of_the_new_tokens():
    session = load_session("coding-agent")
    arrivals = session_arrivals(session, 1e-4, 2, seed=0)
    served = serve(arrivals, replace(LIMITS, max_batched_tokens=200_000))
    found = served.reused_tokens[0]
    block = arrivals.blocks.block_tokens
    # All of the last prompt and of its answer but its newest token, in whole blocks.
    before = (arrivals.prompt_tokens + arrivals.generated_tokens - 1)[:-1] // block * block
    later = np.flatnonzero(arrivals.after >= 0)
    assert (found[later] == before[later - 1]).all()
    expected = [Machine().prompt_s(p - f, f) for p, f in zip(
        arrivals.prompt_tokens[later].tolist(), found[later].tolist(), strict=True)]  # fmt: skip
    np.testing.assert_allclose(served.time_to_first_token_s[later], expected, rtol=1e-6)


def test_more_room_in_a_store_never_finds_less():
    arrivals = trace(200, 1)
    limits = replace(LIMITS, cache_tokens=200 * BLOCK)
    shares = [
        serve(arrivals, limits, [StoreLimits("store", n * BLOCK, 1e9)]).hit_shares.sum()
        for n in (0, 50, 150, 400, 1000)
    ]
    assert shares == sorted(shares) and shares[0] < shares[-1]


def test_machines_that_keep_a_session_find_more_than_those_with_the_fewest_requests():
    arrivals = session_arrivals(CHAT, 0.05, 150, seed=2)
    shares = {
        routing: serve(arrivals, n=4, routing=routing).hit_shares.sum()
        for routing in ("session", "round-robin")
    }
    store = [StoreLimits("store", 10**9, 1e9, is_shared=True)]
    limits = replace(LIMITS, cache_tokens=32_768)
    shared = serve(arrivals, limits, store, n=4, routing="round-robin")
    assert shares["session"] > 1.2 * shares["round-robin"]
    assert shared.hit_shares.sum() == pytest.approx(shares["session"], abs=0.02)


def test_preempted_requests_and_tight_caches_return_all_blocks():
    arrivals = trace(120, 3, gap_s=1e-3)
    arrivals = replace(arrivals, generated_tokens=np.full(120, 400))
    for changes in ({}, {"policy": "prefill-first"}, {"reserves_answers": True},
                    {"plans_ahead": True}):  # fmt: skip
        limits = replace(LIMITS, cache_tokens=300 * BLOCK, max_sequences=32, **changes)
        served = serve(arrivals, limits, [StoreLimits("store", 100 * BLOCK, 1e8)])
        assert np.isfinite(served.last_token_s).all()
        if "reserves_answers" not in changes:
            assert served.pools[0].n_preempted


@pytest.mark.parametrize(("share", "store_rate"), in_turn([0.3, 0.6, 1.0, 2.0], [1e5, 2e4]))
def test_the_closed_form_is_near_the_replay_over_capacities(share, store_rate):
    """Hit shares within 2 points, and first tokens of later turns within 10 %."""
    session = CHAT
    concurrent = 60.0
    reuse, machine, n_layers = SessionReuse(session), Machine(), 32
    capacity = share * concurrent * session.longest_tokens / 2
    sizes = np.array([capacity, capacity / 2])
    arrivals = session_arrivals(session, concurrent / reuse.think_s, 800, seed=1)
    store = StoreLimits("store", int(sizes[1]), store_rate, n_layers)
    served = serve(arrivals, replace(LIMITS, cache_tokens=int(sizes[0])), [store], machine)
    steady = np.arange(len(arrivals)) // session.n_turns
    steady = (steady > 150) & (steady < 700) & (arrivals.after >= 0)

    classes = reuse.classes
    hits = np.stack([reuse.hit_shares(np.array([size]), np.array([concurrent]))
                     for size in np.cumsum(sizes)])  # fmt: skip
    levels = np.array([[1e30, store_rate], [0.0, 0.0]])
    context = classes.context_tokens
    new = classes.new_tokens
    prefix = np.minimum(session.shared_tokens, context)
    shared = hits[-1, -1]
    lost_s = shared * machine.prompt_s(context + new - prefix, prefix) + (
        1 - shared
    ) * machine.prompt_s(context + new, 0.0)
    times = np.stack([machine.prompt_s(new, context), lost_s, lost_s])
    _, turn_s = machine_times(
        times, context, hits[..., 0], levels, classes.turns, 1.0, 0.0, n_layers
    )
    later = classes.turns * (1.0 - classes.is_first)
    found = hits[-1, :-1, 0] * (context - prefix) + shared * prefix
    expected = later @ found / (later @ (context + new))
    measured = served.reused_tokens[:, steady].sum() / arrivals.prompt_tokens[steady].sum()
    assert measured == pytest.approx(expected, abs=0.02)
    first_s = float(np.mean(served.time_to_first_token_s[steady] - served.queueing_s[steady]))
    assert first_s == pytest.approx(later @ turn_s / later.sum(), rel=0.1)
