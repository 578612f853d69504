"""Cache levels of designs: what is left of the machine's tiers, then the outer caches."""

from __future__ import annotations

import numpy as np

from codesign.base.columns import Columns, FloatArray, n_designs
from codesign.base.records import frozen
from codesign.evaluators.sessions.session_workload import SessionsOptions
from codesign.models.deployments.cache_levels import CacheLevels
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
class DesignLevels:
    """Cache levels of ``n`` designs, and what the outer ones add to the machine; arrays are (n,).

    Attributes:
        levels: All levels, the machine's fastest memory first.
        n_tiers: Levels that are tiers of the machine.
        wear_per_byte: (l, n) part of a level's life that a written byte takes.
        price_usd: (l, n) price of the outer caches; 0 of the machine's own tiers.
        background_watts: Power of the outer caches at rest.
        peak_watts: Power of the outer caches that are read at their full rate.
    """

    levels: CacheLevels
    n_tiers: int
    wear_per_byte: FloatArray
    price_usd: FloatArray
    background_watts: FloatArray
    peak_watts: FloatArray


def design_levels(
    designs: Columns,
    units: UnitTables,
    options: SessionsOptions,
    machine_bytes: FloatArray,
    used_bytes: FloatArray,
    has_endless_tier: bool = False,
) -> DesignLevels:
    """The levels of designs.

    Weights and running requests fill the machine's fastest memory first, so contexts wait in what
    is left of the slower ones.

    Args:
        machine_bytes: (n,) capacity of all memory of the machine.
        used_bytes: (n,) weights and running requests.
        has_endless_tier: True if the slowest tier holds all contexts, which bounds any outer cache.
    """
    tiers = _properties(designs, units, "tier", "stacks", n_tiers_of(designs))
    caches = _properties(designs, units, "cache", "units", MOST_CACHES)
    devices = np.ones(len(machine_bytes))
    for name in REPLICA_DEGREES:
        if name in designs:
            devices = devices * designs[name].lookup(float, 1.0)
    order = np.argsort(-tiers["bandwidth_bytes_per_s"], axis=0, kind="stable")[1:]
    slower = {name: np.take_along_axis(rows, order, axis=0) for name, rows in tiers.items()}
    for name in ("capacity_bytes", "bandwidth_bytes_per_s"):
        slower[name] = slower[name] * devices
    slower["wear_per_byte"] = slower["wear_per_byte"] / devices
    outer = {name: np.concatenate([rows, caches[name]]) for name, rows in slower.items()}
    n_slower, n_caches = len(order), len(caches["capacity_bytes"])

    sizes = slower["capacity_bytes"]
    ends = np.cumsum([machine_bytes - sizes.sum(axis=0), *sizes], axis=0)
    rooms = np.diff(np.maximum(ends - used_bytes, 0.0), axis=0, prepend=0.0)
    if has_endless_tier:
        rooms[-1] = _ENDLESS
    is_linked = np.repeat([0.0, 1.0], [n_slower, n_caches])[:, None]
    link = np.where(is_linked > 0, options.cache_link, _ENDLESS)
    exists = outer["capacity_bytes"] > 0
    rates = np.minimum(outer["bandwidth_bytes_per_s"] / outer["paged_slowdown"], link)
    write_s = outer["written_slowdown"] / np.where(exists, outer["bandwidth_bytes_per_s"], np.inf)
    sent = outer["read_energy_joules_per_byte"] + is_linked * options.cache_link_energy
    first = np.zeros((1, len(machine_bytes)))
    return DesignLevels(
        CacheLevels(
            np.concatenate([rooms, caches["capacity_bytes"]]),
            np.concatenate([first + _ENDLESS, np.where(exists, rates, _ENDLESS)]),
            np.concatenate([first, write_s]),
            np.concatenate([first, sent]),
            np.concatenate([first, outer["write_energy_joules_per_byte"]]),
        ),
        1 + n_slower,
        np.concatenate([first, outer["wear_per_byte"]]),
        np.concatenate([np.zeros_like(rooms), caches["price_usd"]]),
        caches["background_watts"].sum(axis=0),
        caches["background_watts"].sum(axis=0) + (is_linked * exists * rates * sent).sum(axis=0),
    )


def _properties(
    designs: Columns, units: UnitTables, place: str, counted: str, most: int
) -> dict[str, FloatArray]:
    """(l, n) properties of the memories that the columns of a place name."""
    memories = [
        off_chip_memory(designs[f"{place}{i}_technology"], designs[f"{place}{i}_{counted}"], units)
        for i in range(1, most + 1)
        if {f"{place}{i}_technology", f"{place}{i}_{counted}"} <= designs.keys()
    ]
    n = n_designs(designs)
    return {
        name: np.stack([getattr(memory, name) for memory in memories] or [np.zeros(n)])
        if memories or place == "tier"
        else np.zeros((0, n))
        for name in _PROPERTIES
    }
