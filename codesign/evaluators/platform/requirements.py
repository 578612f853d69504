"""Requirements of a use case: PFLOP/s, TB/s and GB (GenZ §VII, Figs. 15 and 16).

Each is sized alone, as if nothing else were a bottleneck: the prefill's arithmetic within the
time to the first token, a decode step's bytes within the time per output token, weights and
KV cache at the end of the answer. How many of a known device that takes at least follows from
the three; how many it takes with the messages between them is found by trying every way to
spread the work.

Two questions are sized. Requests that arrive together (:func:`size_requirements`), GenZ's: the
prompts of the whole batch are prefilled within the time to the first token. Users in a steady
state (:func:`size_steady_state`): each has the next request when the last is answered, so that
prompts arrive one by one between the decode steps of the others, ``users / (generated_tokens x
time per output token)`` a second.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from codesign.base.columns import FloatArray, design_columns
from codesign.base.errors import InputError
from codesign.base.units import format_engineering
from codesign.evaluators.platform.parallelism_choices import (
    ParallelismChoices,
    candidates,
    evaluate_choices,
)
from codesign.evaluators.platform.platform_evaluator import PlatformEvaluator
from codesign.evaluators.platform.platform_serving import PlatformServing
from codesign.models.deployments.parallelism import PIPELINE_PARALLEL, SEARCHED_DEGREES
from codesign.models.hardware.device import Device


@dataclass(frozen=True)
class Requirements:
    """Requirements on a platform that serves a batch within its limits.

    Attributes:
        flop: Arithmetic of a prefill, FLOP: of the batch, or of one prompt in a steady state.
        step_bytes: Weights and KV cache that the last decode step reads.
        flop_per_s: Arithmetic rate that all devices together must reach.
        bandwidth_bytes_per_s: Memory bandwidth that all devices together must reach.
        capacity_bytes: Memory that all devices together must have.
        weight_bytes: Bytes of the weights in that memory.
        kv_bytes: Bytes of the KV cache in that memory.
    """

    flop: float
    step_bytes: float
    flop_per_s: float
    bandwidth_bytes_per_s: float
    capacity_bytes: float
    weight_bytes: float
    kv_bytes: float


@dataclass(frozen=True)
class LatencyLimits:
    """The times that users set, in seconds."""

    time_to_first_token_s: float
    time_per_output_token_s: float


def size_requirements(
    evaluator: PlatformEvaluator, limits: LatencyLimits, others: Mapping[str, Any]
) -> Requirements:
    """The rates and the memory that one platform must offer in all.

    Args:
        evaluator: The evaluator of the use case; its profile says what is computed and read.
        limits: Limits on the two times.
        others: ``batch_size`` and formats of the design.
    """
    device = next(iter(evaluator.devices))
    design = design_columns({**others, "device": device})
    serving = evaluator.serving(design)
    flop = sum(
        n * 2.0 * float(sum(operator.mac[0] for operator in timed_pass.operators))
        for n, timed_pass in serving.prefill_passes
    )
    footprint = serving.decode_footprint
    weights, kv = float(footprint.weight_bytes[0]), float(footprint.kv_bytes[0])
    step = _weights_read(serving) + kv
    return Requirements(
        flop=flop,
        step_bytes=step,
        flop_per_s=flop / limits.time_to_first_token_s,
        bandwidth_bytes_per_s=step / limits.time_per_output_token_s,
        capacity_bytes=weights + kv,
        weight_bytes=weights,
        kv_bytes=kv,
    )


def size_steady_state(
    evaluator: PlatformEvaluator, limits: LatencyLimits, users: int, formats: Mapping[str, Any]
) -> Requirements:
    """The rates and the memory that users in a steady state ask of one platform in all.

    Args:
        evaluator: The evaluator of the use case.
        limits: Limits on the two times; users pause for neither.
        users: Users that are served at once.

    Raises:
        InputError: Nothing is generated, so that requests have no length.
    """
    generated = _generated(evaluator)
    needed = size_requirements(evaluator, limits, {**formats, "batch_size": users})
    device = next(iter(evaluator.devices))
    design = {**formats, "device": device, "batch_size": users}
    serving = evaluator.serving(design_columns(design))
    step_flop = 2.0 * float(sum(operator.mac[0] for operator in serving.decode_pass.operators))
    prompt_flop = needed.flop / users
    rate = (step_flop + needed.flop / generated) / limits.time_per_output_token_s
    least = prompt_flop / limits.time_to_first_token_s
    return replace(needed, flop=prompt_flop, flop_per_s=max(rate, least))


def _generated(evaluator: PlatformEvaluator) -> int:
    generated = evaluator.workload.generated
    if generated < 1:
        problem = "expected at least 1 with users in a steady state, got 0"
        raise InputError(problem, "generated_tokens")
    return generated


def _weights_read(serving: PlatformServing) -> float:
    """Bytes of weights that a decode step reads: of experts, those it touches."""
    streams = serving.passes.decode(serving.micro_batch)
    return sum(
        float(operator.weight_bytes[0]) * operator.count for operator in serving.work(streams)
    )


def fewest_devices(
    evaluator: PlatformEvaluator,
    limits: LatencyLimits,
    others: Mapping[str, Any],
    needed: Requirements,
    most_devices: int,
) -> Iterator[dict[str, Any]]:
    """The smallest number of each known device that keeps the limits, one row for each.

    Args:
        evaluator: The evaluator of the use case.
        limits: Limits on the two times.
        others: ``batch_size`` and formats of the design.
        needed: Requirements that set the lower bounds on the number of devices.
        most_devices: Largest number of devices that is tried.
    """
    model = evaluator.workload.language_model
    degrees = candidates(model, range(1, most_devices + 1), replicas=int(others["batch_size"]) > 1)
    for name, device in evaluator.devices.items():
        choices = evaluate_choices(evaluator, degrees, {**others, "device": name})
        first = choices.values("time_to_first_token_s")
        step = choices.values("time_per_output_token_s")
        yield _row(device, limits, needed, choices, (first, step))


def fewest_for_users(
    evaluator: PlatformEvaluator,
    limits: LatencyLimits,
    users: int,
    formats: Mapping[str, Any],
    needed: Requirements,
    most_devices: int,
    *,
    has_stages: bool = True,
) -> Iterator[dict[str, Any]]:
    """The fewest of each known device that serve users in a steady state, one row for each.

    Instances are all alike. Between two decode steps of its batch an instance prefills
    ``batch / generated_tokens`` prompts, and a new request waits for one step.

    Limiting assumption: requests are spread evenly over instances and over time; no queue.

    Args:
        evaluator: The evaluator of the use case.
        limits: Limits on the two times.
        users: Users that are served at once.
        needed: Requirements that set the lower bounds on the number of devices.
        most_devices: Devices of the largest instance that is tried.
        has_stages: Whether an instance may be a pipeline.
    """
    degrees = candidates(
        evaluator.workload.language_model, range(1, most_devices + 1), replicas=False
    )
    if not has_stages:
        degrees = degrees[degrees[:, SEARCHED_DEGREES.index(PIPELINE_PARALLEL)] == 1]
    counts = np.unique(np.geomspace(1, users, _INSTANCE_COUNTS).round().astype(int)).tolist()
    batches = sorted({-(-users // count) for count in counts}, reverse=True)
    generated = _generated(evaluator)
    for name, device in evaluator.devices.items():
        design = {**formats, "device": name}
        alone = evaluate_choices(evaluator, degrees, {**design, "batch_size": 1})
        first_s = alone.values("time_to_first_token_s")
        best = _row(device, limits, needed, alone, (first_s, first_s * np.inf))
        least = np.min(alone.serving.n_devices, where=~np.isnan(first_s), initial=np.inf)
        for batch in batches:
            n_instances = -(-users // batch)
            if n_instances * least >= (best["devices"] or np.inf):
                break
            choices = evaluate_choices(evaluator, degrees, {**design, "batch_size": batch})
            step = choices.values("time_per_output_token_s")
            pace = step + batch / generated / choices.values("prefill_requests_per_s")
            row = _row(device, limits, needed, choices, (first_s + step, pace), n_instances)
            if row["devices"] is None:
                best = best if best["devices"] is not None else row
            elif best["devices"] is None or row["devices"] < best["devices"]:
                best = row | {"batch_size": batch}
        yield best


_INSTANCE_COUNTS = 192
"""Numbers of instances that are tried, from 1 to one for each user [ours]."""


def _row(
    device: Device,
    limits: LatencyLimits,
    needed: Requirements,
    choices: ParallelismChoices,
    times_s: tuple[FloatArray, FloatArray],
    n_instances: int = 1,
) -> dict[str, Any]:
    """The fewest devices among ways to split one of several instances that are alike.

    Args:
        limits: Limits on the two times.
        needed: Requirements that set the lower bounds on the number of devices.
        choices: (f,) ways to split an instance.
        times_s: (f,) time to first token and per output token of each, NaN where infeasible.
    """
    first, step = times_s
    within = (first <= limits.time_to_first_token_s) & (step <= limits.time_per_output_token_s)
    platform, options = choices.serving.platform, choices.serving.options
    rates = (
        needed.flop_per_s
        / (platform.products.peak_flop_per_s[0] * (options.compute_efficiency or 1.0)),
        needed.bandwidth_bytes_per_s
        / (platform.fast_bandwidth[0] * (options.memory_efficiency or 1.0)),
        needed.capacity_bytes / platform.fast_capacity[0],
    )
    n_devices = [max(int(np.ceil(float(rate) - 1e-12)), 1) for rate in rates]
    bounds = (n_devices[0], n_devices[1], n_devices[2])
    row: dict[str, Any] = {
        "device": device.key,
        "announced": device.is_announced,
        "for_compute": bounds[0],
        "for_bandwidth": bounds[1],
        "for_capacity": bounds[2],
        "devices": None,
        "note": "",
    }
    if not within.any():
        return row | {"note": _why_not(first, step, limits)}
    devices = choices.serving.n_devices * n_instances
    # The fewest devices, and among those the fastest.
    best = np.lexsort((step, first + step, np.where(within, devices, np.inf)))[0]
    degrees = dict(zip(SEARCHED_DEGREES, choices.degrees[best].tolist(), strict=True))
    degrees["data_parallel"] *= n_instances
    return row | {
        "devices": int(devices[best]),
        **degrees,
        "time_to_first_token_s": float(first[best]),
        "time_per_output_token_s": float(step[best]),
        "memory_used_per_device_bytes": float(choices.serving.memory_used_per_device_bytes[best]),
    }


def _why_not(first: Any, step: Any, limits: LatencyLimits) -> str:
    if np.isnan(first).all():
        return "does not fit, or no links join enough of them"
    best_times_s = (np.nanmin(first), np.nanmin(step))
    allowed = (limits.time_to_first_token_s, limits.time_per_output_token_s)
    names = ("first token", "output token")
    missed = [
        f"{name} {format_engineering(float(value), 's', 3)} at best"
        for name, value, limit in zip(names, best_times_s, allowed, strict=True)
        if value > limit
    ]
    return ", ".join(missed) or "not both limits at once"


def rows_of(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows with the fewest devices first; those that cannot serve last."""
    return [
        dict(row)
        for row in sorted(rows, key=lambda row: (row["devices"] is None, row["devices"] or 0))
    ]
