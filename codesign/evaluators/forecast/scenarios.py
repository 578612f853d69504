"""Forecasts along one axis: generation, machines, efficiencies, chunks, tiles, adapters.

These are the studies of LIFE §5 (Figs. 4 to 9, Tables 9 and 12) for any model and variant.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from codesign.base.columns import FloatArray, JsonObject
from codesign.evaluators.forecast.operator_work import OPS, READ, WRITTEN
from codesign.evaluators.forecast.performance import ForecastMachine
from codesign.evaluators.forecast.phases import Inference
from codesign.evaluators.forecast.plain import lora_merge_ops
from codesign.models.workload.model import LanguageModel

ADAPTED = (
    ("q_proj", "hidden_size", "queries"),
    ("k_proj", "hidden_size", "keys"),
    ("v_proj", "hidden_size", "keys"),
    ("o_proj", "queries", "hidden_size"),
    ("gate_proj", "hidden_size", "intermediate_size"),
    ("up_proj", "hidden_size", "intermediate_size"),
    ("down_proj", "intermediate_size", "hidden_size"),
)
"""The matrices of a layer with their inner and outer sizes (LIFE Table 12)."""


@dataclass(frozen=True)
class DecodeTimeline:
    """Decode steps as the cache grows; (c,) each.

    Attributes:
        token: Number of the generated token, from 1.
        context_tokens: Tokens that the step attends to.
        moved_bytes: Bytes that the step reads and writes.
        kv_bytes: Part of these bytes that comes from the cache or goes to it.
        ops: Operations of the step.
    """

    token: FloatArray
    context_tokens: FloatArray
    moved_bytes: FloatArray
    kv_bytes: FloatArray
    ops: FloatArray
    time_per_output_token_s: FloatArray

    @property
    def tokens_per_s(self) -> FloatArray:
        """Tokens per second of each request of the batch."""
        return 1.0 / self.time_per_output_token_s

    def rows(self) -> list[dict[str, float]]:
        """One row per step."""
        columns = {
            "token": self.token,
            "context_tokens": self.context_tokens,
            "moved_bytes": self.moved_bytes,
            "kv_bytes": self.kv_bytes,
            "ops": self.ops,
            "time_per_output_token_s": self.time_per_output_token_s,
            "tokens_per_s": self.tokens_per_s,
            "change": self.tokens_per_s / self.tokens_per_s[0] - 1.0,
        }
        return [
            dict(zip(columns, map(float, row), strict=True))
            for row in zip(*columns.values(), strict=True)
        ]


def timeline(
    inference: Inference,
    machine: ForecastMachine,
    prompt_tokens: int,
    generated_tokens: int,
    n_points: int | None = None,
    batch_size: int = 1,
) -> DecodeTimeline:
    """Time, traffic and operations of decode steps over a generation (LIFE Fig. 7, Table 9).

    Args:
        prompt_tokens: Tokens before the first generated token.
        generated_tokens: Number of the last step.
        n_points: Steps, evenly spaced and with both ends; all of them if None.
        batch_size: Requests decoded together.
    """
    count = generated_tokens if n_points is None else min(n_points, generated_tokens)
    token = np.unique(np.linspace(1, generated_tokens, count).round())
    steps = inference.decode(prompt_tokens + token, batch_size)
    moved, ops = steps.total(*READ, *WRITTEN), steps.total(*OPS)
    times = machine.phase_times(steps)
    bound_by_memory = inference.rules.is_decode_memory_bound
    return DecodeTimeline(
        token=token,
        context_tokens=prompt_tokens + token,
        moved_bytes=moved,
        kv_bytes=steps.total("kv_read_bytes", "kv_written_bytes"),
        ops=ops,
        time_per_output_token_s=times.memory_s if bound_by_memory else times.time_s,
    )


def lora_update_ops(model: LanguageModel, rank: int) -> dict[str, float]:
    """Operations that merge an adapter of this rank into every matrix of one layer (Table 12).

    Limiting assumption: dense layers with separate projections, as in Llama; under MLA and in
    mixtures use the operators of :meth:`Inference.prefill` with ``lora: inline``.
    """
    sizes = {
        "hidden_size": model.hidden_size,
        "intermediate_size": model.intermediate_size,
        "queries": model.num_attention_heads * model.head_dim,
        "keys": model.num_key_value_heads * model.head_dim,
    }
    matrices = {
        name: sizes[k] * sizes[n] for name, k, n in ADAPTED if name != "gate_proj" or model.is_gated
    }
    return {
        name: float(lora_merge_ops(np.asarray(float(elements)), rank))
        for name, elements in matrices.items()
    }


def ratio_grid(inference: Inference, machine: ForecastMachine, prompt_tokens: int) -> JsonObject:
    """Compute over memory time of the prefill for machines around the given one (LIFE Fig. 4).

    Ten peaks and ten bandwidths, a fifth to twice those of the machine.
    """
    steps = np.arange(1, 11) / 5.0
    peaks, bandwidths = machine.peak_ops_per_s * steps, machine.bandwidth_bytes_per_s * steps
    machines = replace(machine, peak_ops_per_s=peaks[:, None], bandwidth_bytes_per_s=bandwidths)
    compute, memory = machines.phase_times(inference.prefill(prompt_tokens))
    return {
        "peak_ops_per_s": peaks.tolist(),
        "bandwidth_bytes_per_s": bandwidths.tolist(),
        "ratio": np.asarray(compute / memory).tolist(),
    }
