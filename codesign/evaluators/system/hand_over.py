"""Metrics of a pool's machines besides those of their evaluators."""

from __future__ import annotations

import numpy as np

from codesign.base.columns import Columns, FloatArray
from codesign.base.metrics import OF_PLACE, PLATFORM_METRICS, POOL_METRICS, SYSTEM_METRICS
from codesign.evaluators.system.roles import StageRequest
from codesign.evaluators.system.workload import SystemWorkload
from codesign.models.workload.precision import bits_per_element
from codesign.models.workload.storage import kv_elements, state_bytes

TIME_METRIC = {"prefill": "time_to_first_token_s", "decode": "time_per_output_token_s"}
"""Waiting time of a request in a phase: until its first token, or for each of the next ones."""
WIDE_FORMAT = "bf16"
"""Format of a cache where no parameter says one."""
OWN_METRICS = {
    "handover_bytes": SYSTEM_METRICS["handover_bytes"],
    "n_devices": PLATFORM_METRICS["n_devices"],
    **{name: POOL_METRICS[name] for name in OF_PLACE},
}
"""Metrics of machines that evaluators of one machine do not report."""


class HandOverBytes:
    """Bytes that a request takes along when it leaves a stage."""

    def __init__(self, stage: StageRequest, workload: SystemWorkload) -> None:
        tokens = stage.cached_tokens
        if workload.session is not None and stage.phase == "prefill":
            tokens += stage.generated_tokens  # answers come back, to be contexts of later turns
        models = workload.drafting.models
        stored = [(kv_elements(x, tokens), state_bytes(x, tokens)) for x in models]
        self._elements, self._state_bytes = map(float, np.sum(stored, axis=0))

    def bytes_of(self, format_: object) -> float:
        """Bytes of the KV cache in a format, and of what is in the model's own."""
        return self._elements * bits_per_element(str(format_)) / 8.0 + self._state_bytes

    def request_bytes(self, designs: Columns, n: int) -> FloatArray:
        """(n,) bytes of one request, in the format of the machine that sends it."""
        if "kv_format" not in designs:
            return np.full(n, self.bytes_of(WIDE_FORMAT))
        return designs["kv_format"].lookup(self.bytes_of)
