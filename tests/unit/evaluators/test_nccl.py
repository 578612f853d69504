"""NCCL's collectives by protocol, against the equations that Epoch prints."""

import math

import numpy as np
import pytest

from codesign.evaluators.economics.nccl import ALL_REDUCE, ONE_WAY, PROTOCOLS, Fabric, collective

H100 = Fabric(225e9, 25e9, 8)


def time_s(ranks, nodes, message, passes=ALL_REDUCE):
    group = collective(np.array(ranks), np.array(nodes), H100, passes)
    return float(group.time_s(np.array(message)))


@pytest.mark.parametrize(("ranks", "nodes"), [(8, 1), (16, 2), (24, 3)])
def test_a_tiny_all_reduce_takes_the_latency_of_equation_23(ranks, nodes):
    expected = 6.8e-6 + 1.2e-6 * (ranks / nodes - 1) + 10e-6 * math.log2(nodes)
    assert time_s(ranks, nodes, 0.0) == pytest.approx(expected)


def test_bytes_within_a_node_take_the_time_of_equation_24_beyond_the_latency():
    # 2 bytes x 10,000 x 100 over 8 devices at 112 GB/s: 16 us. Epoch rounds 450 / 4 GB/s down.
    spent = time_s(8, 1, 2e6) - time_s(8, 1, 0.0)
    assert spent == pytest.approx(2e6 * 7 / (8 * 112e9), rel=0.005)


def test_an_all_to_all_passes_once_and_moves_half():
    latency = 6.8e-6 + 0.6e-6
    assert time_s(2, 1, 0.0, ONE_WAY) == pytest.approx(latency)
    both = [time_s(2, 1, 1e5, passes) - time_s(2, 1, 0.0, passes) for passes in (2.0, 1.0)]
    assert both[0] == pytest.approx(2 * both[1])


def test_large_messages_leave_ll_for_protocols_with_more_payload():
    message = 1e11
    simple = 28e-6 * 2 * 7 + message * 7 / (8 * 225e9)
    ll = 6.8e-6 + 1.2e-6 * 7 + message * 7 / (8 * 225e9) / 0.5
    ll128 = 14e-6 + 2.5e-6 * 7 + message * 7 / (8 * 225e9) / 0.95
    assert time_s(8, 1, message) == pytest.approx(min(simple, ll, ll128))
    assert simple < ll128 < ll


def test_between_nodes_the_slower_of_both_networks_counts():
    message = 1e9
    within, between = 2 * 7 * message / (16 * 225e9), message / (16 * 25e9)
    latency = 2 * (28e-6 * 7 + 28e-6)
    ll128 = 14e-6 + 2 * (1.25e-6 * 7 + 8.5e-6) + max(within, between) / 0.95
    assert time_s(16, 2, message) == pytest.approx(min(latency + max(within, between), ll128))


def test_one_rank_alone_waits_for_nobody():
    assert time_s(1.0, 1.0, 1e9) == 0.0


def test_a_node_is_full_at_its_size_and_not_before():
    counts = np.array([0.5, 7.9, 8.0 * (1 + 1e-12), 8.1, 16.0])
    assert H100.nodes(counts).tolist() == [1, 1, 1, 2, 2]


def test_protocols_trade_latency_for_payload():
    shares = [item.bandwidth_share for item in PROTOCOLS]
    assert shares == sorted(shares)
    assert [item.within_s for item in PROTOCOLS] == sorted(item.within_s for item in PROTOCOLS)
