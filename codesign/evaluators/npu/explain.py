"""How one design's numbers come about: operators, memory levels, power, assumptions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from codesign.columns import Columns
from codesign.evaluators.base import Explanation
from codesign.evaluators.npu.design_metrics import DesignMetrics
from codesign.evaluators.npu.operators import BANDWIDTH_PRIORITIES, Pass
from codesign.evaluators.npu.options import MATRIX_SHARE, NpuOptions
from codesign.evaluators.npu.placement import KINDS
from codesign.hardware.accelerator import UNCHARGED_EDGE
from codesign.hardware.array import ORGANIZATIONS
from codesign.hardware.power import VECTOR_LANE_ENERGY_JOULES
from codesign.workload import Request


def explain(
    one: DesignMetrics,
    pass_: Pass,
    workload: Request,
    designs: Columns,
    metrics: Sequence[str],
) -> Explanation:
    """The full account of a batch of one design."""
    present = np.flatnonzero(one.batch.setup.accelerators.levels.exists[:, 0]).tolist()
    return Explanation(
        metrics={name: float(getattr(one, name)[0]) for name in metrics},
        violations={
            name: float(value[0]) for name, value in one.chosen.footprint.violations.items()
        },
        operators=_operators(pass_, one, present),
        levels=_levels(one, designs, present),
        power=_power(one, present),
        notes=[
            _balance(pass_.options, one),
            *_deployment(one, pass_.options),
            *notes(one, pass_.options, workload),
            *_uncharged(one, designs),
        ],
    )


def _operators(pass_: Pass, one: DesignMetrics, present: list[int]) -> list[dict[str, Any]]:
    table, batch = pass_.all_operators, float(one.batch.setup.batch_size[0, 0])
    hardware = one.batch.setup.accelerators
    lanes_per_s = float(hardware.vector_length[0] * hardware.clock_hz[0])
    lane_cycles = pass_.lane_cycles_per_request
    both = max if pass_.options.vector == "overlapped" else float.__add__
    moving = _moving_operators(pass_, one, present)
    rows: list[dict[str, Any]] = []
    for i, name in enumerate(table.names):
        count = float(table.count[i])
        operations = float(table.vector_ops_per_request[i]) * batch
        own = moving.get(
            name, _NOTHING | {"traffic_bytes": {_name(one, level): 0.0 for level in present}}
        )
        vector_s = float(lane_cycles[i]) * batch / lanes_per_s
        bounds = {bound: own[key] for bound, key in _BOUNDS.items()} | {"vector": vector_s}
        slowest = max(bounds, key=lambda bound: bounds[bound])
        rows.append(
            {
                "name": name,
                "kind": table.kinds[i],
                "count": count,
                "bound": slowest if bounds[slowest] > 0 else "none",
                "time_s": count * both(own["time_s"], vector_s),
                **{key: count * own[key] for key in _BOUNDS.values()},
                "vector_time_s": count * vector_s,
                "multiply_accumulates": count * float(table.mac_per_request[i]) * batch,
                "energy_joules": count
                * (own["energy_joules"] + operations * VECTOR_LANE_ENERGY_JOULES),
                "traffic_bytes": {
                    level: count * moved for level, moved in own["traffic_bytes"].items()
                },
            }
        )
    total = sum(row["time_s"] for row in rows) or 1.0
    return [row | {"time_share": row["time_s"] / total} for row in rows]


_BOUNDS = {
    "compute": "compute_time_s",
    "on-chip port": "on_chip_time_s",
    "off-chip": "off_chip_time_s",
}
_NOTHING: dict[str, Any] = dict.fromkeys([*_BOUNDS.values(), "time_s", "energy_joules"], 0.0)


def _moving_operators(
    pass_: Pass, one: DesignMetrics, present: list[int]
) -> dict[str, dict[str, Any]]:
    """Times, energy and traffic of one instance of each operator that uses array or memory."""
    levels = one.batch.setup.accelerators.levels
    reads, writes = one.operator_traffic()
    memory_joules = (
        reads[:, 0] * levels.read_energy_joules_per_byte
        + writes[:, 0] * levels.write_energy_joules_per_byte
    ).sum(axis=0)
    joules = memory_joules + one.operator_cycles()[0] * one.cycle_joules[0]
    times = one.times
    return {
        name: {
            "compute_time_s": float(times.compute_s[0, i]),
            "on_chip_time_s": float(times.on_chip_s[0, i]),
            "off_chip_time_s": float(times.off_chip_s[0, i]),
            "time_s": float(times.time_s[0, i]),
            "energy_joules": float(joules[i]),
            "traffic_bytes": {
                _name(one, level): float((reads + writes)[level, 0, i]) for level in present
            },
        }
        for i, name in enumerate(pass_.table.names)
    }


def _levels(one: DesignMetrics, designs: Columns, present: list[int]) -> list[dict[str, Any]]:
    levels, activity, setup = one.batch.setup.accelerators.levels, one.activity, one.batch.setup
    tails = setup.tails[:, :, 0]
    own = tails - np.concatenate([tails[:, 1:], np.zeros((len(KINDS), 1))], axis=1)
    rows = []
    for level in present:
        moved = float(activity.reads[level, 0] + activity.writes[level, 0])
        bandwidth = float(levels.bandwidth_bytes_per_s[level, 0])
        held = setup.pinned[:, 0] if level == 0 else own[:, level - 1] * (1 - setup.pinned[:, 0])
        rows.append(
            {
                "name": _name(one, level),
                "technology": _describe(designs, _name(one, level)),
                "capacity_bytes": float(levels.capacity_bytes[level, 0]),
                "bandwidth_bytes_per_s": bandwidth,
                "latency_s": float(levels.latency_s[level, 0]),
                "shoreline_mm": float(levels.shoreline_m[level, 0]) * 1e3,
                "uncharged_shoreline_mm": float(levels.uncharged_shoreline_m[level, 0]) * 1e3,
                "read_bytes": float(activity.reads[level, 0]),
                "written_bytes": float(activity.writes[level, 0]),
                "utilization": moved / (bandwidth * float(one.pass_s[0])),
                "energy_joules": float(one.level_joules[level, 0]),
                "holds_share": {kind: float(held[k]) for k, kind in enumerate(KINDS)},
            }
        )
    return rows


def _name(one: DesignMetrics, level: int) -> str:
    """``on_chip``, or the design's own name of the tier that stands at this place."""
    return f"tier{one.batch.tier_order[level - 1, 0] + 1}" if level else "on_chip"


