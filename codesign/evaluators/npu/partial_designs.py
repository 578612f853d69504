"""Designs that are decided in part, and extremes of their hardware."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np

from codesign.base.columns import (
    ArrayDict,
    ArrayPair,
    Column,
    Columns,
    Domains,
    FloatArray,
    combined,
    constant_column,
    distinct,
    n_designs,
)
from codesign.base.records import frozen
from codesign.models.hardware.accelerator import (
    DEFAULT_CLOCK_HZ,
    SCORE_BUFFER_BYTES_PER_MAC,
    SCORE_PATH,
    AcceleratorBatch,
    MemoryLevels,
    UnitTables,
    build_accelerators,
)

ON_CHIP_PARAMETERS = ("sram_dies", "sram_technology", "sram_3d_layers")
"""Parameters of the memory on chip."""
_LARGER_IS_BETTER = ("capacity_bytes", "bandwidth_bytes_per_s")
"""Properties of a memory level for which more is better; for all others, less is better."""
_SRAM_SIZES = ("planar_sram_bytes", "layer_bytes", "n_layers")


class HardwareExtremes(NamedTuple):
    """Extremes of the hardware that ``n`` partial designs may become.

    Attributes:
        fastest: Longest vector, fastest clock, no scores at any port; the best value of each
            property of the on-chip memory, and its least size.
        frugal: ``fastest`` with the shortest vector and the slowest clock instead.
        largest: The longest vector and the most on-chip memory, for areas.
        least_capacity_bytes: (n,) least capacity of all memory levels together.
    """

    fastest: AcceleratorBatch
    frugal: AcceleratorBatch
    largest: AcceleratorBatch
    least_capacity_bytes: FloatArray


@frozen
class PartialDesigns:
    """Designs of which some parameters are undecided.

    Attributes:
        designs: Columns of the decided parameters, of ``n`` designs.
        undecided: The values that each undecided parameter may take.
    """

    designs: Columns
    undecided: Domains

    @property
    def n(self) -> int:
        """Designs."""
        return n_designs(self.designs)

    def extremes(
        self, parameter: str, function: Callable[[Any], float], absent: float = 0.0
    ) -> ArrayPair:
        """(n,) least and largest value of a function of a parameter, over its possible values.

        Args:
            absent: Value of the function for a design without the parameter.
        """
        if parameter in self.designs:
            values = self.designs[parameter].lookup(function, absent=absent)
            return values, values
        values_of = self.undecided.get(parameter, (None,))
        possible = [absent if value is None else float(function(value)) for value in values_of]
        return np.full(self.n, min(possible)), np.full(self.n, max(possible))

    def hardware(self, units: UnitTables) -> HardwareExtremes:
        """Extremes of the hardware.

        Args:
            units: Tables of the memory technologies.
        """
        lanes = self.extremes("vector_length", float)
        clocks = self.extremes("clock_hz", float, DEFAULT_CLOCK_HZ)
        everything = dict(self.designs)
        open_path = self.undecided.get(SCORE_PATH, ())
        if open_path:
            everything[SCORE_PATH] = constant_column("uncharged", self.n)
        for name in ("vector_length", *ON_CHIP_PARAMETERS):
            if name in self.undecided:
                everything[name] = constant_column(self.undecided[name][0], self.n)
        built = build_accelerators(everything, units)
        least = built.levels.capacity_bytes.sum(axis=0)
        most = {name: getattr(built, name) for name in _SRAM_SIZES}
        if any(name in self.undecided for name in ON_CHIP_PARAMETERS):
            built, least, most = self._open_memory(built, units)
        if "local" in open_path:
            buffer_bytes = SCORE_BUFFER_BYTES_PER_MAC * built.macs_per_cycle
            most["planar_sram_bytes"] = most["planar_sram_bytes"] + buffer_bytes
        fastest = replace(built, vector_length=lanes[1], clock_hz=clocks[1])
        frugal = replace(built, vector_length=lanes[0], clock_hz=clocks[0])
        return HardwareExtremes(fastest, frugal, replace(fastest, **most), least)

    def _open_memory(
        self, built: AcceleratorBatch, units: UnitTables
    ) -> tuple[AcceleratorBatch, FloatArray, ArrayDict]:
        """Hardware with the best of the on-chip memories that are possible, by property.

        Returns:
            The hardware; (n,) the least capacity of all levels; (n,) the largest sizes by name.
        """
        decided = [name for name in ON_CHIP_PARAMETERS if name in self.designs]
        opened = [name for name in ON_CHIP_PARAMETERS if name in self.undecided]
        number = np.zeros(self.n, np.int64)
        first = np.zeros(min(self.n, 1), np.int64)
        if decided:
            number, first = distinct(*combined(*(self.designs[name].codes for name in decided)))
        choices = list(itertools.product(*(range(len(self.undecided[name])) for name in opened)))
        shape = (len(first), len(choices))
        columns = {
            name: Column(column.values, np.repeat(column.codes[first], len(choices)))
            for name, column in self.designs.items()
            if name in decided
        }
        for name, codes in zip(opened, np.array(choices).T, strict=True):
            columns[name] = Column(tuple(self.undecided[name]), np.tile(codes, len(first)))
        nothing = np.zeros(shape[0] * shape[1], np.int64)
        columns |= {
            "pe_array": Column(((1, 1),), nothing),
            SCORE_PATH: Column(("uncharged",), nothing),
        }
        memories = build_accelerators(columns, units)
        best = [
            (np.max if field.name in _LARGER_IS_BETTER else np.min)(
                getattr(memories.levels, field.name)[0].reshape(shape), axis=1
            )
            for field in fields(MemoryLevels)
        ]
        least = memories.levels.capacity_bytes[0].reshape(shape).min(axis=1)[number]
        least = least + built.levels.capacity_bytes[1:].sum(axis=0)
        buffer_bytes = SCORE_BUFFER_BYTES_PER_MAC * built.macs_per_cycle * built.scores_are_local
        smallest, largest = (
            {
                name: extreme.reduce(getattr(memories, name).reshape(shape), axis=1)[number]
                for name in _SRAM_SIZES
            }
            for extreme in (np.fmin, np.fmax)
        )
        for sizes in (smallest, largest):
            sizes["planar_sram_bytes"] = sizes["planar_sram_bytes"] + buffer_bytes
        levels = built.levels.replace_on_chip(np.stack(best), number)
        return replace(built, levels=levels, **smallest), least, largest
