"""Pools of machines that are devices: step times, limits with the room for the cache, links."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from codesign.base.columns import Fields, IntegerMap, column_of, design_columns
from codesign.base.errors import InputError
from codesign.evaluators.platform.engine_settings import EngineSettings
from codesign.evaluators.platform.platform_evaluator import PlatformEvaluator
from codesign.evaluators.platform.serving_steps import DeviceStepTimes, cache_tokens
from codesign.models.deployments.queueing import Arrivals, CacheLink, EngineLimits
from codesign.models.deployments.queueing.prefix_cache import StoreLimits
from codesign.models.deployments.queueing.serving_machine import ServingMachine
from codesign.models.hardware.accelerator import UnitTables, off_chip_memory
from codesign.models.memtech import load_technology
from codesign.models.workload.model import LanguageModel
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
    limits = replace(limits, cache_tokens=cache_tokens(evaluator, design, limits, memory_fraction))
    longest = int((arrivals.prompt_tokens + arrivals.generated_tokens).max())
    platform = evaluator.platform(design_columns({**design, "batch_size": 1}))
    n_devices = int(platform.n_devices[0])
    watts = float(platform.power_watts[0]) * n_devices
    return ServingMachine(
        design=dict(design),
        step_times=DeviceStepTimes(evaluator, design, limits, longest),
        limits=limits,
        n_devices=n_devices,
        power_watts=None if np.isnan(watts) else watts,
    )


def _bytes_per_token(model: LanguageModel, design: Fields) -> float:
    kv_bytes = bits_per_element(str(design.get("kv_format", "bf16"))) / 8.0
    return kv_elements_per_token(model) * kv_bytes + state_bytes_per_token(model)


def prompt_stores(
    model: LanguageModel, design: Fields, settings: EngineSettings, units: IntegerMap
) -> tuple[StoreLimits, ...]:
    """Stores of prompts behind a machine.

    Args:
        units: Modules or drives of each memory technology, the nearest first.

    Raises:
        InputError: A technology is unknown or on-chip.
    """
    per_token = _bytes_per_token(model, design)
    stores = []
    for name, count in units.items():
        technology = load_technology(name)
        if technology.place == "on-chip":
            raise InputError(f"expected off-chip memory, got {name}, which is on-chip")
        key = technology.key
        tables = UnitTables({key: technology})
        memory = off_chip_memory(column_of([key]), column_of([count]), tables)
        rate = float(memory.bandwidth_bytes_per_s[0] / memory.paged_slowdown[0])
        stores.append(
            StoreLimits(
                key,
                int(memory.capacity_bytes[0] // per_token),
                min(rate, settings.cache_link) / per_token,
                model.num_hidden_layers,
                settings.shares_stores,
            )
        )
    return tuple(stores)


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
    return CacheLink(
        bytes_per_token=_bytes_per_token(model, machine.design),
        bandwidth_bytes_per_s=bandwidth_bytes_per_s,
        latency_s=latency_s,
        n_layers=model.num_hidden_layers,
    )
