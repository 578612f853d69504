"""Account of one design: operators, memory levels, power, assumptions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from codesign.base.columns import Columns, FloatArray, JsonObject, first_values
from codesign.base.evaluator import Explanation
from codesign.base.explanation_rows import Banks, LevelRow, OperatorRow, PowerRow
from codesign.evaluators.npu.cost_metrics import cost_notes, cost_rows, floorplan_rows
from codesign.evaluators.npu.design_metrics import DesignMetrics
from codesign.evaluators.npu.npu_options import MATRIX_SHARE, NpuOptions
from codesign.evaluators.npu.prepared_designs import BANDWIDTH_PRIORITIES
from codesign.evaluators.phase_machine import BATCH_SIZE
from codesign.models.format_mixture import is_mixed, mixture_words
from codesign.models.hardware.accelerator import (
    LEVEL_NAMES,
    LEVEL_TITLES,
    SCORE_PATHS,
    UNCHARGED_EDGE,
)
from codesign.models.hardware.array import ORGANIZATIONS
from codesign.models.machines.npu.placement import KINDS
from codesign.models.machines.npu.traffic import SCORE_BYTES, vector_streams


def explain(
    design: DesignMetrics, metrics: Sequence[str], absent: Mapping[str, str]
) -> Explanation:
    """The full account of a batch of one design; ``absent`` has why metrics have no value."""
    designs, options = design.chosen.designs.columns, design.options
    present = np.flatnonzero(design.working.accelerators.levels.exists[:, 0]).tolist()
    together = {
        "overlapped": "they overlap, so the longer counts",
        "serial": "they add up",
    }[options.vector or "overlapped"]
    balance, at_power_limit = (
        (
            f"one pass takes {design.pass_s[0]:.4g} s: matrix array and memory "
            f"{design.matrix_s[0]:.4g} s, vector unit {design.vector_s[0]:.4g} s; {together}"
        ),
        _power_note(design),
    )
    return Explanation(
        metrics={name: float(design.value(name)[0]) for name in metrics},
        violations=first_values(design.chosen.designs.violations),
        operators=_operators(design, present),
        levels=_levels(design, designs, present),
        power=_power(design, present),
        notes=[
            balance,
            *at_power_limit.values(),
            *_deployment(design),
            *_mixture(designs),
            *notes(design),
            *_uncharged(design, designs),
            *cost_notes(design.silicon, options),
            *_wear(design, designs, present),
            *(f"no {name}: {reason}" for name, reason in absent.items() if name in metrics),
        ],
        timing_notes={"array": balance, "vector": balance} | at_power_limit,
        costs=cost_rows(design.silicon),
        floorplan=floorplan_rows(design.silicon),
        pass_s=float(design.pass_s[0]),
    )


def _operators(design: DesignMetrics, present: list[int]) -> list[OperatorRow]:
    pass_ = design.pass_
    table, batch = pass_.all_operators, float(design.working.pass_requests[0])
    hardware = design.working.accelerators
    lanes_per_s = float(hardware.vector_length[0] * hardware.clock_hz[0])
    lane_cycles = pass_.lane_cycles_per_request
    energies = design.silicon.constants.operation_energies
    lane_joules = energies.lane_joules * float(energies.clock_scale(hardware.clock_hz)[0])
    ported, joules = _vector_operands(design)
    lanes_s = lane_cycles * batch / lanes_per_s
    port_s = ported / float(hardware.levels.bandwidth_bytes_per_s[0, 0])
    # Lanes or port, whichever takes longer over the pass.
    unit_s = lanes_s if lanes_s @ table.count >= port_s @ table.count else port_s
    joined = max if pass_.options.vector == "overlapped" else float.__add__
    levels, place = hardware.levels, pass_.positions
    reads, writes = (moved[:, 0] for moved in design.operator_traffic())
    memory_joules = (
        reads * levels.read_energy_joules_per_byte + writes * levels.write_energy_joules_per_byte
    ).sum(axis=0)
    array_joules = design.operator_cycles()[0] * design.silicon.cycle_joules[0]
    # Operators beside array and memories take nothing of them.
    moved, seconds = np.zeros((len(reads), len(table))), np.zeros((4, len(table)))
    moved[:, place], seconds[:, place] = reads + writes, [of_unit[0] for of_unit in design.times]
    matrix_joules = np.zeros(len(table))
    matrix_joules[place] = memory_joules + array_joules
    moved[0] += ported
    rows: list[OperatorRow] = []
    for i, name in enumerate(table.names):
        count, vector_s = float(table.count[i]), float(unit_s[i])
        *of_units, matrix_s = seconds[:, i].tolist()
        bounds = dict(zip(BOUNDS, of_units, strict=True))
        operations = float(table.vector_ops_per_request[i]) * batch
        rows.append(
            {
                "name": name,
                "kind": table.kinds[i],
                "count": count,
                "bound": _slowest({**bounds, "vector": vector_s}),
                "matrix_bound": _slowest(bounds),
                "time_s": count * joined(matrix_s, vector_s),
                "compute_s": count * of_units[0],
                "on_chip_s": count * of_units[1],
                "off_chip_s": count * of_units[2],
                "matrix_s": count * matrix_s,
                "vector_s": count * vector_s,
                "work_flop": 2.0 * count * float(table.mac_per_request[i]) * batch,
                "energy_joules": count
                * float(matrix_joules[i] + operations * lane_joules + joules[i]),
                "traffic_bytes": {
                    _name(design, level): count * float(moved[level, i]) for level in present
                },
            }
        )
    rows += _wait(design, present)
    total = sum(row["time_s"] for row in rows) or 1.0
    for row in rows:
        row["time_share"] = row["time_s"] / total
    return rows


def _vector_operands(design: DesignMetrics) -> tuple[FloatArray, FloatArray]:
    """(o,) bytes that the vector unit moves through the on-chip port, and energy of its operands.

    All scores count with the softmax, those of the array's side of a buffer included.
    """
    operands = design.pass_.vector_operands_by_operator
    hardware = design.working.accelerators
    reads, writes = (moved[0] for moved in vector_streams(operands, design.working.placed))
    levels, batch = hardware.levels, float(design.working.pass_requests[0])
    joules = reads * levels.read_energy_joules_per_byte[0, 0]
    joules = joules + writes * levels.write_energy_joules_per_byte[0, 0]
    activations = (operands.reads + operands.writes) * float(design.working.activation_bytes[0])
    buffered = batch * (activations + 4.0 * operands.scores * SCORE_BYTES)
    energies = design.silicon.constants.operation_energies
    byte_joules = energies.score_buffer_joules_per_byte * energies.clock_scale(hardware.clock_hz)[0]
    return reads + writes, joules + buffered * byte_joules * hardware.scores_are_local[0]


def _slowest(seconds: Mapping[str, float]) -> str:
    """Slowest unit; ``none`` where nothing takes any time."""
    slowest = max(seconds, key=lambda bound: seconds[bound])
    return slowest if seconds[slowest] > 0 else "none"


def _is_at_power_limit(design: DesignMetrics) -> bool:
    """True if a memory at its power limit sets the time of array and memories."""
    longest_s = float(design.power_limits_s[:, 0].max())
    return bool(longest_s > design.operators_s[0] and longest_s >= design.matrix_s[0])


def _wait(design: DesignMetrics, present: list[int]) -> list[OperatorRow]:
    """A row for the time that a power limit, or the vector unit at the port, adds to operators."""
    waiting_s = float((design.matrix_s - design.operators_s)[0])
    if not waiting_s > 0:
        return []
    name, bound = "vector_operands_at_the_port", "on-chip port"
    if _is_at_power_limit(design):
        level = _name(design, int(design.power_limits_s[:, 0].argmax()))
        name, bound = f"power_limit_of_{level}", "power"
    return [
        {
            "name": name,
            "kind": "wait",
            "count": 1.0,
            "bound": bound,
            "matrix_bound": bound,
            "time_s": waiting_s,
            "compute_s": 0.0,
            "on_chip_s": 0.0,
            "off_chip_s": 0.0,
            "matrix_s": waiting_s,
            "vector_s": 0.0,
            "work_flop": 0.0,
            "energy_joules": 0.0,
            "traffic_bytes": dict.fromkeys([_name(design, level) for level in present], 0.0),
        }
    ]


def _power_note(design: DesignMetrics) -> dict[str, str]:
    """Effect on the time of a memory at its power limit, by the memory's name."""
    if not _is_at_power_limit(design):
        return {}
    level = int(design.power_limits_s[:, 0].argmax())
    ratio = float(design.placed_levels("write_energy_ratio")[level, 0])
    name = _name(design, level)
    sentence = (
        f"{name} is at its power limit: its TDP counts reading at the peak "
        f"bandwidth, and a byte written takes {ratio:.4g} times that energy; so array and memory "
        f"take {design.matrix_s[0]:.4g} s instead of {design.operators_s[0]:.4g} s"
    )
    return {name: sentence}


