"""Requests that flow through pools: rates, latencies and energy of systems.

After DistServe, Splitwise and MemExplorer section 5.3. A request passes the stages one after the
other; each is served by a pool of equal machines that share the requests evenly, and a link takes
its KV cache from one pool to the next.

Limiting assumptions: requests are all alike and there are always enough of them; queues cost
nothing, as the slowest pool or link sets the rate of all. A link has a port at every machine, so
pairs of machines send side by side. A prefill sends the cache of a layer as soon as it is computed;
between two decode stages it is sent at once, and nothing hides it. A cache is sent in the format
of the pool that made it; a change of format happens where it arrives, beside the machines' work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from codesign.columns import FloatArray
from codesign.evaluators.system.roles import StageRequest


@dataclass(frozen=True)
class PoolFlow:
    """The machines of one stage; every array is (n,).

    Attributes:
        name: Of the pool.
        stage: What is asked of it.
        machines: How many there are.
        metrics: Of one machine, by name.
    """

    name: str
    stage: StageRequest
    machines: FloatArray
    metrics: Mapping[str, FloatArray]

    @property
    def step_s(self) -> FloatArray:
        """What a request waits for: the prefill, or one decode step."""
        is_prefill = self.stage.phase == "prefill"
        return self.metrics["time_to_first_token_s" if is_prefill else "time_per_output_token_s"]

    @property
    def stage_s(self) -> FloatArray:
        """Time of a request in the pool."""
        is_prefill = self.stage.phase == "prefill"
        return self.step_s if is_prefill else self.step_s * float(self.stage.generated_tokens)

    @property
    def tokens_per_s(self) -> FloatArray:
        """Tokens of the stage per second, all machines busy."""
        return self.machines * self.metrics["throughput_tokens_per_s"]

    @property
    def requests_per_s(self) -> FloatArray:
        """Requests per second, all machines busy."""
        return self.tokens_per_s / float(self.stage.tokens)

    def joules_per_request(self, system_requests_per_s: FloatArray) -> FloatArray:
        """Energy per request of machines that wait in the time that the system leaves them."""
        dynamic = self.metrics["dynamic_joules_per_token"] * float(self.stage.tokens)
        return dynamic + self.machines * self.metrics["idle_watts"] / system_requests_per_s


@dataclass(frozen=True)
class LinkFlow:
    """A link from one pool to the next; every array is (n,).

    Attributes:
        name: Of the link.
        sender: The pool that sends.
        receiver: The pool that receives.
        n_layers: Layers of the model, each of which has a part of the cache.
        bandwidth_bytes_per_s: What one machine sends, one way.
        latency_s: Time of a message that carries nothing.
        energy_joules_per_byte: Energy of what is sent.
    """

    name: str
    sender: PoolFlow
    receiver: PoolFlow
    n_layers: int
    bandwidth_bytes_per_s: FloatArray
    latency_s: FloatArray
    energy_joules_per_byte: FloatArray

    @property
    def request_bytes(self) -> FloatArray:
        """Bytes of one request."""
        return self.sender.metrics["handover_bytes"]

    @property
    def transfer_s(self) -> FloatArray:
        """Time of one request's cache alone on its link, latency apart."""
        return self.request_bytes / self.bandwidth_bytes_per_s

    @property
    def exposed_s(self) -> FloatArray:
        """Time from the end of the sender's work to the arrival of all that it made.

        Layer by layer, the last part leaves when the prefill ends or when the others have left:
        the larger of one layer's part and the transfer without what the prefill hides.
        """
        if self.sender.stage.phase == "decode":
            return self.transfer_s + self.latency_s
        layers = float(self.n_layers)
        hidden_s = self.sender.stage_s * ((layers - 1.0) / layers)
        return np.maximum(self.transfer_s / layers, self.transfer_s - hidden_s) + self.latency_s

    @property
    def requests_per_s(self) -> FloatArray:
        """Caches per second, every machine of the smaller pool sending or receiving."""
        pairs = np.minimum(self.sender.machines, self.receiver.machines)
        with np.errstate(divide="ignore"):
            return pairs / self.transfer_s

    @property
    def joules_per_request(self) -> FloatArray:
        """Energy of one request's cache on the link."""
        return self.request_bytes * self.energy_joules_per_byte


