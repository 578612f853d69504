"""Transfers through the hierarchy against an independent simulation, chunk by chunk."""

import heapq

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codesign.models.hardware.hierarchy import (
    inflight_bandwidth_bytes_per_s,
    inverse,
    parallel_time_s_at,
    staged_time_s_at,
)
from tests.laws import is_at_most

N_SLOTS = 2
"""Double buffering: chunks that have landed in a level, or are landing, and not yet moved on."""


class Simulation:
    """Chunks of one byte on their way up, event by event.

    A level's port reads or writes one chunk at a time. Chunks leave a level in the order of
    their numbers, arrive at the next one a latency later, wait for a landing slot, are written
    through that level's port and read again. A level has as many requests outstanding as cover
    its latency and fill the slots above it.
    """

    def __init__(self, owners, bandwidth, latency):
        self.owners = owners
        self.service = [1.0 / rate for rate in bandwidth]
        self.latency = latency
        n = len(bandwidth)
        self.most_outstanding = [
            N_SLOTS + int(np.ceil(latency[i] / self.service[i])) for i in range(n)
        ]
        self.to_send = [[j for j, owner in enumerate(owners) if owner >= i] for i in range(n)]
        self.landed = [set() for _ in range(n)]
        self.landing = [0] * n
        self.waiting = [[] for _ in range(n)]
        self.outstanding = [0] * n
        self.is_busy = [False] * n
        self.events = []
        self.n_events = 0
        self.now = 0.0

    def run(self):
        """When the last chunk has reached the compute."""
        finished = 0.0
        levels = range(len(self.service))
        for level in levels:
            self.start(level)
        while self.events:
            self.now, _, kind, level, chunk = heapq.heappop(self.events)
            if kind == "arrival":
                self.waiting[level].append(chunk)
            elif kind == "write":
                self.is_busy[level] = False
                self.landing[level] -= 1
                self.landed[level].add(chunk)
            else:
                self.is_busy[level] = False
                if self.owners[chunk] != level:
                    self.landed[level].discard(chunk)
                    self.outstanding[level + 1] -= 1
                if level == 0:
                    finished = max(finished, self.now + self.latency[0])
                else:
                    self.schedule(self.latency[level], "arrival", level - 1, chunk)
            for near in (level - 1, level, level + 1):
                if near in levels:
                    self.start(near)
        return finished

    def start(self, level):
        """Give the port its next chunk, if there is one; landing comes first."""
        if self.is_busy[level]:
            return
        if self.waiting[level] and len(self.landed[level]) + self.landing[level] < N_SLOTS:
            self.landing[level] += 1
            self.serve("write", level, self.waiting[level].pop(0))
            return
        is_full = level > 0 and self.outstanding[level] >= self.most_outstanding[level]
        if not self.to_send[level] or is_full:
            return
        chunk = self.to_send[level][0]
        if self.owners[chunk] == level or chunk in self.landed[level]:
            self.to_send[level].pop(0)
            self.outstanding[level] += 1
            self.serve("read", level, chunk)

    def serve(self, kind, level, chunk):
        self.is_busy[level] = True
        self.schedule(self.service[level], kind, level, chunk)

    def schedule(self, delay, kind, level, chunk):
        self.n_events += 1
        heapq.heappush(self.events, (self.now + delay, self.n_events, kind, level, chunk))


def interleaved(shares, n_chunks):
    """The owner of each chunk, every level's spread evenly over the transfer."""
    owed = np.zeros(len(shares))
    owners = []
    for _ in range(n_chunks):
        owed += shares
        owner = int(np.argmax(owed))
        owed[owner] -= 1.0
        owners.append(owner)
    return owners


def crossings(owners, n_levels):
    return [float(sum(owner >= level for owner in owners)) for level in range(n_levels)]


@pytest.fixture(scope="module")
def hierarchies():
    rng = np.random.default_rng(0)
    made = []
    for _ in range(200):
        n_levels = int(rng.integers(1, 5))
        bandwidth = 10 ** rng.uniform(-1.5, 0.0, n_levels)
        if rng.random() < 0.7:  # the usual case: nearer is faster
            bandwidth = np.sort(bandwidth)[::-1]
        kept = [*rng.random(n_levels - 1), 1.0]
        shares, rest = [], 1.0
        for share in kept:
            shares.append(rest * share)
            rest *= 1.0 - share
        owners = interleaved(shares, int(rng.integers(400, 1000)))
        latency = rng.random(n_levels) / bandwidth  # up to one chunk
        made.append((owners, bandwidth.tolist(), latency.tolist()))
    return made