BOUNDS = ("compute", "on-chip port", "off-chip")
"""Bounds of an operator of array and memories."""


def _levels(design: DesignMetrics, designs: Columns, present: list[int]) -> list[LevelRow]:
    levels, pinned = design.working.accelerators.levels, design.working.pinned[:, 0]
    tails = design.working.tails[:, :, 0]
    own = tails - np.concatenate([tails[:, 1:], np.zeros((len(KINDS), 1))], axis=1)
    rows: list[LevelRow] = []
    for level in present:
        moved = float(design.reads[level, 0] + design.writes[level, 0])
        bandwidth = float(levels.bandwidth_bytes_per_s[level, 0])
        held = pinned if level == 0 else own[:, level - 1] * (1 - pinned)
        rows.append(
            {
                "name": _name(design, level),
                "title": LEVEL_TITLES[_place(design, level)],
                "banks": _banks(designs, _name(design, level)),
                "capacity_bytes": float(levels.capacity_bytes[level, 0]),
                "bandwidth_bytes_per_s": bandwidth,
                "latency_s": float(levels.latency_s[level, 0]),
                "shoreline_mm": float(levels.shoreline_m[level, 0]) * 1e3,
                "uncharged_shoreline_mm": float(levels.uncharged_shoreline_m[level, 0]) * 1e3,
                "read_bytes": float(design.reads[level, 0]),
                "written_bytes": float(design.writes[level, 0]),
                "written_bytes_per_s": float(design.written_bytes_per_s[level, 0]),
                "utilization": moved / (bandwidth * float(design.pass_s[0])),
                "energy_joules": float(design.level_joules[level, 0]),
                "holds_share": {kind: float(held[k]) for k, kind in enumerate(KINDS)},
            }
        )
    return rows


