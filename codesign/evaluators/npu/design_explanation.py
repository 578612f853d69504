"""Account of one design: operators, memory levels, power, assumptions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np

from codesign.base.columns import (
    ArrayPair,
    Columns,
    FloatMap,
    FloatSequence,
    JsonObject,
    JsonRows,
    StringDict,
    StringList,
    StringMap,
    StringPair,
    Strings,
    first_values,
)
from codesign.base.evaluator import Explanation
from codesign.base.explanation_rows import Banks, LevelRow, OperatorRow, PowerRow
from codesign.evaluators.npu.cost_metrics import cost_notes, cost_rows, floorplan_rows
from codesign.evaluators.npu.design_metrics import DesignMetrics
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


def explain(design: DesignMetrics, metrics: Strings, absent: StringMap) -> Explanation:
    """The full account of a batch of one design; ``absent`` has why metrics have no value."""
    designs = design.chosen.designs.columns
    options = design.options
    working = design.working
    present = {
        level: LEVEL_NAMES[working.tier_order[level - 1, 0] + 1 if level else 0]
        for level in np.flatnonzero(working.accelerators.levels.exists[:, 0]).tolist()
    }
    together = {
        "overlapped": "they overlap, so the longer counts",
        "serial": "they add up",
    }[options.vector or "overlapped"]
    balance = (
        f"one pass takes {design.pass_s[0]:.4g} s: matrix array and memory "
        f"{design.matrix_s[0]:.4g} s, vector unit {design.vector_s[0]:.4g} s; {together}"
    )
    at_power_limit = _power_note(design, present)
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


_Names = Mapping[int, str]
"""Names of the levels that a design has, by their positions."""
BOUNDS = ("compute", "on-chip port", "off-chip")
"""Bounds of an operator of array and memories."""
_AMOUNTS = ("time_s", "compute_s", "on_chip_s", "off_chip_s", "matrix_s", "vector_s", "work_flop",
            "energy_joules")  # fmt: skip
"""Amounts of all instances of an operator together."""


def _operators(design: DesignMetrics, present: _Names) -> list[OperatorRow]:
    pass_ = design.pass_
    hardware = design.working.accelerators
    table = pass_.all_operators
    levels = hardware.levels
    place = pass_.positions
    batch = float(design.working.pass_requests[0])
    count = table.count
    energies = design.silicon.constants.operation_energies
    lane_joules = energies.lane_joules * energies.clock_scale(hardware.clock_hz)
    ported, joules = _vector_operands(design)
    lanes_s = pass_.lane_cycles_per_request * batch / (hardware.vector_length * hardware.clock_hz)
    port_s = ported / levels.bandwidth_bytes_per_s[0]
    # Lanes or port, whichever takes longer over the pass.
    vector_s = lanes_s if lanes_s @ count >= port_s @ count else port_s
    joined = np.maximum if pass_.options.vector == "overlapped" else np.add
    reads, writes = (moved[:, 0] for moved in design.operator_traffic())
    memory_joules = (
        reads * levels.read_energy_joules_per_byte + writes * levels.write_energy_joules_per_byte
    ).sum(axis=0)
    array_joules = design.operator_cycles()[0] * design.silicon.cycle_joules
    # Operators beside array and memories take nothing of them.
    moved = np.zeros((len(reads), len(table)))
    seconds = np.zeros((4, len(table)))
    moved[:, place] = reads + writes
    seconds[:, place] = [of_unit[0] for of_unit in design.times]
    matrix_joules = np.zeros(len(table))
    matrix_joules[place] = memory_joules + array_joules
    moved[0] += ported
    amounts = [
        *(count * each for each in (joined(seconds[3], vector_s), *seconds, vector_s)),
        2.0 * count * table.mac_per_request * batch,
        count * (matrix_joules + table.vector_ops_per_request * batch * lane_joules + joules),
    ]
    rows = []
    for i, name in enumerate(table.names):
        bounds = dict(zip(BOUNDS, seconds[:, i].tolist(), strict=False))
        crossed = {name: float((count * moved[level])[i]) for level, name in present.items()}
        bound = _slowest({**bounds, "vector": float(vector_s[i])})
        values = [float(values[i]) for values in amounts]
        rows.append(
            _row(name, table.kinds[i], float(count[i]), (bound, _slowest(bounds)), values, crossed)
        )
    rows += _wait(design, present)
    total = sum(row["time_s"] for row in rows) or 1.0
    for row in rows:
        row["time_share"] = row["time_s"] / total
    return rows


def _row(
    name: str,
    computation: str,
    count: float,
    bounds: StringPair,
    amounts: FloatSequence,
    crossed: FloatMap,
) -> OperatorRow:
    """A row of an operator, or of a wait; ``bounds`` with and without the vector unit."""
    row = {"name": name, "kind": computation, "count": count}
    row |= {"bound": bounds[0], "matrix_bound": bounds[1]}
    row |= {**dict(zip(_AMOUNTS, amounts, strict=True)), "traffic_bytes": crossed}
    return cast(OperatorRow, row)


def _vector_operands(design: DesignMetrics) -> ArrayPair:
    """(o,) bytes that the vector unit moves through the on-chip port, and energy of its operands.

    All scores count with the softmax, those of the array's side of a buffer included.
    """
    operands = design.pass_.vector_operands_by_operator
    hardware = design.working.accelerators
    reads, writes = (moved[0] for moved in vector_streams(operands, design.working.placed))
    levels = hardware.levels
    batch = design.working.pass_requests
    joules = reads * levels.read_energy_joules_per_byte[0]
    joules += writes * levels.write_energy_joules_per_byte[0]
    activations = (operands.reads + operands.writes) * design.working.activation_bytes
    buffered = batch * (activations + 4.0 * operands.scores * SCORE_BYTES)
    energies = design.silicon.constants.operation_energies
    byte_joules = energies.score_buffer_joules_per_byte * energies.clock_scale(hardware.clock_hz)
    return reads + writes, joules + buffered * byte_joules * hardware.scores_are_local


def _slowest(seconds: FloatMap) -> str:
    """Slowest unit; ``none`` where nothing takes any time."""
    slowest = max(seconds, key=lambda bound: seconds[bound])
    return slowest if seconds[slowest] > 0 else "none"


def _level_at_power_limit(design: DesignMetrics) -> int | None:
    """The memory whose power limit sets the time of array and memories, if one does."""
    limits_s = design.power_limits_s[:, 0]
    sets_time = limits_s.max() > design.operators_s[0] and limits_s.max() >= design.matrix_s[0]
    return int(limits_s.argmax()) if sets_time else None


def _wait(design: DesignMetrics, present: _Names) -> list[OperatorRow]:
    """A row for the time that a power limit, or the vector unit at the port, adds to operators."""
    waiting_s = float((design.matrix_s - design.operators_s)[0])
    if not waiting_s > 0:
        return []
    name = "vector_operands_at_the_port"
    bound = "on-chip port"
    if (level := _level_at_power_limit(design)) is not None:
        name = f"power_limit_of_{present[level]}"
        bound = "power"
    amounts = [waiting_s if key in ("time_s", "matrix_s") else 0.0 for key in _AMOUNTS]
    return [_row(name, "wait", 1.0, (bound, bound), amounts, dict.fromkeys(present.values(), 0.0))]


def _power_note(design: DesignMetrics, present: _Names) -> StringDict:
    """Effect on the time of a memory at its power limit, by the memory's name."""
    level = _level_at_power_limit(design)
    if level is None:
        return {}
    ratio = design.placed_levels("write_energy_ratio")[level, 0]
    sentence = (
        f"{present[level]} is at its power limit: its TDP counts reading at the peak "
        f"bandwidth, and a byte written takes {ratio:.4g} times that energy; so array and memory "
        f"take {design.matrix_s[0]:.4g} s instead of {design.operators_s[0]:.4g} s"
    )
    return {present[level]: sentence}


