"""Instances of a model on one kind of device: every split, batch, and the time of both phases.

An instance of a disaggregated pool has one phase only: a prompt waits for the running pass and for
its own, and a decode step runs alone. Passes of overlapping micro-batches take turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import cached_property
from typing import Any, Literal

import numpy as np

from codesign.base.columns import (
    BoolArray,
    Column,
    Columns,
    Fields,
    FloatArray,
    IntArray,
    IntegerSequence,
    column_of,
)
from codesign.base.records import frozen
from codesign.evaluators.platform.design_times import DesignServing, FoundDesign
from codesign.evaluators.platform.platform_evaluator import PlatformEvaluator
from codesign.evaluators.platform.platform_limits import limits as limits_of
from codesign.evaluators.platform.platform_serving import PlatformServing
from codesign.models.deployments.parallelism import SEARCHED_DEGREES, divisors
from codesign.models.deployments.queueing.service_levels import LatencyLimits
from codesign.models.hardware.device import Device
from codesign.models.workload.model import LanguageModel
from codesign.models.workload.storage import bytes_per_token

Policy = Literal["co-located", "chunked", "disaggregated", "attention-ffn", "together"]
Role = Literal["serve", "prefill", "decode", "attention", "ffn"]

PASS_TOKENS = 8192
"""Tokens of a pass that prefills, of each group: what vLLM and TensorRT-LLM take by default."""
MOST_TENSOR = 64
"""Devices that share a layer at most: beyond it links no longer join them [ours]."""
LINK_LATENCY_S = 5e-6
"""Latency of the links between pools, as ``codesign serve-model`` has it."""
_BETWEEN = 14
"""Batches that a refinement tries of each instance [ours]."""
_UNTRIED = 2**62
"""A batch larger than every batch of the search."""


@frozen
class Demand:
    """Requests to serve, one of three ways, and limits on their times.

    Attributes:
        limits: Limits on the two times; infinite ones allow everything.
        users: Users at once, each of whom has the next request when the last is answered.
        requests_per_s: Requests that begin in a second.
        burst: Requests that arrive together.
        attainment: Share of requests at random that must be within both limits.
        seed: Seed of the times at which they arrive.
    """

    limits: LatencyLimits
    users: int | None = None
    requests_per_s: float | None = None
    burst: int | None = None
    attainment: float = 0.9
    seed: int = 0


@frozen
class Variant:
    """A way to run instances, whatever their split and batch.

    Attributes:
        evaluator: Evaluator of whole passes.
        waves: Micro-batches that overlap; 1 if none do.
        mixed: Evaluator of passes with a chunk, under ``chunked``.
        copies: Copies of experts.
        ffn: Devices of the feed-forward layers, if they have their own.
    """

    role: Role
    policy: Policy
    device: Device | FoundDesign
    evaluator: PlatformEvaluator
    waves: int = 1
    mixed: PlatformEvaluator | None = None
    copies: int = 0
    ffn: Device | None = None

    @property
    def draft(self) -> str | None:
        """Draft model that runs before each decode step; None: there is none."""
        return self.evaluator.workload.draft


@frozen
class Instances:
    """(k,) instances with a batch each.

    Attributes:
        variant: Position of the variant.
        degrees: (k, 4) degrees of parallelism, in the order of ``SEARCHED_DEGREES``.
        owner: Position of the split among the splits of its variant.
        count: Requests of each group of devices and stage.
        batch: Requests of the instance.
        pace_s: Time between two tokens of a request.
        first_s: Time to the first token.
        prompts_per_s: Prompts that it prefills in a second if it does nothing else.
        joules: Energy of its share of a request; NaN where no power is stated.
        fits: Whether memory holds the batch.
        keeps: Whether memory holds the batch and the times keep the limits.
        usd_per_hour: Price of an hour of a device by the accounts of a found design; NaN for a
            device that is rented.
    """

    variant: IntArray
    degrees: IntArray
    owner: IntArray
    count: IntArray
    batch: FloatArray
    n_devices: FloatArray
    pace_s: FloatArray
    first_s: FloatArray
    prompts_per_s: FloatArray
    joules: FloatArray
    fits: BoolArray
    keeps: BoolArray
    usd_per_hour: FloatArray

    def __len__(self) -> int:
        return len(self.batch)

    def rows(self, which: IntArray | BoolArray) -> Instances:
        """Some of the instances."""
        return Instances(*(getattr(self, field.name)[which] for field in fields(self)))

    @classmethod
    def judged(cls, limits: LatencyLimits, **columns: Any) -> Instances:
        """Instances with all columns but ``keeps``, judged by limits."""
        keeps = columns["fits"] & (columns["first_s"] <= limits.time_to_first_token_s)
        keeps &= columns["pace_s"] <= limits.time_per_output_token_s
        return cls(keeps=keeps, **columns)

    @staticmethod
    def joined(tables: Sequence[Instances]) -> Instances:
        """The instances of several tables."""
        names = [field.name for field in fields(Instances)]
        return Instances(
            *(np.concatenate([getattr(table, name) for table in tables]) for name in names)
        )


def splits(model: LanguageModel, stages: IntegerSequence, most_devices: int) -> IntArray:
    """(f, 4) degrees of the instances that divide a model, in the order of ``SEARCHED_DEGREES``.

    Args:
        model: Its experts and heads are divided.
        stages: Stages that an instance may have.
        most_devices: Devices of the largest instance.
    """
    rows = [
        (tensor, pipeline, expert, 1)
        for expert in divisors(model.moe_dims.n_routed_experts if model.is_mixture else 1)
        for tensor in divisors(model.num_attention_heads)
        for pipeline in stages
        if tensor * pipeline * expert <= most_devices and tensor <= MOST_TENSOR
    ]
    return np.array(rows, np.int64).reshape(-1, 4)


def factorizations(n_devices: int) -> IntArray:
    """(f, 4) every ordered way to write a number as a product of the four degrees.

    Examples:
        >>> len(factorizations(8))  # 3 twos in 4 places
        20
    """
    rows = [
        (tp, pp, ep, n_devices // (tp * pp * ep))
        for tp in divisors(n_devices)
        for pp in divisors(n_devices // tp)
        for ep in divisors(n_devices // (tp * pp))
    ]
    return np.array(rows, np.int64)


def columns_of(degrees: IntArray, others: Fields, batch: FloatArray | None = None) -> Columns:
    """The columns of designs that differ in their degrees, and in their batches if there are any.

    Args:
        degrees: (f, 4) degrees of parallelism, in the order of ``SEARCHED_DEGREES``.
        others: The designs' other parameters, the same for all.
        batch: (f,) requests of each.
    """
    n = len(degrees)
    columns = {}
    for j, name in enumerate(SEARCHED_DEGREES):
        values, codes = np.unique(degrees[:, j], return_inverse=True)
        columns[name] = Column(tuple(int(value) for value in values), codes.reshape(n))
    for name, value in others.items():
        column = column_of([value])
        columns[name] = Column(column.values, np.repeat(column.codes, n))
    if batch is not None:
        columns["batch_size"] = column_of([int(requests) for requests in batch])
    return columns


def fitting(serving: PlatformServing | DesignServing) -> BoolArray:
    """(n,) whether a platform keeps every limit of its own: memory, links, even splits."""
    if isinstance(serving, DesignServing):
        return serving.fits
    keeps_limits = [values <= 0 for values in limits_of(serving).values()]
    return np.asarray(np.all(keeps_limits, axis=0))


def batches_between(table: Instances, users: float) -> tuple[IntArray, IntArray] | None:
    """Batches of each instance between the largest within the limits and the next larger one.

    Args:
        users: Concurrent users. Instances that need more devices than the best, even with the
            larger batch, are left out; infinity keeps all.

    Returns:
        The instance and the count of each; None if there are none.
    """
    owners, places = np.unique(table.owner, return_inverse=True)
    count = table.count
    low, high = np.zeros(len(owners), np.int64), np.full(len(owners), _UNTRIED)
    np.maximum.at(low, places[table.keeps], count[table.keeps])
    is_larger = count > low[places]
    np.minimum.at(high, places[is_larger], count[is_larger])
    is_open = (low > 0) & (high < _UNTRIED) & (high - low > 1)
    needed = np.ceil(users / table.batch - 1e-9) * table.n_devices
    most = np.zeros(len(owners))
    np.maximum.at(most, places[is_larger], needed[is_larger])
    is_open &= most <= needed[table.keeps].min(initial=np.inf)
    ends = zip(low[is_open].tolist(), high[is_open].tolist(), strict=True)
    grids = [np.unique(np.linspace(*pair, _BETWEEN + 2).round().astype(np.int64)) for pair in ends]
    if not grids:
        return None
    new = [grid[1:-1] for grid in grids]
    return np.repeat(owners[is_open], [len(grid) for grid in new]), np.concatenate(new)


@frozen
class InstanceTimes:
    """The times of the instances of a variant, by split and batch.

    Attributes:
        served: Results by evaluator, splits and counts, shared by variants.
    """

    variant: Variant
    position: int
    others: Fields
    degrees: IntArray
    units: FloatArray
    demand: Demand
    served: dict[Any, PlatformServing]

    @cached_property
    def prefill(self) -> FloatArray:
        """(3, p, f) passes that prefill prompts between decode steps, of each split.

        Row ``i`` is the pass with the most prompts per second among those with at most ``2**i``
        prompts of each group and stage, and ``PASS_TOKENS`` tokens if it has several. A pass of
        several prompts and a decode step together must keep the time to first token.

        Returns:
            Prompts in a second if nothing else runs, the time of a pass, the energy of a prompt.
        """
        limits = self.demand.limits
        output_s = limits.time_per_output_token_s
        most_s = limits.time_to_first_token_s - (output_s if output_s < np.inf else 0.0)
        evaluator = self.variant.evaluator
        rows: list[FloatArray] = []
        for exponent in range(max(PASS_TOKENS // evaluator.workload.prompt, 1).bit_length()):
            units = self.units * 2**exponent
            serving = evaluator.serving(columns_of(self.degrees, self.others, units))
            first_s = serving.sustained_time_to_first_token_s
            joules = serving.prefill_energy_joules_per_token * evaluator.workload.prompt
            row = np.array([serving.prefill_requests_per_s, first_s, joules])
            if rows:
                row = np.where((row[0] > rows[-1][0]) & (first_s <= most_s), row, rows[-1])
            rows.append(row)
        return np.stack(rows, axis=1)

    def __call__(self, owner: IntArray, count: IntArray) -> Instances:
        variant = self.variant
        degrees = self.degrees[owner]
        batch = self.units[owner] * count.astype(np.float64)
        evaluate = variant.evaluator.serving
        key = variant.evaluator, owner.tobytes(), count.tobytes()
        serving = full = self.served.get(key) or evaluate(
            columns_of(degrees, self.others, batch / variant.waves)
        )
        if variant.role == "serve":
            self.served[key] = serving
        if variant.waves > 1:
            full = evaluate(columns_of(degrees, self.others, batch))
        nothing = np.zeros(0)
        pace, first, rate, joules = (
            self._times(serving, owner, batch) if len(owner) else (nothing,) * 4
        )
        fits = fitting(full) if len(owner) else np.zeros(0, np.bool_)
        usd = np.full(len(owner), np.nan)
        if isinstance(serving, DesignServing):
            step_s = serving.time_per_output_token_s
            steps = np.where(pace > 0, step_s / np.maximum(pace, step_s), 0.0)
            usd = np.sum(serving.usd_per_hour * [1.0 - steps, steps], axis=0) / serving.n_devices
        return Instances.judged(
            self.demand.limits,
            variant=np.full(len(owner), self.position),
            degrees=degrees,
            owner=owner,
            count=count,
            batch=batch,
            n_devices=np.asarray(degrees.prod(axis=1), np.float64),
            pace_s=pace,
            first_s=first,
            prompts_per_s=rate,
            joules=joules,
            fits=fits,
            usd_per_hour=usd,
        )

    def _times(
        self, serving: PlatformServing, owner: IntArray, batch: FloatArray
    ) -> Sequence[FloatArray]:
        variant = self.variant
        request = self.variant.evaluator.workload
        waves = variant.waves
        if variant.role == "prefill":
            rate = serving.prefill_requests_per_s
            first = 2.0 * waves * serving.sustained_time_to_first_token_s
            if variant.device.network_bandwidth is not None:
                token = bytes_per_token(request.language_model, self.others)
                sent = serving.n_devices * variant.device.network_bandwidth
                rate = np.minimum(rate, sent / (token * request.prompt))
            joules = serving.prefill_energy_joules_per_token * request.prompt
            return np.zeros_like(first), first, rate, joules
        step = serving.time_per_output_token_s
        joules = serving.energy_joules_per_token * request.generated
        if variant.role == "decode":
            if serving.draft is not None:  # its cache is not handed over
                step = step + batch / request.generated / serving.draft.prefill_requests_per_s
                joules += serving.draft.prefill_energy_joules_per_token * request.prompt
            return waves * step, np.zeros_like(step), np.full_like(step, np.inf), joules
        if variant.policy == "chunked":
            return self._chunked(step, joules, owner, batch)
        if variant.policy == "together":
            joules += serving.prefill_energy_joules_per_token * request.prompt
            first = serving.sustained_time_to_first_token_s
            return step, first, serving.prefill_requests_per_s, joules
        exponent = np.log2(batch / self.units[owner] + 0.5).astype(np.int64)
        row = np.minimum(exponent, self.prefill.shape[1] - 1)
        rate, first, prompt_joules = self.prefill[:, row, owner]
        pace = step + batch / request.generated / rate
        return pace, first + step, rate, joules + prompt_joules

    def _chunked(
        self, step: FloatArray, plain_joules: FloatArray, owner: IntArray, batch: FloatArray
    ) -> Sequence[FloatArray]:
        assert self.variant.mixed is not None
        generated = self.variant.evaluator.workload.generated
        mixed = self.variant.mixed.serving(columns_of(self.degrees[owner], self.others, batch))
        mixed_s = mixed.time_per_output_token_s
        n_passes = sum(n for n, _ in mixed.prefill_passes)
        groups = mixed.platform.attention_groups
        # Passes with chunks that the prompts of a batch need while it generates a token.
        share = batch / groups * n_passes / generated
        pace = np.minimum(share, 1.0) * mixed_s + np.maximum(1.0 - share, 0.0) * step
        pace = np.where(share > 1.0, share * mixed_s, pace)
        rate = groups / (n_passes * mixed_s)
        mixed_joules = share * (mixed.energy_joules_per_token * generated)
        joules = mixed_joules + np.maximum(1.0 - share, 0.0) * plain_joules
        return pace, step + n_passes * mixed_s, rate, joules
