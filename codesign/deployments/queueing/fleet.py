"""Machines that serve requests together: pools, routing, and the link between them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from codesign.deployments.queueing.engine_limits import EngineLimits
from codesign.deployments.queueing.step_times import StepTimes
from codesign.errors import InputError

Routing: TypeAlias = Literal["least-loaded", "round-robin"]
"""Which machine of a pool a request goes to: the one with the fewest requests, the first of equals,
or each in turn."""
ROUTINGS: tuple[Routing, ...] = ("least-loaded", "round-robin")


@dataclass(frozen=True)
class MachinePool:
    """Machines that are alike.

    Attributes:
        name: What the pool does: ``serve``, ``prefill`` or ``decode``.
        n_machines: Machines, from 1.
        step_times: Seconds of a machine's steps.
        limits: How a machine's engine forms its steps.
    """

    name: str
    n_machines: int
    step_times: StepTimes
    limits: EngineLimits

    def __post_init__(self) -> None:
        """Check the count.

        Raises:
            InputError: There is no machine.
        """
        if self.n_machines < 1:
            raise InputError(f"expected at least 1 machine, got {self.n_machines}", self.name)


@dataclass(frozen=True)
class CacheLink:
    """How a prompt's cache goes from the machine that prefilled it to the one that decodes.

    Every prefilling machine has a link of its own, over which one cache goes after the other. It
    goes layer by layer beside the prefill: a transfer of ``T`` and a prefill of ``P`` over ``L``
    layers end at the later of ``P + T / L`` and ``P / L + T``. Without a wait that is what
    ``max(0, T - P (L - 1) / L)`` hides at most, and at least one layer's part.

    Attributes:
        bytes_per_token: Bytes of keys and values of a token, of all devices of a machine.
        bandwidth_bytes_per_s: Rate of a machine's link.
        latency_s: Seconds until the first byte arrives.
        n_layers: Layers that are sent apart; 1: the cache goes when the prefill has ended.
    """

    bytes_per_token: float = 0.0
    bandwidth_bytes_per_s: float = float("inf")
    latency_s: float = 0.0
    n_layers: int = 1

    def transfer_s(self, prompt_tokens: int) -> float:
        """Seconds in which the cache of a prompt occupies the link."""
        return prompt_tokens * self.bytes_per_token / self.bandwidth_bytes_per_s

    def sent_s(
        self, prompt_tokens: int, prefill_start_s: float, prefill_end_s: float, link_free_s: float
    ) -> float:
        """When the last byte has left, on a link that is busy until some time.

        Examples:
            >>> link = CacheLink(bytes_per_token=1e6, bandwidth_bytes_per_s=1e9, n_layers=10)
            >>> link.sent_s(1000, 0.0, 2.0, link_free_s=0.0)  # 1 s beside 2 s: a layer is left
            2.1
        """
        transfer = self.transfer_s(prompt_tokens)
        first_layer = prefill_start_s + (prefill_end_s - prefill_start_s) / self.n_layers
        begun = max(first_layer, link_free_s)
        return max(begun + transfer, prefill_end_s + transfer / self.n_layers)


@dataclass(frozen=True)
class Fleet:
    """What serves: one pool for everything, or one that prefills and one that decodes.

    Attributes:
        pools: One pool, or the prefilling and the decoding one.
        link: Between the two pools.
        routing: Which machine of a pool a request goes to.
    """

    pools: tuple[MachinePool, ...]
    link: CacheLink = field(default_factory=CacheLink)
    routing: Routing = "least-loaded"

    def __post_init__(self) -> None:
        """Check the number of pools.

        Raises:
            InputError: There are neither one nor two pools.
        """
        if len(self.pools) not in (1, 2):
            raise InputError(f"expected 1 or 2 pools, got {len(self.pools)}")
