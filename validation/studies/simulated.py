"""The closed form of ``npu`` beside the transaction-level simulation of the same designs.

Three questions. *Transfers*: how long a random operator's bytes take to come from off chip and to
go there, the array left out. *Blocks*: how long all operators of one layer take, array and
on-chip traffic included. *Array*: how long each product keeps the array, by the closed form and
by the tiles that the simulation visits.
"""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import product
from typing import Any, Literal

import numpy as np

from codesign.base.columns import (
    Columns,
    FieldRows,
    Fields,
    IntArray,
    JsonObject,
    JsonRows,
    StringList,
)
from codesign.base.records import frozen
from codesign.evaluators.npu.design_metrics import DesignMetrics
from codesign.evaluators.npu.operator_times import Pass
from codesign.evaluators.simulation import SimulationEvaluator, SimulationOptions
from codesign.evaluators.simulation.simulation_evaluator import DemandTiming, Simulator
from codesign.models.hardware.array import ORGANIZATIONS, Organization
from codesign.models.machines.simulation.simulated_npu import (
    SimulatedNpu,
    simulate,
)
from codesign.models.memtech import load_library
from codesign.models.workload import Request, list_models
from codesign.report.block_timeline import block_instances
from codesign.space import DesignSpace, load_space
from validation.studies.study import Study, comparison, errors_of, promise, summarize

TRANSFERS, BLOCKS, ARRAYS = 2_000, 100, 200
"""Default numbers of comparisons; of arrays, designs with all their products."""
_SAME_CYCLES = 1e-9
"""Relative difference of equal sums: the simulation adds up steps, which it cuts from running
sums of visits, and a batch may touch a fraction of an expert on average."""
_OUTLIER = 0.2
_MODELS = ("llama-3.3-70b", "llama-3-8b", "mixtral-8x7b")
_PROMPTS = (1024, 4096)
_PHASES: tuple[Literal["prefill", "decode"], ...] = ("prefill", "decode")
_AT_FIRST_USE = 10
"""Blocks of each stratum that are also simulated with operands fetched at their first use."""


@frozen
class StudySetting:
    """Setting of the designs of one stratum."""

    model: str
    phase: Literal["prefill", "decode"]
    prompt_tokens: int
    array: Organization = "flattened"

    def evaluator(self, demand: DemandTiming = "paced") -> SimulationEvaluator:
        request = Request(
            model=self.model,
            phase=self.phase,
            prompt_tokens=self.prompt_tokens,
            generated_tokens=1024,
            beyond_context=True,  # GPT-3 as a model of a size; its kernels know no limit
        )
        return SimulationEvaluator(
            request,
            SimulationOptions(demand=demand, array=self.array),
        )


_NOTES = (
    "both take the same batch size and placement; times and bytes are found apart",
    "an operand's bytes are interleaved over the tiers that hold it, in both",
    "the array's visits and the off-chip blocks keep pace but are not one loop nest: where "
    "weights and inputs both exceed half of the on-chip memory, re-reading panels or "
    "spilling sums between them would add up to a fifth to the on-chip traffic, in both",
    "the targets are for operands that come spread over the sweeps of the array which use "
    "them; fetched all during the first sweep, with nothing prefetched for the next "
    "operator, they are hidden less well: the last row of the summary bounds what the "
    "closed form then leaves out",
    "the simulation assumes requests issued ahead: landing buffers hold two steps and "
    "what the latency keeps waiting",
    "array: the simulation adds up what each visit of a tile costs, for the products of "
    "all bundled models on the three organizations of the array, and shares no code with "
    "the closed form; they are the same but for rounding, also where a batch touches a "
    "fraction of an expert on average",
)


