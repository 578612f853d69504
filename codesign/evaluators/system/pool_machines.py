"""The machines of a pool: designs by an evaluator that the options name, or devices that exist."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from codesign.base.columns import Column, constant_column
from codesign.base.errors import InputError, describe_unknown, mistakes_at
from codesign.base.evaluator import PoolDescription
from codesign.base.schema import Record
from codesign.evaluators.npu import NpuEvaluator
from codesign.evaluators.platform import PlatformEvaluator
from codesign.evaluators.system.design_pool import DesignPool, design_pool
from codesign.evaluators.system.device_pool import DevicePool
from codesign.evaluators.system.hand_over import HandOverBytes
from codesign.evaluators.system.roles import PoolTask
from codesign.evaluators.system.system_options import (
    DEVICES,
    MachineChoice,
    MachineOptions,
    SystemOptions,
)
from codesign.evaluators.system.workload import SystemWorkload
from codesign.models.workload.precision import FORMAT_KEYS, bits_per_element, bits_per_weight


def pool_machine(
    pool: PoolDescription,
    task: PoolTask,
    workload: SystemWorkload,
    options: MachineOptions,
) -> DesignPool | DevicePool:
    """The evaluator of one machine of a pool: the one that the options name, or else by the
    parameters that its designs have.

    Raises:
        InputError: The evaluator does not read these parameters, or the machines cannot have this
            role or these formats.
    """
    name = _evaluator_name(pool, options)
    _check_formats(pool, name)
    place = None  # key that chooses the evaluator of the pool
    if options.machine is not None:
        is_shared = isinstance(options, SystemOptions)
        place = "evaluator: machine" if is_shared else f"evaluator: pools: {pool.name}: machine"
    with mistakes_at(place):
        if workload.session is not None and task.stage.phase == "prefill":
            return _session_pool(name, task, workload, options)
        if name != DEVICES:
            choice = options.machine
            factory: Any = NpuEvaluator
            record: Record = options.npu
            if choice is not None and name != "npu":
                factory, record = choice.load()
            machines = design_pool(name, factory, record, task, workload)
            if choice is not None:
                _check_parameters(pool, name, machines)
            return machines
        if options.machine is not None:
            _check_parameters(pool, DEVICES, PlatformEvaluator)
    machine = DevicePool(task, workload, options)
    _check_devices(pool, machine.platform)
    return machine


def _session_pool(
    name: str, task: PoolTask, workload: SystemWorkload, options: MachineOptions
) -> DesignPool:
    """Machines that prefill the turns of sessions and keep their contexts."""
    # The evaluator of sessions is composed of machines that are chosen as those of pools.
    from codesign.evaluators.sessions.session_prefill import PrefillWorkload, SessionPrefill
    from codesign.evaluators.sessions.session_workload import SessionsOptions

    if name == DEVICES or task.layers != "all":
        raise InputError(
            f"a workload with sessions needs a prefill pool of designs with all layers, got {name}"
        )
    evaluator = SessionPrefill(
        PrefillWorkload(
            model=workload.model,
            session=workload.session,
            concurrent_sessions=workload.concurrent_sessions,
            turn_tokens=task.stage.prompt_tokens,
            beyond_context=True,  # the system's workload was checked
        ),
        SessionsOptions(machine=options.machine or MachineChoice(name=name)),
        options.npu if name == "npu" else None,
    )
    return DesignPool(name, evaluator, HandOverBytes(task.stage, workload))


def _evaluator_name(pool: PoolDescription, options: MachineOptions) -> str:
    if options.machine is not None:
        return options.machine.name
    for parameter, name in (("device", DEVICES), ("pe_array", "npu")):
        if parameter in pool.parameters:
            return name
    raise InputError(
        "expected machines with the parameter 'pe_array' or 'device', or the option 'machine', "
        f"got {', '.join(pool.parameters) or 'no parameter'}",
        key=("pools", pool.name),
    )


def _check_parameters(
    pool: PoolDescription, name: str, machines: DesignPool | type[PlatformEvaluator]
) -> None:
    """Whether the evaluator that the options name reads the parameters of the pool's designs."""
    required = machines.required_parameters
    if missing := required.difference(pool.parameters):
        raise InputError(
            f"evaluator {name!r} requires what pool {pool.name!r} lacks: "
            f"{', '.join(sorted(missing))}"
        )
    known_optional_parameters = required | machines.optional_parameters
    if unread := [
        parameter for parameter in pool.parameters if parameter not in known_optional_parameters
    ]:
        text = describe_unknown("parameter", unread[0], known_optional_parameters)
        raise InputError(
            f"evaluator {name!r} does not use a parameter of pool {pool.name!r}: {text}"
        )


def _check_formats(pool: PoolDescription, evaluator_name: str) -> None:
    for name in FORMAT_KEYS:
        can_mix = name == "weight_format" and evaluator_name != DEVICES
        bits = bits_per_weight if can_mix else bits_per_element
        for value in pool.choices.get(name, ()):
            try:
                bits(str(value))
            except InputError as error:
                raise InputError(f"{name}: {error}", key=("pools", pool.name)) from None


def _check_devices(pool: PoolDescription, platform: PlatformEvaluator) -> None:
    """Try every device with every format, with the first choice of all other options."""
    if not pool.choices:  # as where designs come from no space
        return
    tried = {
        name: tuple(values)
        for name in ("device", *FORMAT_KEYS)
        if (values := pool.choices.get(name))
    }
    rows = np.array(list(itertools.product(*(range(len(values)) for values in tried.values()))))
    columns = {
        name: Column(values, rows[:, place]) for place, (name, values) in enumerate(tried.items())
    }
    for name, values in pool.choices.items():
        if name not in columns and values:
            columns[name] = constant_column(values[0], len(rows))
    missing = sorted(platform.required_parameters - columns.keys())
    if missing:
        message = f"expected the parameter {missing[0]!r} of devices"
        raise InputError(message, key=("pools", pool.name))
    try:
        platform.serving(columns)
    except InputError as error:
        raise InputError(str(error), key=("pools", pool.name)) from None