def _place(design: DesignMetrics, level: int) -> int:
    """0 for the on-chip memory, or the design's own number of the tier at this place."""
    return int(design.working.tier_order[level - 1, 0]) + 1 if level else 0


def _name(design: DesignMetrics, level: int) -> str:
    """``on_chip``, or the design's own name of the tier that stands at this place."""
    return LEVEL_NAMES[_place(design, level)]


def _wear(design: DesignMetrics, designs: Columns, present: list[int]) -> list[str]:
    """Rate at which memories with limited endurance are written."""
    wear, capacity = (
        design.placed_levels("wear_per_byte")[:, 0],
        design.placed_levels("capacity_bytes"),
    )
    sentences = []
    for level in present:
        if wear[level] > 0:
            rate, size = design.written_bytes_per_s[level, 0], capacity[level, 0]
            name = _name(design, level)
            words = " + ".join(f"{x['technology']} x{x['count']}" for x in _banks(designs, name))
            sentences.append(
                f"{name}, {words}, is written at {rate / 1e9:.3g} GB/s while "
                f"the device serves: {rate * 86400 / size:.3g} drive writes a day, of the "
                f"{1 / (wear[level] * size):,.0f} that it bears"
            )
    return sentences


def _banks(designs: Columns, level: str) -> list[Banks]:
    value: JsonObject = {name: column.to_list()[0] for name, column in designs.items()}
    if level == "on_chip":
        parts = [
            (value.get("sram_technology") or "sram", value["sram_dies"]),
            ("sram_3d", value["sram_3d_layers"]),
        ]
    else:
        parts = [(value[f"{level}_technology"], value[f"{level}_stacks"])]
    return [{"technology": str(name), "count": int(count)} for name, count in parts if count]


def _power(design: DesignMetrics, present: list[int]) -> list[PowerRow]:
    seconds = float(design.pass_s[0])
    watts = {
        "array": (
            design.tdp_by_component["array"],
            float(design.array_joules[0]) / seconds,
        ),
        "vector": (
            design.tdp_by_component["vector"],
            float(design.vector_joules[0]) / seconds
            + float(design.working.accelerators.score_buffer_watts[0]),
        ),
    }
    for level in present:
        name = _name(design, level)
        dynamic = float(design.level_joules[level, 0]) / seconds
        background = float(design.working.accelerators.levels.background_watts[level, 0])
        watts[name] = (design.tdp_by_component[name], dynamic + background)
    titles = {_name(design, level): LEVEL_TITLES[_place(design, level)] for level in present}
    return [
        {
            "name": name,
            "title": titles.get(name, name),
            "tdp_watts": float(limit[0]),
            "average_watts": average,
        }
        for name, (limit, average) in watts.items()
    ]


def _deployment(design: DesignMetrics) -> list[str]:
    """Over how many devices the model is spread, and what they exchange."""
    part, options = design.part, design.options
    if part.n_devices == 1:
        return []
    degrees = part.parallelism
    groups = f", experts over {degrees.expert} groups that serve requests of their own"
    return [
        f"{part.n_devices} devices: tensor parallelism over {degrees.tensor}, "
        f"{degrees.pipeline} pipeline stages{groups if degrees.expert > 1 else ''}; "
        "TDP, energy, capacity and bandwidth are of all, "
        "operators, levels and power by component of one device of the last stage",
        f"{part.messages.n_messages:.4g} messages in a pass take {design.message_s[0]:.4g} s of "
        f"it, on links of {options.link_bandwidth / 1e9:g} GB/s one way, not hidden by anything; "
        "links are not in the TDP",
    ]