def _levels(design: DesignMetrics, designs: Columns, present: _Names) -> list[LevelRow]:
    levels = design.working.accelerators.levels
    pinned = design.working.pinned[:, 0]
    tails = design.working.tails[:, :, 0]
    own = tails - np.concatenate([tails[:, 1:], np.zeros((len(KINDS), 1))], axis=1)
    shares = np.concatenate([pinned[:, None], own * (1 - pinned)[:, None]], axis=1)
    bandwidth = levels.bandwidth_bytes_per_s
    with np.errstate(invalid="ignore"):  # of a level that is not there
        columns = {
            "capacity_bytes": levels.capacity_bytes,
            "bandwidth_bytes_per_s": bandwidth,
            "latency_s": levels.latency_s,
            "shoreline_mm": levels.shoreline_m * 1e3,
            "uncharged_shoreline_mm": levels.uncharged_shoreline_m * 1e3,
            "package_mm2": levels.package_area_mm2,
            "read_bytes": design.reads,
            "written_bytes": design.writes,
            "written_bytes_per_s": design.written_bytes_per_s,
            "utilization": (design.reads + design.writes) / (bandwidth * design.pass_s),
            "energy_joules": design.level_joules,
        }
    rows: JsonRows = [
        {
            "name": name,
            "title": _TITLES[name],
            "banks": _banks(designs, name),
            **{key: float(values[level, 0]) for key, values in columns.items()},
            "holds_share": dict(zip(KINDS, shares[:, level].tolist(), strict=True)),
        }
        for level, name in present.items()
    ]
    return cast("list[LevelRow]", rows)