class SystemFlow:
    """Metrics of ``n`` systems, each computed when it is first asked for; all (n,).

    Attributes are named as in ``codesign.metrics``, where each is defined.

    Args:
        pools: In the order in which a request passes them.
        links: Between them, in the same order.
        first_token_from_decode: Whether the decode pool gives the first token.
    """

    def __init__(
        self,
        pools: Sequence[PoolFlow],
        links: Sequence[LinkFlow],
        first_token_from_decode: bool = False,
    ) -> None:
        self.pools = pools
        self.links = links
        self._first_token_from_decode = first_token_from_decode
        self._alone = pools[0] if len(pools) == 1 else None

    @property
    def parts(self) -> list[PoolFlow | LinkFlow]:
        """Pools and links."""
        return [*self.pools, *self.links]

    @property
    def _prefill(self) -> PoolFlow | None:
        return self.pools[0] if self.pools[0].stage.phase == "prefill" else None

    @property
    def _decodes(self) -> list[PoolFlow]:
        return [pool for pool in self.pools if pool.stage.phase == "decode"]

    @property
    def tokens(self) -> float:
        """Tokens of a request that the system's throughput counts: those that it generates."""
        decodes = self._decodes
        counted = decodes if decodes else self.pools
        return float(sum(pool.stage.tokens for pool in counted))

    @cached_property
    def requests_per_s(self) -> FloatArray:
        rates = [item.requests_per_s for item in self.parts]
        return np.asarray(np.minimum.reduce(rates))

    @property
    def throughput_tokens_per_s(self) -> FloatArray:
        if self._alone is not None:  # to the last bit as of its machines
            return self._alone.tokens_per_s
        return self.requests_per_s * self.tokens

    @property
    def time_to_first_token_s(self) -> FloatArray:
        assert self._prefill is not None  # no metric of systems without a prefill
        if self._first_token_from_decode and self._decodes:
            return self._prefill.step_s + self.links[0].exposed_s + self._decodes[0].step_s
        return self._prefill.step_s

    @property
    def time_per_output_token_s(self) -> FloatArray:
        decodes = self._decodes
        if len(decodes) == 1:
            return decodes[0].step_s
        return sum((pool.stage_s for pool in decodes), np.zeros(())) / self.tokens

    @property
    def time_to_second_token_s(self) -> FloatArray:
        assert self._prefill is not None  # no metric of systems without a prefill
        return self._prefill.step_s + self.links[0].exposed_s + self._decodes[0].step_s

    @cached_property
    def request_latency_s(self) -> FloatArray:
        waits = [pool.stage_s for pool in self.pools] + [link.exposed_s for link in self.links]
        return sum(waits[1:], waits[0])

    @cached_property
    def energy_joules_per_request(self) -> FloatArray:
        if self._alone is not None:
            return self._alone.metrics["energy_joules_per_token"] * self.tokens
        parts = [pool.joules_per_request(self.requests_per_s) for pool in self.pools]
        parts += [link.joules_per_request for link in self.links]
        return sum(parts[1:], parts[0])

    @property
    def energy_joules_per_token(self) -> FloatArray:
        if self._alone is not None:
            return self._alone.metrics["energy_joules_per_token"]
        return self.energy_joules_per_request / self.tokens

    @property
    def tokens_per_joule(self) -> FloatArray:
        if self._alone is not None:
            return self._alone.metrics["tokens_per_joule"]
        return 1.0 / self.energy_joules_per_token

    @property
    def average_power_watts(self) -> FloatArray:
        if self._alone is not None:
            return self._alone.machines * self._alone.metrics["average_power_watts"]
        return self.energy_joules_per_token * self.throughput_tokens_per_s

    @property
    def tdp_watts(self) -> FloatArray:
        return self._of_machines("tdp_watts")

    @property
    def tokens_per_joule_tdp(self) -> FloatArray:
        return self.throughput_tokens_per_s / self.tdp_watts

    @property
    def n_machines(self) -> FloatArray:
        return sum((pool.machines for pool in self.pools[1:]), self.pools[0].machines)

    @property
    def n_devices(self) -> FloatArray:
        return self._of_machines("n_devices")

    def _of_machines(self, name: str) -> FloatArray:
        """The sum over all machines."""
        parts = [pool.machines * pool.metrics[name] for pool in self.pools]
        return sum(parts[1:], parts[0])

    @property
    def handover_bytes(self) -> FloatArray:
        return self._of_links("request_bytes")

    @property
    def handover_s(self) -> FloatArray:
        return self._of_links("transfer_s") + self._of_links("latency_s")

    @property
    def handover_exposed_s(self) -> FloatArray:
        return self._of_links("exposed_s")

    def _of_links(self, name: str) -> FloatArray:
        nothing = np.zeros_like(self.pools[0].machines)
        return sum((getattr(link, name) for link in self.links), nothing)

    def utilization(self, name: str) -> FloatArray:
        """Share of the time in which a pool or link of that name is busy."""
        (item,) = [item for item in self.parts if item.name == name]
        return self.requests_per_s / item.requests_per_s
