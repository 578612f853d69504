"""Cache levels of designs: what is left of the machine's tiers, then the outer caches."""

from __future__ import annotations

import numpy as np

from codesign.base.columns import ArrayDict, Arrays, Columns, FloatArray, compute_once, n_designs
from codesign.base.records import frozen
from codesign.evaluators.sessions.session_workload import SessionsOptions
from codesign.models.deployments.parallelism import REPLICA_DEGREES
from codesign.models.hardware.accelerator import UnitTables, n_tiers_of, off_chip_memory

MOST_CACHES = 3
"""Outer caches of a design."""
CACHE_PARAMETERS = frozenset(
    f"cache{i}_{name}" for i in range(1, MOST_CACHES + 1) for name in ("technology", "units")
)
_PROPERTIES = (
    "capacity_bytes", "bandwidth_bytes_per_s", "read_energy_joules_per_byte",
    "write_energy_joules_per_byte", "wear_per_byte", "paged_slowdown", "written_slowdown",
    "price_usd", "background_watts",
)  # fmt: skip
_ENDLESS = 1e30
"""Bytes per second of a port that never causes a wait."""


@frozen
class LevelTables:
    """Cache levels of ``u`` machines and of ``v`` choices of outer caches.

    Attributes:
        tiers: (7, t, u) fields of the machine's tiers, the fastest memory first, as of
            :func:`codesign.models.deployments.cache_levels.fill_levels`; without a price.
        outer: (7, k, v) fields of the outer caches.
        background_watts: (v,) power of the outer caches at rest.
        peak_watts: (v,) power of the outer caches that are read at their full rate.
        price_usd: (v,) price of the outer caches.
    """

    tiers: FloatArray
    outer: FloatArray
    background_watts: FloatArray
    peak_watts: FloatArray
    price_usd: FloatArray


def level_tables(
    machines: Columns,
    caches: Columns,
    units: UnitTables,
    options: SessionsOptions,
    machine_bytes: FloatArray,
    used_bytes: FloatArray,
    has_endless_tier: bool = False,
) -> LevelTables:
    """The levels of designs.

    Weights and running requests fill the machine's fastest memory first, so contexts wait in what
    is left of the slower ones.

    Args:
        machines: Designs without outer caches.
        caches: Choices of outer caches.
        machine_bytes: (u,) capacity of all memory of the machine.
        used_bytes: (u,) weights and running requests.
        has_endless_tier: True if the slowest tier holds all contexts, which bounds any outer cache.
    """
    tiers = _properties(machines, units, "tier", "stacks", n_tiers_of(machines))
    outer = _properties(caches, units, "cache", "units", MOST_CACHES)
    devices = np.ones(len(machine_bytes))
    for name in REPLICA_DEGREES:
        if name in machines:
            devices = devices * machines[name].lookup(float, 1.0)
    order = np.argsort(-tiers["bandwidth_bytes_per_s"], axis=0, kind="stable")[1:]
    slower = {name: np.take_along_axis(rows, order, axis=0) for name, rows in tiers.items()}
    for name in ("capacity_bytes", "bandwidth_bytes_per_s"):
        slower[name] = slower[name] * devices
    slower["wear_per_byte"] = slower["wear_per_byte"] / devices

    sizes = slower["capacity_bytes"]
    ends = np.cumsum([machine_bytes - sizes.sum(axis=0), *sizes], axis=0)
    rooms = np.diff(np.maximum(ends - used_bytes, 0.0), axis=0, prepend=0.0)
    if has_endless_tier:
        rooms[-1] = _ENDLESS
    first = np.zeros((7, 1, len(machine_bytes)))
    first[1] = _ENDLESS
    inner = np.concatenate([first, _fields(slower, _ENDLESS, 0.0)], axis=1)
    inner[0] = rooms
    inner[6] = 0.0
    linked = _fields(outer, options.cache_link, options.cache_link_energy)
    background_watts = outer["background_watts"].sum(axis=0)
    sent_watts = ((linked[0] > 0) * linked[1] * linked[3]).sum(axis=0)
    peak_watts = background_watts + sent_watts
    price_usd = outer["price_usd"].sum(axis=0)
    return LevelTables(inner, linked, background_watts, peak_watts, price_usd)


def _fields(levels: Arrays, link_bytes_per_s: float, link_joules_per_byte: float) -> FloatArray:
    """(7, l, n) fields of levels behind a link."""
    capacity = levels["capacity_bytes"]
    bandwidth = levels["bandwidth_bytes_per_s"]
    exists = capacity > 0
    rates = np.minimum(bandwidth / levels["paged_slowdown"], link_bytes_per_s)
    return np.stack([
        capacity, np.where(exists, rates, _ENDLESS),
        levels["written_slowdown"] / np.where(exists, bandwidth, np.inf),
        levels["read_energy_joules_per_byte"] + link_joules_per_byte,
        levels["write_energy_joules_per_byte"], levels["wear_per_byte"], levels["price_usd"],
    ])  # fmt: skip


def _properties(
    designs: Columns, units: UnitTables, place: str, counted: str, most: int
) -> ArrayDict:
    """(l, n) properties of the memories that the columns of a place name."""

    def properties() -> ArrayDict:
        memories = [
            off_chip_memory(designs[technology], designs[count], units)
            for i in range(1, most + 1)
            for technology, count in [(f"{place}{i}_technology", f"{place}{i}_{counted}")]
            if {technology, count} <= designs.keys()
        ]
        n = n_designs(designs) if designs else 1
        nothing = np.zeros((int(place == "tier"), n))
        return {
            name: np.stack([getattr(memory, name) for memory in memories]) if memories else nothing
            for name in _PROPERTIES
        }

    result: ArrayDict = compute_once(designs, (units, place), properties)
    return result
