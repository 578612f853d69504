"""Every metric that the built-in evaluators report: name, sense, unit, meaning.

A metric's name carries its unit. Evaluators from elsewhere declare their own in the same form.

This is the only place where a sign is flipped: what is maximized enters the search negated.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

from codesign.base.errors import check_known

if TYPE_CHECKING:
    from codesign.base.columns import FloatArray

Sense: TypeAlias = Literal["minimize", "maximize"]
_SIGNS: dict[Sense, float] = {"minimize": 1.0, "maximize": -1.0}
_Amount = TypeVar("_Amount", float, "FloatArray")


def flipped(values: _Amount, sense: Sense) -> _Amount:
    """Values of a metric as numbers to minimize, or such numbers as values of the metric.

    Args:
        values: A number or an array.
        sense: In which direction the metric gets better.

    Examples:
        >>> flipped(3.0, "maximize"), flipped(-3.0, "maximize"), flipped(3.0, "minimize")
        (-3.0, 3.0, 3.0)
    """
    return _SIGNS[sense] * values


def flipped_columns(values: FloatArray, senses: Sequence[Sense]) -> FloatArray:
    """(..., m) values of metrics, :func:`flipped` each in its own sense."""
    return values * [_SIGNS[sense] for sense in senses]


@dataclass(frozen=True)
class Metric:
    """Meaning of a number.

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

    def flipped(self, values: _Amount) -> _Amount:
        """Values of the metric as numbers to minimize, or such numbers as its values."""
        return flipped(values, self.sense)


def chosen_metrics(names: Sequence[str] | None, known: Collection[str]) -> list[str]:
    """The names of the metrics to report: the known ones if none are named.

    Raises:
        UnknownNameError: A metric that is not known.
    """
    for name in names or ():
        check_known("metric", name, known)
    return list(known if names is None else names)


_METRICS = (
    Metric("throughput_tokens_per_s", "maximize", "token/s",
           "tokens of one phase per second of that phase, over the whole batch: generated tokens "
           "in decode, without any prefill; prompt tokens where the phase is prefill"),
    Metric("time_to_first_token_s", "minimize", "s",
           "time of the prefill of one request that does not wait for others"),
    Metric("time_per_output_token_s", "minimize", "s",
           "time of one decode step, averaged over the generated tokens"),
    Metric("tokens_per_s_per_user", "maximize", "token/s",
           "tokens of one phase per second seen by one request of the batch: generated tokens in "
           "decode, without any prefill; prompt tokens where the phase is prefill"),
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
           "die edge reserved for memory that its interfaces take"),
    Metric("uncharged_shoreline_mm", "minimize", "mm",
           "length of the memory interfaces that the space does not charge to that edge"),
    Metric("peak_flop_per_s", "maximize", "FLOP/s",
           "two per multiply-accumulate of the array, every cycle"),
    Metric("offchip_bandwidth_bytes_per_s", "maximize", "B/s",
           "sum of the off-chip peak bandwidths"),
    Metric("offchip_bytes_per_token", "minimize", "B/token",
           "bytes that cross between off-chip and on-chip memory per token of the phase; what "
           "a tier passes on for a deeper one is not counted again"),
    Metric("area_mm2", "minimize", "mm^2",
           "compute dies and the SRAM layers stacked on them; off-chip memories have none"),
    Metric("unit_cost_usd", "minimize", "USD",
           "making one unit: dies, bonding, memories, package, test; neither margin nor design"),
    Metric("power_density_w_per_mm2", "minimize", "W/mm^2",
           "thermal design power of a die and what is stacked on it over its area"),
    Metric("block_density_w_per_mm2", "minimize", "W/mm^2",
           "thermal design power of the densest block of the compute die over its area"),
    Metric("junction_temperature_celsius", "minimize", "degC",
           "temperature of the compute die's hottest block at its thermal design power, below "
           "its layers"),
    Metric("thermal_load", "minimize", "",
           "temperature rise of the hottest block over the one that its limit allows, 105 degC, "
           "or 95 degC with DRAM bonded onto the die; at most 1 can work"),
    Metric("lifetime_years", "maximize", "year",
           "time until the first memory is worn out by writes, always busy; at most 10"),
    Metric("embodied_kgco2e", "minimize", "kg",
           "CO2 equivalents from making dies, memories and package"),
    Metric("kgco2e_per_million_tokens", "minimize", "kg/Mtoken",
           "CO2 equivalents of making, spread over the life, and of running, per million tokens "
           "of the phase"),
)  # fmt: skip