def _mixture(designs: Columns) -> list[str]:
    """Note on weights in several formats, if there are any."""
    name = str(designs["weight_format"].to_list()[0])
    if not is_mixed(name):
        return []
    return [
        f"weights: {mixture_words(name)}; every operator, embedding and output layer included, is "
        "the mean over its instances in each format; the array multiplies the widest"
    ]


def _uncharged(design: DesignMetrics, designs: Columns) -> list[str]:
    """Note on interfaces that take no die edge, if there are any."""
    if not design.uncharged_shoreline_mm[0] > 0:
        return []
    family = designs[UNCHARGED_EDGE].to_list()[0]
    return [f"the interfaces of {family} take none of the die edge reserved for memory"]


def _sharing(design: DesignMetrics) -> str:
    """Who gets which part of the off-chip bandwidth."""
    priority = BANDWIDTH_PRIORITIES[int(design.working.bandwidth_priority[0])]
    share = MATRIX_SHARE[priority]
    if design.options.bandwidth_sharing == "shared" or share is None:
        return "weights, KV cache and activations share the off-chip bandwidth freely"
    return (
        f"bandwidth priority {priority}: weights and KV cache have {share:.0%} of the usable "
        f"off-chip bandwidth, activations {1 - share:.0%}, also while the other is idle "
        "(bandwidth_sharing=fixed)"
    )


_SCORE_PATHS = {
    "local": "scores and vector operands pass a buffer between array and vector unit, which holds "
    "two tiles of BLEN rows by MLEN keys; K and V stream once for each tile of rows",
    "on_chip": "scores and vector operands pass the port of the on-chip memory",
    "uncharged": "scores and vector operands pass no port: as in MemExplorer's tables",
}


def _work(options: NpuOptions) -> str:
    """Work of the array that needs no data."""
    if options.work == "padded":
        return "a cycle of the array costs the energy of all its MACs, padding included"
    return (
        "a block of the array ends after its last column; rows without data draw no power, also in "
        "the TDP, which is of the largest batch that fits"
    )


def notes(design: DesignMetrics) -> list[str]:
    """The assumptions that limit the numbers, for the options in force."""
    options, workload = design.options, design.workload
    organization = ORGANIZATIONS[int(design.working.organization[0])]
    topology = "staged" if design.working.preparation.modelling.is_staged else "parallel"
    prepared, size, part = design.working, design.batch_size[0], design.part
    room = float(design.memory_capacity_bytes[0] / part.n_devices - prepared.all_weight_bytes[0])
    fits = ""
    if prepared.kv_request_bytes[0]:
        many = max(room, 0.0) / prepared.kv_request_bytes[0] * part.n_batches
        fits = f"; the memory holds the weights and {many:.4g} requests"
    rule = design.workload.batch or design.options.batch
    words = f"the rule {rule!r}" if isinstance(rule, str) else "as given"
    if BATCH_SIZE in prepared.columns:
        words = "stated by the design"
    each = f", {design.stage_requests[0]:g} in each of {part.n_batches} groups of requests"
    sentences = [
        f"profile {options.profile}: {options.blocking} blocking, vector work {options.vector}, "
        f"softmax {options.softmax}, {options.offchip_efficiency:.0%} of the off-chip peak "
        f"usable, {topology} memory, {organization} array",
        _sharing(design),
        (f"batch {size:g}{each if part.n_batches > 1 else ''}, {words}{fits}"),
        _work(options),
        _SCORE_PATHS[SCORE_PATHS[int(design.working.accelerators.score_path[0])]],
        "the energies of operators leave out background power",
        "an operand's bytes are interleaved over the levels that hold it",
    ]
    if options.profile == "memexplorer":
        sentences.append(
            "profile memexplorer is fitted to MemExplorer's tables: operands come anew for every "
            "tile of the array, and every vector operation reads and writes on chip"
        )
    if organization == "ideal":
        sentences.append(
            "the array is ideal: no cycle is lost to padding, filling or draining it; an upper "
            "bound, not to be compared with designs whose array loses some"
        )
    if workload.phase == "prefill":
        sentences.append(
            "the requests of a batch are prefilled one after the other; time to first token is "
            "that of a request that does not wait"
        )
    else:
        sentences.append("a decode step is the mean step: work at the mean context")
    if workload.format_convention == "plain":
        sentences.append("elements count their plain bits, shared scales left out")
    return sentences