def _describe(designs: Columns, level: str) -> str:
    value = {name: column.to_list()[0] for name, column in designs.items()}
    if level != "on_chip":
        return f"{value[f'{level}_technology']} x{value[f'{level}_stacks']}"
    dies = f"{value.get('sram_technology') or 'sram'} x{value['sram_dies']}"
    layers = f"sram_3d x{value['sram_3d_layers']}"
    parts = [(dies, value["sram_dies"]), (layers, value["sram_3d_layers"])]
    return " + ".join(text for text, count in parts if count)


def _power(one: DesignMetrics, present: list[int]) -> list[dict[str, Any]]:
    seconds = float(one.pass_s[0])
    watts = {
        "array": (one.tdp_by_component["array"], float(one.activity.array_joules[0]) / seconds),
        "vector": (one.tdp_by_component["vector"], float(one.activity.vector_joules[0]) / seconds),
    }
    for level in present:
        name = _name(one, level)
        dynamic = float(one.level_joules[level, 0]) / seconds
        background = float(one.batch.setup.accelerators.levels.background_watts[level, 0])
        watts[name] = (one.tdp_by_component[name], dynamic + background)
    return [
        {"component": name, "tdp_watts": float(limit[0]), "average_watts": average}
        for name, (limit, average) in watts.items()
    ]


def _balance(options: NpuOptions, one: DesignMetrics) -> str:
    """How the two sides of a pass add up to its time."""
    together = {
        "overlapped": "they overlap, so the longer counts",
        "serial": "they add up",
    }[options.vector or "overlapped"]
    return (
        f"one pass takes {one.pass_s[0]:.4g} s: matrix array and memory {one.matrix_s[0]:.4g} s, "
        f"vector unit {one.vector_s[0]:.4g} s; {together}"
    )


