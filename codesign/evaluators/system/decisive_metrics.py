"""Metrics of a pool's machines that decide on metrics of the system."""

from __future__ import annotations

from collections.abc import Collection

from codesign.base.metrics import FORMAT_METRICS
from codesign.evaluators.system.hand_over import TIME_METRIC
from codesign.evaluators.system.roles import PoolTask

SUMS = ("n_devices", "area_mm2", "unit_cost_usd", "embodied_kgco2e")
"""Metrics that add over all machines, besides power."""
OF_HAND_OVER = frozenset({"handover_bytes", "handover_s", "handover_exposed_s"})
_OF_BUSY = frozenset({"tokens_per_joule", "average_power_watts"})
_ENERGY = frozenset({"energy_joules_per_request", "energy_joules_per_token"}) | _OF_BUSY
QUEUED = frozenset({"queue_wait_s", "time_to_first_token_p90_s"})
"""Metrics at a stated rate of arrivals."""
_RATES = QUEUED | {
    "throughput_tokens_per_s",
    "requests_per_s",
    "tokens_per_joule_tdp",
    "average_power_watts",
}
_PRICE, _CARBON = "usd_per_million_tokens", "kgco2e_per_million_tokens"
_LIFE = "lifetime_years"


def metrics_of_alone(metrics: Collection[str], task: PoolTask) -> list[str]:
    """Decisive metrics of the only pool of a system, which has the metrics of its machines.

    Args:
        metrics: Metrics of the system.
    """
    names = _add_sources(metrics)
    own_time = TIME_METRIC[task.stage.phase]
    waits = {"request_latency_s", own_time}
    rules = [
        ("throughput_tokens_per_s", bool(names & _RATES) or _has_utilization(names)),
        (own_time, bool(names & waits)),
        ("energy_joules_per_token", bool(names & _ENERGY)),
        *((name, name in names) for name in (*sorted(_OF_BUSY), _PRICE, _CARBON)),
        *_rules_of_machines(names),
    ]
    return [name for name, is_needed in rules if is_needed]


def metrics_of_pool(
    metrics: Collection[str], task: PoolTask, is_sender: bool, is_first_token_late: bool
) -> list[str]:
    """Decisive metrics of one of several pools.

    Args:
        metrics: Metrics of the system.
        is_sender: Whether the pool sends KV caches.
        is_first_token_late: Whether the decode pool gives the first token.
    """
    names = _add_sources(metrics)
    is_split = task.layers != "all"
    is_energy = bool(names & (_ENERGY | {_PRICE, _CARBON}))
    is_rate = is_energy or bool(names & (_RATES | {_LIFE})) or _has_utilization(names)
    latencies = {"request_latency_s", "time_to_second_token_s", "handover_exposed_s"}
    own_time = TIME_METRIC[task.stage.phase]
    if is_first_token_late:
        latencies.add("time_to_first_token_s")
    is_latency = bool(names & (latencies | {own_time}))
    holds = task.layers == "attention" and task.stage.phase == "decode"
    is_crossing = is_rate or bool(names & (latencies | OF_HAND_OVER))
    # Caches in flight, and so the rate, depend on how long they stay: see StageFlow.
    is_time = is_latency or (is_split and is_rate)
    rules = [
        ("throughput_tokens_per_s", is_rate),
        (own_time, is_time),
        ("dynamic_joules_per_token", is_energy),
        ("idle_watts", is_energy),
        ("standing_usd_per_hour", _PRICE in names),
        ("wear_usd_per_token", _PRICE in names),
        ("standing_kgco2e_per_hour", _CARBON in names),
        ("wear_kgco2e_per_token", _CARBON in names),
        *_rules_of_machines(names),
        ("handover_bytes", is_sender and is_crossing),
        ("handover_requests", is_sender and bool(names & (latencies | OF_HAND_OVER))),
        ("held_requests", holds and is_rate),
        ("exchange_bytes", is_split and is_time),
        ("exchange_bytes_per_token", is_split and is_rate),
    ]
    return [name for name, is_needed in rules if is_needed]


def _add_sources(metrics: Collection[str]) -> set[str]:
    """Metrics of a system, and those of the system that they are computed from."""
    names = set(metrics)
    if "average_power_watts" in names:  # at most the TDP
        names.add("tdp_watts")
    if "time_to_first_token_p90_s" in names:
        names.add("time_to_first_token_s")
    return names


def _has_utilization(names: set[str]) -> bool:
    return any(name.endswith("_utilization") for name in names)


def _rules_of_machines(names: set[str]) -> list[tuple[str, bool]]:
    """Metrics that systems take from their machines as they are."""
    is_power = bool(names & {"tdp_watts", "tokens_per_joule_tdp"})
    taken_over = (*SUMS, *FORMAT_METRICS, _LIFE)
    return [("tdp_watts", is_power), *((name, name in names) for name in taken_over)]
