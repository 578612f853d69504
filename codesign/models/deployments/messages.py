"""Messages between the devices of a replica in a pass, and their time.

A message is a collective of a tensor-parallel group, carries tokens to the groups of their experts
and back, or goes from one stage of a pipeline to the next. Its time is a fixed part (start and
latencies) and its bytes over the link's bandwidth, by the ring algorithms of
:mod:`codesign.models.hardware.collective_times`; so all messages of a pass are two numbers.

Limiting assumption: nothing hides a message, as serving engines add up partial sums before the next
operator starts (GenZ §IV-D).
"""

from __future__ import annotations

from codesign.base.columns import FloatArray
from codesign.base.records import frozen
from codesign.models.deployments.parallelism import Parallelism
from codesign.models.hardware.collective_times import (
    Link,
    all_gather_s,
    all_reduce_s,
    point_to_point_s,
    wire_bytes,
)


@frozen
class LinkTime:
    """Time and traffic of all messages of a pass on given links.

    Attributes:
        fixed_s: Starts and latencies, whatever the batch.
        byte_s: Seconds per byte of an activation element, for each request in the pass.
        sent_elements: Elements that one device sends for each request in the pass.
    """

    fixed_s: float
    byte_s: float
    sent_elements: float

    def seconds(self, requests: FloatArray, activation_bytes: FloatArray) -> FloatArray:
        """Seconds of all messages of a pass.

        Args:
            requests: Requests in the pass.
            activation_bytes: Bytes of an activation element.
        """
        return self.fixed_s + requests * activation_bytes * self.byte_s

    def sent_bytes(self, requests: FloatArray, activation_bytes: FloatArray) -> FloatArray:
        """Bytes that one device sends in a pass; arguments as for :meth:`seconds`."""
        return requests * activation_bytes * self.sent_elements


@frozen
class Messages:
    """Messages of one device in one pass of one stage.

    Attributes:
        all_reduce_elements: (a,) elements of every all-reduce, of one request.
        all_reduce_count: (a,) times that it occurs.
        all_gather_elements: (g,) elements of every all-gather once gathered, of one request; a
            reduce-scatter is one backwards.
        all_gather_count: (g,) times that it occurs.
        exchange_elements: (e,) elements that a device sends to other groups in every dispatch or
            combination of tokens, of one request.
        exchange_count: (e,) times that it occurs.
        sent_elements: Elements that a stage sends to the next one, of one request; 0 without one.
    """

    parallelism: Parallelism
    all_reduce_elements: FloatArray
    all_reduce_count: FloatArray
    all_gather_elements: FloatArray
    all_gather_count: FloatArray
    exchange_elements: FloatArray
    exchange_count: FloatArray
    sent_elements: float

    @property
    def n_messages(self) -> float:
        """Messages of a pass of one stage."""
        sends = 1.0 if self.sent_elements > 0 else 0.0
        counts = (self.all_reduce_count, self.all_gather_count, self.exchange_count)
        return float(sum(count.sum() for count in counts) + sends)

    def link_time(self, link: Link, warm_up_s: float) -> LinkTime:
        """Time and traffic over a link that every device has to all others.

        Args:
            link: From each device.
            warm_up_s: Fixed start of every message.
        """
        fixed_s = self._seconds(link, warm_up_s, 0.0)
        # Linear in the bytes: without start and latency, the slope is the time of one byte.
        byte_s = self._seconds(Link(link.bandwidth_bytes_per_s, 0.0), 0.0, 1.0)
        ranks = self.parallelism.tensor
        reduced = self.all_reduce_elements @ self.all_reduce_count
        gathered = self.all_gather_elements @ self.all_gather_count
        sent = (
            wire_bytes("all_reduce", reduced, ranks, 1.0)[0]
            + wire_bytes("all_gather", gathered, ranks, 1.0)[0]
            + self.exchange_elements @ self.exchange_count
        )
        return LinkTime(fixed_s, byte_s, float(sent) + self.sent_elements)

    def _seconds(self, link: Link, warm_up_s: float, element_bytes: float) -> float:
        """Seconds of all messages of a pass of one request."""
        group = (self.parallelism.tensor, 1.0, link, link, warm_up_s)
        reduced = self.all_reduce_elements
        gathered = self.all_gather_elements
        time = all_reduce_s(reduced * element_bytes, *group) @ self.all_reduce_count
        time += all_gather_s(gathered * element_bytes, *group) @ self.all_gather_count
        # Tokens are written straight to all partners, side by side: one latency.
        exchanged = self.exchange_elements * element_bytes
        time += point_to_point_s(exchanged, link, warm_up_s) @ self.exchange_count
        if self.sent_elements > 0:
            time += point_to_point_s(self.sent_elements * element_bytes, link, warm_up_s)
        return float(time)
