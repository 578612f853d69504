"""The machines of a pool as evaluators of one machine: NPUs of a space, or devices that exist."""

from __future__ import annotations

import itertools

import numpy as np

from codesign.columns import Column
from codesign.errors import InputError
from codesign.evaluators.base import PoolDescription
from codesign.evaluators.platform import PlatformEvaluator
from codesign.evaluators.system.device_pool import DevicePool
from codesign.evaluators.system.npu_pool import NpuPool
from codesign.evaluators.system.roles import PoolTask
from codesign.evaluators.system.system_options import MachineOptions
from codesign.evaluators.system.workload import SystemWorkload
from codesign.workload.precision import FORMAT_KEYS, bits_per_element, bits_per_weight


def pool_machine(
    pool: PoolDescription,
    task: PoolTask,
    workload: SystemWorkload,
    options: MachineOptions,
) -> NpuPool | DevicePool:
    """The evaluator of one machine of a pool, by the parameters that its designs have.

    Raises:
        InputError: Parameters of no machine that is known, a role or formats that it cannot have.
    """
    _check_formats(pool)
    if "device" in pool.parameters:
        if task.layers != "all":
            raise InputError(
                f"the role {pool.role!r} is one of NPUs, not of devices, whose kernels are "
                "measured for whole layers",
                key=("pools", pool.name),
            )
        machine = DevicePool(task.stage, workload, options)
        _check_devices(pool, machine.platform)
        return machine
    if "pe_array" in pool.parameters:
        return NpuPool(task, workload, options.npu)
    raise InputError(
        "expected machines with the parameter 'pe_array' or 'device', "
        f"got {', '.join(pool.parameters) or 'no parameter'}",
        key=("pools", pool.name),
    )


def _check_formats(pool: PoolDescription) -> None:
    can_mix = "pe_array" in pool.parameters
    for name in FORMAT_KEYS:
        bits = bits_per_weight if can_mix and name == "weight_format" else bits_per_element
        for value in pool.choices.get(name, ()):
            try:
                bits(str(value))
            except InputError as error:
                raise InputError(f"{name}: {error}", key=("pools", pool.name)) from None


def _check_devices(pool: PoolDescription, platform: PlatformEvaluator) -> None:
    """Try every device with every format, the rest being what is listed first."""
    if not pool.choices:  # as where designs come from no space
        return
    tried = {name: list(pool.choices.get(name, ())) for name in ("device", *FORMAT_KEYS)}
    rows = list(itertools.product(*(values or [None] for values in tried.values())))
    columns = {
        name: Column(tuple(values), np.array([values.index(row[place]) for row in rows]))
        for place, (name, values) in enumerate(tried.items())
        if values
    }
    for name, values in pool.choices.items():
        if name not in columns and values:
            columns[name] = Column((values[0],), np.zeros(len(rows), dtype=np.int64))
    missing = sorted(platform.required_parameters - columns.keys())
    if missing:
        message = f"expected the parameter {missing[0]!r} of devices"
        raise InputError(message, key=("pools", pool.name))
    try:
        platform.serving(columns)
    except InputError as error:
        raise InputError(str(error), key=("pools", pool.name)) from None
