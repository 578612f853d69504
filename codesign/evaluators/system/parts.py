"""Parts of a system as requests flow through them: pools, the stages that they make, links.

A link has ports at every machine, so pairs of machines send side by side. A prefill sends the
cache of a layer as soon as it is computed, of all requests of its batch; between two decode stages
it is sent at once, and nothing hides it. A cache is sent in the format of the pool that made it; a
change of format happens where it arrives, beside the machines' work.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from codesign.base.columns import Arrays, FloatArray
from codesign.base.evaluator import PoolPrices
from codesign.base.records import frozen
from codesign.evaluators.system.hand_over import TIME_METRIC
from codesign.evaluators.system.roles import StageRequest
from codesign.models.deployments.queueing.fleet import exposed_s


@frozen
class PoolFlow:
    """The machines of a pool; every array is (n,).

    Attributes:
        stage: The part of every request's way that it serves, or helps to serve.
        metrics: Of one machine, by name.
        prices: What its machines cost besides what their metrics say.
        ports_usd: Price of the links' ports at one machine.
    """

    name: str
    stage: StageRequest
    machines: FloatArray
    metrics: Arrays
    prices: PoolPrices
    ports_usd: FloatArray

    @property
    def step_s(self) -> FloatArray:
        """Wait of a request in the pool: the prefill, or one decode step."""
        return self.metrics[TIME_METRIC[self.stage.phase]] * self.stage.prompt_work

    @property
    def tokens_per_s(self) -> FloatArray:
        """Tokens of the stage per second, all machines busy."""
        return self.machines * self.metrics["throughput_tokens_per_s"]

    @property
    def requests_per_s(self) -> FloatArray:
        """Requests per second, all machines busy."""
        return self.tokens_per_s / float(self.stage.tokens)

    def lifetime_years(self, system_requests_per_s: FloatArray) -> FloatArray:
        """Time until the first memory is worn out, at the rate that the system leaves them."""
        return self.metrics["lifetime_years"] / (system_requests_per_s / self.requests_per_s)

    def cost_per_request(self, unit: str, system_requests_per_s: FloatArray) -> FloatArray:
        """(n,) dollars, or CO2 equivalents, of machines, of their ports and of running them.

        Machines are written off by their useful life or their wear, whichever is more; ports cost
        dollars alone.

        Args:
            unit: ``usd`` or ``kgco2e``, as in the names of metrics.
        """
        hours = self.machines / (3600.0 * system_requests_per_s)
        standing = self.metrics[f"standing_{unit}_per_hour"] * hours
        wear = self.metrics[f"wear_{unit}_per_token"] * float(self.stage.tokens)
        machines = np.maximum(standing, wear)
        if unit == "usd":
            machines = machines + self.ports_usd * self.prices.usd_per_hour_of_capital * hours
        joules = self.joules_per_request(system_requests_per_s)
        return machines + joules * self.prices.joule_price(unit)

    def joules_per_request(self, system_requests_per_s: FloatArray) -> FloatArray:
        """Energy per request of machines that wait in the time that the system leaves them."""
        dynamic = self.metrics["dynamic_joules_per_token"] * float(self.stage.tokens)
        return dynamic + self.machines * self.metrics["idle_watts"] / system_requests_per_s


@frozen
class PoolLinkRates:
    """Rates of a link; every array is (n,).

    Attributes:
        bandwidth_bytes_per_s: What one machine sends by all of its ports, one way.
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
        with np.errstate(divide="ignore"):
            return np.minimum(sender.machines, receiver.machines) / (
                request_bytes / self.bandwidth_bytes_per_s
            )


