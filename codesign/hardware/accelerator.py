"""Columns of a design batch as accelerators: one array per property.

An accelerator is a matrix array, a vector unit and up to four memory levels: on-chip memory
(SRAM die and 3D-stacked layers) and up to three off-chip tiers, nearest first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from codesign.columns import BoolArray, Column, Columns, FloatArray
from codesign.errors import UnknownNameError
from codesign.memtech import Level, MemoryTechnology

N_TIERS = 3
"""Off-chip tiers (MemExplorer Table 6: L1 to L3)."""
DEFAULT_CLOCK_HZ = 1e9
"""Clock of a design that states none: PLENA's, 1 GHz (the rate at which MemExplorer's published
TDPs decompose)."""

REQUIRED_PARAMETERS = frozenset(
    {"pe_array", "vector_length", "sram_dies", "sram_3d_layers"}
    | {"tier1_technology", "tier1_stacks"}
)
OPTIONAL_PARAMETERS = frozenset(
    {f"tier{tier}_{part}" for tier in (2, 3) for part in ("technology", "stacks")}
    | {"clock_hz", "stated_tdp_watts", "sram_technology", "array_organization"}
)


@dataclass(frozen=True)
class MemoryLevels:
    """``l`` memory levels of ``n`` accelerators, level first: every array is (l, n).

    A level that a design does not have has capacity and bandwidth 0. Level 0 is on chip: the
    SRAM die and the 3D layers side by side, both next to the compute, so that capacities and
    bandwidths add (bytes spread over them in proportion to bandwidth).

    Attributes:
        capacity_bytes: Capacity.
        bandwidth_bytes_per_s: Peak bandwidth of the level's one port.
        latency_s: From request to first byte; of the two on chip the faster, which serves it.
        background_watts: Power whether used or not.
        read_energy_joules_per_byte: On chip the mean of the two, weighted by bandwidth.
        write_energy_joules_per_byte: Likewise.
        peak_read_watts: Power of reading at peak bandwidth.
        shoreline_m: Die edge taken of that reserved for memory.
    """

    capacity_bytes: FloatArray
    bandwidth_bytes_per_s: FloatArray
    latency_s: FloatArray
    background_watts: FloatArray
    read_energy_joules_per_byte: FloatArray
    write_energy_joules_per_byte: FloatArray
    peak_read_watts: FloatArray
    shoreline_m: FloatArray

    @property
    def exists(self) -> BoolArray:
        """(l, n) whether the design has the level."""
        return np.asarray(self.capacity_bytes > 0)


@dataclass(frozen=True)
class AcceleratorBatch:
    """``n`` accelerators.

    Attributes:
        array_depth: (n,) MLEN, the reduction that the array does in a cycle (or its rows).
        array_width: (n,) BLEN, rows and columns of a result tile (or its columns).
        vector_length: (n,) elements of a vector instruction.
        clock_hz: (n,) clock of array and vector unit.
        levels: On-chip memory and tiers.
        stated_tdp_watts: (n,) TDP of the datasheet; 0 where it is to be modelled.
    """

    array_depth: FloatArray
    array_width: FloatArray
    vector_length: FloatArray
    clock_hz: FloatArray
    levels: MemoryLevels
    stated_tdp_watts: FloatArray

    @property
    def macs_per_cycle(self) -> FloatArray:
        """(n,) multiply-accumulates of the array in one cycle."""
        return self.array_depth * self.array_width


@dataclass(frozen=True)
class _Bank:
    """``count`` units of a technology for each of ``n`` designs."""

    technology: Column
    count: FloatArray
    library: Mapping[str, MemoryTechnology]
    level: Level

    def per_unit(self, attribute: str) -> FloatArray:
        def value(name: str) -> float:
            if name not in self.library:
                raise UnknownNameError("memory technology", name, self.library)
            return float(getattr(self.library[name], attribute).at(self.level))

        return self.technology.lookup(value)

    def total(self, attribute: str) -> FloatArray:
        return self.per_unit(attribute) * self.count


def build_accelerators(
    designs: Columns, library: Mapping[str, MemoryTechnology], level: Level = "typical"
) -> AcceleratorBatch:
    """The accelerators of a batch of designs.

    Args:
        designs: Columns with ``REQUIRED_PARAMETERS`` and any of ``OPTIONAL_PARAMETERS``.
        library: Memory technologies by name.
        level: Which value of a published range to take.

    Raises:
        UnknownNameError: A technology that the library does not have.
    """
    n = len(designs["pe_array"])
    on_chip = [
        _Bank(_sram_technology(designs, n), _number(designs, "sram_dies", 0.0), library, level),
        _Bank(_constant("sram_3d", n), _number(designs, "sram_3d_layers", 0.0), library, level),
    ]
    tiers = [
        _Bank(
            designs[f"tier{tier}_technology"],
            _number(designs, f"tier{tier}_stacks", 0.0),
            library,
            level,
        )
        for tier in range(1, N_TIERS + 1)
        if f"tier{tier}_technology" in designs
    ]
    return AcceleratorBatch(
        array_depth=designs["pe_array"].lookup(lambda dims: dims[0]),
        array_width=designs["pe_array"].lookup(lambda dims: dims[1]),
        vector_length=_number(designs, "vector_length", 0.0),
        clock_hz=_number(designs, "clock_hz", DEFAULT_CLOCK_HZ),
        levels=_levels(on_chip, tiers, n),
        stated_tdp_watts=_number(designs, "stated_tdp_watts", 0.0),
    )


def _number(designs: Columns, name: str, default: float) -> FloatArray:
    if name not in designs:
        return np.full(len(designs["pe_array"]), default)
    return designs[name].lookup(float, absent=default)


def _constant(name: str, n: int) -> Column:
    return Column((name,), np.zeros(n, dtype=np.int64))


def _sram_technology(designs: Columns, n: int) -> Column:
    return designs.get("sram_technology", _constant("sram", n))


def _levels(on_chip: list[_Bank], tiers: list[_Bank], n: int) -> MemoryLevels:
    shape = (1 + N_TIERS, n)
    capacity, bandwidth, latency = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    background, read, write = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    shoreline = np.zeros(shape)
    first_byte = np.full(n, np.inf)
    for bank in on_chip:
        share = bank.total("bandwidth")
        capacity[0] += bank.total("capacity")
        bandwidth[0] += share
        served = np.where(bank.count > 0, bank.per_unit("latency"), np.inf)
        first_byte = np.minimum(first_byte, served)
        background[0] += bank.total("capacity") * bank.per_unit("background_power")
        read[0] += share * bank.per_unit("read_energy")
        write[0] += share * bank.per_unit("write_energy")
    latency[0] = np.where(capacity[0] > 0, first_byte, 0.0)
    total = np.maximum(bandwidth[0], np.finfo(float).tiny)
    read[0], write[0] = read[0] / total, write[0] / total
    for i, bank in enumerate(tiers, start=1):
        capacity[i] = bank.total("capacity")
        bandwidth[i] = bank.total("bandwidth")
        latency[i] = bank.per_unit("latency")
        background[i] = capacity[i] * bank.per_unit("background_power")
        read[i] = bank.per_unit("read_energy")
        write[i] = bank.per_unit("write_energy")
        shoreline[i] = bank.total("reserved_edge")
    return MemoryLevels(
        capacity_bytes=capacity,
        bandwidth_bytes_per_s=bandwidth,
        latency_s=latency,
        background_watts=background,
        read_energy_joules_per_byte=read,
        write_energy_joules_per_byte=write,
        peak_read_watts=read * bandwidth,
        shoreline_m=shoreline,
    )
