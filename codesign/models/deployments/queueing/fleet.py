"""Machines that serve requests together: pools, routing, and the link between them."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

import numpy as np

from codesign.base.columns import FloatArray, Floats
from codesign.base.errors import InputError
from codesign.base.records import frozen
from codesign.models.deployments.queueing.engine_limits import EngineLimits
from codesign.models.deployments.queueing.prefix_cache import StoreLimits
from codesign.models.deployments.queueing.step_times import StepTimes

Routing = Literal["least-loaded", "round-robin", "session"]
"""Choice of the machine of a pool for a request. It is the one with the fewest requests, the
first of equals; each in turn; or the one that served the session before.
"""


@frozen
class MachinePool:
    """Machines that are alike.

    Attributes:
        name: What the pool does: ``serve``, ``prefill`` or ``decode``.
        n_machines: Machines, from 1.
        step_times: Seconds of a machine's steps.
        limits: How a machine's engine forms its steps.
        stores: Stores of prompts behind its cache, the nearest first.
    """

    name: str
    n_machines: int
    step_times: StepTimes
    limits: EngineLimits
    stores: tuple[StoreLimits, ...] = ()

    def __post_init__(self) -> None:
        """Check the count.

        Raises:
            InputError: There is no machine.
        """
        if self.n_machines < 1:
            raise InputError(f"expected at least 1 machine, got {self.n_machines}", self.name)


def exposed_s(
    transfer_s: Floats,
    prefill_s: Floats,
    n_layers: float,
    wait_s: float = 0.0,
) -> FloatArray:
    """Time from the end of a prefill until all of its cache has left for the machine that decodes.

    Layer by layer, the last part leaves when the prefill ends or when the others have left: the
    larger of one layer's part and the transfer without what the prefill hides.

    Args:
        transfer_s: Time of the whole cache alone on its link.
        prefill_s: Time in which the layers are computed, one after the other; 0: nothing hides it.
        n_layers: Layers that are sent apart; 1: the cache goes when the prefill has ended.
        wait_s: Time for which others still have the link when the first layer is computed.
    """
    hidden_s = prefill_s * ((n_layers - 1.0) / n_layers)
    return np.maximum(transfer_s / n_layers, transfer_s + wait_s - hidden_s)


@frozen
class CacheLink:
    """Link that takes a prompt's cache from the machine that prefilled it to the one that decodes.

    Every prefilling machine has a link of its own, over which one cache goes after the other.

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

    def sent_s(
        self, prompt_tokens: int, prefill_start_s: float, prefill_end_s: float, link_free_s: float
    ) -> float:
        """When the last byte has left, on a link that is busy until some time.

        Examples:
            >>> link = CacheLink(bytes_per_token=1e6, bandwidth_bytes_per_s=1e9, n_layers=10)
            >>> link.sent_s(1000, 0.0, 2.0, link_free_s=0.0)  # 1 s beside 2 s: a layer is left
            2.1
        """
        transfer_s = prompt_tokens * self.bytes_per_token / self.bandwidth_bytes_per_s
        prefill_s = prefill_end_s - prefill_start_s
        wait_s = max(link_free_s - (prefill_start_s + prefill_s / self.n_layers), 0.0)
        return prefill_end_s + float(exposed_s(transfer_s, prefill_s, self.n_layers, wait_s))


@frozen
class Fleet:
    """Serving machines: one pool for everything, or one that prefills and one that decodes.

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
