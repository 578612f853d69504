"""One platform in full: where its time goes, what its memories hold, under which assumptions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from codesign.base.columns import Strings, first_values
from codesign.base.evaluator import Explanation
from codesign.base.explanation_rows import LevelRow, OperatorRow, PowerRow
from codesign.evaluators.platform.operator_time import OperatorTime
from codesign.evaluators.platform.platform_limits import limits
from codesign.evaluators.platform.platform_serving import PRICES, PlatformServing
from codesign.models.accounts.rents import list_rents, rent_words
from codesign.models.hardware.device import Device


def explain(serving: PlatformServing, names: Strings, device: Device) -> Explanation:
    """The full account of a batch of one.

    Args:
        names: Metrics to report.
    """
    metrics = {name: float(getattr(serving, name)[0]) for name in names}
    options = serving.options
    request = serving.request
    notes = serving.rules.notes(device, serving.platform.products)
    notes.append(
        "Collectives hide behind operators where they can."
        if options.overlap
        else "Collectives and operators follow one another."
    )
    if serving.decode_pass.host_s[0] > 0:
        notes.append(_host_note(serving))
    if serving.platform.products.has_block_scales[0]:
        notes.append(
            "8-bit weights have a scale for 128 x 128 of them, and products the kernels for such "
            "blocks."
        )
    unquantized = serving.sharding.unquantized
    if unquantized and serving.platform.weight_bytes[0] < serving.platform.plain_bytes[0]:
        weights = ", ".join(unquantized).replace("_", " ")
        notes.append(f"Weights that stay in 16 bits, as in published checkpoints: {weights}.")
    notes += rent_words(device.key, options.device_usd_per_hour)
    if request.mixed:
        notes.append(
            f"Every pass has {request.chunk_tokens} tokens of one prompt and a decode step of the "
            "batch; the batch is taken as given, whatever the rate at which requests come."
        )
    ranges = dict(serving.rules.metric_ranges(device.key, metrics))
    rent = list_rents().get(device.key)
    if rent is not None and options.device_usd_per_hour is None:
        low, high = rent.spread  # the least and the largest rent that is listed
        for name in PRICES:
            if metrics[name] == metrics[name]:
                ranges[name] = (low * metrics[name], high * metrics[name])
    return Explanation(
        metrics=metrics,
        violations=first_values(limits(serving)),
        operators=list(_operators(serving)),
        levels=list(_levels(serving)),
        power=_power(serving),
        notes=notes,
        ranges=ranges,
    )


def _operators(serving: PlatformServing) -> Iterator[OperatorRow]:
    """Rows of both phases; a chunked prefill's chunks are added up."""
    phases = [("prefill", serving.prefill_passes), ("decode", [(1, serving.decode_pass)])]
    if serving.request.mixed:
        phases = [("mixed pass", [(1, serving.decode_pass)])]
    for phase, passes in phases:
        total = sum(n * float(timed_pass.total_s[0]) for n, timed_pass in passes)
        for i, first in enumerate(passes[0][1].operators):
            if first.count[0] > 0:
                yield _row(phase, [(n, timed_pass.operators[i]) for n, timed_pass in passes], total)


def _row(phase: str, times: list[tuple[int, OperatorTime]], total_s: float) -> OperatorRow:
    def added(name: str) -> float:
        return sum(n * float(getattr(operator, name)[0]) for n, operator in times)

    operator_time = times[0][1]
    if operator_time.part in ("linear", "attention"):
        bound = "compute" if added("compute_s") >= added("memory_s") else "memory"
    else:
        bound = "links"
    return {
        "phase": phase,
        "name": operator_time.name,
        "part": operator_time.part,
        "count": added("count"),
        "time_s": added("time_s"),
        "time_share": added("time_s") / total_s,
        "bound": bound,
        "compute_s": added("compute_s"),
        "memory_s": added("memory_s"),
        "work_flop": 2.0 * added("mac"),
        "traffic_bytes": added("bytes"),
    }


def _levels(serving: PlatformServing) -> Iterator[LevelRow]:
    platform = serving.platform
    footprint = serving.decode_footprint
    share = float(serving.residence(footprint).offloaded_share[0])
    need = float(serving.memory_used_per_device_bytes[0])
    for name in ("fast", "slow"):
        bandwidth = float(getattr(platform, f"{name}_bandwidth")[0])
        if name == "slow" and (not serving.options.offload or np.isnan(bandwidth)):
            return
        capacity = float(getattr(platform, f"{name}_capacity")[0])
        held = share if name == "slow" else 1.0 - share
        yield {
            "name": f"{name} memory",
            "capacity_bytes": None if np.isinf(capacity) else capacity,
            "bandwidth_bytes_per_s": bandwidth,
            "holds_bytes": need * held,
            "weight_bytes": float(footprint.weight_bytes[0]) * held,
            "kv_bytes": float(footprint.kv_bytes[0]) * held,
        }


def _power(serving: PlatformServing) -> list[PowerRow]:
    watts = float(serving.platform.power_watts[0])
    if np.isnan(watts):
        return []
    n = float(serving.n_devices[0])
    return [{"name": "devices", "count": n, "each_watts": watts, "tdp_watts": n * watts}]


def _host_note(serving: PlatformServing) -> str:
    """Share of the time that a platform waits for hosts, which no operator's row has."""
    prefill_s = sum(n * timed_pass.host_s[0] for n, timed_pass in serving.prefill_passes)
    first_token_s = float(serving.time_to_first_token_s[0])
    step = serving.decode_pass
    return (
        f"Devices wait for their host in {float(prefill_s) / first_token_s:.0%} of the time to "
        f"first token and in {float(step.host_s[0] / step.total_s[0]):.0%} of a decode step."
    )
