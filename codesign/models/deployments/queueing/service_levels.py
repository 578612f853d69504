"""Limits on the times of requests: how many keep them, and why those miss that miss."""

from __future__ import annotations

import numpy as np

from codesign.base.records import frozen
from codesign.base.units import format_engineering
from codesign.models.deployments.queueing.served_requests import ServedRequests


@frozen
class LatencyLimits:
    """The two times within which a request should be served, in seconds."""

    time_to_first_token_s: float
    time_per_output_token_s: float

    def attainment(self, served: ServedRequests) -> float:
        """Share of the requests within both limits."""
        return float(self._meets(served).mean())

    def goodput_requests_per_s(self, served: ServedRequests) -> float:
        """Requests within both limits per second."""
        return float(self._meets(served).sum()) / served.makespan_s

    def nearest_miss(self, served: ServedRequests) -> tuple[int, str] | None:
        """Request that is nearest to the limits, its number from 1 and its times beside the limits;
        None: some request keeps both limits."""
        if self._meets(served).any():
            return None
        first = served.time_to_first_token_s
        output = served.time_per_output_token_s
        misses = np.maximum(
            first / self.time_to_first_token_s,
            np.nan_to_num(output) / self.time_per_output_token_s,
        )
        nearest = int(np.argmin(misses))
        waited = float(served.queueing_s[nearest])
        words = [
            f"first token {_time(first[nearest])} of {_time(self.time_to_first_token_s)}, of which "
            f"{_time(waited)} in the queue and {_time(first[nearest] - waited)} in the prefill"
        ]
        if not np.isnan(output[nearest]):
            limit = _time(self.time_per_output_token_s)
            words.append(f"output token {_time(output[nearest])} of {limit}")
        return nearest + 1, "; ".join(words)

    def _meets(self, served: ServedRequests) -> np.ndarray:
        return served.meets(self.time_to_first_token_s, self.time_per_output_token_s)


def _time(seconds: float) -> str:
    return format_engineering(float(seconds), "s", 3)
