"""Requirements of a demand: PFLOP/s, TB/s and GB (GenZ §VII, Figs. 15 and 16).

Each requirement is sized alone, as if nothing else were a bottleneck: the prefill's arithmetic
within the time to the first token, a decode step's bytes within the time per output token, weights
and KV cache at the end of the answer.

There are two questions. In GenZ's, requests arrive together (:func:`size_requirements`), and the
prompts of the whole batch are prefilled within the time to the first token. In a steady state
(:func:`size_steady_state`), each user has the next request when the last is answered. Prompts then
arrive one by one between the decode steps of the others, ``users / (generated_tokens x time per
output token)`` a second.
"""

from __future__ import annotations

from dataclasses import replace

from codesign.base.columns import Fields, design_columns
from codesign.base.errors import InputError
from codesign.base.records import frozen
from codesign.evaluators.platform.platform_evaluator import PlatformEvaluator
from codesign.models.deployments.queueing.service_levels import LatencyLimits


@frozen
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


def size_requirements(
    evaluator: PlatformEvaluator, limits: LatencyLimits, others: Fields
) -> Requirements:
    """The rates and the memory that one platform must offer in all.

    Args:
        evaluator: The evaluator of the use case; its profile says what is computed and read.
        limits: Limits on the two times.
        others: ``batch_size`` and formats of the design.
    """
    serving = evaluator.serving(design_columns({**others, "device": next(iter(evaluator.devices))}))
    flop = sum(
        n * 2.0 * float(sum(operator.mac[0] for operator in timed_pass.operators))
        for n, timed_pass in serving.prefill_passes
    )
    footprint = serving.decode_footprint
    weights = float(footprint.weight_bytes[0])
    kv = float(footprint.kv_bytes[0])
    streams = serving.passes.decode(serving.micro_batch)
    # Of experts, a step reads those that it touches.
    step = kv + sum(float(each.weight_bytes[0]) * each.count for each in serving.work(streams))
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
    evaluator: PlatformEvaluator, limits: LatencyLimits, users: int, formats: Fields
) -> Requirements:
    """Rates and memory of one platform that serves users in a steady state.

    Args:
        evaluator: The evaluator of the use case.
        limits: Limits on the two times; a user sends the next request at once.
        users: Number of users served at once.

    Raises:
        InputError: Nothing is generated, so that requests have no length.
    """
    generated = evaluator.workload.generated
    if generated < 1:
        problem = "expected at least 1 with users in a steady state, got 0"
        raise InputError(problem, "generated_tokens")
    design = {**formats, "device": next(iter(evaluator.devices)), "batch_size": users}
    needed = size_requirements(evaluator, limits, design)
    serving = evaluator.serving(design_columns(design))
    step_flop = 2.0 * float(sum(operator.mac[0] for operator in serving.decode_pass.operators))
    prompt_flop = needed.flop / users
    rate = (step_flop + needed.flop / generated) / limits.time_per_output_token_s
    least = prompt_flop / limits.time_to_first_token_s
    return replace(needed, flop=prompt_flop, flop_per_s=max(rate, least))
