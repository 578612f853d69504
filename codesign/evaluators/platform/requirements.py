"""What a use case asks of a platform: PFLOP/s, TB/s and GB (GenZ §VII, Figs. 15 and 16).

Each is sized alone, as if nothing else were a bottleneck: the prefill's arithmetic within the
time to the first token, a decode step's bytes within the time per output token, weights and
KV cache at the end of the answer. How many of a known device that takes at least follows from
the three; how many it takes with the messages between them is found by trying every way to
spread the work.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from codesign.columns import column_of
from codesign.evaluators.platform.parallelism import (
    DEGREES,
    ParallelismChoices,
    candidates,
    evaluate_choices,
)
from codesign.evaluators.platform.platform_evaluator import PlatformEvaluator
from codesign.evaluators.platform.serving import PlatformServing
from codesign.hardware.device import Device
from codesign.units import format_engineering


@dataclass(frozen=True)
class Requirements:
    """What a platform must have to serve a batch within its limits.

    Attributes:
        flop: Arithmetic of the prefill, FLOP.
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
    design = {name: column_of([value]) for name, value in {**others, "device": device}.items()}
    serving = evaluator.serving(design)
    flop = sum(
        n * 2.0 * float(sum(item.mac[0] for item in timed_pass.operators))
        for n, timed_pass in serving.prefill_passes
    )
    kept = serving.decode_footprint
    weights, kv = float(kept.weight_bytes[0]), float(kept.kv_bytes[0])
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


def _weights_read(serving: PlatformServing) -> float:
    """Bytes of weights that a decode step reads: of experts, those it touches."""
    streams = serving.passes.decode(serving.micro_batch)
    return sum(float(item.weight_bytes[0]) * item.count for item in serving.work(streams))


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
        yield _row(name, device, limits, needed, choices)


def _row(
    name: str,
    device: Device,
    limits: LatencyLimits,
    needed: Requirements,
    choices: ParallelismChoices,
) -> dict[str, Any]:
    first = choices.values("time_to_first_token_s")
    step = choices.values("time_per_output_token_s")
    within = (first <= limits.time_to_first_token_s) & (step <= limits.time_per_output_token_s)
    bounds = _least(choices.serving, needed)
    row: dict[str, Any] = {
        "device": name,
        "announced": device.is_announced,
        "for_compute": bounds[0],
        "for_bandwidth": bounds[1],
        "for_capacity": bounds[2],
        "devices": None,
        "note": "",
    }
    if not within.any():
        return row | {"note": _why_not(first, step, limits)}
    devices = choices.serving.n_devices
    # The fewest devices, and among those the fastest.
    best = np.lexsort((step, first + step, np.where(within, devices, np.inf)))[0]
    return row | {
        "devices": int(devices[best]),
        **{key: int(value) for key, value in zip(DEGREES, choices.degrees[best], strict=True)},
        "time_to_first_token_s": float(first[best]),
        "time_per_output_token_s": float(step[best]),
        "memory_used_per_device_bytes": float(choices.serving.memory_used_per_device_bytes[best]),
    }


def _least(serving: PlatformServing, needed: Requirements) -> tuple[int, int, int]:
    """Devices that each requirement alone asks for."""
    platform, options = serving.platform, serving.options
    rates = (
        needed.flop_per_s / (platform.flop_per_s[0] * (options.compute_efficiency or 1.0)),
        needed.bandwidth_bytes_per_s
        / (platform.fast_bandwidth[0] * (options.memory_efficiency or 1.0)),
        needed.capacity_bytes / platform.fast_capacity[0],
    )
    n_devices = [max(int(np.ceil(float(rate) - 1e-12)), 1) for rate in rates]
    return n_devices[0], n_devices[1], n_devices[2]


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
