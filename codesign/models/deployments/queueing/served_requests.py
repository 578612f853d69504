"""Outcome of requests: times of their tokens, percentiles, goodput, utilization."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from codesign.base.columns import BoolArray, FloatArray, IntArray
from codesign.base.records import frozen
from codesign.models.deployments.queueing.prefix_cache import StoreLimits
from codesign.models.deployments.queueing.request_arrivals import Arrivals

PERCENTILES = (50, 90, 99)
"""Percentiles that are reported; between two requests they are interpolated linearly."""


@frozen
class PoolLoad:
    """Load of a pool.

    Attributes:
        busy_s: (machines,) seconds in which each ran steps.
        n_preempted: Requests that had to give their cache back.
        stores: Stores of prompts behind each machine.
    """

    name: str
    busy_s: FloatArray
    n_steps: int
    n_preempted: int
    stores: tuple[StoreLimits, ...] = ()


@frozen
class ServedRequests:
    """``r`` requests that were served; times are (r,) seconds from the start.

    Attributes:
        seen_s: When an engine took the request in: at once, or when its step ended.
        started_s: When the first step with a part of the prompt began.
        first_token_s: When the first token was there.
        last_token_s: When the last token was there.
        reused_tokens: (l, r) tokens of the prompt found in the cache, and in each store.
    """

    arrivals: Arrivals
    seen_s: FloatArray
    started_s: FloatArray
    first_token_s: FloatArray
    last_token_s: FloatArray
    reused_tokens: IntArray
    pools: tuple[PoolLoad, ...]

    @property
    def queueing_s(self) -> FloatArray:
        """(r,) from the arrival to the first step."""
        return self.started_s - self.arrivals.arrival_s

    @property
    def time_to_first_token_s(self) -> FloatArray:
        """(r,) from the arrival to the first token."""
        return self.first_token_s - self.arrivals.arrival_s

    @property
    def time_per_output_token_s(self) -> FloatArray:
        """(r,) mean from token to token after the first; NaN of requests with one token."""
        steps = self.arrivals.generated_tokens - 1.0
        spent = self.last_token_s - self.first_token_s
        return np.where(steps > 0, spent / np.maximum(steps, 1.0), np.nan)

    @property
    def request_latency_s(self) -> FloatArray:
        """(r,) from the arrival to the last token."""
        return self.last_token_s - self.arrivals.arrival_s

    @property
    def hit_shares(self) -> FloatArray:
        """(l,) share of the prompts' tokens found in the cache, and in each store."""
        return np.asarray(self.reused_tokens.sum(axis=1) / self.arrivals.prompt_tokens.sum())

    def cache_rows(self, cache_tokens: int) -> list[tuple[str, int, float]]:
        """Name, tokens and hit share of the cache and of each store; none if prompts share nothing.

        Args:
            cache_tokens: Tokens of a machine's own cache.
        """
        if self.arrivals.blocks is None:
            return []
        stores = self.pools[0].stores
        names = ["machine", *(store.name for store in stores)]
        tokens = [cache_tokens, *(store.tokens for store in stores)]
        return list(zip(names, tokens, self.hit_shares.tolist(), strict=True))

    @property
    def makespan_s(self) -> float:
        """Time from the first arrival to the last token."""
        return float(self.last_token_s.max() - self.arrivals.arrival_s[0])

    @property
    def requests_per_s(self) -> float:
        """Requests that were served over the makespan."""
        return len(self.arrivals) / self.makespan_s

    @property
    def tokens_per_s(self) -> float:
        """Generated tokens over the makespan."""
        return float(self.arrivals.generated_tokens.sum()) / self.makespan_s

    def meets(self, first_token_s: float, output_token_s: float) -> BoolArray:
        """(r,) whether both times are within their limits; of one token only the first counts."""
        tpot = np.nan_to_num(self.time_per_output_token_s, nan=0.0)
        is_in_time = self.time_to_first_token_s <= first_token_s
        return is_in_time & (tpot <= output_token_s)

    def utilization(self, pool: PoolLoad) -> FloatArray:
        """(machines,) part of the makespan in which each machine of a pool ran steps."""
        return pool.busy_s / self.makespan_s

    def percentiles(self) -> Mapping[str, Mapping[str, float | None]]:
        """Percentiles and mean of each time by the name of its metric; None where none has it."""
        return {name: describe_times(getattr(self, name)) for name in _TIMES}


_TIMES = ("queueing_s", "time_to_first_token_s", "time_per_output_token_s", "request_latency_s")


def describe_times(values: FloatArray) -> dict[str, float | None]:
    """Percentiles and mean of times; NaN ones do not count.

    Examples:
        >>> describe_times(np.array([1.0, 2.0, 3.0]))["p50"]
        2.0
    """
    known = values[~np.isnan(values)]
    if not len(known):
        return dict.fromkeys([*(f"p{p}" for p in PERCENTILES), "mean"], None)
    cuts = np.percentile(known, PERCENTILES)
    named = {f"p{p}": float(cut) for p, cut in zip(PERCENTILES, cuts, strict=True)}
    return {**named, "mean": float(known.mean())}
