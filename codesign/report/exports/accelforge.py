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
from codesign.report.machine import Machine

_STATIONARY = {"ws": "weight", "is": "input", "os": "output"}
_REUSED = {"ws": ("output", "input"), "is": ("output", "weight"), "os": ("weight", "input")}
"""Data that rows and columns of the array pass on, by the stationary operand."""


def write_accelforge(design: ChosenDesign, path: Path) -> Written:
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


_COMPUTE = """\
  - !Compute
    name: VectorUnit
    leak_power: 0
    area: 0
    actions:
    - {{name: compute, energy: {m.lane_energy_joules:.17g}, throughput: {lanes_per_s:.17g}}}
    enabled: len(All) <= 2

  - !Container  # {m.array_rows} x {m.array_columns}, {flow}
    name: ProcessingElement
    spatial:
    - {{name: rows, fanout: {m.array_rows}, reuse: {rows}}}
    - {{name: columns, fanout: {m.array_columns}, reuse: {columns}}}

  - !Memory  # the stationary operand; its energy is part of the MAC's
    name: Register
    size: {stationary}.bits_per_value if {stationary} else 0
    leak_power: 0
    area: 0
    actions:
    - {{name: read, energy: 0, throughput: inf}}
    - {{name: write, energy: 0, throughput: inf}}
    tensors: {{keep: {stationary}}}

  - !Compute
    name: MAC
    leak_power: 0
    area: 0
    actions:
    - {{name: compute, energy: {m.mac_energy_joules:.17g}, throughput: {m.clock_hz:.17g}}}
    enabled: len(All) == 3
"""
"""Vector unit and array of a machine, as AccelForge reads them."""


def architecture_of(machine: Machine) -> str:
    """The architecture alone, as AccelForge reads it."""
    listed = [*reversed(machine.tiers), *([machine.sram_level] if machine.sram_level else [])]
    memories = [
        _MEMORY.format(
            level=level, bits=level.capacity_bytes * 8, rate=level.bandwidth_bytes_per_s * 8,
            name="OnChip" if level.name == "on_chip" else level.name.capitalize(),
            read=level.read_energy_joules_per_byte / 8,
            write=level.write_energy_joules_per_byte / 8,
            tensors="may_keep: All" if number else "keep: ~Intermediates, may_keep: All",
        )
        for number, level in enumerate(listed)
    ]  # fmt: skip
    flow = machine.dataflow or "ws"
    rows, columns = _REUSED[flow]
    compute = _COMPUTE.format(
        m=machine, flow=flow, stationary=_STATIONARY[flow], rows=rows, columns=columns,
        lanes_per_s=machine.vector_lanes * machine.clock_hz,
    )  # fmt: skip
    return "arch:\n  nodes:\n" + "\n".join([*memories, compute])


_MEMORY = """\
  - !Memory  # {level.title}: {level.words}
    name: {name}
    size: {bits:.17g}  # bits
    leak_power: {level.background_watts:.17g}  # W
    area: 0
    actions:  # J/bit, bit/s
    - {{name: read, energy: {read:.17g}, throughput: {rate:.17g}}}
    - {{name: write, energy: {write:.17g}, throughput: {rate:.17g}}}
    tensors: {{{tensors}}}
"""
