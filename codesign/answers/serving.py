"""Answers about serving a model on devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self

from pydantic import Field

from codesign.answers.answer import Answer, Design, Entry, Number, Numbers
from codesign.base.columns import Fields, FloatSequence, Strings
from codesign.evaluators.forecast.variants import Variant
from codesign.models.deployments.queueing import ServedRequests
from codesign.models.deployments.queueing.fleet import Routing
from codesign.models.deployments.queueing.service_levels import LatencyLimits


class PoolInputs(Entry):
    """Machines with one role."""

    role: Literal["serve", "prefill", "decode"]
    design: Design
    """One machine by the evaluator's parameters."""
    machines: int
    devices: int
    cache_tokens: int
    """Tokens whose keys and values fit into a machine."""
    board_power_watts: Number
    """Board power limits of all devices; of designs, their TDP."""


class ServedPool(PoolInputs):
    """Machines with one role, and their load."""

    utilization: FloatSequence
    """Share of the makespan in which each machine ran steps."""
    steps: int
    preempted: int
    """Requests that gave their cache back."""


class Percentiles(Entry):
    """Percentiles and mean of a time; null where no request has it."""

    p50: Number
    p90: Number
    p99: Number
    mean: Number


class RequestTimes(Entry):
    """Times of the requests, in seconds."""

    queueing_s: Percentiles
    time_to_first_token_s: Percentiles
    time_per_output_token_s: Percentiles
    request_latency_s: Percentiles


class LevelEntry(Entry):
    """Limits on the two times, and how the requests met them."""

    time_to_first_token_s: float
    time_per_output_token_s: float
    attainment: float
    """Share of the requests within both limits."""
    goodput_requests_per_s: float


class CacheEntry(Entry):
    """A place in which prompts wait for their next use."""

    name: str
    """The machine's own cache, or the memory technology."""
    capacity_tokens: int
    """Tokens that one machine holds there."""
    hit_share: float
    """Share of all tokens of prompts that were found there."""


class ServeModelAnswer(Answer):
    """Requests that arrive, and how they were served."""

    model: str
    convention: str
    """Counting rules of work and time."""
    design: str | None = None
    """The campaign and its design that serves; absent where devices serve."""
    trace: str | None
    """File of the requests; null if they were drawn."""
    session: str | None
    """Session whose turns were served; null without one."""
    offered_requests_per_s: Number
    """Rate at which requests were drawn; null if all were there at once."""
    offered_sessions_per_s: Number
    """Rate at which sessions began; null without one."""
    machines_needed: int | None
    """Number of machines that would keep up with the rate; null if the simulated ones do."""
    seed: int | None
    policy: Literal["chunked", "prefill-first"]
    max_sequences: int
    max_batched_tokens: int
    plans_ahead: bool
    reserves_answers: bool
    """True if a request runs only where its full answer has room."""
    routing: Routing
    pools: Sequence[ServedPool]
    requests: int
    makespan_s: float
    """Time from the first arrival to the last token."""
    requests_per_s: float
    tokens_per_s: float
    """Generated tokens over the makespan."""
    times: RequestTimes
    caches: Sequence[CacheEntry]
    """The machine's own cache, then the stores behind it; empty if prompts share nothing."""
    service_level: LevelEntry | None

    @classmethod
    def describe(
        cls,
        inputs: Fields,
        pools: Sequence[PoolInputs],
        served: ServedRequests,
        level: LatencyLimits | None,
    ) -> Self:
        """The answer about served requests.

        Args:
            inputs: Fields of the question.
            pools: Machines by role.
            served: The requests with their times.
            level: Limits on the two times.
        """
        loads = [
            ServedPool(
                **dict(pool),
                utilization=served.utilization(load).tolist(),
                steps=load.n_steps,
                preempted=load.n_preempted,
            )
            for pool, load in zip(pools, served.pools, strict=True)
        ]
        return cls.read(
            served,
            **inputs,
            pools=loads,
            requests=len(served.arrivals),
            caches=[
                CacheEntry(name=name, capacity_tokens=tokens, hit_share=share)
                for name, tokens, share in served.cache_rows(pools[0].cache_tokens)
            ],
            times=RequestTimes(
                **{name: Percentiles(**values) for name, values in served.percentiles().items()}
            ),
            service_level=None
            if level is None
            else LevelEntry(
                **vars(level),
                attainment=level.attainment(served),
                goodput_requests_per_s=level.goodput_requests_per_s(served),
            ),
        )


class WorkTotals(Entry):
    """Work over all operators."""

    ops: Number
    matrix_ops: Number
    read_bytes: Number
    written_bytes: Number
    weight_bytes: Number
    kv_read_bytes: Number
    kv_written_bytes: Number
    dispatches: Number


class ForecastOperator(Entry):
    """An operator of all layers together."""

    name: str
    kernel: str = Field(alias="class")
    """Class of the operator."""
    ops: Number
    ops_share: Number
    read_bytes: Number
    written_bytes: Number
    kv_read_bytes: Number
    kv_written_bytes: Number
    dispatches: Number
    compute_s: Number
    memory_s: Number


class ForecastPhase(Entry):
    """One phase on one machine."""

    totals: WorkTotals
    compute_s: float
    """Time of the arithmetic and of the launches."""
    memory_s: float
    """Time of the traffic and of the launches."""
    bound: Literal["compute", "memory"]
    """The longer of the two times."""
    operators: Sequence[ForecastOperator]


class ForecastRequestEntry(Entry):
    """Token counts and batch."""

    prompt_tokens: int
    generated_tokens: int
    batch_size: int
    chunk_tokens: int | None
    """Tokens of a chunk; null if the prompt is one chunk."""


class ForecastMachineEntry(Entry):
    """Rates, efficiencies and latency of a machine."""

    peak_ops_per_s: float
    bandwidth_bytes_per_s: float
    dispatch_latency_s: float
    compute_efficiency: float | Numbers | None
    """A share, or shares by operator."""
    memory_efficiency: float | Numbers | None
    """A share, or shares by operator."""


class LoraUpdate(Entry):
    """Merging the adapters once."""

    ops: Number
    time_s: Number


class ForecastStep(Entry):
    """A step of the generation."""

    token: Number
    context_tokens: Number
    moved_bytes: Number
    kv_bytes: Number
    ops: Number
    time_per_output_token_s: Number
    tokens_per_s: Number
    change: Number
    """Change of the rate since the first step."""


class RatioGrid(Entry):
    """Compute over memory time of the prefill by machine."""

    peak_ops_per_s: FloatSequence
    bandwidth_bytes_per_s: FloatSequence
    ratio: Sequence[Sequence[Number]]
    """Ratios by rate, then by bandwidth."""


class ForecastAnswer(Answer):
    """Time to first token and per output token from peak rates."""

    model: str
    convention: str
    """Counting rules of the work."""
    variant: Variant
    """Software that runs the model."""
    request: ForecastRequestEntry
    machine: ForecastMachineEntry
    metrics: Numbers
    prefill: ForecastPhase
    """The first token."""
    decode: ForecastPhase
    """The mean step."""
    notes: Strings
    """Limits of the numbers, one sentence each."""
    lora_update: LoraUpdate | None = None
    """Merging the adapters once, if there are any."""
    timeline: Sequence[ForecastStep] | None = None
    """Steps of the generation; with --timeline."""
    ratios: RatioGrid | None = None
    """Ratios around the machine; with --heat-map."""
