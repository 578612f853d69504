"""The machine that a design describes: its array, its vector unit, its memories.

For reports and exports that say what to build. The properties come from the same functions that
the evaluators use, one design at a time.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from codesign.base.columns import Columns, FloatArray, IntegerPair, StringDict
from codesign.base.errors import InputError
from codesign.base.records import drop_none, frozen
from codesign.evaluators.npu.npu_options import NpuOptions, account_constants
from codesign.insight.evaluated_design import EvaluatedDesign
from codesign.models.hardware.accelerator import (
    LEVEL_NAMES,
    LEVEL_TITLES,
    REQUIRED_PARAMETERS,
    build_accelerators,
)
from codesign.models.hardware.power import mac_energy_joules
from codesign.models.memtech import Level, MemoryTechnology, Technologies
from codesign.models.workload import multiply_bits


@frozen
class Bank:
    """So many units of one memory technology.

    Attributes:
        technology: The datasheet of one unit.
        count: Units.
        level: Which value of its published ranges.
    """

    technology: MemoryTechnology
    count: int
    level: Level = "typical"

    @property
    def capacity_bytes(self) -> float:
        """Capacity of all units together."""
        return self.count * self.technology.value_at("capacity", self.level)

    @property
    def bandwidth_bytes_per_s(self) -> float:
        """Peak bandwidth of all units together."""
        return self.count * self.technology.value_at("bandwidth", self.level)

    @property
    def words(self) -> str:
        """Such as "4 × HBM4, 12-high stack"."""
        return f"{self.count} × {self.technology.name}"


@frozen
class MachineLevel:
    """One memory level.

    Attributes:
        name: ``on_chip``, ``tier1`` and so on, as evaluators call it.
        title: The same in words.
        banks: What it consists of; on chip there may be two kinds.
        bandwidth_bytes_per_s: Peak bandwidth of its one port.
        latency_s: From request to first byte.
        background_watts: Power whether used or not.
        shoreline_m: Die edge taken of that reserved for memory.
        uncharged_shoreline_m: Length of the interfaces that the space does not charge to it.
    """

    name: str
    title: str
    banks: tuple[Bank, ...]
    capacity_bytes: float
    bandwidth_bytes_per_s: float
    latency_s: float
    background_watts: float
    read_energy_joules_per_byte: float
    write_energy_joules_per_byte: float
    shoreline_m: float
    uncharged_shoreline_m: float

    @property
    def words(self) -> str:
        """The level's memories in words."""
        return " + ".join(bank.words for bank in self.banks)

    @property
    def energy_words(self) -> str:
        """Energy of reading and writing, such as "2.2 / 2.4 pJ/bit"."""
        ends = (self.read_energy_joules_per_byte, self.write_energy_joules_per_byte)
        return " / ".join(f"{joules / 8e-12:.3g}" for joules in ends) + " pJ/bit"

    @property
    def edge_words(self) -> str:
        """Die edge, such as "44 mm of edge" or "36 mm of edge, not charged"; "none" on chip."""
        if self.uncharged_shoreline_m:
            return f"{self.uncharged_shoreline_m * 1e3:.4g} mm of edge, not charged"
        return f"{self.shoreline_m * 1e3:.4g} mm of edge" if self.shoreline_m else "none"