def _wear(design: DesignMetrics, designs: Columns, present: _Names) -> StringList:
    """Rate at which memories with limited endurance are written."""
    wear, capacity = (
        design.placed_levels(name)[:, 0] for name in ("wear_per_byte", "capacity_bytes")
    )
    sentences = []
    for level, name in present.items():
        if wear[level] > 0:
            rate = design.written_bytes_per_s[level, 0]
            size = capacity[level]
            words = " + ".join(f"{x['technology']} x{x['count']}" for x in _banks(designs, name))
            sentences.append(
                f"{name}, {words}, is written at {rate / 1e9:.3g} GB/s while "
                f"the device serves: {rate * 86400 / size:.3g} drive writes a day, of the "
                f"{1 / (wear[level] * size):,.0f} that it bears"
            )
    return sentences


def _banks(designs: Columns, level: str) -> list[Banks]:
    value: JsonObject = {name: column.decoded()[0] for name, column in designs.items()}
    if level == "on_chip":
        parts = [
            (value.get("sram_technology") or "sram", value["sram_dies"]),
            ("sram_3d", value["sram_3d_layers"]),
        ]
    else:
        parts = [(value[f"{level}_technology"], value[f"{level}_stacks"])]
    return [{"technology": str(name), "count": int(count)} for name, count in parts if count]


def _power(design: DesignMetrics, present: _Names) -> list[PowerRow]:
    hardware = design.working.accelerators
    pass_s = design.pass_s
    average = {
        "array": design.array_joules / pass_s,
        "vector": design.vector_joules / pass_s + hardware.score_buffer_watts,
    }
    for level, name in present.items():
        dynamic = design.level_joules[level] / pass_s
        average[name] = dynamic + hardware.levels.background_watts[level]
    return [
        {
            "name": name,
            "title": _TITLES.get(name, name),
            "tdp_watts": float(design.silicon.tdp_by_component[name][0]),
            "average_watts": float(watts[0]),
        }
        for name, watts in average.items()
    ]


_TITLES = dict(zip(LEVEL_NAMES, LEVEL_TITLES, strict=True))


