"""The constants of all accounts: sourced, dated ranges, of which a model takes one level.

So are the energies of an operation, on which power and heat depend, and the price of tokens.

Each number is written so that less of it is good: more of it makes a design larger, dearer or
hotter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import numpy as np
from pydantic import Field

from codesign.base.columns import FloatDict, FloatMap, StringTuple
from codesign.base.errors import InputError
from codesign.base.records import frozen
from codesign.base.schema import parse_record, read_document
from codesign.base.units import parse_quantity, parse_unit
from codesign.models.hardware.power import OperationEnergies
from codesign.models.memtech import Level, Range

Process = Literal["n7", "n5", "n3e", "n2"]
PROCESSES: tuple[Process, ...] = get_args(Process)
"""Processes of compute dies and SRAM layers, as TSMC calls them."""

Cooling = Literal["air", "liquid"]

_FILE = Path(__file__).parent / "constants.yaml"


@frozen
class Constants:
    """One value of every constant of one process; units are in the names.

    The file ``constants.yaml`` says where each was read.

    Attributes:
        logic_mm2_per_mtransistor: Area of a million transistors of logic, as laid out.
        sram_mm2_per_megabyte: Area of a million bytes, with decoders and sense amplifiers.
        wafer_usd: A processed wafer of 300 mm.
        design_usd: Once for a chip: design, masks, verification.
        logic_energy_scale: Energy of an operation and of on-chip memory, and its leakage, over that
            of 7 nm.
        fab_kgco2e_per_cm2: Gases, materials and energy of the fab, for a cm2 of wafer.
        transistors_per_bit_product: Transistors of a multiplier for each pair of bits of its
            operands.
        mac_fixed_transistors: Accumulator and operand registers of a multiply-accumulate unit.
        mac_overhead: Factor of wiring, pipeline and control on the bare unit.
        lane_mtransistors: Millions of transistors of a lane of an accelerator's vector unit, six
            operations wide.
        gpu_lane_mtransistors: The same of a GPU's lane, which has control and wide formats of its
            own.
        gpu_core_mtransistors: Millions of transistors that connect a GPU's core to the others.
        link_mm2_per_gigabyte_per_s: Area of links to other devices, for each GB/s one way.
        edge_mm_per_interface_mm2: Die side that a link or the host takes, for each mm2 of its
            interface.
        edge_reserve_share: Sides kept for corners, power and test, over what interfaces take.
        uncore_share: Control, network on chip, clocks and gaps, over the area of the other blocks.
        die_to_die_share: Links to its neighbors on each of several dies, over the rest of it.
        fatal_share: Part of the defects that neither spare units nor repair tolerate.
        defect_clustering: Alpha of the negative binomial yield.
        bond_loss: Part of the stacks lost with each layer that is bonded.
        attach_loss: Part of the packages lost with each die or memory that is attached.
        interposer_loss: Part of the packages with an interposer lost as it is bonded with all that
            stands on it.
        interposer_usd_per_mm2: Price of interposer, substrate and their assembly.
        substrate_usd_per_mm2: Price of an organic substrate, for each mm2 of die on it.
        assembly_usd: Final test, lid, module.
        memory_price_factor: Market of all memories at once, over the prices of the technologies.
        host_usd: Share of host, network and rack of one device.
        die_interface_power_share: Part of an off-chip memory's power that becomes heat on the
            compute die.
        air_kelvin_mm2_per_watt: Resistance between the top of the stack and the air, with a heat
            sink.
        liquid_kelvin_mm2_per_watt: Resistance between the top of the stack and the liquid, with a
            cold plate.
        layer_kelvin_mm2_per_watt: Resistance between one layer of a stack and the next.
        package_kgco2e: CO2 equivalents of each packaged chip.
        write_off_per_year: Part of its price that a year of its life takes, one over the useful
            life.
        idle_share: Part of its life in which a device serves nobody; the busy hours pay for it.
        pue: Power of the data center over that of its machines.
        mac_energy_joules: One 8-bit multiply-accumulate with its share of the array's registers and
            control, 7 nm.
        lane_energy_joules: One operation of one lane of the vector unit, 7 nm.
        score_buffer_joules_per_byte: A byte read from the buffer between array and vector unit, or
            written to it, 7 nm.
        active_joules_per_mtransistor: Energy per cycle of a million transistors of the array, 7 nm,
            1 GHz; for heat only.
        voltage_exponent: Relative change of the supply voltage for one of the clock, around 1 GHz.
    """

    logic_mm2_per_mtransistor: float
    sram_mm2_per_megabyte: float
    wafer_usd: float
    defects_per_cm2: float
    design_usd: float
    logic_energy_scale: float
    fab_kgco2e_per_cm2: float
    transistors_per_bit_product: float
    mac_fixed_transistors: float
    mac_overhead: float
    lane_mtransistors: float
    gpu_lane_mtransistors: float
    gpu_core_mtransistors: float
    host_interface_mm2: float
    link_mm2_per_gigabyte_per_s: float
    edge_mm_per_interface_mm2: float
    edge_reserve_share: float
    uncore_share: float
    die_to_die_share: float
    fatal_share: float
    defect_clustering: float
    bond_loss: float
    bond_usd_per_mm2: float
    test_usd_per_mm2: float
    attach_loss: float
    interposer_loss: float
    interposer_usd_per_mm2: float
    substrate_usd_per_mm2: float
    assembly_usd: float
    memory_price_factor: float
    host_usd: float
    die_interface_power_share: float
    ambient_celsius: float
    air_kelvin_mm2_per_watt: float
    liquid_kelvin_mm2_per_watt: float
    layer_kelvin_mm2_per_watt: float
    grid_kgco2e_per_kwh: float
    package_kgco2e: float
    write_off_per_year: float
    idle_share: float
    electricity_usd_per_kwh: float
    pue: float
    mac_energy_joules: float
    lane_energy_joules: float
    score_buffer_joules_per_byte: float
    active_joules_per_mtransistor: float
    voltage_exponent: float

    @property
    def operation_energies(self) -> OperationEnergies:
        """Energies of operations in the process."""
        scale = self.logic_energy_scale
        return OperationEnergies(
            self.mac_energy_joules * scale,
            self.lane_energy_joules * scale,
            self.score_buffer_joules_per_byte * scale,
            self.voltage_exponent,
        )


CONSTANTS: StringTuple = tuple(constant.name for constant in fields(Constants))
"""The names of all constants."""
ENERGIES = ("mac_energy_joules", "lane_energy_joules", "score_buffer_joules_per_byte")
"""Energies of operations at 7 nm and 1 GHz."""
POWER_CONSTANTS = (*ENERGIES, "logic_energy_scale", "voltage_exponent")
"""Constants on which power depends, besides what designs cost."""
_UNITS = {
    name: unit
    for unit, names in {
        "mm^2": "logic_mm2_per_mtransistor sram_mm2_per_megabyte host_interface_mm2 "
        "link_mm2_per_gigabyte_per_s",
        "USD": "wafer_usd design_usd assembly_usd host_usd",
        "USD/mm^2": "bond_usd_per_mm2 test_usd_per_mm2 interposer_usd_per_mm2 "
        "substrate_usd_per_mm2",
        "J": "mac_energy_joules lane_energy_joules score_buffer_joules_per_byte "
        "active_joules_per_mtransistor",
    }.items()
    for name in names.split()
}
"""Units of the constants in the file that are not plain numbers."""


class SourcedRange(Range):
    """Low, typical and high value of one constant, in the unit of its name.

    Attributes:
        date: Year and month for which it holds.
        source: Publication or reasoning behind the range.
    """

    date: Annotated[str, Field(pattern=r"^\d{4}-\d{2}$")]
    source: Annotated[str, Field(min_length=1)]


@cache
def constant_ranges(process: Process) -> Mapping[str, SourcedRange]:
    """The range of every constant, by its name.

    Raises:
        InputError: The file lacks a constant, or something in it is wrong.
    """
    document = read_document(_FILE)
    ranges = {}
    for place in (("processes", process), ("common",)):
        section: Any = document.data
        for key in place:
            section = section[key]
        for name, entry in section.items():
            if name not in CONSTANTS:
                raise InputError(f"unknown constant {name!r}", document.where(*place, name))
            where = document.where(*place, name)
            numbers = {end: _read(entry[end], name, where) for end in get_args(Level)}
            ranges[name] = parse_record(
                document, SourcedRange, {**entry, **numbers}, (*place, name)
            )
    missing = [name for name in CONSTANTS if name not in ranges]
    if missing:
        raise InputError(f"expected every constant, lacks {', '.join(missing)}", document.source)
    return ranges


def _read(value: object, name: str, where: str) -> float:
    unit = _UNITS.get(name, "1")
    try:
        return parse_quantity(value, unit) / parse_unit(unit).scale
    except InputError as error:
        raise InputError(str(error), where) from error


def moved_between(values: FloatMap, process: Process, target: Process) -> FloatDict:
    """Values of constants at the same places of the ranges of another process.

    Low, typical and high of one process become those of the other; a value between them moves in
    proportion, one beyond them to the nearer end. A constant without a range takes the typical
    value of the other process, whose spread is lost. Constants of all processes stay as they are.

    >>> moved_between({"wafer_usd": constants_at("n7").wafer_usd}, "n7", "n5")["wafer_usd"] == (
    ...     constants_at("n5").wafer_usd)
    True
    """
    moved = {}
    for name, value in values.items():
        here = constant_ranges(process)[name]
        there = constant_ranges(target)[name]
        ends = {here.typical: there.typical}
        ends = {here.low: there.low, here.high: there.high} | ends  # a range may be one value
        places = sorted(ends)
        moved[name] = float(np.interp(value, places, [ends[place] for place in places]))
    return moved


@cache
def constants_at(process: Process, level: Level = "typical") -> Constants:
    """Every constant at one level of its range."""
    ranges = constant_ranges(process)
    return Constants(**{name: stated.value_at(level) for name, stated in ranges.items()})
