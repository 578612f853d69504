"""A design as an architecture of AccelForge [AccelForge]_, the successor of Timeloop's format.

Memories from the outermost to the array, each with size in bits, throughput in bits per second
and energy per bit, read and write apart: of the formats here the only one that carries the
asymmetry of flash. AccelForge itself needs Python 3.12.

.. [AccelForge] The package ``accelforge`` on PyPI, version 1; the architectures of its examples.
"""

from __future__ import annotations

from pathlib import Path

from codesign.answers.json_values import json_text
from codesign.report.chosen import ChosenDesign
from codesign.report.exports.design_files import Written, commented, need_tiers, write_texts
from codesign.report.machine import Machine, MachineLevel

_STATIONARY = {"ws": "weight", "is": "input", "os": "output"}
_REUSED = {"ws": ("output", "input"), "is": ("output", "weight"), "os": ("weight", "input")}
"""Data that rows and columns of the array pass on, by the stationary operand."""


def to_accelforge(design: ChosenDesign, path: Path) -> Written:
    """The YAML file that ``accelforge.Spec.from_yaml`` takes, next to a workload.

    Raises:
        InputError: No off-chip memory.
    """
    need_tiers(design, "AccelForge")
    machine = design.machine
    notes = [
        "area is 0 throughout: codesign models none",
        "latencies to the first byte have no place in the format",
        "the memories serve reading and writing through one port, as in codesign; AccelForge's "
        "mapper decides what is kept where, codesign's storage priority is not passed on",
        "the vector unit takes every operation on two tensors or fewer",
    ]
    if not machine.dataflow:
        notes.append("the design names no dataflow: weight stationary")
    text = (
        commented(["Architecture for AccelForge.", "", *(f"Note: {note}" for note in notes)])
        + commented(["Provenance:", *json_text(design.provenance()).splitlines()])
        + "\n"
        + architecture_of(machine)
    )
    return Written(write_texts({path: text}), tuple(notes))


def architecture_of(machine: Machine) -> str:
    """The architecture alone, as AccelForge reads it."""
    listed = [*reversed(machine.tiers), *([machine.on_chip_level] if machine.on_chip_level else [])]
    memories = [_memory(level, is_outermost=number == 0) for number, level in enumerate(listed)]
    flow = machine.dataflow or "ws"
    kept_stationary = _STATIONARY[flow]
    rows, columns = _REUSED[flow]
    vector = (
        "  - !Compute\n"
        "    name: VectorUnit\n"
        "    leak_power: 0\n"
        "    area: 0\n"
        "    actions:\n"
        f"    - {{name: compute, energy: {machine.lane_energy_joules:.17g}, "
        f"throughput: {machine.vector_lanes * machine.clock_hz:.17g}}}\n"
        "    enabled: len(All) <= 2\n"
    )
    grid = (
        f"  - !Container  # {machine.array_rows} x {machine.array_columns}, {flow}\n"
        "    name: ProcessingElement\n"
        "    spatial:\n"
        f"    - {{name: rows, fanout: {machine.array_rows}, reuse: {rows}}}\n"
        f"    - {{name: columns, fanout: {machine.array_columns}, reuse: {columns}}}\n"
    )
    register = (
        "  - !Memory  # the stationary operand; its energy is part of the MAC's\n"
        "    name: Register\n"
        f"    size: {kept_stationary}.bits_per_value if {kept_stationary} else 0\n"
        "    leak_power: 0\n"
        "    area: 0\n"
        "    actions:\n"
        "    - {name: read, energy: 0, throughput: inf}\n"
        "    - {name: write, energy: 0, throughput: inf}\n"
        f"    tensors: {{keep: {kept_stationary}}}\n"
    )
    mac = (
        "  - !Compute\n"
        "    name: MAC\n"
        "    leak_power: 0\n"
        "    area: 0\n"
        "    actions:\n"
        f"    - {{name: compute, energy: {machine.mac_energy_joules:.17g}, "
        f"throughput: {machine.clock_hz:.17g}}}\n"
        "    enabled: len(All) == 3\n"
    )
    compute = [vector, grid, register, mac]
    return "arch:\n  nodes:\n" + "\n".join([*memories, *compute])


def _memory(level: MachineLevel, is_outermost: bool) -> str:
    tensors = "{keep: ~Intermediates, may_keep: All}" if is_outermost else "{may_keep: All}"
    rate = level.bandwidth_bytes_per_s * 8
    read = level.read_energy_joules_per_byte / 8
    write = level.write_energy_joules_per_byte / 8
    return (
        f"  - !Memory  # {level.title}: {level.words}\n"
        f"    name: {_node_name(level)}\n"
        f"    size: {level.capacity_bytes * 8:.17g}  # bits\n"
        f"    leak_power: {level.background_watts:.17g}  # W\n"
        "    area: 0\n"
        "    actions:  # J/bit, bit/s\n"
        f"    - {{name: read, energy: {read:.17g}, throughput: {rate:.17g}}}\n"
        f"    - {{name: write, energy: {write:.17g}, throughput: {rate:.17g}}}\n"
        f"    tensors: {tensors}\n"
    )


def _node_name(level: MachineLevel) -> str:
    return {"on_chip": "OnChip"}.get(level.name) or level.name.capitalize()
