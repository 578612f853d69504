"""Requests that flow through pools: rates, latencies and energy of systems.

After DistServe, Splitwise and MemExplorer section 5.3. A request passes the stages one after the
other; each is served by a pool of equal machines that share the requests evenly, and a link takes
its KV cache from one pool to the next.

Machines with the attention and machines with the rest of every layer take turns: the activations of
each layer cross an exchange link twice. As many groups of requests are on their way as keep the
slower side busy, and as their KV caches fit (Little's law).

Limiting assumptions: requests are all alike and there are always enough of them; queues cost
nothing, as the slowest pool or link sets the rate of all. A link has a port at every machine, so
pairs of machines send side by side. A prefill sends the cache of a layer as soon as it is computed;
between two decode stages it is sent at once, and nothing hides it. A cache is sent in the format
of the pool that made it; a change of format happens where it arrives, beside the machines' work.
Accuracy in several formats lies between those of the model in each of them; the least counts.
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
    """The machines of a pool; every array is (n,).

    Attributes:
        name: Of the pool.
        stage: The part of every request's way that it serves, or helps to serve.
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
class LinkRates:
    """What a link can do; every array is (n,).

    Attributes:
        bandwidth_bytes_per_s: What one machine sends, one way.
        latency_s: Time of a message that carries nothing.
        energy_joules_per_byte: Energy of what is sent.
    """

    bandwidth_bytes_per_s: FloatArray
    latency_s: FloatArray
    energy_joules_per_byte: FloatArray

    def requests_per_s(
        self, sender: PoolFlow, receiver: PoolFlow, request_bytes: FloatArray
    ) -> FloatArray:
        """Requests per second, every machine of the smaller pool sending or receiving."""
        pairs = np.minimum(sender.machines, receiver.machines)
        with np.errstate(divide="ignore"):
            return pairs / (request_bytes / self.bandwidth_bytes_per_s)


@dataclass(frozen=True)
class ExchangeFlow:
    """The link between the two pools that share the layers of a stage.

    Attributes:
        name: Of the link.
        attention: Pool with the attention.
        ffn: Pool with the rest of the layers.
        n_layers: Layers of the model.
        rates: Of the link; both directions at once.
    """

    name: str
    attention: PoolFlow
    ffn: PoolFlow
    n_layers: int
    rates: LinkRates

    @property
    def step_s(self) -> FloatArray:
        """Messages of all layers in a pass, there and back."""
        ways = (self.attention, self.ffn)
        sent = [pool.metrics["exchange_bytes"] / self.rates.bandwidth_bytes_per_s for pool in ways]
        return sent[0] + sent[1] + 2.0 * self.n_layers * self.rates.latency_s

    @property
    def requests_per_s(self) -> FloatArray:
        """Requests per second in the direction that sends more."""
        there = self._of_request(self.attention)
        back = self._of_request(self.ffn)
        return self.rates.requests_per_s(self.attention, self.ffn, np.maximum(there, back))

    def _of_request(self, pool: PoolFlow) -> FloatArray:
        return pool.metrics["exchange_bytes_per_token"] * float(pool.stage.tokens)

    @property
    def joules_per_request(self) -> FloatArray:
        """Energy of one request's activations, there and back."""
        sent = self._of_request(self.attention) + self._of_request(self.ffn)
        return sent * self.rates.energy_joules_per_byte


@dataclass(frozen=True)
class StageFlow:
    """A part of every request's way: one pool, or one with the attention and one with the rest.

    Attributes:
        pools: That with the attention first.
        exchange: What joins the two.
    """

    pools: Sequence[PoolFlow]
    exchange: ExchangeFlow | None = None

    @property
    def request(self) -> StageRequest:
        """What is asked of the stage."""
        return self.pools[0].stage

    @property
    def first(self) -> PoolFlow:
        """The pool that holds the KV cache."""
        return self.pools[0]

    @property
    def step_s(self) -> FloatArray:
        """What a request waits for: the prefill, or one decode step."""
        if self.exchange is None:
            return self.first.step_s
        return self.pools[0].step_s + self.pools[1].step_s + self.exchange.step_s

    @property
    def stage_s(self) -> FloatArray:
        """Time of a request in the stage."""
        if self.request.phase == "prefill":
            return self.step_s
        return self.step_s * float(self.request.generated_tokens)

    @property
    def requests_per_s(self) -> FloatArray:
        """Requests per second that the KV caches leave room for; the pools have rates of their own.

        Little's law: requests in the stage are their rate times their time in it.
        """
        held = self.first.machines * self.first.metrics["held_requests"]
        return held / self.stage_s


