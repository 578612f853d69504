"""Time of collectives of NCCL and of the serving frameworks' own all-reduce.

NCCL cuts a message into chunks and pipelines them. With the best number of chunks, steps that take
``latency`` before anything arrives and ``payload`` on the links take
``latency + payload + 2 sqrt(fill * payload)``: the square root is what filling the pipeline costs
[Thakur2005]_ (the best of LL, LL128 and Simple follows the same curve, so that no change of
protocol has to be told). A reduction over NVSwitch (NVLS) needs no law of its own: measured
all-reduces on 8 H200 and B200 follow the ring's.

The frameworks' own all-reduce is one kernel of a CUDA graph: devices wait for each other and read
from each other, everything at once (one shot) or a part and then the sums (two shots).

Cards on PCIe reach ``peer`` of their link through a switch, whatever their number. A ring of more
than two cards on the bridges of two sockets is limited by what crosses between the sockets; without
access to peers the host's memory limits every ring. The frameworks' own all-reduce runs on two
peers only; other cards take NCCL's, as in vLLM.

On one server with L40S each of n cards gets ``(2 / n)**2`` of what two get [fit: exponent 2.1].
No other server does so: ``pcie-shared`` is that server's kind, which no device file states.

Constants are fitted to ai-dynamo/aiconfigurator @095f58a, NVIDIA, Apache-2.0. Nothing there
crosses nodes: that part is from NCCL's design.

.. [Thakur2005] R. Thakur, R. Rabenseifner, W. Gropp, Optimization of collective communication
   operations in MPICH, IJHPCA 19, 2005.
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args

import numpy as np
from pydantic import Field

from codesign.base.columns import FloatArray, Floats
from codesign.base.errors import UnknownNameError
from codesign.base.schema import Fraction, PositiveAmount, Record, Seconds, Share
from codesign.models.hardware.collective_times import CollectiveKind, wire_bytes
from codesign.models.machines.device.links import LinkRates, is_of_kind, slowness

DeviceCollective = CollectiveKind | Literal["custom_all_reduce"]
COLLECTIVE_KINDS: tuple[DeviceCollective, ...] = (*get_args(CollectiveKind), "custom_all_reduce")
HOSTED = ("pcie", "pcie-host")
"""Kinds of cards on PCIe without access to peers; a file that does not state it counts as one."""
_BRIDGE_BYTES_PER_S = 24e9
"""Rate between two sockets, each way, that NCCL plans with (@069a3d4, src/graph/topo.h,
AMD_ZEN34_BW; Intel's have 22 and 40 there). Told to use more channels, it passes 37.6 to 41.5
between two EPYC 9005, as through a switch (voipmonitor/rtx6kpro @070506f, pcie-bandwidth.md)."""
_HOST_BYTES_PER_S = 15.3e9
"""Rate through the host's memory, each way: two RTX PRO 6000 in ai-dynamo/aisimulate 0.13, vLLM
0.19 [ours: their small messages are not those of peers]. Hosts differ: four RTX 4090 pass 12.8
(tinygrad/open-gpu-kernel-modules, pull request 22), eight RTX 5090 on two Xeon 8480 pass 28
(NVIDIA/nccl, issue 1639)."""
_HOSTED_STEP_S = 7e-6
"""Step through the host's memory that carries nothing [ours]: an all-reduce of a kilobyte takes
those two cards 17.4 us, of which the start is 3."""


class CollectiveConstants(Record):
    """The free constants of collectives on a class of devices.

    Attributes:
        start: Start and end of a collective of NCCL.
        step: A step of a ring that carries nothing.
        peer_step: A step between peers on PCIe that carries nothing.
        peer: Rate of long messages between peers on PCIe, in parts of the link bandwidth.
        exchange_steps: Steps of an all-to-all for each doubling of the devices.
        fill: Time per chunk, which sets the time to fill the pipeline of chunks.
        link: Rate of long messages, in parts of the link bandwidth.
        own_copy: Bytes on the links that copying a device's own part costs as much as, per byte
            copied.
        latency_factor: Factor on all latencies, by kind of link; 1 for others. Latencies are those
            of cores of ``TYPICAL_CLOCK_HZ``
            (:func:`~codesign.models.machines.device.links.slowness`).
        custom_start: Start and end of the frameworks' own all-reduce, in a graph.
        custom_peer: Waiting for one more device there.
        second_shot: Further waits that two shots need, in parts of those of one shot.
        custom_link: Rate at which its kernel reads, in parts of the link bandwidth.
        network: Rate of long messages between nodes, in parts of the network bandwidth.
        network_step: A step between nodes that carries nothing, for each doubling of the nodes.
    """

    start: Seconds
    step: Seconds
    peer_step: Seconds
    peer: Share
    exchange_steps: PositiveAmount
    fill: Seconds
    link: Share
    own_copy: Annotated[Fraction, Field(ge=0, le=1)]
    latency_factor: dict[str, PositiveAmount]
    custom_start: Seconds
    custom_peer: Seconds
    second_shot: PositiveAmount
    custom_link: Share
    network: Share
    network_step: Seconds


def collective_time_s(
    kind: DeviceCollective,
    message_bytes: Floats,
    n_devices: Floats,
    n_nodes: Floats,
    links: LinkRates,
    constants: CollectiveConstants,
) -> FloatArray:
    """Seconds of a collective, its start included; 0 for one device alone.

    Limiting assumption: all devices enter at once, nothing else uses the links, and devices fill
    their nodes evenly. All arguments broadcast.

    Args:
        kind: Which collective. A ``custom_all_reduce`` across nodes is NCCL's.
        message_bytes: As nccl-tests counts: the buffer of an all-reduce, the whole output of an
            all-gather, the whole input of one device for a reduce-scatter or an all-to-all.
        n_devices: Devices, of all nodes.
        n_nodes: Nodes, 1 or more.

    Raises:
        UnknownNameError: No such collective.
    """
    if kind not in COLLECTIVE_KINDS:
        raise UnknownNameError("collective", kind, COLLECTIVE_KINDS)
    n = np.maximum(n_devices, 1.0)
    nodes = np.maximum(n_nodes, 1.0)
    name = "all_reduce" if kind == "custom_all_reduce" else kind
    latency = constants.start + _latency_s(name, n, nodes, links, constants)
    payload = _payload_s(name, np.asarray(message_bytes, np.float64), n, nodes, links, constants)
    factor = slowness(links, constants.latency_factor)
    time = factor * latency + payload + 2 * np.sqrt(factor * constants.fill * payload)
    if kind == "custom_all_reduce":
        is_apart = is_of_kind(links, "pcie") & ((n > 2) | np.isin(links.kind, HOSTED))
        custom_s = _custom_all_reduce_s(message_bytes, n, links, constants)
        time = np.where((nodes > 1) | is_apart, time, custom_s)
    return np.where(n > 1, time, 0.0)


def _latency_s(
    collective: CollectiveKind,
    n: Floats,
    nodes: Floats,
    links: LinkRates,
    constants: CollectiveConstants,
) -> FloatArray:
    """Steps that wait for each other: a ring within the node, a tree between nodes."""
    near = n / nodes
    passes = 2.0 if collective == "all_reduce" else 1.0
    step = np.where(is_of_kind(links, "pcie"), constants.peer_step, constants.step)
    step = np.where(np.isin(links.kind, HOSTED), _HOSTED_STEP_S, step)
    if collective == "send":
        return np.where(nodes > 1, constants.network_step, step)
    steps = passes * (near - 1)
    if collective == "all_to_all":
        steps = constants.exchange_steps * np.log2(near)
    return step * steps + constants.network_step * passes * np.log2(nodes)


def _payload_s(
    collective: CollectiveKind,
    message_bytes: FloatArray,
    n: Floats,
    nodes: Floats,
    links: LinkRates,
    constants: CollectiveConstants,
) -> FloatArray:
    """Bytes over the busier of the links within the nodes and those between them."""
    near = n / nodes
    inner_rate = links.bandwidth_bytes_per_s * np.where(
        is_of_kind(links, "pcie"), constants.peer, constants.link
    )
    bridge = np.where(is_of_kind(links, "pcie-bridge") & (near > 2), _BRIDGE_BYTES_PER_S, np.inf)
    path = np.where(np.isin(links.kind, HOSTED), _HOST_BYTES_PER_S, bridge)
    inner_rate = np.minimum(inner_rate, path)
    crowding = np.where(is_of_kind(links, "pcie-shared"), (2 / np.maximum(near, 2.0)) ** 2, 1.0)
    pairs = np.maximum(near - 1, 1.0) / np.maximum(links.n_linked - 1.0, 1.0)
    spread = np.where(is_of_kind(links, "mesh"), np.minimum(pairs, 1.0), 1.0)
    inner_rate = inner_rate * crowding * spread
    outer_rate = constants.network * links.network_bytes_per_s
    inner, outer = wire_bytes(collective, message_bytes, n, nodes)
    if collective in ("all_gather", "reduce_scatter", "all_to_all"):
        inner = inner + constants.own_copy * message_bytes / n
    crossing = np.where(nodes > 1, outer / outer_rate, 0.0)
    return np.maximum(np.where(inner > 0, inner / inner_rate, 0.0), crossing)


def _custom_all_reduce_s(
    message_bytes: Floats, n: Floats, links: LinkRates, constants: CollectiveConstants
) -> FloatArray:
    """One shot reads every other buffer; two shots read less but wait once more.

    On PCIe a flag and the read that follows it are two steps.
    """
    card = is_of_kind(links, "pcie")
    wait = np.where(card, 2 * constants.peer_step, constants.custom_peer) * (n - 1)
    rate = constants.custom_link * links.bandwidth_bytes_per_s
    factor = slowness(links, constants.latency_factor)
    one_shot = (n - 1) * message_bytes / rate
    two_shots = factor * constants.second_shot * wait + 2 * (n - 1) / n * message_bytes / rate
    return factor * (constants.custom_start + wait) + np.minimum(one_shot, two_shots)