def staged_time_s(crossing, bandwidth, latency, chunk):
    return staged_time_s_at(crossing, [inverse(rate) for rate in bandwidth], latency, chunk)


def parallel_time_s(owned, bandwidth, latency):
    return parallel_time_s_at(owned, [inverse(rate) for rate in bandwidth], latency)


def closed_form(owners, bandwidth, latency):
    crossing = crossings(owners, len(bandwidth))
    return float(staged_time_s(crossing, bandwidth, latency, 1.0))


def excess(owners, bandwidth, latency):
    simulated = Simulation(list(owners), bandwidth, latency).run()
    return simulated / closed_form(owners, bandwidth, latency) - 1.0


@pytest.fixture(scope="module")
def excesses(hierarchies):
    return np.array([excess(*hierarchy) for hierarchy in hierarchies])


def test_the_closed_form_is_the_simulated_time_but_for_the_rounding_to_chunks(
    excesses,
):
    median, p90, p99 = np.quantile(np.abs(excesses), [0.5, 0.9, 0.99])
    assert median < 0.002
    assert p90 < 0.015
    assert p99 < 0.05


def test_the_closed_form_is_a_lower_bound_of_the_simulated_time(excesses):
    assert excesses.min() > -1e-12


def test_finer_chunks_bring_the_simulation_nearer_to_the_closed_form():
    shares, bandwidth = [0.5, 0.3, 0.2], [1.0, 0.4, 0.1]
    errors = [excess(interleaved(shares, n), bandwidth, [0.5, 1.0, 2.0]) for n in (20, 200, 2000)]
    assert errors[0] > errors[1] > errors[2] >= -1e-12
    assert errors[2] < 0.002


def test_bytes_delivered_nearest_first_take_longer_than_interleaved_ones(hierarchies, excesses):
    # The stated hidden assumption of the closed form.
    several = [i for i, (_, bandwidth, _) in enumerate(hierarchies) if len(bandwidth) > 1]
    spread = excesses[several]
    reordered_tiers = [excess(sorted(hierarchies[i][0]), *hierarchies[i][1:]) for i in several]
    assert np.median(reordered_tiers) > 10 * np.median(spread)


@pytest.mark.parametrize(("share", "seconds"), [(0.74, 0.315), (1.0, 0.25), (0.0, 1.0)])
def test_the_example_on_which_the_printed_equations_jump(share, seconds):
    # MemExplorer Eq. 2-5 as printed give 0.260 at 0.74 and 0.333 at 1.
    assert float(staged_time_s([1.0, 1.0 - share], [4.0, 1.0], [0.0, 0.0], 0.0)) == pytest.approx(
        seconds, rel=1e-12
    )


def test_the_time_is_continuous_in_the_share_of_the_nearest_level():
    share = np.linspace(0.0, 1.0, 2001)
    time = staged_time_s([np.ones_like(share), 1.0 - share], [4.0, 1.0], [0.0, 0.0], 0.0)
    assert np.abs(np.diff(time)).max() <= 1.0001 / 2000


def test_one_level_takes_its_bytes_over_its_bandwidth_and_its_latency():
    assert float(staged_time_s([12.0], [4.0], [0.5], 3.0)) == 3.5


def test_no_bytes_take_no_time():
    assert float(staged_time_s([0.0, 0.0], [4.0, 1.0], [0.5, 0.5], 3.0)) == 0.0
    assert float(parallel_time_s([0.0, 0.0], [4.0, 1.0], [0.5, 0.5])) == 0.0


def test_a_level_that_sends_nothing_adds_nothing():
    alone = staged_time_s([12.0], [4.0], [0.5], 3.0)
    with_empty = staged_time_s([12.0, 0.0], [4.0, 0.001], [0.5, 7.0], 3.0)
    assert float(with_empty) == float(alone)


def test_what_lives_wholly_below_crosses_the_nearest_port_twice():
    # 10 bytes written to and read from 4 B/s; the level below, at 100 B/s, is hidden.
    assert float(staged_time_s([10.0, 10.0], [4.0, 100.0], [0.0, 0.0], 0.0)) == 5.0


