"""Laws of collectives and of the exchange of tokens: hand arithmetic, bounds, directions."""

from dataclasses import replace

import numpy as np
import pytest

from codesign.base.errors import UnknownNameError
from codesign.models.hardware.collective_times import wire_bytes
from codesign.models.hardware.device import load_device
from codesign.models.machines.device.collectives import (
    COLLECTIVE_KINDS,
    CollectiveConstants,
    collective_time_s,
)
from codesign.models.machines.device.constants import load_constants
from codesign.models.machines.device.expert_exchange import (
    EXCHANGE_KINDS,
    ExchangeConstants,
    expert_exchange_time_s,
)
from codesign.models.machines.device.links import LinkRates, link_rates
from codesign.models.workload.expert_routing import partners
from tests.laws import is_at_most, never_falls

CONSTANTS = load_constants("collectives", CollectiveConstants, "gpu")
EXCHANGE = load_constants("expert_exchange", ExchangeConstants, "gpu")


def links_of(name):
    """The links of one device."""
    device = load_device(name)
    return link_rates(lambda number: number(device), device.link_kind or "")


PLAIN = CollectiveConstants.model_validate(
    {
        **dict.fromkeys(("start", "step", "fill", "custom_start", "custom_peer"), "0 us"),
        **dict.fromkeys(("peer_step", "network_step"), "0 us"),
        **dict.fromkeys(("link", "peer", "custom_link", "network"), 1.0),
        "exchange_steps": 1.0,
        "own_copy": 0.0,
        "second_shot": 1.0,
        "latency_factor": {},
    }
)
LINKS = LinkRates("nvlink-4", 100e9, 10e9, 132.0)
SIZES = np.geomspace(256, 2**32, 60)


@pytest.mark.parametrize(
    ("kind", "milliseconds"),
    [("all_reduce", 15.0), ("all_gather", 7.5), ("reduce_scatter", 7.5), ("all_to_all", 7.5),
     ("send", 10.0), ("custom_all_reduce", 15.0)],
)  # fmt: skip
def test_four_devices_move_a_gigabyte_as_counted_by_hand(kind, milliseconds):
    # Rings pass 3/4 of the message over 100 GB/s, an all-reduce twice.
    assert collective_time_s(kind, 1e9, 4.0, 1.0, LINKS, PLAIN) == pytest.approx(milliseconds / 1e3)


def test_latency_counts_steps_and_the_start():
    constants = PLAIN.model_copy(update={"start": 5e-6, "step": 1e-6})
    # 2 x 7 steps of a ring and the start; of a kind of link that is twice as slow, all doubled.
    assert collective_time_s("all_reduce", 0.0, 8.0, 1.0, LINKS, constants) == pytest.approx(19e-6)
    slow = constants.model_copy(update={"latency_factor": {"nvlink-4": 2.0}})
    assert collective_time_s("all_reduce", 0.0, 8.0, 1.0, LINKS, slow) == pytest.approx(38e-6)


def test_latency_takes_clocks_and_payload_does_not():
    constants = PLAIN.model_copy(update={"start": 5e-6})
    slower = replace(LINKS, clock_hz=0.9e9)  # half of the clock of which constants are
    times = [
        float(collective_time_s("send", 1e6, 2.0, 1.0, links, constants))
        for links in (LINKS, slower)
    ]
    assert times == pytest.approx([15e-6, 20e-6])
    assert links_of("a100-sxm-80gb").clock_hz == 1.41e9


def test_filling_the_pipeline_costs_twice_the_root_of_chunk_and_payload():
    constants = PLAIN.model_copy(update={"fill": 4e-6})
    # Payload of 1 us; 1 + 2 sqrt(4 x 1) = 5 us.
    time = collective_time_s("send", 1e5, 2.0, 1.0, LINKS, constants)
    assert time == pytest.approx(5e-6)


@pytest.mark.parametrize(
    ("kind", "milliseconds"),
    [("pcie-switch", (5, 7.5, 8.75)), ("pcie-bridge", (5, 31.25, 36.458)),
     ("pcie-host", (32.679, 49.02, 57.19)), ("pcie-shared", (5, 30, 140)),
     ("mesh", (35, 17.5, 8.75))],
)  # fmt: skip
def test_a_path_limits_the_rate_of_cards_as_counted_by_hand(kind, milliseconds):
    # 1/2, 3/4 and 7/8 of the message: at 100 GB/s; at 24 GB/s between two sockets; at 15.3 GB/s
    # through memory; at a quarter and a sixteenth of 100; over 1, 3 and 7 links of 7.
    links = replace(LINKS, kind=kind, n_linked=8.0)
    times = collective_time_s("all_gather", 1e9, np.array([2.0, 4.0, 8.0]), 1.0, links, PLAIN)
    start = {"pcie-host": 7e-6 * np.array([1, 3, 7])}.get(kind, 0.0)
    np.testing.assert_allclose(times - start, np.array(milliseconds) * 1e-3, rtol=1e-4)
    late = PLAIN.model_copy(update={"custom_start": 1e-3})
    own = collective_time_s("custom_all_reduce", 1e9, np.array([2.0, 8.0]), 1.0, links, late)
    nccl = collective_time_s("all_reduce", 1e9, np.array([2.0, 8.0]), 1.0, links, late)
    assert (own == nccl).tolist() == [kind == "pcie-host", kind.startswith("pcie")]


