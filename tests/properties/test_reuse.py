"""The closed form of reuse against caches that are replayed, block by block."""

import heapq
from collections import OrderedDict

import numpy as np
import pytest

from codesign.models.workload.reuse import SessionReuse
from codesign.models.workload.sessions import load_session


def replayed(session, capacities, n_sessions, concurrent, block_tokens, machines):
    """Shares of the contexts of later turns that machines find, each with so many tokens.

    A quarter is its own, and what leaves it goes to a store that all share, LRU both. Every
    session's blocks are touched from the last to the first, so that a prefix stays longest.
    """
    rng = np.random.default_rng(0)
    context, think = session.context_tokens, session.turn_values("think_time")
    added = session.turn_values("new_tokens") + session.turn_values("generated_tokens")
    starts = np.cumsum(rng.exponential(1.0, n_sessions))
    starts *= think.sum() / concurrent / machines * n_sessions / starts[-1]
    events = [(start, number, 0) for number, start in enumerate(starts.tolist())]
    heapq.heapify(events)
    own = [[OrderedDict() for _ in range(machines)] for _ in capacities]
    stores = [OrderedDict() for _ in capacities]
    held, total = np.zeros(len(capacities)), 0
    shared = session.shared_tokens // block_tokens
    while events and events[0][0] < starts[-1]:  # later, fewer sessions are active
        time, number, turn = heapq.heappop(events)
        blocks = [("all", i) if i < shared else (number, i)
                  for i in range(int(context[turn] + added[turn]) // block_tokens)]  # fmt: skip
        reusable = blocks[: int(context[turn]) // block_tokens]
        if turn and number > n_sessions // 4:
            total += len(reusable)
        for place, capacity in enumerate(capacities // block_tokens):
            cache, store = own[place][number % machines], stores[place]
            if turn and number > n_sessions // 4:
                held[place] += sum(block in cache or block in store for block in reusable)
            for block in reversed(blocks):
                store.pop(block, None)
                cache[block] = None
                cache.move_to_end(block)
            while len(cache) > capacity // 4:
                store[cache.popitem(last=False)[0]] = None
            while len(store) > machines * (capacity - capacity // 4):
                store.popitem(last=False)
        if turn + 1 < session.n_turns:
            gap_s = think[turn + 1]
            if session.think_times == "exponential":
                gap_s = rng.exponential(gap_s)
            heapq.heappush(events, (time + gap_s, number, turn + 1))
    return held / total


@pytest.mark.parametrize(
    ("name", "concurrent", "n_sessions", "block_tokens", "machines", "think_times"),
    [
        ("chat", 48, 1500, 50, 1, "exponential"),
        ("osworld", 12, 400, 400, 1, "exponential"),
        ("chat", 48, 1500, 50, 2, "exponential"),
        ("chat", 6, 1500, 50, 1, "fixed"),
        ("chat", 24, 2500, 50, 1, "fixed"),
    ],
)
def test_the_closed_form_is_within_two_points_of_a_replay_with_a_shared_store(
    name, concurrent, n_sessions, block_tokens, machines, think_times
):
    session = load_session(name).model_copy(update={"think_times": think_times})
    reuse, classes = SessionReuse(session), SessionReuse(session).classes
    capacities = np.array([0.25, 0.5, 1.0, 2.0, 4.0]) * concurrent * session.longest_tokens
    shares = reuse.hit_shares(capacities, np.full(len(capacities), float(concurrent)))
    later = classes.turns * (1 - classes.is_first)
    private = classes.context_tokens - session.shared_tokens
    held = (later * private) @ shares[:-1] + (later * session.shared_tokens).sum() * shares[-1]
    expected = held / (later @ classes.context_tokens)
    actual = replayed(session, capacities, n_sessions, concurrent, block_tokens, machines)
    np.testing.assert_allclose(actual, expected, atol=0.02)