def test_a_deeper_level_may_be_faster_than_the_one_above():
    owners = interleaved([0.4, 0.6], 400)
    assert excess(owners, [0.3, 1.0], [0.0, 0.0]) == pytest.approx(0.0, abs=0.01)


def test_the_first_chunk_passes_every_latency_on_its_way():
    # One chunk of 2 bytes from the third level: three latencies, and each port above it once.
    time = staged_time_s([2.0, 2.0, 2.0], [1e9, 1e9, 4.0], [0.1, 0.2, 0.3], 2.0)
    assert float(time) == pytest.approx(0.1 + 0.2 + 0.3 + 2.0 / 4.0, rel=1e-6)


def test_a_chunk_is_never_larger_than_what_is_moved():
    small = staged_time_s([1.0, 1.0], [2.0, 1.0], [0.0, 0.0], 1.0)
    assert float(staged_time_s([1.0, 1.0], [2.0, 1.0], [0.0, 0.0], 1e9)) == float(small)


positive = st.floats(1e-3, 1e3)


@given(
    st.lists(
        st.tuples(positive, st.floats(0.0, 1.0), st.floats(0.0, 10.0)), min_size=1, max_size=4
    ),
    st.floats(0.0, 5.0),
    st.integers(0, 3),
    st.floats(1.0, 100.0),
)
def test_more_bandwidth_or_less_latency_never_takes_longer(levels, chunk, which, factor):
    bandwidth, kept, latency = (list(part) for part in zip(*levels, strict=True))
    crossing = np.cumprod([10.0, *(1.0 - share for share in kept[:-1])]).tolist()
    owned = [a - b for a, b in zip(crossing, [*crossing[1:], 0.0], strict=True)]
    i = which % len(levels)
    faster = [b * factor if at == i else b for at, b in enumerate(bandwidth)]
    sooner = [t / factor if at == i else t for at, t in enumerate(latency)]
    staged = staged_time_s(crossing, bandwidth, latency, chunk)
    assert is_at_most(staged_time_s(crossing, faster, latency, chunk), staged)
    assert is_at_most(staged_time_s(crossing, bandwidth, sooner, chunk), staged)
    parallel = parallel_time_s(owned, bandwidth, latency)
    assert is_at_most(parallel_time_s(owned, faster, latency), parallel)
    assert is_at_most(parallel_time_s(owned, bandwidth, sooner), parallel)
    assert is_at_most(parallel, staged)


def test_levels_in_parallel_take_the_longest_of_their_own_times():
    assert float(parallel_time_s([8.0, 3.0, 0.0], [4.0, 1.0, 1.0], [0.5, 0.25, 9.0])) == 3.25


def test_requests_in_flight_follow_littles_law():
    # 8 requests of 64 bytes over 1 us of latency and 64 ns of transfer: 512 B per 1.064 us.
    rate = inflight_bandwidth_bytes_per_s(np.array(1e9), np.array(1e-6), np.array(64.0), 8.0)
    assert float(rate) == pytest.approx(512 / 1.064e-6, rel=1e-12)


def test_enough_requests_in_flight_give_the_peak():
    rate = inflight_bandwidth_bytes_per_s(np.array(1e9), np.array(1e-6), np.array(64.0), 17.0)
    assert float(rate) == 1e9
    assert float(rate) * (1e-6 + 64 / 1e9) <= 17 * 64


def test_one_request_without_latency_keeps_the_port_busy():
    rate = inflight_bandwidth_bytes_per_s(np.array(5.0), np.array(0.0), np.array(2.0), 1.0)
    assert float(rate) == 5.0


def test_a_level_that_does_not_exist_has_no_rate():
    assert inverse(np.array([0.0, 4.0])).tolist() == [0.0, 0.25]
    absent = inflight_bandwidth_bytes_per_s(np.zeros(1), np.zeros(1), np.ones(1), 4.0)
    assert absent.tolist() == [0.0]


def test_designs_and_operators_broadcast():
    crossing = [np.array([[1.0, 2.0, 0.0]]), np.array([[0.5, 0.0, 0.0]])]
    bandwidth = [np.array([[4.0], [2.0]]), np.array([[1.0], [0.0]])]
    time = staged_time_s(crossing, bandwidth, [np.zeros((2, 1)), np.zeros((2, 1))], np.zeros(()))
    assert time.tolist() == [[0.5, 0.5, 0.0], [0.75, 1.0, 0.0]]