def _deployment(design: DesignMetrics) -> StringList:
    """Over how many devices the model is spread, and what they exchange."""
    model_part = design.part
    options = design.options
    if model_part.n_devices == 1:
        return []
    degrees = model_part.parallelism
    groups = f", experts over {degrees.expert} groups that serve requests of their own"
    return [
        f"{model_part.n_devices} devices: tensor parallelism over {degrees.tensor}, "
        f"{degrees.pipeline} pipeline stages{groups if degrees.expert > 1 else ''}; "
        "TDP, energy, capacity and bandwidth are of all, "
        "operators, levels and power by component of one device of the last stage",
        f"{model_part.messages.n_messages:.4g} messages in a pass take {design.message_s[0]:.4g} s "
        f"of it, on links of {options.link_bandwidth / 1e9:g} GB/s one way, not "
        "hidden by anything; links are not in the TDP",
    ]


def _mixture(designs: Columns) -> StringList:
    """Note on weights in several formats, if there are any."""
    name = str(designs["weight_format"].decoded()[0])
    if not is_mixed(name):
        return []
    return [
        f"weights: {mixture_words(name)}; every operator, embedding and output layer included, is "
        "the mean over its instances in each format; the array multiplies the widest"
    ]


def _uncharged(design: DesignMetrics, designs: Columns) -> StringList:
    """Note on interfaces that take no die edge, if there are any."""
    if not design.silicon.uncharged_shoreline_mm[0] > 0:
        return []
    family = designs[UNCHARGED_EDGE].decoded()[0]
    return [f"the interfaces of {family} take none of the die edge reserved for memory"]


def _sharing(design: DesignMetrics) -> str:
    """Shares of the off-chip bandwidth, in words."""
    share = design.working.matrix_share[0]
    if share == 1.0:
        return "weights, KV cache and activations share the off-chip bandwidth freely"
    return (
        f"weights and KV cache get {100 * share:.0f} % of off-chip bandwidth, activations "
        f"{100 - 100 * share:.0f} %, even if one is idle"
    )


_SCORE_PATHS = {
    "local": "scores and vector operands pass a buffer between array and vector unit, which holds "
    "two tiles of BLEN rows by MLEN keys; K and V stream once for each tile of rows",
    "on_chip": "scores and vector operands pass the port of the on-chip memory",
    "uncharged": "scores and vector operands pass no port: as in MemExplorer's tables",
}


_WORK = {
    "padded": "a cycle of the array costs the energy of all its MACs, padding included",
    "proportional": "a block of the array ends after its last column; rows without data draw no "
    "power, also in the TDP, which assumes the largest batch that fits",
}
"""Work of the array that needs no data."""


def notes(design: DesignMetrics) -> StringList:
    """The assumptions that limit the numbers, for the options in force."""
    options = design.options
    workload = design.workload
    organization = ORGANIZATIONS[int(design.working.organization[0])]
    topology = "staged" if design.working.preparation.modelling.is_staged else "parallel"
    prepared = design.working
    size = design.batch_size[0]
    model_part = design.part
    room = float(
        design.silicon.memory_capacity_bytes[0] / model_part.n_devices
        - prepared.all_weight_bytes[0]
    )
    fits = ""
    if prepared.kv_request_bytes[0]:
        many = max(room, 0.0) / prepared.kv_request_bytes[0] * model_part.n_batches
        fits = f"; the memory holds the weights and {many:.4g} requests"
    rule = design.workload.batch or design.options.batch
    words = f"set by the rule {rule!r}" if isinstance(rule, str) else "as given"
    if BATCH_SIZE in prepared.columns:
        words = "stated by the design"
    each = f", {design.stage_requests[0]:g} in each of {model_part.n_batches} groups of requests"
    sentences = [
        f"profile {options.profile}: {options.blocking} blocking, vector work {options.vector}, "
        f"softmax {options.softmax}, {options.offchip_efficiency:.0%} of the off-chip peak usable, "
        f"{topology} memory, {organization} array",
        _sharing(design),
        (f"batch size {size:g}{each if model_part.n_batches > 1 else ''}, {words}{fits}"),
        _WORK[options.work or "proportional"],
        _SCORE_PATHS[SCORE_PATHS[int(design.working.accelerators.score_path[0])]],
        "energies of operators exclude background power",
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
        sentences.append("formats count the bits of their elements without the shared scales")
    return sentences