def _deployment(one: DesignMetrics, options: NpuOptions) -> list[str]:
    """Over how many devices the model is spread, and what they exchange."""
    part = one.part
    if part.n_devices == 1:
        return []
    degrees = part.parallelism
    return [
        f"{part.n_devices} devices: tensor parallelism over {degrees.tensor}, "
        f"{degrees.pipeline} pipeline stages; TDP, energy, capacity and bandwidth are of all, "
        "operators, levels and power by component of one device of the last stage",
        f"{part.messages.n_messages:.4g} messages in a pass take {one.message_s[0]:.4g} s of it, "
        f"on links of {options.link_bandwidth / 1e9:g} GB/s one way, not hidden by anything; "
        "links are not in the TDP",
    ]


def _uncharged(one: DesignMetrics, designs: Columns) -> list[str]:
    """Which interfaces the space lets take no die edge."""
    if not one.uncharged_shoreline_mm[0] > 0:
        return []
    family = designs[UNCHARGED_EDGE].to_list()[0]
    return [f"the interfaces of {family} take none of the die edge reserved for memory"]


def _sharing(one: DesignMetrics, options: NpuOptions) -> str:
    """Who gets which part of the off-chip bandwidth."""
    priority = BANDWIDTH_PRIORITIES[int(one.batch.setup.bandwidth_priority[0, 0])]
    share = MATRIX_SHARE[priority]
    if options.bandwidth_sharing == "shared" or share is None:
        return "weights, KV cache and activations share the off-chip bandwidth freely"
    return (
        f"bandwidth priority {priority}: weights and KV cache have {share:.0%} of the usable "
        f"off-chip bandwidth, activations {1 - share:.0%}, also while the other is idle "
        "(bandwidth_sharing=fixed)"
    )


def _batch(one: DesignMetrics, workload: Request) -> str:
    """How the batch size came about, and what would fit."""
    batch, size, part = one.batch, one.batch_size[0], one.part
    room = float(one.memory_capacity_bytes[0] / part.n_devices - batch.weight_bytes[0])
    many = max(room, 0.0) / batch.kv_bytes[0] * part.n_stages
    fits = f"; the memory holds the weights and {many:.4g} requests"
    if not batch.kv_bytes[0]:
        fits = ""
    rule = workload.batch or one.options.batch
    words = f"the rule {rule!r}" if isinstance(rule, str) else "as given"
    return f"batch {size:g}, {words}{fits}"


def notes(one: DesignMetrics, options: NpuOptions, workload: Request) -> list[str]:
    """The assumptions that limit the numbers, for the options in force."""
    organization = ORGANIZATIONS[int(one.batch.setup.organization[0, 0])]
    said = [
        f"profile {options.profile}: {options.blocking} blocking, vector work {options.vector}, "
        f"softmax {options.softmax}, {options.offchip_efficiency:.0%} of the off-chip peak "
        f"usable, {'staged' if one.batch.setup.modelling.is_staged else 'parallel'} memory, "
        f"{organization} array",
        _sharing(one, options),
        _batch(one, workload),
        "a cycle of the array costs the energy of all its MACs, padding included",
        "the energies of operators leave out background power",
        "an operand's bytes are interleaved over the levels that hold it",
    ]
    if options.profile == "memexplorer":
        said.append("profile memexplorer is calibrated to MemExplorer's tables, not derived")
    if organization == "ideal":
        said.append(
            "the array is ideal: no cycle is lost to padding, filling or draining it; an upper "
            "bound, not to be compared with designs whose array loses some"
        )
    if workload.phase == "prefill":
        said.append(
            "the requests of a batch are prefilled one after the other; time to first token is "
            "that of a request that does not wait"
        )
    else:
        said.append("a decode step is the mean step: work at the mean context")
    if workload.format_convention == "plain":
        said.append("elements count their plain bits, shared scales left out")
    return said
