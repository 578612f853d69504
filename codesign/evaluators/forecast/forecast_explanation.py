"""One forecast in full: both phases operator by operator, and the assumptions in force."""

from __future__ import annotations

from typing import cast

import numpy as np

from codesign.base.columns import FloatDict, FloatMap, JsonRows, StringList, values_at
from codesign.base.evaluator import Explanation
from codesign.base.explanation_rows import LevelRow, OperatorRow
from codesign.base.records import frozen
from codesign.evaluators.forecast.forecast_options import ForecastRequest
from codesign.evaluators.forecast.operator_work import OPS, READ, WRITTEN, PassWork
from codesign.evaluators.forecast.performance import Demand, ForecastMachine, operator_demand
from codesign.evaluators.forecast.phases import Inference


@frozen
class Forecast:
    """The work of both phases under one variant, whatever the machine.

    Attributes:
        inference: Model, variant and conventions that were counted.
        prefill: Work of one request's prompt, all chunks together.
        decode: Work of the mean decode step of the batch.
        prefill_demand: Sums of the prefill's work, divided by each operator's efficiencies.
        decode_demand: Sums of the decode step's work, divided by each operator's efficiencies.
        batch_size: Requests decoded together.
        memory_bytes: Bytes of the weights and of the batch's cache when its last tokens are
            generated.
    """

    inference: Inference
    prefill: PassWork
    decode: PassWork
    prefill_demand: Demand
    decode_demand: Demand
    batch_size: int
    memory_bytes: float


def operator_rows(work: PassWork, machine: ForecastMachine) -> JsonRows:
    """One row per operator: its work and times, all layers together."""
    times = machine.times(operator_demand(work, machine.efficiencies))
    quantities = {
        "ops": work.sums(*OPS),
        "ops_share": work.sums(*OPS) / max(float(work.total(*OPS)), 1.0),
        "read_bytes": work.sums(*READ),
        "written_bytes": work.sums(*WRITTEN),
        "kv_read_bytes": work.sums("kv_read_bytes"),
        "kv_written_bytes": work.sums("kv_written_bytes"),
        "dispatches": work.sums("dispatches"),
        "compute_s": times.compute_s,
        "memory_s": times.memory_s,
    }
    return [
        {"name": name, "class": class_name, **values_at(quantities, i)}
        for i, (name, class_name) in enumerate(zip(work.names, work.classes, strict=True))
    ]


_TOTALS = (
    "ops", "matrix_ops", "read_bytes", "written_bytes", "weight_bytes", "kv_read_bytes",
    "kv_written_bytes", "dispatches",
)  # fmt: skip


def totals(work: PassWork) -> FloatDict:
    """The workload metrics of LIFE §4.2.1, over all operators."""
    sums = {"ops": OPS, "read_bytes": READ, "written_bytes": WRITTEN}
    return {name: float(work.total(*sums.get(name, (name,)))) for name in _TOTALS}


def explained_forecast(
    forecast: Forecast,
    request: ForecastRequest,
    machine: ForecastMachine,
    metrics: FloatMap,
    violations: FloatMap,
) -> Explanation:
    """Explanation of one machine for ``codesign evaluate``."""
    work = forecast.prefill if request.phase == "prefill" else forecast.decode
    rows = operator_rows(work, machine)
    for row in rows:
        row["kind"] = row.pop("class")
        row["bound"] = "compute" if row["compute_s"] > row["memory_s"] else "memory"
    level: LevelRow = {
        "name": "memory",
        "bandwidth_bytes_per_s": np.asarray(machine.bandwidth_bytes_per_s).item(),
        "holds_bytes": forecast.memory_bytes,
        "traffic_bytes": float(np.asarray(work.total(*READ, *WRITTEN))),
    }
    return Explanation(
        metrics=metrics,
        violations=violations,
        operators=cast(list[OperatorRow], rows),
        levels=[level],
        power=[],
        notes=notes(forecast, request),
    )


def notes(forecast: Forecast, request: ForecastRequest) -> StringList:
    """The assumptions that limit the numbers."""
    inference = forecast.inference
    variant = forecast.inference.variant
    bound = (
        "traffic alone" if inference.rules.is_decode_memory_bound else "the longer of both times"
    )
    assumptions = [
        f"profile {inference.profile}; a prefill takes the longer of its compute and memory time, "
        f"a decode step {bound}; launches come on top",
        f"{variant.weight_format} weights, {variant.activation_format} activations, "
        f"{variant.kv_format} KV cache, {variant.attention} attention, "
        + ("fused" if variant.fused else "not fused"),
        f"decode: the mean of {request.tokens.generated_tokens:,} steps after "
        f"{request.tokens.prompt_tokens:,} tokens, {forecast.batch_size} at a time",
        "generated tokens per second are those of decode steps; no prefill is in them",
        "one peak rate for every kind of operation and number format",
    ]
    if variant.lora == "merged":
        assumptions.append("adapters are merged before the inference, which costs nothing here")
    return assumptions
