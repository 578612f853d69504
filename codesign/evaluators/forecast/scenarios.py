"""Forecasts along one axis: the generation, machines, adapters.

These are studies of LIFE §5 (Figs. 4 and 7, Table 9) for any model and variant.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from codesign.base.columns import Arrays, JsonObject
from codesign.evaluators.forecast.operator_work import OPS, READ, WRITTEN
from codesign.evaluators.forecast.performance import ForecastMachine
from codesign.evaluators.forecast.phases import Inference


def timeline(
    inference: Inference,
    machine: ForecastMachine,
    prompt_tokens: int,
    generated_tokens: int,
    n_points: int | None = None,
    batch_size: int = 1,
) -> Arrays:
    """Time, traffic and operations of decode steps over a generation (LIFE Fig. 7, Table 9).

    Args:
        prompt_tokens: Tokens before the first generated token.
        generated_tokens: Number of the last step.
        n_points: Steps, evenly spaced and with both ends; all of them if None.
        batch_size: Requests decoded together.

    Returns:
        (c,) by name: number of the token, tokens that the step attends to, bytes and operations,
        time, rate of each request and its change.
    """
    count = generated_tokens if n_points is None else min(n_points, generated_tokens)
    token = np.unique(np.linspace(1, generated_tokens, count).round())
    steps = inference.decode(prompt_tokens + token, batch_size)
    times = machine.phase_times(steps)
    step_s = times.memory_s if inference.rules.is_decode_memory_bound else times.time_s
    rate = 1.0 / step_s
    return {
        "token": token,
        "context_tokens": prompt_tokens + token,
        "moved_bytes": steps.total(*READ, *WRITTEN),
        "kv_bytes": steps.total("kv_read_bytes", "kv_written_bytes"),
        "ops": steps.total(*OPS),
        "time_per_output_token_s": step_s,
        "tokens_per_s": rate,
        "change": rate / rate[0] - 1.0,
    }


def lora_update_ops(inference: Inference) -> float:
    """Operations that merge the adapters of a variant into all layers once (LIFE Table 12)."""
    inline, without = (
        replace(inference, variant=inference.variant.model_copy(update={"lora": how}))
        for how in ("inline", "none")
    )
    ops = inline.prefill(1).sums("matrix_ops") - without.prefill(1).sums("matrix_ops")
    return float(ops.sum())


def ratio_grid(inference: Inference, machine: ForecastMachine, prompt_tokens: int) -> JsonObject:
    """Compute over memory time of the prefill for machines around the given one (LIFE Fig. 4).

    Ten peaks and ten bandwidths, a fifth to twice those of the machine.
    """
    steps = np.arange(1, 11) / 5.0
    peaks = machine.peak_ops_per_s * steps
    bandwidths = machine.bandwidth_bytes_per_s * steps
    machines = replace(machine, peak_ops_per_s=peaks[:, None], bandwidth_bytes_per_s=bandwidths)
    compute, memory = machines.phase_times(inference.prefill(prompt_tokens))
    return {
        "peak_ops_per_s": peaks.tolist(),
        "bandwidth_bytes_per_s": bandwidths.tolist(),
        "ratio": (compute / memory).tolist(),
    }