def run(seed: int = 0, size: int | None = None) -> Study:
    """The study.

    Args:
        seed: Of the designs and operators drawn.
        size: Transfers to compare, a twentieth of it blocks, and a tenth designs whose array is
            compared; 2,000, 100 and 200 if None.
    """
    n_transfers = TRANSFERS if size is None else size
    n_blocks = BLOCKS if size is None else max(len(_PHASES), size // 20)
    n_arrays = ARRAYS if size is None else max(len(_PHASES) * len(ORGANIZATIONS), size // 10)
    rng = np.random.default_rng([seed, 9])
    space = load_space("memexplorer", {"memtech": load_library().catalog()})
    clock = _Clock()
    transfers: JsonRows = []
    every = list(product(_MODELS, _PROMPTS, _PHASES))
    for position, (model, prompt, phase) in enumerate(every):
        share = n_transfers // len(every) + (position < n_transfers % len(every))
        if not share:
            continue
        setting = StudySetting(model, phase, prompt)
        evaluator = setting.evaluator()
        n_compared = 0
        while n_compared < share:
            designs = draw(space, rng, share - n_compared)
            columns = space.columns(designs)
            closed = _closed(evaluator, columns)
            moved = closed.moved
            reads = moved.weight_reads + moved.kv_reads + moved.activation_reads
            off_chip = reads + moved.kv_writes + moved.activation_writes
            landing = (
                off_chip / closed.working.accelerators.levels.bandwidth_bytes_per_s[0][:, None]
            )
            expected = np.where(off_chip > 0, np.maximum(closed.times.off_chip_s, landing), 0.0)
            simulator = evaluator.simulator(columns)
            for i, design in enumerate(space.decode(designs)):
                moving = np.flatnonzero(expected[i] > 0)
                if not len(moving):
                    continue  # all that it needs stays on chip
                operator = int(rng.choice(moving))
                transfers.append(
                    _compare(
                        _label(setting, design, evaluator.pass_, operator),
                        simulator,
                        i,
                        operator,
                        float(expected[i, operator]),
                    )
                )
                n_compared += 1
    blocks = _blocks(space, rng, n_blocks, clock)
    arrays = _arrays(space, rng, n_arrays)
    early = [row["error_at_first_use"] for row in blocks if "error_at_first_use" in row]
    summary = [
        *_summary("transfers", transfers),
        *_summary("blocks", blocks),
        *_array_summary(arrays),
        summarize("blocks, operands fetched at first use", np.array(early)),
    ]
    largest = float(np.abs(errors_of(arrays)).max())
    return Study(
        name="simulation",
        question="How far is the closed form of npu from a simulation that moves every chunk?",
        rows=[*transfers, *blocks, *arrays],
        summary=summary,
        targets=[
            *_targets(transfers, blocks),
            _upper_target("array cycles of every product, largest error", _SAME_CYCLES, largest),
        ],
        notes=[
            *_outlier_notes([*transfers, *blocks]),
            clock.note(),
            *_NOTES,
        ],
    )


# What is drawn.


def draw(space: DesignSpace, rng: np.random.Generator, n: int) -> IntArray:
    """(n, d) designs with every number of tiers, dataflow and nearest technology alike often."""
    pool = space.sample(rng, max(40 * n, 2_000))
    strata: dict[tuple[object, ...], list[int]] = {}
    columns = {name: column.decoded() for name, column in space.columns(pool).items()}
    for i in range(len(pool)):
        n_tiers = sum(columns[f"tier{tier}_technology"][i] is not None for tier in (1, 2, 3))
        key = (n_tiers, columns["dataflow"][i], columns["tier1_technology"][i])
        strata.setdefault(key, []).append(i)
    names = [list(strata)[i] for i in rng.permutation(len(strata))]
    picked: list[int] = []
    turn = 0
    while len(picked) < n:
        if members := strata[names[turn % len(names)]]:
            picked.append(members.pop())
        turn += 1
    return np.asarray(pool[np.array(picked)])


# Transfers.


def _closed(evaluator: SimulationEvaluator, columns: Columns) -> DesignMetrics:
    analytical = evaluator.analytical
    return analytical.metrics_of(analytical.choose(columns))


def _compare(
    label: Fields, simulator: Simulator, design: int, operator: int, ours: float
) -> JsonObject:
    run_ = simulator.run(design, operator, is_transfer_only=True)
    row = comparison(label, run_.time_s, ours, steps=run_.n_steps, explanation="")
    if abs(row["error"]) > _OUTLIER:
        row["explanation"] = _explain(simulator, design, operator, ours, is_transfer_only=True)
    return row


def _label(setting: StudySetting, design: Fields, pass_: Pass, operator: int | None) -> JsonObject:
    tiers = [
        f"{design[f'tier{tier}_technology']} x{design[f'tier{tier}_stacks']}"
        for tier in (1, 2, 3)
        if design.get(f"tier{tier}_technology") is not None
    ]
    name = "block" if operator is None else pass_.table.names[operator]
    return {
        "what": f"{setting.model} {setting.phase} {name} on {' + '.join(tiers)}",
        "kind": "blocks" if operator is None else "transfers",
        "operator": name,
        "model": setting.model,
        "phase": setting.phase,
        "prompt_tokens": setting.prompt_tokens,
        "dataflow": design["dataflow"],
        "tiers": len(tiers),
        "technology": design["tier1_technology"],
        "design": {
            key: (list(value) if isinstance(value, tuple) else value)
            for key, value in design.items()
        },
    }


# Blocks.


class _Clock:
    """Wall time of both models over the same blocks."""

    def __init__(self) -> None:
        self.simulated_s = 0.0
        self.closed_s = 0.0
        self.n = 0

    def note(self) -> str:
        """Cost of a block; the only words of the study that a rerun changes."""
        ratio = self.simulated_s / max(self.closed_s, 1e-9)
        return (
            f"a simulated pass takes {self.simulated_s / max(self.n, 1):.2g} s, {ratio:.0f} times "
            "the closed form's wall time in batches of the same designs"
        )


def _blocks(space: DesignSpace, rng: np.random.Generator, n: int, clock: _Clock) -> JsonRows:
    rows = []
    settings = [StudySetting(_MODELS[0], phase, _PROMPTS[-1]) for phase in _PHASES]
    for position, setting in enumerate(settings):
        share = n // len(settings) + (position < n % len(settings))
        evaluator = setting.evaluator()
        designs = draw(space, rng, share)
        columns = space.columns(designs)
        began = time.perf_counter()
        times = _closed(evaluator, columns).times.time_s
        clock.closed_s += time.perf_counter() - began
        simulator = evaluator.simulator(columns)
        early = setting.evaluator(demand="first_use").simulator(columns)
        weight = block_instances(evaluator)
        for i, design in enumerate(space.decode(designs)):
            began = time.perf_counter()
            runs = [simulator.run(i, operator) for operator in range(len(weight))]
            clock.simulated_s += time.perf_counter() - began
            clock.n += 1
            label = _label(setting, design, evaluator.pass_, None)
            closed_s = times[i]
            simulated_s = np.array([run_.time_s for run_ in runs])
            reference, ours = float(simulated_s @ weight), float(closed_s @ weight)
            row = comparison(
                label, reference, ours, steps=max(run_.n_steps for run_ in runs), explanation=""
            )
            if abs(row["error"]) > _OUTLIER:
                worst = int(np.argmax(np.abs(closed_s - simulated_s) * weight))
                cause = _explain(
                    simulator, i, worst, float(closed_s[worst]), is_transfer_only=False
                )
                row["explanation"] = f"{simulator.pass_.table.names[worst]}: {cause}"
            if i < _AT_FIRST_USE:
                first_use = [early.run(i, operator).time_s for operator in range(len(weight))]
                row["error_at_first_use"] = row["ours"] / float(np.array(first_use) @ weight) - 1.0
            rows.append(row)
    return rows


# The array.


def _arrays(space: DesignSpace, rng: np.random.Generator, n: int) -> JsonRows:
    """All products of one setting on each of ``n`` designs; each phase and array in its turn."""
    kinds = list(product(_PHASES, ORGANIZATIONS))
    works = list(product(list_models(), _PROMPTS))
    orders = [rng.permutation(len(works)) for _ in kinds]
    designs = draw(space, rng, n)
    rows = []
    for i in range(n):
        turn, case = divmod(i, len(kinds))
        phase, organization = kinds[case]
        model, prompt = works[orders[case][turn % len(works)]]
        rows += _compare_array(
            space, designs[i : i + 1], StudySetting(model, phase, prompt, organization)
        )
    return rows


def _compare_array(space: DesignSpace, design: IntArray, setting: StudySetting) -> JsonRows:
    evaluator = setting.evaluator()
    columns = space.columns(design)
    closed_s = _closed(evaluator, columns).times.compute_s[0]
    simulator = evaluator.simulator(columns)
    clock_hz, tiling = float(simulator.designs.accelerators.clock_hz[0]), simulator.tiling(0)
    (choices,) = space.decode(design)
    rows = []
    for operator in np.flatnonzero(evaluator.pass_.table.m_per_request > 0).tolist():
        reference = float(simulator.steps(0, operator).cycles.sum()) / clock_hz
        ours = float(closed_s[operator])
        label = _label(setting, choices, evaluator.pass_, operator)
        label |= {
            "what": f"{setting.model} {setting.phase} {label['operator']}, "
            f"{setting.array} {tiling.depth:g} x {tiling.width:g}, {tiling.dataflow}",
            "kind": "array",
            "array": setting.array,
        }
        rows.append(comparison(label, reference, ours, explanation=""))
    return rows


def _array_summary(rows: FieldRows) -> JsonRows:
    groups = [summarize("array", errors_of(rows))]
    for organization in sorted({row["array"] for row in rows}):
        members = [row for row in rows if row["array"] == organization]
        groups.append(summarize(f"array, {organization}", errors_of(members)))
    return groups


# What comes of it.


def _explain(
    simulator: Simulator, design: int, operator: int, ours: float, is_transfer_only: bool
) -> str:
    """The name of the effect without which the simulation comes closest to the closed form."""
    steps = simulator.steps(design, operator)
    machine = simulator.machine(design, operator)
    n_levels = len(machine.bandwidth_bytes_per_s)
    even = {key: np.full(len(value), value.mean()) for key, value in vars(steps).items()}
    without: dict[str, tuple[Any, SimulatedNpu]] = {
        "landing stall": (steps, replace(machine, landing_steps=len(steps.cycles))),
        "fill by latency": (steps, replace(machine, latency_s=[0.0] * n_levels)),
        "uneven demand (bytes needed early)": (type(steps)(**even), machine),
    }
    times = {
        name: simulate(changed, on, is_transfer_only).time_s
        for name, (changed, on) in without.items()
    }
    base = simulate(steps, machine, is_transfer_only).time_s
    closest = min(times, key=lambda name: abs(ours / times[name] - 1.0))
    if abs(ours / times[closest] - 1.0) < 0.7 * abs(ours / base - 1.0):
        return closest
    if len(steps.cycles) <= 8:
        return "chunk rounding (an operator of a few tiles: one chunk's way is most of the time)"
    return "ports busy in turn rather than at once"


def _summary(kind: str, rows: FieldRows) -> JsonRows:
    groups = [summarize(kind, errors_of(rows))]
    for key in ("phase", "dataflow", "tiers", "technology"):
        for value in sorted({row[key] for row in rows}, key=str):
            members = [row for row in rows if row[key] == value]
            groups.append(summarize(f"{kind}, {key} {value}", errors_of(members)))
    return groups


def _targets(transfers: FieldRows, blocks: FieldRows) -> JsonRows:
    limits = (("transfers", transfers, 0.01, 0.05), ("block time", blocks, 0.03, 0.10))
    targets = []
    for quantity, rows, median, p95 in limits:
        errors = np.abs(errors_of(rows))
        targets.append(_upper_target(f"{quantity}, median error", median, float(np.median(errors))))
        targets.append(
            _upper_target(f"{quantity}, 95th percentile", p95, float(np.quantile(errors, 0.95)))
        )
    correlation = _rank_correlation(blocks)
    subject = "rank correlation over designs, lowest stratum"
    targets.append(promise(subject, ">= 0.99", correlation, correlation >= 0.99))
    unexplained = sum(
        abs(row["error"]) > _OUTLIER and not row["explanation"] for row in [*transfers, *blocks]
    )
    targets.append(_upper_target("outliers above 20 % without a name", 0, unexplained))
    return targets


def _upper_target(subject: str, limit: float, measured: float) -> JsonObject:
    return promise(subject, f"<= {limit:g}", measured, measured <= limit)


def _rank_correlation(blocks: FieldRows) -> float:
    """Spearman's, the lowest over the phases; 1 if no stratum has three designs."""
    lowest = 1.0
    for phase in _PHASES:
        members = [row for row in blocks if row["phase"] == phase]
        if len(members) < 3:
            continue
        ranks = [
            np.argsort(np.argsort([row[key] for row in members])) for key in ("reference", "ours")
        ]
        lowest = min(lowest, float(np.asarray(np.corrcoef(ranks))[0, 1]))
    return lowest


def _outlier_notes(rows: FieldRows) -> StringList:
    names: dict[str, int] = {}
    for row in rows:
        if row["explanation"]:
            names[row["explanation"]] = names.get(row["explanation"], 0) + 1
    if not names:
        return ["no comparison is off by more than 20 %"]
    listed = ", ".join(f"{name} ({count})" for name, count in sorted(names.items()))
    return [f"comparisons off by more than 20 %, by effect: {listed}"]
