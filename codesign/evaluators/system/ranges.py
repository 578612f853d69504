"""Ranges of the pools' machines: technologies and constants, each drawn once for all.

A constant is the same for all pools where they have the same range of it. Pools of other processes
have constants of their own, called by the pool's name in front.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from codesign.evaluators.system.design_pool import DesignPool
from codesign.models.memtech import (
    MemoryTechnology,
    Range,
    Technologies,
)


def technologies(pools: Mapping[str, DesignPool]) -> dict[str, MemoryTechnology]:
    """Memory technologies of all pools in which they can be replaced, by name."""
    return {
        name: technology
        for pool in pools.values()
        if pool.evaluator.offers("with_library")
        for name, technology in pool.evaluator.technologies().items()
    }


def with_library(pools: Mapping[str, DesignPool], library: Technologies) -> dict[str, DesignPool]:
    """The pools in which technologies can be replaced, with others."""
    return {
        name: pool.changed(pool.evaluator.with_library(library))
        for name, pool in pools.items()
        if pool.evaluator.offers("with_library")
    }


def constant_ranges(pools: Mapping[str, DesignPool], metrics: Sequence[str]) -> dict[str, Range]:
    """Ranges of the constants of what designs cost, by name.

    Args:
        pools: By name.
    """
    of_pools = _ranges_of_pools(pools, metrics)
    names = _names(of_pools)
    return {
        names[pool, name]: constant_range
        for pool, ranges in of_pools.items()
        for name, constant_range in ranges.items()
    }


def with_constants(
    pools: Mapping[str, DesignPool], values: Mapping[str, float]
) -> dict[str, DesignPool]:
    """The pools that have such constants with others, named as by :func:`constant_ranges`."""
    names = _names(_ranges_of_pools(pools, _ANY_COST))
    by_pool: dict[str, dict[str, float]] = {}
    for (owner, name), full in names.items():
        constants = by_pool.setdefault(owner, {})
        if full in values:  # those without a width are not varied
            constants[name] = values[full]
    return {
        name: pool.changed(pool.evaluator.with_constants(by_pool.get(name, {})))
        for name, pool in pools.items()
    }


def _ranges_of_pools(
    pools: Mapping[str, DesignPool], metrics: Sequence[str]
) -> dict[str, Mapping[str, Range]]:
    return {name: pool.evaluator.constant_ranges(metrics) for name, pool in pools.items()}


_ANY_COST = ("unit_cost_usd",)
"""A metric for which constants have ranges."""


def _names(of_pools: Mapping[str, Mapping[str, Range]]) -> dict[tuple[str, str], str]:
    """The name of each pool's constant in the system."""
    distinct: dict[str, list[Range]] = {}
    for ranges in of_pools.values():
        for name, constant_range in ranges.items():
            ranges_of_name = distinct.setdefault(name, [])
            ranges_of_name += [] if constant_range in ranges_of_name else [constant_range]
    return {
        (pool, name): name if len(distinct[name]) == 1 else f"{pool}_{name}"
        for pool, ranges in of_pools.items()
        for name in ranges
    }
