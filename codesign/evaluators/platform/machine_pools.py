"""Pools of machines that are devices: step times, limits with the room for the cache, links."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from codesign.base.columns import Fields, design_columns
from codesign.base.errors import InputError
from codesign.evaluators.platform.platform_evaluator import PlatformEvaluator
from codesign.evaluators.platform.serving_steps import DeviceStepTimes, cache_tokens
from codesign.models.deployments.queueing import Arrivals, CacheLink, EngineLimits
from codesign.models.deployments.queueing.serving_machine import ServingMachine
from codesign.models.workload.precision import bits_per_element
from codesign.models.workload.storage import kv_elements_per_token, state_bytes_per_token

MEMORY_FRACTION = 0.9
"""Part of the memory that serving engines take: vLLM's default until version 0.27."""


def serving_machine(
    evaluator: PlatformEvaluator,
    design: Fields,
    limits: EngineLimits,
    arrivals: Arrivals,
    memory_fraction: float = MEMORY_FRACTION,
) -> ServingMachine:
    """A machine for requests that arrive.

    Args:
        evaluator: The evaluator; the tokens of its workload do not matter.
        design: Device, formats and degrees, by the evaluator's parameters.
        limits: How the engine forms steps; its room for the cache is set here.
        arrivals: The requests, whose longest the machine must be able to serve.
        memory_fraction: Part of the memory that the engine takes.

    Raises:
        InputError: The machine cannot hold the model, or has no steps; see ``serving_steps``.
    """
    room = cache_tokens(evaluator, design, limits, memory_fraction)
    limits = replace(limits, cache_tokens=room)
    longest = int((arrivals.prompt_tokens + arrivals.generated_tokens).max())
    columns = design_columns({**design, "batch_size": 1})
    platform = evaluator.platform(columns)
    n_devices = int(platform.n_devices[0])
    watts = float(platform.power_watts[0]) * n_devices
    return ServingMachine(
        design=dict(design),
        step_times=DeviceStepTimes(evaluator, design, limits, longest),
        limits=limits,
        n_devices=n_devices,
        power_watts=None if np.isnan(watts) else watts,
    )


def cache_link(
    evaluator: PlatformEvaluator,
    machine: ServingMachine,
    bandwidth_bytes_per_s: float | None,
    latency_s: float,
) -> CacheLink:
    """The link from a machine that prefills: a rate, or that of its devices' network.

    Raises:
        InputError: There is no rate, and the device's file states no network.
    """
    model = evaluator.workload.language_model
    device = evaluator.devices[str(machine.design["device"])]
    if bandwidth_bytes_per_s is None:
        if device.network_bandwidth is None:
            raise InputError(
                f"expected a rate, as the file of {device.key} states no network_bandwidth",
                "link_bandwidth",
            )
        bandwidth_bytes_per_s = device.network_bandwidth * machine.n_devices
    kv_bytes = bits_per_element(str(machine.design.get("kv_format", "bf16"))) / 8.0
    return CacheLink(
        bytes_per_token=kv_elements_per_token(model) * kv_bytes + state_bytes_per_token(model),
        bandwidth_bytes_per_s=bandwidth_bytes_per_s,
        latency_s=latency_s,
        n_layers=model.num_hidden_layers,
    )
