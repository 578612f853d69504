"""Time of collective communication between devices: steps times latency, bytes over bandwidth.

The models are of the latency-bandwidth (Hockney) kind: a step costs the link's latency, and
bytes take their time on the link. GenZ [GenZ]_ §IV-D gives the ring all-reduce (Eq. 3) and the
message from node to node (Eq. 4), both after a fixed start, here ``warm_up_s``; the tree is the
double binary tree of [Sanders2009]_; the others follow from the same ring. All arguments broadcast,
and one rank alone costs nothing.

A group that spans nodes is hierarchical: an all-reduce is a reduce-scatter within the node, an
all-reduce of the shards between nodes, and an all-gather within the node [Thakur2005]_.

.. [GenZ] A. Bambhaniya et al., Demystifying Platform Requirements for Diverse LLM Inference
   Use Cases, 2024.
.. [Sanders2009] P. Sanders, J. Speck, J. L. Träff, Two-tree algorithms for full bandwidth
   broadcast, reduction and scan, Parallel Computing 35, 2009.
.. [Thakur2005] R. Thakur, R. Rabenseifner, W. Gropp, Optimization of collective communication
   operations in MPICH, IJHPCA 19, 2005.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from codesign.base.columns import ArrayPair, FloatArray, Floats
from codesign.base.records import frozen

Algorithm = Literal["ring", "tree"]
CollectiveKind = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send"]
Numbers = float | NDArray[Any]


@frozen
class Link:
    """Link of one device, in one direction.

    Attributes:
        bandwidth_bytes_per_s: Rate of what passes.
        latency_s: Time of a step that carries nothing.
    """

    bandwidth_bytes_per_s: Floats
    latency_s: Floats

    def share_rates(self, share: float) -> Link:
        """The link with a share of its bandwidth."""
        return Link(self.bandwidth_bytes_per_s * share, self.latency_s)

    def steps_s(self, n_steps: Numbers, step_bytes: Numbers) -> FloatArray:
        """``n_steps`` steps, one after the other, of ``step_bytes`` each."""
        step = self.latency_s + np.asarray(step_bytes) / self.bandwidth_bytes_per_s
        return np.asarray(n_steps * step, np.float64)


def _started(n_ranks: Numbers, time_s: FloatArray, warm_up_s: Numbers) -> FloatArray:
    """The time with its start; nothing for one rank alone."""
    return np.where(n_ranks > 1, warm_up_s + time_s, 0.0)


def point_to_point_s(message_bytes: Numbers, link: Link, warm_up_s: Numbers) -> FloatArray:
    """A message from one device to another (GenZ Eq. 4)."""
    return warm_up_s + link.steps_s(1.0, message_bytes)


def all_reduce_s(
    message_bytes: Numbers,
    n_inner: Numbers,
    n_outer: Numbers,
    inner: Link,
    outer: Link,
    warm_up_s: Numbers,
    algorithm: Algorithm = "ring",
) -> FloatArray:
    """All-reduce of a group that spans ``n_outer`` nodes with ``n_inner`` ranks each.

    Reduce-scatter within the node, all-reduce of the shards between nodes, all-gather within
    the node. With one node it is a ring, 2 (N - 1) steps of a shard (GenZ Eq. 3), or a tree over
    the inner links.

    Args:
        message_bytes: What every rank holds.
        n_inner: Ranks of a node; need not be whole where a group splits unevenly.
        n_outer: Nodes.
        inner: Links within a node.
        outer: Links between nodes, of one rank.
        warm_up_s: Fixed start.
        algorithm: Between nodes, and within a node where there is only one.

    Examples:
        >>> link = Link(1e9, 1e-6)
        >>> round(float(all_reduce_s(4e6, 4, 1, link, link, 0.0)), 9)  # 6 x 1 MB
        0.006006
    """
    reduce = _REDUCTIONS[algorithm]
    shard = message_bytes / n_inner
    spanning = 2.0 * _shards(message_bytes, n_inner, inner) + reduce(shard, n_outer, outer)
    time = np.where(n_outer > 1, spanning, reduce(message_bytes, n_inner, inner))
    return _started(n_inner * n_outer, time, warm_up_s)


def all_gather_s(
    gathered_bytes: Numbers,
    n_inner: Numbers,
    n_outer: Numbers,
    inner: Link,
    outer: Link,
    warm_up_s: Numbers,
) -> FloatArray:
    """All-gather, or reduce-scatter, over nodes first, then within the node; see the all-reduce.

    A ring of N ranks takes N - 1 steps of a shard of ``gathered_bytes``, the whole message: after
    an all-gather, before a reduce-scatter.
    """
    between = _shards(gathered_bytes / n_inner, n_outer, outer)
    time = _if_spanning(n_outer, between) + _shards(gathered_bytes, n_inner, inner)
    return _started(n_inner * n_outer, time, warm_up_s)


def all_to_all_s(
    buffer_bytes: Numbers,
    n_inner: Numbers,
    n_outer: Numbers,
    inner: Link,
    outer: Link,
    warm_up_s: Numbers,
) -> FloatArray:
    """All-to-all by pairs: partners of the own node over the inner links, then the others.

    The two kinds of link are used one after the other, which bounds the time from above.
    """
    n_ranks = n_inner * n_outer
    buffer_share = buffer_bytes / n_ranks
    between = outer.steps_s(n_ranks - n_inner, buffer_share)
    time = inner.steps_s(n_inner - 1.0, buffer_share) + _if_spanning(n_outer, between)
    return _started(n_ranks, time, warm_up_s)


def wire_bytes(
    kind: CollectiveKind, message_bytes: Numbers, n_ranks: Numbers, n_nodes: Numbers
) -> ArrayPair:
    """Bytes that a device sends within its node, and over its network port, under the best plan.

    A ring passes every node once, over as many ports as the node has devices: more devices in a
    node bring more ports, so that their collectives between nodes can take less time.

    Args:
        message_bytes: As nccl-tests counts: the buffer of an all-reduce, the whole output of an
            all-gather, the whole input of one device for a reduce-scatter or an all-to-all.
        n_ranks: Devices, of all nodes.
    """
    near = np.asarray(n_ranks / n_nodes)
    if kind == "send":
        apart = n_nodes > 1
        return np.where(apart, 0.0, message_bytes), np.where(apart, message_bytes, 0.0)
    if kind == "all_to_all":
        return message_bytes * (near - 1) / n_ranks, message_bytes * (n_ranks - near) / n_ranks
    passes = 1.0 if kind in ("all_gather", "reduce_scatter") else 2.0
    ring = passes * message_bytes * (n_ranks - 1) / n_ranks
    return np.where(near > 1, ring, 0.0), ring / near


def split_over_nodes(n_ranks: Numbers, stride: Numbers, node_size: Numbers) -> ArrayPair:
    """Layout of a group of ranks: ranks within a node, and nodes.

    Devices are numbered node after node; the group's ranks are ``stride`` devices apart.
    Limiting assumption: an uneven split counts as even (12 ranks on nodes of 8 are 6 and 6).

    Examples:
        >>> [part.tolist() for part in split_over_nodes(16, 1, 8)]
        [8.0, 2.0]
        >>> [part.tolist() for part in split_over_nodes(4, 8, 8)]  # one rank a node
        [1.0, 4.0]
    """
    n_nodes = np.ceil(n_ranks / np.clip(np.floor(node_size / stride), 1, n_ranks))
    return np.asarray(n_ranks / n_nodes), np.asarray(n_nodes, np.float64)


def _if_spanning(n_nodes: Numbers, time_s: FloatArray) -> FloatArray:
    """The time between nodes; nothing within one, whose network may not be stated (NaN)."""
    return np.where(n_nodes > 1, time_s, 0.0)


def _tree_reduction(message_bytes: Numbers, n_ranks: Numbers, link: Link) -> FloatArray:
    """All-reduce up and down a double binary tree, pipelined, without its start.

    The depth counts in the latency only: both trees together keep a rank's link busy in both
    directions, so that the bytes pass once up and once down [Sanders2009]_.
    """
    depth = np.ceil(np.log2(np.maximum(n_ranks, 1.0)))
    passed = 2.0 * message_bytes / link.bandwidth_bytes_per_s
    return np.where(depth > 0, 2.0 * depth * link.latency_s + passed, 0.0)


def _shards(message_bytes: Numbers, n_ranks: Numbers, link: Link) -> FloatArray:
    """N - 1 steps, each of one of ``n_ranks`` equal shards."""
    return link.steps_s(n_ranks - 1.0, message_bytes / n_ranks)


_REDUCTIONS: dict[str, Callable[[Numbers, Numbers, Link], FloatArray]] = {
    "ring": lambda message_bytes, n_ranks, link: 2.0 * _shards(message_bytes, n_ranks, link),
    "tree": _tree_reduction,
}
