"""A design as a machine that serves requests that arrive, by the evaluator of its phase."""

from __future__ import annotations

import math
from dataclasses import replace

from codesign.base.columns import Fields
from codesign.base.errors import InputError
from codesign.base.units import format_engineering
from codesign.evaluators.design_steps import DesignStepTimes
from codesign.evaluators.phase_machine import PhaseMachine
from codesign.evaluators.request_passes import evaluate_requests
from codesign.models.deployments.parallelism import (
    EXPERT_PARALLEL,
    PIPELINE_PARALLEL,
    TENSOR_PARALLEL,
)
from codesign.models.deployments.queueing import Arrivals, EngineLimits
from codesign.models.deployments.queueing.engine_limits import BLOCK_TOKENS
from codesign.models.deployments.queueing.serving_machine import ServingMachine

_MEMORY = ("memory_capacity_bytes", "memory_used_bytes")
_POWER = "tdp_watts"


def design_machine(
    evaluator: PhaseMachine,
    design: Fields,
    limits: EngineLimits,
    arrivals: Arrivals,
    memory_fraction: float,
) -> ServingMachine:
    """A machine for requests that arrive: one design, or several with tensor parallelism.

    Limiting assumption: sliding layers hold as many tokens as others.

    Args:
        evaluator: The evaluator; of its workload only model and formats count.
        design: The design, by the evaluator's parameters.
        limits: How the engine forms steps; its room for the cache is set here.
        arrivals: The requests, whose longest the machine must be able to serve.
        memory_fraction: Part of the memory that the engine takes.

    Raises:
        InputError: The design serves a part of the layers, in a pipeline or in groups with experts,
            breaks a limit of its own, or has no room for a cache; or the model does not generate
            token by token.
    """
    if evaluator.workload.layers != "all":
        raise InputError(f"expected a machine for all layers, got {evaluator.workload.layers}")
    for name in (PIPELINE_PARALLEL, EXPERT_PARALLEL):
        degree = design.get(name) or 1
        if degree != 1:  # stages would overlap steps, and groups form steps of their own
            raise InputError(f"expected 1 in a machine of a fleet, got {degree}", f"design: {name}")
    longest = int((arrivals.prompt_tokens + arrivals.generated_tokens).max())
    step_times = DesignStepTimes(evaluator, design, limits.max_sequences, longest)
    room, watts = _room_and_watts(evaluator, design, limits.max_sequences, memory_fraction)
    return ServingMachine(
        design=dict(design),
        step_times=step_times,
        limits=replace(limits, cache_tokens=room),
        n_devices=int(design.get(TENSOR_PARALLEL) or 1),
        power_watts=watts,
    )


def _room_and_watts(
    evaluator: PhaseMachine, design: Fields, n_sequences: int, memory_fraction: float
) -> tuple[int, float]:
    """Tokens whose keys and values fit beside weights and states, and the TDP if it has one."""
    has_power = _POWER in evaluator.metric_names
    metrics = [*_MEMORY, _POWER] if has_power else _MEMORY
    short, longer = (
        evaluate_requests(evaluator, design, "decode", prompt, [1, 2], metrics) for prompt in (1, 2)
    )
    broken = [
        name for name, excess in short.violations.items() if name != "capacity" and excess[0] > 0
    ]
    if broken:
        raise InputError(f"the design breaks {', '.join(broken)}")
    capacity, used = (short.metrics[name] for name in _MEMORY)
    of_token = longer.metrics["memory_used_bytes"][0] - used[0]
    of_request = used[1] - used[0]
    weights = used[0] - of_request
    states = n_sequences * (of_request - 2 * of_token)  # both contexts are of 2 tokens
    free = capacity[0] * memory_fraction - weights - states
    if free < BLOCK_TOKENS * of_token:
        raise InputError(
            f"memory: weights of {format_engineering(float(weights), 'B')} leave no room for a "
            f"cache in {memory_fraction:.0%} of {format_engineering(float(capacity[0]), 'B')}"
        )
    return int(free // of_token), float(short.metrics.get(_POWER, [math.nan])[0])
