"""Time of NCCL's collectives by protocol, as Epoch's inference model has it.

NCCL moves a message under one of three protocols, which trade latency for bandwidth; its tuner
(``src/graph/tuning.cc``) states their latencies. For ``R`` ranks on ``n`` nodes a collective
takes ``base + m * ((R / n - 1) * within + between * log2(n))``, where ``m`` is 2 for an
all-reduce, which passes the tree up and down, and 1 for an all-to-all or a message between two
ranks [Epoch2025]_ Eqs. 23 and 40. Its bytes take the longer of their time within the nodes and
between them (Eqs. 26-28 and 41-42; the equations add the two, the tables follow from the longer),
and half of an all-reduce's where ``m`` is 1. The cheapest protocol is taken.

Beside :mod:`codesign.models.hardware.collective_times`, which counts steps of a ring or a tree:
these figures hold for a library on one kind of machine, and ranks need not be whole numbers.

.. [Epoch2025] E. Erdil, Inference economics of language models, Epoch AI, 2025.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from codesign.base.columns import FloatArray, Floats
from codesign.base.records import frozen


class Protocol(NamedTuple):
    """One way in which NCCL moves a message.

    Attributes:
        within_s: Latency of every further rank of a node, one way.
        between_s: Latency of every doubling of the nodes, one way.
        bandwidth_share: Part of the links' bandwidth that is payload.
    """

    name: str
    base_s: float
    within_s: float
    between_s: float
    bandwidth_share: float


PROTOCOLS = (
    Protocol("LL", 6.8e-6, 0.6e-6, 5e-6, 0.5),
    Protocol("LL128", 14e-6, 1.25e-6, 8.5e-6, 0.95),
    Protocol("Simple", 0.0, 28e-6, 28e-6, 1.0),
)
"""Latencies of tree all-reduces on NVLink and InfiniBand: Epoch Eq. 23 prints both ways of LL
(1.2 and 10 us), NCCL's tuner has the others. LL carries 4 bytes of flag with every 4 of payload
(share 0.5), LL128 8 with every 120 (0.95, rounded up as NCCL does)."""

ALL_REDUCE, ONE_WAY = 2.0, 1.0
"""Passes over the tree: of an all-reduce, and of an all-to-all or a message."""


@frozen
class Fabric:
    """Links that join the devices; fields broadcast with the designs.

    Attributes:
        intra_bytes_per_s: Bandwidth from one device to the others of its node.
        inter_bytes_per_s: Bandwidth from one device to other nodes.
        node_size: Devices of a node.
    """

    intra_bytes_per_s: Floats
    inter_bytes_per_s: Floats
    node_size: Floats

    def nodes(self, n_devices: FloatArray) -> FloatArray:
        """Nodes that so many devices fill."""
        # Powers and quotients of whole numbers miss them by rounding; a node is not full early.
        return np.ceil(np.maximum(n_devices, 1.0) / self.node_size - 1e-9)


@frozen
class Collective:
    """A collective of given groups: latency and time per byte under every protocol.

    Attributes:
        latency_s: Latency of the collective, one array per protocol.
        seconds_per_byte: Seconds per byte of the message that a rank holds, one array per protocol.
    """

    latency_s: Sequence[FloatArray]
    seconds_per_byte: Sequence[FloatArray]

    def time_s(self, message_bytes: Floats) -> FloatArray:
        """The cheapest protocol's time for messages; 0 for groups of one rank."""
        best: FloatArray | None = None
        for latency, per_byte in zip(self.latency_s, self.seconds_per_byte, strict=True):
            time = per_byte * message_bytes
            time += latency
            best = time if best is None else np.minimum(best, time)
        assert best is not None  # there are protocols
        return best


def collective(
    ranks: FloatArray, nodes: FloatArray, fabric: Fabric, passes: float = ALL_REDUCE
) -> Collective:
    """Cost of a collective.

    Args:
        ranks: Ranks of a group; need not be a whole number.
        nodes: Nodes on which the ranks are; need not be a whole number.
        passes: ``ALL_REDUCE`` or ``ONE_WAY``.
    """
    further = np.maximum(ranks / nodes - 1.0, 0.0)
    within = nodes * further / (ranks * fabric.intra_bytes_per_s)
    between = (nodes - 1.0) / (ranks * fabric.inter_bytes_per_s)
    per_byte = np.maximum(within, between) * (passes / ALL_REDUCE)
    doublings = np.log2(nodes)
    # One rank alone has no further rank, no second node and nothing to move; only the base is left.
    several = np.asarray(ranks > 1.0, np.float64)
    latency = []
    seconds = []
    for protocol in PROTOCOLS:
        steps = further * (passes * protocol.within_s)
        steps = steps + doublings * (passes * protocol.between_s)
        latency.append(steps + several * protocol.base_s)
        seconds.append(per_byte * (1.0 / protocol.bandwidth_share))
    return Collective(latency, seconds)
