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
    """Machines with one role, and their load.

    Attributes:
        utilization: Share of the makespan in which each machine ran steps.
        preempted: Requests that gave their cache back.
    """

    utilization: FloatSequence
    steps: int
    preempted: int


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
    """Limits on the two times, and how the requests met them.

    Attributes:
        attainment: Share of the requests within both limits.
    """

    time_to_first_token_s: float
    time_per_output_token_s: float
    attainment: float
    goodput_requests_per_s: float


class CacheEntry(Entry):
    """A place in which prompts wait for their next use.

    Attributes:
        name: The machine's own cache, or the memory technology.
        capacity_tokens: Tokens that one machine holds there.
        hit_share: Share of all tokens of prompts that were found there.
    """

    name: str
    capacity_tokens: int
    hit_share: float


class ServeModelAnswer(Answer):
    """Requests that arrive, and how they were served.

    Attributes:
        convention: Counting rules of work and time.
        design: The campaign and its design that serves; absent where devices serve.
        trace: File of the requests; null if they were drawn.
        session: Session whose turns were served; null without one.
        offered_requests_per_s: Rate at which requests were drawn; null if all were there at once.
        offered_sessions_per_s: Rate at which sessions began; null without one.
        machines_needed: Number of machines that would keep up with the rate; null if the simulated
            ones do.
        reserves_answers: True if a request runs only where its full answer has room.
        makespan_s: Time from the first arrival to the last token.
        tokens_per_s: Generated tokens over the makespan.
        caches: The machine's own cache, then the stores behind it; empty if prompts share nothing.
    """

    model: str
    convention: str
    design: str | None = None
    trace: str | None
    session: str | None
    offered_requests_per_s: Number
    offered_sessions_per_s: Number
    machines_needed: int | None
    seed: int | None
    policy: Literal["chunked", "prefill-first"]
    max_sequences: int
    max_batched_tokens: int
    plans_ahead: bool
    reserves_answers: bool
    routing: Routing
    pools: Sequence[ServedPool]
    requests: int
    makespan_s: float
    requests_per_s: float
    tokens_per_s: float
    times: RequestTimes
    caches: Sequence[CacheEntry]
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
    """An operator of all layers together.

    Attributes:
        kernel: Class of the operator.
    """

    name: str
    kernel: str = Field(alias="class")
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
    """One phase on one machine.

    Attributes:
        compute_s: Time of the arithmetic and of the launches.
        memory_s: Time of the traffic and of the launches.
        bound: The longer of the two times.
    """

    totals: WorkTotals
    compute_s: float
    memory_s: float
    bound: Literal["compute", "memory"]
    operators: Sequence[ForecastOperator]


class ForecastRequestEntry(Entry):
    """Token counts and batch.

    Attributes:
        chunk_tokens: Tokens of a chunk; null if the prompt is one chunk.
    """

    prompt_tokens: int
    generated_tokens: int
    batch_size: int
    chunk_tokens: int | None


class ForecastMachineEntry(Entry):
    """Rates, efficiencies and latency of a machine.

    Attributes:
        compute_efficiency: A share, or shares by operator.
        memory_efficiency: A share, or shares by operator.
    """

    peak_ops_per_s: float
    bandwidth_bytes_per_s: float
    dispatch_latency_s: float
    compute_efficiency: float | Numbers | None
    memory_efficiency: float | Numbers | None


class LoraUpdate(Entry):
    """Merging the adapters once."""

    ops: Number
    time_s: Number


class ForecastStep(Entry):
    """A step of the generation.

    Attributes:
        change: Change of the rate since the first step.
    """

    token: Number
    context_tokens: Number
    moved_bytes: Number
    kv_bytes: Number
    ops: Number
    time_per_output_token_s: Number
    tokens_per_s: Number
    change: Number


class RatioGrid(Entry):
    """Compute over memory time of the prefill by machine.

    Attributes:
        ratio: Ratios by rate, then by bandwidth.
    """

    peak_ops_per_s: FloatSequence
    bandwidth_bytes_per_s: FloatSequence
    ratio: Sequence[Sequence[Number]]


class ForecastAnswer(Answer):
    """Time to first token and per output token from peak rates.

    Attributes:
        convention: Counting rules of the work.
        variant: Software that runs the model.
        prefill: The first token.
        decode: The mean step.
        notes: Limits of the numbers, one sentence each.
        lora_update: Merging the adapters once, if there are any.
        timeline: Steps of the generation; with --timeline.
        ratios: Ratios around the machine; with --heat-map.
    """

    model: str
    convention: str
    variant: Variant
    request: ForecastRequestEntry
    machine: ForecastMachineEntry
    metrics: Numbers
    prefill: ForecastPhase
    decode: ForecastPhase
    notes: Strings
    lora_update: LoraUpdate | None = None
    timeline: Sequence[ForecastStep] | None = None
    ratios: RatioGrid | None = None
