"""Pools of machines that are devices: step times, limits with the room for the cache, links."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from codesign.base.columns import Fields, IntegerMap, JsonObject, column_of, design_columns
from codesign.base.errors import InputError
from codesign.evaluators.platform.attention_ffn import ExchangedStepTimes, exchange_s
from codesign.evaluators.platform.engine_settings import EngineSettings
from codesign.evaluators.platform.platform_evaluator import PlatformEvaluator
from codesign.evaluators.platform.serving_steps import (
    DeviceStepTimes,
    DraftedStepTimes,
    cache_tokens,
)
from codesign.models.deployments.queueing import Arrivals, CacheLink, EngineLimits
from codesign.models.deployments.queueing.prefix_cache import StoreLimits
from codesign.models.deployments.queueing.serving_machine import ServingMachine
from codesign.models.deployments.queueing.step_times import StepTimes
from codesign.models.hardware.accelerator import UnitTables, off_chip_memory
from codesign.models.memtech import load_technology
from codesign.models.workload.model import LanguageModel
from codesign.models.workload.storage import bytes_per_token

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
    request = evaluator.workload
    times: StepTimes = DeviceStepTimes(evaluator, design, limits, longest)
    if request.draft_request is not None:
        draft = evaluator.replace_request(request.draft_request)
        draft_times = DeviceStepTimes(draft, design, limits, longest)
        times = DraftedStepTimes(times, draft_times, request)
    return ServingMachine(
        design=dict(design),
        step_times=times,
        limits=limits,
        n_devices=int(platform.n_devices[0]),
        power_watts=float((platform.power_watts * platform.n_devices)[0]),
    )


def joint_machine(
    evaluator: PlatformEvaluator,
    first: ServingMachine,
    second: ServingMachine,
    latency_s: float,
    n_first: int = 1,
    waves: int = 1,
) -> ServingMachine:
    """A machine of two groups of devices: of model and draft, or of attention and other layers.

    Args:
        first: Devices that check the tokens of a draft, or one attention instance. They hold the
            cache of their requests.
        second: Devices of the draft model, or the feed-forward instance of all attention instances.
        latency_s: Of a message between model and draft; see :class:`.DraftedStepTimes`.
        n_first: Attention instances.
        waves: Micro-batches that alternate; see :class:`.ExchangedStepTimes`.

    Raises:
        InputError: No network joins the devices of the layers.
    """
    request = evaluator.workload
    role = "draft"
    joined_keys: JsonObject = {}
    times: StepTimes = DraftedStepTimes(first.step_times, second.step_times, request, latency_s)
    if request.draft is None:
        role = "ffn"
        ends = [evaluator.devices[str(side.design["device"])] for side in (first, second)]
        tensor = int(str(second.design.get("tensor_parallel", 1)))
        ways = np.array([[first.n_devices, tensor, second.n_devices // tensor, n_first]])
        send_s = partial(exchange_s, request.language_model, ends, ways)
        if np.isnan(send_s(ways[:, 3])[0]):
            keys = " and ".join(dict.fromkeys(end.key for end in ends))
            raise InputError(f"expected a network_bandwidth in the file of {keys}", "ffn_on")
        times = ExchangedStepTimes(first.step_times, second.step_times, waves, n_first, send_s)
        joined_keys = {"attention_instances": n_first, "overlapped_batches": waves}
    names = [name for name in second.design if not name.endswith("_format")]
    joined_keys |= {f"{role}_{name}": second.design[name] for name in names}
    tokens = min(n_first * first.limits.cache_tokens, second.limits.cache_tokens)
    return ServingMachine(
        design={**first.design, **joined_keys},
        step_times=times,
        limits=replace(first.limits, cache_tokens=tokens),
        n_devices=n_first * first.n_devices + second.n_devices,
        power_watts=n_first * first.power_watts + second.power_watts,
    )


def prompt_stores(
    model: LanguageModel, design: Fields, settings: EngineSettings, units: IntegerMap
) -> tuple[StoreLimits, ...]:
    """Stores of prompts behind a machine.

    Args:
        units: Modules or drives of each memory technology, the nearest first.

    Raises:
        InputError: A technology is unknown or on-chip.
    """
    per_token = bytes_per_token(model, design)
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
        bytes_per_token=bytes_per_token(model, machine.design),
        bandwidth_bytes_per_s=bandwidth_bytes_per_s,
        latency_s=latency_s,
        n_layers=model.num_hidden_layers,
    )
