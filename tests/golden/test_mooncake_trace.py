"""Shares of prompt tokens that LRU caches hold, on a trace of Mooncake's.

The trace is FAST25-release/traces/conversation_trace.jsonl of kvcache-ai/Mooncake at 3b5a594
(Apache-2.0), 12,031 requests; the shares are of a replay of LRU caches, block by block.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from codesign.models.deployments.queueing import (
    EngineLimits,
    Fleet,
    MachinePool,
    simulate,
)
from codesign.models.deployments.queueing.request_arrivals import trace_arrivals
from codesign.models.workload.request_trace import read_request_trace

TRACE = Path(__file__).parent / "traces" / "mooncake_conversation.jsonl.gz"
SHARES = {1e3: 4.54, 3e3: 6.63, 1e4: 21.53, 3e4: 33.21, 1e5: 37.08, 1e12: 37.36}


def test_six_capacities_hold_the_published_shares_of_the_conversation_trace():
    trace = read_request_trace(TRACE)
    distances, tokens, _ = trace.reuse()
    for blocks, percent in SHARES.items():
        found = tokens[distances <= blocks].sum() / tokens.sum()
        assert 100 * found == pytest.approx(percent, abs=0.006)


class _Instant:
    def step_s(self, step):
        return 1e-6


def test_a_machine_that_serves_the_trace_finds_the_same_shares():
    arrivals = trace_arrivals(read_request_trace(TRACE))
    n = len(arrivals)
    arrivals = replace(arrivals, arrival_s=np.arange(n) * 1.0, generated_tokens=np.ones(n, int))
    for blocks in (1e3, 3e4, 1e12):  # nearly none, in between, and all that are there
        percent = SHARES[blocks]
        limits = EngineLimits(64, 10**6, int(blocks) * 512)
        served = simulate(Fleet((MachinePool("serve", 1, _Instant(), limits),)), arrivals)
        assert 100 * served.hit_shares.sum() == pytest.approx(percent, abs=0.1)