@frozen
class ExchangeFlow:
    """The link between the two pools that share the layers of a stage, or draft and check tokens.

    Limiting assumption: drafted tokens are a few bytes, which take the link's latency alone.

    Attributes:
        attention: Pool with the KV cache.
        ffn: Pool with the rest of the layers, or with the draft model.
        round_trips: Messages there and back in a prefill, or for a generated token.
        rates: Of the link; both directions at once.
    """

    name: str
    attention: PoolFlow
    ffn: PoolFlow
    round_trips: float
    rates: PoolLinkRates

    @property
    def sending_pool(self) -> PoolFlow:
        """The pool whose machines pay for the energy."""
        return self.attention

    @property
    def step_s(self) -> FloatArray:
        """Messages in a pass, there and back."""
        sent_s = self.pass_bytes / self.rates.bandwidth_bytes_per_s
        return sent_s + 2.0 * self.round_trips * self.rates.latency_s

    @property
    def pass_bytes(self) -> FloatArray:
        """Bytes of a pass, there and back."""
        there, back = self._sent("exchange_bytes")
        return there + back

    @property
    def requests_per_s(self) -> FloatArray:
        """Requests per second in the direction that sends more."""
        most = np.maximum(*self._sent("exchange_bytes_per_token")) * self.ffn.stage.tokens
        return self.rates.requests_per_s(self.attention, self.ffn, most)

    @property
    def joules_per_request(self) -> FloatArray:
        """Energy of one request's activations, there and back."""
        there, back = self._sent("exchange_bytes_per_token")
        return (there + back) * self.ffn.stage.tokens * self.rates.energy_joules_per_byte

    def _sent(self, metric: str) -> list[FloatArray]:
        pools = (self.attention, self.ffn)
        if self.ffn.stage.name == "draft":
            return [np.zeros_like(pool.machines) for pool in pools]
        return [pool.metrics[metric] for pool in pools]


@frozen
class StageFlow:
    """A part of every request's way: one pool, or two that share its layers or draft and check.

    Attributes:
        pools: The pools; the one with the KV cache comes first.
        exchange: Link between two pools; None for a single pool.
    """

    pools: Sequence[PoolFlow]
    exchange: ExchangeFlow | None = None

    @property
    def request(self) -> StageRequest:
        """Request that the stage serves."""
        return self.pools[0].stage

    @property
    def first(self) -> PoolFlow:
        """The pool that holds the KV cache."""
        return self.pools[0]

    @property
    def step_s(self) -> FloatArray:
        """Wait of a request in the stage: the prefill, or one decode step."""
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
        return self.first.machines * self.first.metrics["held_requests"] / self.stage_s


@frozen
class HandOverFlow:
    """A link from one stage to the next; every array is (n,).

    Attributes:
        n_layers: Layers of the model, each of which has a part of the cache.
        setup_s: Time of a hand-over besides its bytes and the link's latency.
    """

    name: str
    sender: StageFlow
    receiver: StageFlow
    n_layers: int
    rates: PoolLinkRates
    setup_s: float

    @property
    def sending_pool(self) -> PoolFlow:
        """The pool whose machines pay for the energy."""
        return self.sender.first

    @property
    def request_bytes(self) -> FloatArray:
        """Bytes of one request."""
        return self.sender.first.metrics["handover_bytes"]

    @property
    def transfer_s(self) -> FloatArray:
        """Time of a batch's caches on their link, ``fixed_s`` apart."""
        batch_bytes = self.request_bytes * self.sender.first.metrics["handover_requests"]
        return batch_bytes / self.rates.bandwidth_bytes_per_s

    @property
    def fixed_s(self) -> FloatArray:
        """Time of a hand-over that carries nothing."""
        return self.rates.latency_s + self.setup_s

    @property
    def exposed_s(self) -> FloatArray:
        """Time from the end of the sender's work to the arrival of all that it made."""
        hiding_s = self.sender.stage_s if self.sender.request.phase == "prefill" else 0.0
        return exposed_s(self.transfer_s, hiding_s, self.n_layers) + self.fixed_s

    @property
    def requests_per_s(self) -> FloatArray:
        """Caches per second."""
        return self.rates.requests_per_s(self.sender.first, self.receiver.first, self.request_bytes)

    @property
    def joules_per_request(self) -> FloatArray:
        """Energy of one request's cache on the link."""
        return self.request_bytes * self.rates.energy_joules_per_byte