METRICS: dict[str, Metric] = {metric.name: metric for metric in _METRICS}
"""Built-in metrics by name."""

_PLATFORM = (
    *(
        METRICS[name]
        for name in (
            "throughput_tokens_per_s",
            "time_to_first_token_s",
            "time_per_output_token_s",
            "tokens_per_s_per_user",
        )
    ),
    Metric("request_latency_s", "minimize", "s",
           "time to the last token of a request: the first token, then a decode step for each"),
    Metric("prefill_requests_per_s", "maximize", "1/s",
           "requests whose prompts are prefilled per second while nothing is generated"),
    Metric("tokens_per_s_per_device", "maximize", "token/s",
           "throughput over the number of devices: generated tokens, without any prefill"),
    Metric("n_devices", "minimize", "",
           "devices of the platform: the product of all degrees of parallelism"),
    Metric("board_power_watts", "minimize", "W",
           "sum of the devices' board power limits, where their vendors state them"),
    Metric("energy_joules_per_token", "minimize", "J/token",
           "energy of all devices in a decode step per token that it generates"),
    METRICS["tokens_per_joule"],
    METRICS["average_power_watts"],
    Metric("prefill_energy_joules_per_token", "minimize", "J/token",
           "energy of all devices in the prefill per token of the prompts"),
    Metric("output_tokens_per_s", "maximize", "token/s",
           "generated tokens per second in a steady state, in which the prompts of the requests "
           "that begin are prefilled between decode steps"),
    Metric("usd_per_hour", "minimize", "USD/h",
           "rent of the devices"),
    Metric("usd_per_million_output_tokens", "minimize", "USD/Mtoken",
           "rent of the devices per million generated tokens in a steady state, the prefill of "
           "their prompts included"),
    Metric("memory_used_per_device_bytes", "minimize", "B",
           "weights and KV cache that the fullest device keeps"),
    Metric("offloaded_share", "minimize", "",
           "part of weights and KV cache that lies in the slow memory"),
    Metric("prefill_linear_s", "minimize", "s",
           "time to the first token in products with weights"),
    Metric("prefill_attention_s", "minimize", "s",
           "time to the first token in products with keys and values"),
    Metric("prefill_collective_s", "minimize", "s",
           "time to the first token in messages between devices, hidden ones included"),
    Metric("decode_linear_s", "minimize", "s",
           "time per output token in products with weights"),
    Metric("decode_attention_s", "minimize", "s",
           "time per output token in products with keys and values"),
    Metric("decode_collective_s", "minimize", "s",
           "time per output token in messages between devices, hidden ones included"),
)  # fmt: skip

PLATFORM_METRICS: dict[str, Metric] = {metric.name: metric for metric in _PLATFORM}
"""Metrics of the ``platform`` evaluator by name."""

_ECONOMICS = (
    METRICS["time_per_output_token_s"],
    METRICS["tokens_per_s_per_user"],
    METRICS["throughput_tokens_per_s"],
    Metric("usd_per_million_tokens", "minimize", "USD/Mtoken",
           "rent of the devices, or what it costs to own them where none is stated, per million "
           "tokens of the phase, always busy: generated tokens in decode, without any prefill"),
    PLATFORM_METRICS["usd_per_hour"],
    PLATFORM_METRICS["tokens_per_s_per_device"],
    METRICS["memory_used_bytes"],
    METRICS["memory_capacity_bytes"],
    METRICS["compute_utilization"],
)  # fmt: skip

ECONOMICS_METRICS: dict[str, Metric] = {metric.name: metric for metric in _ECONOMICS}
"""Metrics of the ``economics`` evaluator by name."""

