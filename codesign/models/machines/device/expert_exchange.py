"""Time in which the tokens of a mixture of experts travel to their experts and back (DeepEP).

In normal mode a token travels once to every node that has an expert of it, and there once to every
such device. In low-latency mode it travels once to every expert. Dispatch carries 8-bit tokens
with a 32-bit scale for each 128 elements, combine carries 16-bit ones.

Constants are fitted to ai-dynamo/aiconfigurator @095f58a, NVIDIA, Apache-2.0: DeepEP of H100 and
H200 on 1 to 8 nodes and of B200 on one. Experts are drawn evenly there, not limited to groups.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from codesign.base.columns import FloatArray, Floats
from codesign.base.errors import UnknownNameError
from codesign.base.schema import Bandwidth, PositiveAmount, Record, Seconds, Share
from codesign.models.machines.device.links import LinkRates, slowness
from codesign.models.workload.expert_routing import partners

ExchangeKind = Literal[
    "expert_dispatch_normal",
    "expert_combine_normal",
    "expert_dispatch_low_latency",
    "expert_combine_low_latency",
]
EXCHANGE_KINDS: tuple[ExchangeKind, ...] = (
    "expert_dispatch_normal",
    "expert_combine_normal",
    "expert_dispatch_low_latency",
    "expert_combine_low_latency",
)
DISPATCH_BYTES, COMBINE_BYTES = 1 + 4 / 128, 2.0
"""Bytes of an element of a token on the way to the experts, and back."""
FULL_RATE_NODES = 4
"""Nodes between which every port has its full rate in normal mode. On 8 nodes H100 and H200 reach
half of what they reach on 2 and 4, in both directions."""


class ExchangeConstants(Record):
    """The free constants of the exchange of tokens on a class of devices.

    Attributes:
        normal_start: Start and end in normal mode, the exchange of counts included.
        normal_hop: Time that every doubling of the nodes adds to that.
        low_latency_start: Start and end in low-latency mode.
        low_latency_hop: Time that the network would add if all partners were behind it.
        core_copy: Bytes that a core sends or receives in normal mode; fewer cores leave more to
            others.
        expert_copy: Bytes that the core of one expert sends in low-latency dispatch.
        token_copy: Rate at which a token alone passes in normal mode.
        link: Rate of long messages within a node, in parts of the link bandwidth.
        network: Rate of long messages between nodes, in parts of the network bandwidth.
        latency_factor: Factor on the latencies of the low-latency mode, by kind of link; 1 for
            others. Those are of cores of ``TYPICAL_CLOCK_HZ``, as in collectives.
    """

    normal_start: Seconds
    normal_hop: Seconds
    low_latency_start: Seconds
    low_latency_hop: Seconds
    core_copy: Bandwidth
    expert_copy: Bandwidth
    token_copy: Bandwidth
    link: Share
    network: Share
    latency_factor: dict[str, PositiveAmount]


def expert_exchange_time_s(
    kind: ExchangeKind,
    tokens: Floats,
    experts: Floats,
    top_k: Floats,
    hidden: Floats,
    n_devices: Floats,
    n_nodes: Floats,
    links: LinkRates,
    constants: ExchangeConstants,
) -> FloatArray:
    """Seconds of a dispatch or a combine, its start included; 0 for one device alone.

    Limiting assumption: every token draws its experts evenly among all. All arguments broadcast.

    Args:
        kind: Direction and mode.
        tokens: Tokens of one device.
        top_k: Experts of a token.
        hidden: Elements of a token.
        n_devices: Devices among which the experts are spread.
        n_nodes: Nodes on which these are.

    Raises:
        UnknownNameError: No such exchange.
    """
    if kind not in EXCHANGE_KINDS:
        raise UnknownNameError("exchange of tokens", kind, EXCHANGE_KINDS)
    token_bytes = hidden * (DISPATCH_BYTES if "dispatch" in kind else COMBINE_BYTES)
    near_rate = constants.link * links.bandwidth_bytes_per_s
    far_rate = constants.network * links.network_bytes_per_s
    nodes = np.maximum(n_nodes, 1.0)
    if "normal" in kind:
        latency = constants.normal_start + constants.normal_hop * np.log2(nodes)
        latency = latency + token_bytes / constants.token_copy
        near = partners(n_devices, experts, top_k)
        far = partners(nodes, experts, top_k)
        near_rate = np.minimum(near_rate, constants.core_copy * links.n_cores)
        far_rate = far_rate * np.minimum(1.0, FULL_RATE_NODES / nodes)
    else:
        remote = 1 - 1 / nodes
        latency = constants.low_latency_start + constants.low_latency_hop * remote
        latency = latency * slowness(links, constants.latency_factor)
        near = top_k * (1 - 1 / (n_devices / nodes)) / nodes
        far = top_k * remote
        if "dispatch" in kind:
            busy = np.minimum(experts, links.n_cores)
            near_rate = np.minimum(near_rate, constants.expert_copy * busy)
    crossing = np.where(nodes > 1, tokens * token_bytes * far / far_rate, 0.0)
    within = tokens * token_bytes * near / near_rate
    return np.where(n_devices > 1, latency + np.maximum(within, crossing), 0.0)
