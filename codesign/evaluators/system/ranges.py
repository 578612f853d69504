"""What of the pools' machines has a range: technologies and constants, each drawn once for all.

A constant is the same for all pools where they have the same range of it. Pools of other processes
have constants of their own, called by the pool's name in front.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from codesign.evaluators.system.npu_pool import NpuPool
from codesign.memtech import MemoryTechnology, Range


def technologies(pools: Mapping[str, NpuPool]) -> dict[str, MemoryTechnology]:
    """Memory technologies of all pools, by name."""
    return {name: item for pool in pools.values() for name, item in pool.npu.technologies().items()}


def constant_ranges(pools: Mapping[str, NpuPool], metrics: Sequence[str]) -> dict[str, Range]:
    """Of the constants of what designs cost, by name.

    Args:
        pools: By name.
    """
    of_pools = {pool: npu.npu.constant_ranges(metrics) for pool, npu in pools.items()}
    names = _names(of_pools)
    return {
        names[pool, name]: item
        for pool, ranges in of_pools.items()
        for name, item in ranges.items()
    }


def with_constants(pools: Mapping[str, NpuPool], values: Mapping[str, float]) -> dict[str, NpuPool]:
    """The pools with other constants, named as by :func:`constant_ranges`."""
    names = _names({pool: npu.npu.constant_ranges(_ANY_COST) for pool, npu in pools.items()})
    own = {
        pool: {
            name: values[full]
            for (owner, name), full in names.items()
            if owner == pool and full in values  # those without a width are not varied
        }
        for pool in pools
    }
    return {pool: npu.changed(npu.npu.with_constants(own[pool])) for pool, npu in pools.items()}


_ANY_COST = ("unit_cost_usd",)
"""A metric for which constants have ranges."""


def _names(of_pools: Mapping[str, Mapping[str, Range]]) -> dict[tuple[str, str], str]:
    """The name of each pool's constant in the system."""
    distinct: dict[str, list[Range]] = {}
    for ranges in of_pools.values():
        for name, item in ranges.items():
            known = distinct.setdefault(name, [])
            known += [] if item in known else [item]
    return {
        (pool, name): name if len(distinct[name]) == 1 else f"{pool}_{name}"
        for pool, ranges in of_pools.items()
        for name in ranges
    }