_ACCURACY = (
    Metric("accuracy_recovery", "maximize", "",
           "accuracy in the formats of the phase over that at 16 bits: published for exactly these "
           "formats, algorithm and model, or else estimated"),
    Metric("accuracy_recovery_low", "maximize", "",
           "lower end of the interval of accuracy_recovery, which 80 % of withheld scores keep"),
    Metric("accuracy_recovery_high", "maximize", "",
           "upper end of that interval"),
)  # fmt: skip

ACCURACY_METRICS: dict[str, Metric] = {metric.name: metric for metric in _ACCURACY}
"""Metrics that the ``npu`` evaluator adds with its option ``accuracy``, by name."""

_DIVERGENCE = (
    Metric("divergence_nats", "minimize", "",
           "Kullback-Leibler divergence of next tokens from those at 16 bits, nats per token, in "
           "the formats of the phase: measured, or estimated from measured parts"),
    Metric("divergence_nats_low", "minimize", "",
           "lower end of the interval of divergence_nats"),
    Metric("divergence_nats_high", "minimize", "",
           "upper end of that interval"),
)  # fmt: skip

DIVERGENCE_METRICS: dict[str, Metric] = {metric.name: metric for metric in _DIVERGENCE}
"""Metrics that the ``npu`` evaluator adds with its option ``accuracy_table``, by name."""

FORMAT_METRICS = ACCURACY_METRICS | DIVERGENCE_METRICS
"""Metrics of the accuracy of formats, by name."""

_POOL = (
    Metric("idle_watts", "minimize", "W",
           "power of a machine that waits"),
    Metric("dynamic_joules_per_token", "minimize", "J/token",
           "energy of the phase per token of the phase, without the power of a machine that waits"),
    Metric("standing_usd_per_hour", "minimize", "USD/h",
           "price of a machine per hour of serving, written off over its useful life, or its rent; "
           "without electricity"),
    Metric("wear_usd_per_token", "minimize", "USD/token",
           "price of a machine over the tokens that it makes until its first memory is worn out"),
    Metric("standing_kgco2e_per_hour", "minimize", "kg/h",
           "CO2 equivalents of making a machine per hour of serving, spread over its useful life"),
    Metric("wear_kgco2e_per_token", "minimize", "kg/token",
           "CO2 equivalents of making a machine over the tokens that it makes until its first "
           "memory is worn out"),
    Metric("held_requests", "maximize", "",
           "requests whose KV cache fits into a machine's memory"),
    Metric("exchange_bytes", "minimize", "B",
           "activations that a machine sends in a pass to the machine with the other part of the "
           "layers"),
    Metric("exchange_bytes_per_token", "minimize", "B/token",
           "activations of one token, likewise"),
    Metric("handover_requests", "minimize", "",
           "requests of a machine whose KV caches are handed over together"),
)  # fmt: skip

POOL_METRICS: dict[str, Metric] = {metric.name: metric for metric in _POOL}
"""Metrics of a machine that only systems need, by name."""
EXCHANGED = ("exchange_bytes", "exchange_bytes_per_token")
"""Metrics of machines that have a share of every layer."""
OF_PLACE = (*EXCHANGED, "handover_requests")
"""Metrics that follow from the place of the machine's pool."""
FOR_POOLS = frozenset(POOL_METRICS) - frozenset(OF_PLACE)
"""Metrics that an evaluator reports of one machine."""