@frozen
class Machine:
    """An array, a vector unit and memory levels, the nearest first.

    Attributes:
        array_rows: Reduction depth of the array (MLEN), or its rows.
        array_columns: Width of a result (BLEN), or its columns.
        vector_lanes: Elements of a vector instruction.
        clock_hz: Of array and vector unit.
        formats: Number format by kind of data: weight, activation, kv.
        dataflow: ``ws``, ``is`` or ``os``; empty if the design does not say.
        operand_bits: Widths at which the array multiplies: activations, and the wider of weights
            and KV cache.
        mac_energy_joules: Of one multiply-accumulate of these widths.
        lane_energy_joules: Of one operation of one lane of the vector unit.
    """

    array_rows: int
    array_columns: int
    vector_lanes: int
    clock_hz: float
    formats: StringDict
    dataflow: str
    operand_bits: IntegerPair
    mac_energy_joules: float
    lane_energy_joules: float
    levels: tuple[MachineLevel, ...]

    @property
    def peak_flop_per_s(self) -> float:
        """2 per multiply-accumulate."""
        return 2.0 * self.array_rows * self.array_columns * self.clock_hz

    @property
    def sram_level(self) -> MachineLevel | None:
        """The on-chip memory; None if there is none."""
        return self.levels[0] if self.levels and self.levels[0].name == "on_chip" else None

    @property
    def tiers(self) -> tuple[MachineLevel, ...]:
        """The off-chip tiers, the nearest first."""
        return tuple(level for level in self.levels if level.name != "on_chip")

    @property
    def offchip_capacity_bytes(self) -> float:
        """Capacity of all tiers together."""
        return sum(level.capacity_bytes for level in self.tiers)

    @property
    def offchip_bandwidth_bytes_per_s(self) -> float:
        """Bandwidth of all tiers together, if all deliver at once."""
        return sum(level.bandwidth_bytes_per_s for level in self.tiers)


def machine_of(evaluated: EvaluatedDesign) -> Machine:
    """The machine that an evaluated design describes.

    Of the technologies' ranges it takes the value that the evaluator takes.

    Raises:
        InputError: The evaluator models no array with memory levels.
    """
    evaluator = evaluated.evaluator
    design = evaluated.design
    present = drop_none(design).keys()
    missing = REQUIRED_PARAMETERS - present
    if missing or not evaluator.offers("technologies"):
        why = f"lacks {', '.join(sorted(missing))}" if missing else "has no memory technologies"
        raise InputError(
            "expected a design with a matrix array and memory levels (evaluators npu and "
            f"simulation), got one of evaluator {evaluated.inputs['evaluator']!r}, which {why}"
        )
    columns = evaluated.space.columns(evaluated.space.encode(design))
    library = evaluator.technologies()
    options = evaluated.options if isinstance(evaluated.options, NpuOptions) else NpuOptions()
    level = options.technology_level
    energies = account_constants(options).operation_energies
    batch = build_accelerators(columns, library, level)
    formats = {
        operand: str(design[f"{operand}_format"])
        for operand in ("weight", "activation", "kv")
        if design.get(f"{operand}_format") is not None
    }
    bits = {operand: multiply_bits(name) for operand, name in formats.items()}
    first = bits.get("activation", 0)
    second = max(bits.get("weight", 0), bits.get("kv", 0))
    levels = batch.levels
    return Machine(
        array_rows=int(batch.array_depth[0]),
        array_columns=int(batch.array_width[0]),
        vector_lanes=int(batch.vector_length[0]),
        clock_hz=float(batch.clock_hz[0]),
        formats=formats,
        dataflow=str(design.get("dataflow") or ""),
        operand_bits=(first, second),
        mac_energy_joules=float(mac_energy_joules(_array(first), _array(second), energies)),
        lane_energy_joules=energies.lane_joules,
        levels=tuple(
            MachineLevel(
                LEVEL_NAMES[i],
                LEVEL_TITLES[i],
                _banks(columns, library, i, level),
                **{name: float(getattr(levels, name)[i, 0]) for name in _LEVEL_NUMBERS},
            )
            for i in np.flatnonzero(levels.exists[:, 0]).tolist()
        ),
    )


_LEVEL_NUMBERS = tuple(field.name for field in fields(MachineLevel))[3:]


def _array(value: float) -> FloatArray:
    return np.float64(value)  # type: ignore[return-value]  # a plain number would do for NumPy


def _banks(columns: Columns, library: Technologies, number: int, level: Level) -> tuple[Bank, ...]:
    def setting(name: str) -> Any:
        return columns[name].decoded()[0] if name in columns else None

    pairs = [(f"tier{number}_technology", f"tier{number}_stacks")]
    if not number:
        pairs = [("sram_technology", "sram_dies"), ("sram_3d_technology", "sram_3d_layers")]
    return tuple(
        Bank(library[str(setting(name) or name.removesuffix("_technology"))], int(count), level)
        for name, count_name in pairs
        if (count := setting(count_name))
    )
