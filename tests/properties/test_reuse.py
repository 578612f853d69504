"""The closed form of reuse against caches that are replayed, block by block."""

import heapq
from collections import OrderedDict

import numpy as np
import pytest

from codesign.models.workload.reuse import SessionReuse
from codesign.models.workload.sessions import load_session


def replayed(session, capacities, n_sessions, concurrent, block_tokens):
    """Shares of the contexts of later turns that LRU caches of so many tokens hold.

    Every session's blocks are touched from the last to the first, so that a prefix stays longest.
    """
    rng = np.random.default_rng(0)
    context, think = session.context_tokens, session.turn_values("think_time")
    added = session.turn_values("new_tokens") + session.turn_values("generated_tokens")
    starts = np.cumsum(rng.exponential(think.sum() / concurrent, n_sessions))
    events = [(start, number, 0) for number, start in enumerate(starts.tolist())]
    heapq.heapify(events)
    caches = [OrderedDict() for _ in capacities]
    held, total = np.zeros(len(capacities)), 0
    shared = session.shared_tokens // block_tokens
    while events:
        time, number, turn = heapq.heappop(events)
        blocks = [("all", i) if i < shared else (number, i)
                  for i in range(int(context[turn] + added[turn]) // block_tokens)]  # fmt: skip
        reusable = blocks[: int(context[turn]) // block_tokens]
        if turn and number > n_sessions // 4:
            total += len(reusable)
        for place, (cache, capacity) in enumerate(zip(caches, capacities, strict=True)):
            if turn and number > n_sessions // 4:
                held[place] += sum(block in cache for block in reusable)
            for block in reversed(blocks):
                cache[block] = None
                cache.move_to_end(block)
            while len(cache) > capacity // block_tokens:
                cache.popitem(last=False)
        if turn + 1 < session.n_turns:
            heapq.heappush(events, (time + rng.exponential(think[turn + 1]), number, turn + 1))
    return held / total


@pytest.mark.parametrize(
    ("name", "concurrent", "n_sessions", "block_tokens"),
    [("chat", 48, 1500, 50), ("osworld", 12, 60, 200)],
)
def test_the_closed_form_is_within_two_points_of_a_replay(
    name, concurrent, n_sessions, block_tokens
):
    session = load_session(name)
    reuse, classes = SessionReuse(session), SessionReuse(session).classes
    capacities = np.array([0.25, 0.5, 1.0, 2.0, 4.0]) * concurrent * session.longest_tokens
    shares = reuse.hit_shares(capacities, np.full(len(capacities), float(concurrent)))
    later = classes.turns * (1 - classes.is_first)
    private = classes.context_tokens - session.shared_tokens
    held = (later * private) @ shares[:-1] + (later * session.shared_tokens).sum() * shares[-1]
    expected = held / (later @ classes.context_tokens)
    actual = replayed(session, capacities, n_sessions, concurrent, block_tokens)
    np.testing.assert_allclose(actual, expected, atol=0.02)