_SESSION = (
    Metric("sessions_per_s", "maximize", "1/s",
           "sessions that end per second: the lesser of what the concurrent sessions ask for and "
           "what the machine can do"),
    PLATFORM_METRICS["output_tokens_per_s"],
    Metric("first_turn_time_to_first_token_s", "minimize", "s",
           "time to the first token of a session's first turn, on average, waiting for nobody"),
    Metric("later_turn_time_to_first_token_s", "minimize", "s",
           "time to the first token of a later turn, on average over turns whose context is found "
           "and turns whose context is computed anew, waiting for nobody"),
    METRICS["time_per_output_token_s"],
    Metric("loaded_time_per_output_token_s", "minimize", "s",
           "time per generated token of a request while the machine is always busy and prefills "
           "take turns with decode steps"),
    Metric("prompt_hit_share", "maximize", "",
           "share of the tokens of prompts that any level of memory holds"),
    Metric("machine_hit_share", "maximize", "",
           "share of the tokens of prompts that the machine's own memory holds, as contexts"),
    Metric("outer_hit_share", "maximize", "",
           "share of the tokens of prompts that only the outer caches hold, as contexts"),
    Metric("later_turn_hit_share", "maximize", "",
           "share of later turns whose whole context is found"),
    Metric("computed_tokens_per_asked_token", "minimize", "",
           "tokens of prompts that are computed over those that are asked for"),
    Metric("concurrent_sessions", "maximize", "",
           "sessions at a time, their think times included"),
    Metric("energy_joules_per_asked_token", "minimize", "J/token",
           "energy of machine and caches per token of prompts and answers"),
    Metric("usd_per_million_asked_tokens", "minimize", "USD/Mtoken",
           "price of machine, caches and power per million tokens of prompts and answers"),
    METRICS["tdp_watts"],
    METRICS["unit_cost_usd"],
    Metric("cache_lifetime_years", "maximize", "year",
           "time until the first level of memory is worn out by contexts; at most 10"),
)  # fmt: skip

SESSION_METRICS: dict[str, Metric] = {metric.name: metric for metric in _SESSION}
"""Metrics of the ``sessions`` evaluator by name."""

_SYSTEM = (
    METRICS["throughput_tokens_per_s"],
    Metric("requests_per_s", "maximize", "1/s",
           "requests that the slowest pool or link of the system completes per second"),
    METRICS["time_to_first_token_s"],
    METRICS["time_per_output_token_s"],
    Metric("time_to_second_token_s", "minimize", "s",
           "time to the second token of a request: prefill, the hand-over that it does not hide, "
           "and a decode step"),
    Metric("queue_wait_s", "minimize", "s",
           "mean wait of a request for a machine that prefills, at the workload's requests_per_s"),
    Metric("time_to_first_token_p90_s", "minimize", "s",
           "time to the first token that 90 % of requests keep at the workload's requests_per_s, "
           "the wait for a machine included"),
    PLATFORM_METRICS["request_latency_s"],
    Metric("energy_joules_per_request", "minimize", "J",
           "energy of all pools and links per request, pools that wait for others included"),
    METRICS["energy_joules_per_token"],
    METRICS["tokens_per_joule"],
    METRICS["tdp_watts"],
    METRICS["average_power_watts"],
    METRICS["tokens_per_joule_tdp"],
    METRICS["area_mm2"],
    METRICS["unit_cost_usd"],
    METRICS["embodied_kgco2e"],
    ECONOMICS_METRICS["usd_per_million_tokens"],
    METRICS["kgco2e_per_million_tokens"],
    METRICS["lifetime_years"],
    Metric("n_machines", "minimize", "",
           "machines of all pools"),
    PLATFORM_METRICS["n_devices"],
    Metric("handover_bytes", "minimize", "B",
           "bytes that a request hands over between pools"),
    Metric("handover_s", "minimize", "s",
           "time of a request's hand-overs on their links, with requests of the same batch"),
    Metric("handover_exposed_s", "minimize", "s",
           "part of it that no computation hides"),
)  # fmt: skip

SYSTEM_METRICS: dict[str, Metric] = {metric.name: metric for metric in _SYSTEM}
"""Metrics of the ``system`` evaluator by name, besides the utilization of each pool and link."""

ALL_METRICS: dict[str, Metric] = (
    METRICS
    | FORMAT_METRICS
    | PLATFORM_METRICS
    | ECONOMICS_METRICS
    | POOL_METRICS
    | SYSTEM_METRICS
    | SESSION_METRICS
)
"""Metrics of every built-in evaluator by name."""

AMOUNTS: frozenset[Metric] = frozenset(
    metric
    for metrics in (METRICS, PLATFORM_METRICS, ECONOMICS_METRICS, SYSTEM_METRICS, SESSION_METRICS)
    for metric in metrics.values()
)
"""Metrics that are never negative."""
