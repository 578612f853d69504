"""Every metric that the built-in evaluators report: name, sense, unit, meaning.

A metric's name carries its unit. Evaluators from elsewhere declare their own in the same form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Sense: TypeAlias = Literal["minimize", "maximize"]


@dataclass(frozen=True)
class Metric:
    """What a number means.

    Attributes:
        name: Snake case, ending in its unit.
        sense: The direction in which it gets better.
        unit: As ``units.py`` reads it, or empty.
        meaning: One sentence for tables and help.
    """

    name: str
    sense: Sense
    unit: str
    meaning: str

    @property
    def sign(self) -> float:
        """Factor that turns the metric into something to minimize."""
        return 1.0 if self.sense == "minimize" else -1.0


_METRICS = (
    Metric("throughput_tokens_per_s", "maximize", "token/s",
           "tokens of the phase per second of device time: prompt tokens in prefill, generated "
           "tokens in decode, over the whole batch"),
    Metric("time_to_first_token_s", "minimize", "s",
           "time of the prefill of one request that does not wait for others"),
    Metric("time_per_output_token_s", "minimize", "s",
           "time of one decode step, averaged over the generated tokens"),
    Metric("tokens_per_s_per_user", "maximize", "token/s",
           "tokens of the phase per second seen by one request of the batch"),
    Metric("phase_time_s", "minimize", "s",
           "time of the whole phase for one batch"),
    Metric("batch_size", "maximize", "",
           "requests processed together"),
    Metric("tdp_watts", "minimize", "W",
           "thermal design power: every MAC busy, every memory at peak read bandwidth"),
    Metric("average_power_watts", "minimize", "W",
           "energy of the phase over its time"),
    Metric("energy_joules_per_token", "minimize", "J/token",
           "energy of the phase per token of the phase"),
    Metric("tokens_per_joule", "maximize", "token/J",
           "tokens of the phase per joule: throughput over average power"),
    Metric("tokens_per_joule_tdp", "maximize", "token/J",
           "throughput over TDP, the convention of MemExplorer's Table 5"),
    Metric("compute_utilization", "maximize", "",
           "useful multiply-accumulates over what the array could do in the phase's time"),
    Metric("bandwidth_utilization", "maximize", "",
           "bytes that cross between off-chip and on-chip memory over what the off-chip "
           "memories together could move in the time"),
    Metric("memory_capacity_bytes", "maximize", "B",
           "capacity of all memory levels"),
    Metric("memory_used_bytes", "minimize", "B",
           "weights and KV cache of the batch"),
    Metric("shoreline_mm", "minimize", "mm",
           "die edge taken by the memory interfaces"),
    Metric("peak_flop_per_s", "maximize", "FLOP/s",
           "two per multiply-accumulate of the array, every cycle"),
    Metric("offchip_bandwidth_bytes_per_s", "maximize", "B/s",
           "sum of the off-chip peak bandwidths"),
    Metric("offchip_bytes_per_token", "minimize", "B/token",
           "bytes that cross between off-chip and on-chip memory per token of the phase; what "
           "a tier passes on for a deeper one is not counted again"),
)  # fmt: skip

METRICS: dict[str, Metric] = {metric.name: metric for metric in _METRICS}
"""Built-in metrics by name."""
