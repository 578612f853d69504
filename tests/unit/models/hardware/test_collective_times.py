"""Collectives against their closed forms, and against steps counted one by one."""

import numpy as np
import pytest

from codesign.models.hardware.collective_times import (
    Link,
    all_gather_s,
    all_reduce_s,
    all_to_all_s,
    point_to_point_s,
    split_over_nodes,
)

FAST, SLOW, UNSTATED = Link(450e9, 1e-6), Link(50e9, 5e-6), Link(np.nan, 5e-6)
WARM_UP_S = 5e-6


def steps_of_a_ring(message_bytes, n_ranks, link):
    """A ring all-reduce played step by step: every rank sends one shard a step."""
    held = np.zeros((n_ranks, n_ranks), dtype=int)  # contributions in each rank's shards
    held += 1
    seconds = 0.0
    step_s = link.latency_s + message_bytes / n_ranks / link.bandwidth_bytes_per_s
    for step in range(n_ranks - 1):
        sent = [(rank, (rank - step) % n_ranks) for rank in range(n_ranks)]
        values = [held[rank, shard] for rank, shard in sent]
        for (rank, shard), value in zip(sent, values, strict=True):
            held[(rank + 1) % n_ranks, shard] += value
        seconds += float(step_s)
    for step in range(n_ranks - 1):
        sent = [(rank, (rank + 1 - step) % n_ranks) for rank in range(n_ranks)]
        values = [held[rank, shard] for rank, shard in sent]
        for (rank, shard), value in zip(sent, values, strict=True):
            held[(rank + 1) % n_ranks, shard] = value
        seconds += float(step_s)
    assert (held == n_ranks).all()
    return seconds


def ring_all_reduce_s(message_bytes, n_ranks, link, warm_up_s=WARM_UP_S):
    """A ring within a node, of which no network is stated."""
    return float(all_reduce_s(message_bytes, n_ranks, 1.0, link, UNSTATED, warm_up_s))


@pytest.mark.parametrize("n_ranks", [2, 3, 8])
def test_a_ring_takes_the_steps_that_add_up_everything_everywhere(n_ranks):
    found = ring_all_reduce_s(1e6, n_ranks, FAST, 0.0)
    assert found == pytest.approx(steps_of_a_ring(1e6, n_ranks, FAST), rel=1e-12)


def test_the_ring_is_genz_equation_3():
    # T = T_warmup + 2 (N - 1) (T_link + (M / N) / BW), with M = 32 MiB, N = 8, 450 GiB/s, 1 us.
    link = Link(450 * 2**30, 1e-6)
    expected = 5e-6 + 2 * 7 * (1e-6 + 32 * 2**20 / 8 / (450 * 2**30))
    assert ring_all_reduce_s(32 * 2**20, 8, link) == pytest.approx(expected, rel=1e-12)


def tree_all_reduce_s(message_bytes, n_ranks, warm_up_s=WARM_UP_S):
    """A tree within a node."""
    time = all_reduce_s(message_bytes, n_ranks, 1.0, FAST, SLOW, warm_up_s, "tree")
    return float(time)


def test_one_rank_needs_no_message():
    for function in (all_reduce_s, all_gather_s, all_to_all_s):
        assert float(function(1e9, 1.0, 1.0, FAST, SLOW, WARM_UP_S)) == 0.0
    assert tree_all_reduce_s(1e9, 1.0) == 0.0


def test_an_all_reduce_is_two_all_gathers_but_for_their_start():
    gathers = 2 * float(all_gather_s(1e8, 6, 1, FAST, UNSTATED, 0.0))
    assert ring_all_reduce_s(1e8, 6, FAST, 0.0) == pytest.approx(gathers)


def test_a_tree_wins_for_short_messages_and_many_ranks_only():
    assert tree_all_reduce_s(1e3, 64) < ring_all_reduce_s(1e3, 64, FAST)
    assert tree_all_reduce_s(1e10, 64) > ring_all_reduce_s(1e10, 64, FAST)
    assert tree_all_reduce_s(0.0, 64, 0.0) == pytest.approx(2 * 6 * 1e-6)


def test_a_message_waits_for_the_link_and_passes_at_its_bandwidth():
    assert float(point_to_point_s(450e6, FAST, 0.0)) == pytest.approx(1e-6 + 1e-3)


def test_a_group_within_a_node_is_flat_even_if_no_network_is_stated():
    shards_s = 7 * (1e-6 + 1e8 / 8 / 450e9)
    for function, passes in ((all_reduce_s, 2), (all_gather_s, 1), (all_to_all_s, 1)):
        time = float(function(1e8, 8.0, 1.0, FAST, UNSTATED, 0.0))
        assert time == pytest.approx(passes * shards_s, rel=1e-12)


def test_a_group_of_one_rank_a_node_is_flat_over_the_network():
    found = float(all_reduce_s(1e8, 1.0, 8.0, FAST, SLOW, WARM_UP_S))
    assert found == pytest.approx(ring_all_reduce_s(1e8, 8, SLOW), rel=1e-12)


def test_a_all_reduce_beats_a_flat_ring_over_the_network():
    spanning = float(all_reduce_s(1e8, 8.0, 4.0, FAST, SLOW, WARM_UP_S))
    assert spanning < ring_all_reduce_s(1e8, 32, SLOW)
    assert spanning > ring_all_reduce_s(1e8, 8, FAST)


def test_every_part_of_a_spanning_all_to_all_takes_the_link_to_its_partner():
    # 4 nodes of 2: one partner in the node, six outside; parts of 1 MB.
    expected = (1e-6 + 1e6 / 450e9) + 6 * (5e-6 + 1e6 / 50e9)
    found = float(all_to_all_s(8e6, 2.0, 4.0, FAST, SLOW, 0.0))
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("ranks", "stride", "node", "expected"),
    [(8, 1, 8, (8, 1)), (16, 1, 8, (8, 2)), (4, 4, 8, (2, 2)), (4, 8, 8, (1, 4)),
     (4, 16, 8, (1, 4)), (12, 1, 8, (6, 2)), (5, 1, np.inf, (5, 1)), (1, 1, 1, (1, 1))],
)  # fmt: skip
def test_ranks_fill_nodes_in_order(ranks, stride, node, expected):
    inner, outer = split_over_nodes(ranks, stride, node)
    assert (float(inner), float(outer)) == expected


def test_everything_broadcasts():
    sizes = np.array([1e3, 1e6])[:, None]
    ranks = np.array([1.0, 2.0, 8.0])
    for function in (all_reduce_s, all_gather_s, all_to_all_s):
        assert function(sizes, ranks, ranks, FAST, SLOW, WARM_UP_S).shape == (2, 3)
