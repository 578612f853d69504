"""Requests that flow through pools: rates, latencies, energy and price of systems.

After DistServe, Splitwise and MemExplorer section 5.3. A request passes the stages one after the
other; each is served by a pool of equal machines that share the requests evenly, and a link takes
its KV cache from one pool to the next (:mod:`.parts`).

Machines with the attention and machines with the rest of every layer take turns: the activations of
each layer cross an exchange link twice. As many groups of requests are on their way as keep the
slower side busy, and as their KV caches fit (Little's law).

Limiting assumptions: requests are all alike; without a stated rate of arrivals there are always
enough of them and queues cost nothing, as the slowest pool or link sets the rate of all. With one,
requests wait for a machine that prefills, and nowhere else. Accuracy in several formats lies
between those of the model in each of them; the worst counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from codesign.base.columns import FloatArray, summed
from codesign.base.metrics import HIT_METRICS
from codesign.evaluators.system.parts import ExchangeFlow, HandOverFlow, PoolFlow, StageFlow
from codesign.models.accounts.wear import LONGEST_LIFE_YEARS
from codesign.models.deployments.queueing.steady_wait import mean_wait_s, wait_quantile_s

_OF_MACHINES = (
    "energy_joules_per_token",
    "tokens_per_joule",
    "usd_per_million_tokens",
    "kgco2e_per_million_tokens",
    "lifetime_years",
)
"""Metrics that a system of one pool has from its machines."""
_OF_LINKS = {
    "handover_bytes": ("request_bytes",),
    "handover_s": ("transfer_s", "fixed_s"),
    "handover_exposed_s": ("exposed_s",),
}
"""Metrics that add up over all links."""
SUMS = ("n_devices", "area_mm2", "embodied_kgco2e")
"""Metrics that add up over all machines."""
_WORST = {
    "accuracy_recovery": np.minimum,
    "accuracy_recovery_low": np.minimum,
    "accuracy_recovery_high": np.maximum,
    "divergence_nats": np.maximum,
    "divergence_nats_low": np.minimum,
    "divergence_nats_high": np.maximum,
}
"""Metrics of which a system has that of one pool."""


class SystemFlow:
    """Metrics of ``n`` systems, each computed when it is first asked for; all (n,).

    Attributes are named as in ``codesign.base.metrics``, where each is defined.

    Args:
        stages: In the order in which a request passes them.
        links: Between them, in the same order.
        first_token_from_decode: Whether the decode stage gives the first token.
        arrivals_per_s: Rate of requests that arrive at random; None: there are always enough.
    """

    def __init__(
        self,
        stages: Sequence[StageFlow],
        links: Sequence[HandOverFlow],
        first_token_from_decode: bool = False,
        arrivals_per_s: float | None = None,
    ) -> None:
        self.stages = stages
        self.links = links
        self.pools = [pool for stage in stages for pool in stage.pools]
        self.exchanges = [stage.exchange for stage in stages if stage.exchange is not None]
        self._first_token_from_decode = first_token_from_decode
        self._arrivals_per_s = arrivals_per_s or 0.0
        self._alone = self.pools[0] if len(self.pools) == 1 else None

    @property
    def pools_and_links(self) -> list[PoolFlow | HandOverFlow | ExchangeFlow]:
        """Pools and links."""
        return [*self.pools, *self._crossings]

    @property
    def _crossings(self) -> list[HandOverFlow | ExchangeFlow]:
        return [*self.links, *self.exchanges]

    @property
    def _prefill(self) -> StageFlow:
        """First stage, where it is a prefill; no metric of other systems asks for it."""
        return self.stages[0]

    @property
    def _decodes(self) -> list[StageFlow]:
        return [stage for stage in self.stages if stage.request.phase == "decode"]

    @property
    def tokens(self) -> float:
        """Tokens of a request that the system's throughput counts: those that it generates."""
        return float(sum(stage.request.tokens for stage in self._decodes or self.stages))

    @cached_property
    def requests_per_s(self) -> FloatArray:
        rates = [member.requests_per_s for member in self.pools_and_links]
        rates += [stage.requests_per_s for stage in self._decodes if stage.exchange is not None]
        return np.asarray(np.minimum.reduce(rates))

    @property
    def throughput_tokens_per_s(self) -> FloatArray:
        if self._alone is not None:  # to the last bit as of its machines
            return self._alone.tokens_per_s
        return self.requests_per_s * self.tokens

    @property
    def time_to_first_token_s(self) -> FloatArray:
        if self._first_token_from_decode and self._decodes:
            return self.time_to_second_token_s
        return self._prefill.step_s

    @property
    def queue_wait_s(self) -> FloatArray:
        return self._waiting(mean_wait_s(*self._queue))

    @property
    def time_to_first_token_p90_s(self) -> FloatArray:
        return self.time_to_first_token_s + self._waiting(wait_quantile_s(0.9, *self._queue))

    @property
    def _queue(self) -> tuple[float, FloatArray, FloatArray]:
        """Arrivals, and the rate and the machines of the stage that prefills."""
        rates = [pool.requests_per_s for pool in self._prefill.pools]
        return self._arrivals_per_s, np.minimum.reduce(rates), self._prefill.first.machines

    def _waiting(self, wait_s: FloatArray) -> FloatArray:
        """The wait of systems whose slowest part keeps up with the arrivals, else infinite."""
        return np.where(self._arrivals_per_s < self.requests_per_s, wait_s, np.inf)

    @property
    def time_per_output_token_s(self) -> FloatArray:
        decodes = self._decodes
        if len(decodes) == 1:
            return decodes[0].step_s
        return sum((stage.stage_s for stage in decodes), np.zeros(())) / self.tokens

    @property
    def time_to_second_token_s(self) -> FloatArray:
        return self._prefill.step_s + self.links[0].exposed_s + self._decodes[0].step_s

    @cached_property
    def request_latency_s(self) -> FloatArray:
        waits = [stage.stage_s for stage in self.stages] + [link.exposed_s for link in self.links]
        return summed(waits)

    @cached_property
    def energy_joules_per_request(self) -> FloatArray:
        if self._alone is not None:
            return self._alone.metrics["energy_joules_per_token"] * self.tokens
        summands = [pool.joules_per_request(self.requests_per_s) for pool in self.pools]
        summands += [link.joules_per_request for link in self._crossings]
        return summed(summands)

    @property
    def energy_joules_per_token(self) -> FloatArray:
        return self.energy_joules_per_request / self.tokens

    @property
    def tokens_per_joule(self) -> FloatArray:
        return 1.0 / self.energy_joules_per_token

    @property
    def average_power_watts(self) -> FloatArray:
        if self._alone is not None:
            return self._alone.machines * self._alone.metrics["average_power_watts"]
        # Devices at their power limit take longer than the rates say, so that energy is of more.
        sent = sum((link.joules_per_request for link in self._crossings), 0.0)
        most = self.tdp_watts + sent * self.requests_per_s
        return np.fmin(self.energy_joules_per_token * self.throughput_tokens_per_s, most)

    @property
    def lifetime_years(self) -> FloatArray:
        years = [pool.lifetime_years(self.requests_per_s) for pool in self.pools]
        return np.asarray(np.minimum(np.minimum.reduce(years), LONGEST_LIFE_YEARS))

    @property
    def tdp_watts(self) -> FloatArray:
        return self._machine_sum("tdp_watts")

    @property
    def tokens_per_joule_tdp(self) -> FloatArray:
        return self.throughput_tokens_per_s / self.tdp_watts

    @property
    def unit_cost_usd(self) -> FloatArray:
        summands = [pool.machines * pool.ports_usd for pool in self.pools]
        return sum(summands, self._machine_sum("unit_cost_usd"))

    @property
    def n_machines(self) -> FloatArray:
        return summed([pool.machines for pool in self.pools])

    def _machine_sum(self, name: str) -> FloatArray:
        """The sum over all machines."""
        return summed([pool.machines * pool.metrics[name] for pool in self.pools])

    def value(self, name: str) -> FloatArray:
        """(n,) a metric by its name."""
        if name.endswith("_utilization"):
            return self.utilization(name.removesuffix("_utilization"))
        if name in _OF_MACHINES and self._alone is not None:
            return self._alone.metrics[name]
        if name in HIT_METRICS:
            return self.pools[0].metrics[name]
        if name in SUMS:
            return self._machine_sum(name)
        if name in _WORST:
            # Drafted tokens are checked.
            answering = [pool for pool in self.pools if pool.stage.name != "draft"]
            return np.asarray(_WORST[name].reduce([pool.metrics[name] for pool in answering]))
        if name in _OF_LINKS:
            nothing = np.zeros_like(self.pools[0].machines)
            sums = [getattr(link, of_link) for link in self.links for of_link in _OF_LINKS[name]]
            return sum(sums, nothing)
        if name.endswith("_per_million_tokens"):
            unit = name.split("_")[0]
            summands = [pool.cost_per_request(unit, self.requests_per_s) for pool in self.pools]
            summands += [
                link.joules_per_request * link.sending_pool.prices.joule_price(unit)
                for link in self._crossings
            ]
            return summed(summands) / self.tokens * 1e6
        values: FloatArray = getattr(self, name)
        return values

    def utilization(self, name: str) -> FloatArray:
        """Share of the time in which a pool or link of that name is busy."""
        (member,) = [member for member in self.pools_and_links if member.name == name]
        return self.requests_per_s / member.requests_per_s