def test_between_nodes_a_ring_uses_every_port_and_a_pairwise_exchange_its_own():
    # 16 devices of two nodes: 8 ports of 10 GB/s carry 15/16 of the message.
    ring = collective_time_s("all_gather", 16e9, 16.0, 2.0, LINKS, PLAIN)
    assert ring == pytest.approx(15e9 / 80e9)
    pairs = collective_time_s("all_to_all", 16e9, 16.0, 2.0, LINKS, PLAIN)
    assert pairs == pytest.approx(8e9 / 10e9)
    assert [float(part) for part in wire_bytes("send", np.array(5.0), 2.0, 2.0)] == [0.0, 5.0]


@pytest.mark.parametrize("kind", COLLECTIVE_KINDS)
@pytest.mark.parametrize("name", ["a100-sxm-80gb", "h100-sxm", "b200-sxm", "l40s"])
def test_time_grows_with_bytes_and_devices_and_never_with_the_link(kind, name):
    links = links_of(name)
    devices = np.arange(1.0, 9.0)[:, None]
    times = collective_time_s(kind, SIZES, devices, 1.0, links, CONSTANTS)
    assert (times[0] == 0).all()  # one device alone
    assert never_falls(times, axis=1)
    assert never_falls(times, axis=0)
    assert np.isfinite(times).all()
    faster = replace(links, bandwidth_bytes_per_s=2.0 * np.asarray(links.bandwidth_bytes_per_s))
    assert is_at_most(collective_time_s(kind, SIZES, devices, 1.0, faster, CONSTANTS), times)
    inner, _ = wire_bytes("all_reduce" if "custom" in kind else kind, SIZES, devices[1:], 1.0)
    assert is_at_most(inner / times[1:], links.bandwidth_bytes_per_s)


def test_a_slower_network_never_helps():
    links = links_of("h100-sxm")
    slower = replace(links, network_bytes_per_s=0.5 * np.asarray(links.network_bytes_per_s))
    for kind in COLLECTIVE_KINDS:
        fast = collective_time_s(kind, SIZES, 32.0, 4.0, links, CONSTANTS)
        assert is_at_most(fast, collective_time_s(kind, SIZES, 32.0, 4.0, slower, CONSTANTS))


def test_an_unknown_collective_is_refused():
    with pytest.raises(UnknownNameError, match="all_reduce"):
        collective_time_s("allreduce", 1.0, 2.0, 1.0, LINKS, PLAIN)  # type: ignore[arg-type]


def test_expected_partners_of_a_token():
    # Two of four experts on two devices: both elsewhere 1 of 6, both here 1 of 6, else one each.
    assert float(partners(2.0, 4.0, 2.0)) == pytest.approx(5 / 6)
    assert float(partners(8.0, 8.0, 8.0)) == pytest.approx(7.0)  # everybody has one
    assert float(partners(1.0, 64.0, 8.0)) == 0.0
    many = partners(np.array([2.0, 4.0, 8.0]), 256.0, np.array([1.0, 8.0])[:, None])
    np.testing.assert_allclose(many[0], [0.5, 0.75, 0.875])


def test_an_exchange_moves_a_token_to_each_partner_as_counted_by_hand():
    constants = ExchangeConstants.model_validate(
        {
            **dict.fromkeys(("normal_start", "normal_hop", "low_latency_start"), "0 us"),
            "low_latency_hop": "0 us",
            **dict.fromkeys(("core_copy", "expert_copy", "token_copy"), "1e9 GB/s"),
            "link": 1.0,
            "network": 1.0,
            "latency_factor": {},
        }
    )
    sizes = 1000.0, 8.0, 8.0, 128.0, 8.0, 1.0
    # 7 partners x 128 x 2 bytes; all 8 experts, of which 1/8 are at home, is the same.
    normal = expert_exchange_time_s("expert_combine_normal", *sizes, LINKS, constants)
    assert normal == pytest.approx(1000 * 7 * 256 / 100e9)
    direct = expert_exchange_time_s("expert_combine_low_latency", *sizes, LINKS, constants)
    assert direct == pytest.approx(1000 * 7 * 256 / 100e9)
    dispatch = expert_exchange_time_s("expert_dispatch_normal", *sizes, LINKS, constants)
    assert dispatch == pytest.approx(1000 * 7 * 132 / 100e9)


@pytest.mark.parametrize("kind", EXCHANGE_KINDS)
@pytest.mark.parametrize("nodes", [1.0, 2.0, 4.0, 8.0])
def test_an_exchange_grows_with_tokens_and_never_beats_its_links(kind, nodes):
    links = links_of("h100-sxm")
    tokens = np.geomspace(1, 131072, 30)
    sizes = 256.0, 8.0, 7168.0, 8 * nodes, nodes
    times = expert_exchange_time_s(kind, tokens, *sizes, links, EXCHANGE)
    assert never_falls(times)
    groups = nodes if nodes > 1 else 8.0
    rate = links.network_bytes_per_s if nodes > 1 else links.bandwidth_bytes_per_s
    token_bytes = 7168 * (1 + 4 / 128 if "dispatch" in kind else 2)
    assert is_at_most(tokens * token_bytes * partners(groups, 256.0, 8.0) / times, rate)
    slower = replace(links, bandwidth_bytes_per_s=0.1 * np.asarray(links.bandwidth_bytes_per_s))
    assert is_at_most(times, expert_exchange_time_s(kind, tokens, *sizes, slower, EXCHANGE))


def test_every_class_has_constants_and_other_classes_have_no_limits_of_a_core():
    for name in ("gpu", "igpu", "npu", "cpu", "tpu"):
        assert load_constants("collectives", CollectiveConstants, name).link <= 1
        own = load_constants("expert_exchange", ExchangeConstants, name).core_copy
        assert own < 1e10 if name == "gpu" else own > 1e15
