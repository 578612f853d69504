"""A machine of a user's own: so many TFLOP/s and GB/s, which serves one phase of a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from codesign.base.columns import Columns, FloatArray
from codesign.base.errors import InputError
from codesign.base.evaluator import Evaluation
from codesign.base.metrics import METRICS
from codesign.base.schema import Record
from codesign.evaluators.phase_machine import PhaseMachine
from codesign.models.workload import Request


class Roofline(PhaseMachine):
    """Arithmetic or memory traffic of a whole pass, whichever takes longer; elements of 16 bits."""

    class Options(Record):
        """What a campaign's ``evaluator:`` says beside ``name:``."""

        efficiency: float = 1.0
        """Share of both peaks that a pass reaches."""

    options: Options
    required_parameters = frozenset({"tflop_per_s", "gb_per_s", "gb"})

    def __init__(self, workload: Request, options: Options) -> None:
        if workload.layers != "all":
            raise InputError(f"expected a machine for all layers, got {workload.layers}")
        self.workload, self.options = workload, options
        self.batch = float(workload.batch) if isinstance(workload.batch, int) else 1.0
        stored = 2.0 * workload.kv_elements_per_request + workload.state_bytes_per_request
        self.used_bytes = 2.0 * workload.weight_elements + self.batch * stored
        first, next_ = "time_to_first_token_s", "time_per_output_token_s"
        names = ["throughput_tokens_per_s", first if workload.phase == "prefill" else next_]
        names += ["batch_size", "memory_capacity_bytes", "memory_used_bytes"]
        self.metrics = tuple(METRICS[name] for name in names)

    def known_violations(self, designs: Columns) -> Mapping[str, FloatArray]:
        """Weights and caches over the memory."""
        return {"capacity": self.used_bytes / (1e9 * designs["gb"].lookup(float)) - 1.0}

    def evaluate(self, designs: Columns, metrics: Sequence[str] | None = None) -> Evaluation:
        """Of a prefill, prompts one after the other."""
        peak, bandwidth = (designs[name].lookup(float) for name in ("tflop_per_s", "gb_per_s"))
        request, table, batch = self.workload, self.workload.operators(), self.batch
        flop, moved, tokens = 2.0 * (table.mac_per_request * table.count).sum(), self.used_bytes, 1
        if request.phase == "prefill":
            batch, moved = 1.0, 2.0 * request.weight_elements
            tokens = request.tokens.prompt_tokens
        pass_s = np.maximum(batch * flop / (1e12 * peak), moved / (1e9 * bandwidth))
        seconds, same = pass_s / self.options.efficiency, np.ones(len(peak))
        memory = (1e9 * designs["gb"].lookup(float), self.used_bytes * same)
        columns = (batch * tokens / seconds, seconds, self.batch * same, *memory)
        values = {metric.name: x for metric, x in zip(self.metrics, columns, strict=True)}
        names = values if metrics is None else metrics
        return Evaluation({name: values[name] for name in names}, self.known_violations(designs))

    def provenance(self) -> dict[str, Any]:
        """All that a result depends on."""
        return {"workload": self.workload.model_dump(), "options": self.options.model_dump()}