@dataclass(frozen=True)
class HandOverFlow:
    """A link from one stage to the next; every array is (n,).

    Attributes:
        name: Of the link.
        sender: The stage that sends.
        receiver: The stage that receives.
        n_layers: Layers of the model, each of which has a part of the cache.
        rates: Of the link.
    """

    name: str
    sender: StageFlow
    receiver: StageFlow
    n_layers: int
    rates: LinkRates

    @property
    def request_bytes(self) -> FloatArray:
        """Bytes of one request."""
        return self.sender.first.metrics["handover_bytes"]

    @property
    def transfer_s(self) -> FloatArray:
        """Time of one request's cache alone on its link, latency apart."""
        return self.request_bytes / self.rates.bandwidth_bytes_per_s

    @property
    def latency_s(self) -> FloatArray:
        """Time of a message that carries nothing."""
        return self.rates.latency_s

    @property
    def exposed_s(self) -> FloatArray:
        """Time from the end of the sender's work to the arrival of all that it made.

        Layer by layer, the last part leaves when the prefill ends or when the others have left:
        the larger of one layer's part and the transfer without what the prefill hides.
        """
        if self.sender.request.phase == "decode":
            return self.transfer_s + self.latency_s
        layers = float(self.n_layers)
        hidden_s = self.sender.stage_s * ((layers - 1.0) / layers)
        return np.maximum(self.transfer_s / layers, self.transfer_s - hidden_s) + self.latency_s

    @property
    def requests_per_s(self) -> FloatArray:
        """Caches per second."""
        return self.rates.requests_per_s(self.sender.first, self.receiver.first, self.request_bytes)

    @property
    def joules_per_request(self) -> FloatArray:
        """Energy of one request's cache on the link."""
        return self.request_bytes * self.rates.energy_joules_per_byte


class SystemFlow:
    """Metrics of ``n`` systems, each computed when it is first asked for; all (n,).

    Attributes are named as in ``codesign.metrics``, where each is defined.

    Args:
        stages: In the order in which a request passes them.
        links: Between them, in the same order.
        first_token_from_decode: Whether the decode stage gives the first token.
    """

    def __init__(
        self,
        stages: Sequence[StageFlow],
        links: Sequence[HandOverFlow],
        first_token_from_decode: bool = False,
    ) -> None:
        self.stages = stages
        self.links = links
        self.pools = [pool for stage in stages for pool in stage.pools]
        self.exchanges = [stage.exchange for stage in stages if stage.exchange is not None]
        self._first_token_from_decode = first_token_from_decode
        self._alone = self.pools[0] if len(self.pools) == 1 else None

    @property
    def parts(self) -> list[PoolFlow | HandOverFlow | ExchangeFlow]:
        """Pools and links."""
        return [*self.pools, *self.links, *self.exchanges]

    @property
    def _prefill(self) -> StageFlow | None:
        return self.stages[0] if self.stages[0].request.phase == "prefill" else None

    @property
    def _decodes(self) -> list[StageFlow]:
        return [stage for stage in self.stages if stage.request.phase == "decode"]

    @property
    def tokens(self) -> float:
        """Tokens of a request that the system's throughput counts: those that it generates."""
        counted = self._decodes or self.stages
        return float(sum(stage.request.tokens for stage in counted))

    @cached_property
    def requests_per_s(self) -> FloatArray:
        rates = [item.requests_per_s for item in self.parts]
        rates += [stage.requests_per_s for stage in self._decodes if stage.exchange is not None]
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
        return sum((stage.stage_s for stage in decodes), np.zeros(())) / self.tokens

    @property
    def time_to_second_token_s(self) -> FloatArray:
        assert self._prefill is not None  # no metric of systems without a prefill
        return self._prefill.step_s + self.links[0].exposed_s + self._decodes[0].step_s

    @cached_property
    def request_latency_s(self) -> FloatArray:
        waits = [stage.stage_s for stage in self.stages] + [link.exposed_s for link in self.links]
        return sum(waits[1:], waits[0])

    @cached_property
    def energy_joules_per_request(self) -> FloatArray:
        if self._alone is not None:
            return self._alone.metrics["energy_joules_per_token"] * self.tokens
        parts = [pool.joules_per_request(self.requests_per_s) for pool in self.pools]
        parts += [link.joules_per_request for link in self.links]
        parts += [link.joules_per_request for link in self.exchanges]
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
    def area_mm2(self) -> FloatArray:
        return self._of_machines("area_mm2")

    @property
    def unit_cost_usd(self) -> FloatArray:
        return self._of_machines("unit_cost_usd")

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
    def accuracy_recovery(self) -> FloatArray:
        return np.asarray(np.minimum.reduce(self._of_pools("accuracy_recovery")))

    @property
    def accuracy_recovery_low(self) -> FloatArray:
        return np.asarray(np.minimum.reduce(self._of_pools("accuracy_recovery_low")))

    @property
    def accuracy_recovery_high(self) -> FloatArray:
        return np.asarray(np.maximum.reduce(self._of_pools("accuracy_recovery_high")))

    def _of_pools(self, name: str) -> list[FloatArray]:
        return [pool.metrics[name] for pool in self.pools]

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
