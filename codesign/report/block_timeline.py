"""Time line of ports and array: occupancy for a chart, and events for a trace viewer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from codesign.base.columns import ArrayDict, Columns, FloatArray, JsonObject, StringList
from codesign.base.files import write_text
from codesign.base.records import frozen
from codesign.evaluators.simulation import SimulationEvaluator
from codesign.models.machines.simulation.simulated_npu import Transaction
from codesign.report.chart import Axis, Box, Chart, Panel
from codesign.report.labels import format_value
from codesign.report.svg import axis_unit

_OUTSIDE_LAYERS = ("embedding", "lm_head")
"""Groups of operators that are not part of a layer."""


@frozen
class Timeline:
    """One layer of a model on one design, its operators one after the other.

    Attributes:
        operators: Name, start and end of each, in seconds.
        transactions: What occupied which resource, in order of start.
        time_s: Of the layer.
    """

    operators: Sequence[tuple[str, float, float]]
    transactions: Sequence[Transaction]
    time_s: float

    @property
    def resources(self) -> StringList:
        """Everything that was ever busy: the array, the on-chip port, then the tiers."""
        names = {transaction.resource for transaction in self.transactions}
        return sorted(names, key=lambda name: (name.startswith("tier"), name != "array", name))


@frozen
class Occupancy:
    """Share of time for which each resource is busy, interval by interval.

    Attributes:
        edges_s: (t + 1,) ends of the intervals.
        busy: (t,) shares from 0 to 1 by resource.
    """

    edges_s: FloatArray
    busy: ArrayDict


def block_instances(evaluator: SimulationEvaluator) -> FloatArray:
    """(o,) instances of each operator in a layer, on average over the layers."""
    table = evaluator.pass_.table
    layers = evaluator.workload.language_model.num_hidden_layers
    is_inside = np.array([group not in _OUTSIDE_LAYERS for group in table.groups])
    return np.where(is_inside, table.count / layers, 0.0)


def block_timeline(evaluator: SimulationEvaluator, designs: Columns) -> Timeline:
    """The operators of one layer, each once per instance that the layer has.

    Limiting assumption: an operator that not all layers have takes part if half of them do.

    Args:
        designs: A batch of one.
    """
    operators = []
    transactions = []
    instances = np.rint(block_instances(evaluator)).astype(int)
    now = 0.0
    for (name, _, run), n in zip(evaluator.timeline(designs), instances, strict=True):
        for _ in range(n):
            operators.append((name, now, now + run.time_s))
            transactions += [
                replace(
                    transaction, start_s=transaction.start_s + now, end_s=transaction.end_s + now
                )
                for transaction in run.transactions
            ]
            now += run.time_s
    transactions.sort(key=lambda served: served.start_s)
    return Timeline(operators, transactions, now)


def occupancy(timeline: Timeline) -> Occupancy:
    """Share of busy time of each resource in each of 400 equal intervals."""
    edges = np.linspace(0.0, timeline.time_s, 401)
    busy = {}
    for resource in timeline.resources:
        mine = [
            transaction for transaction in timeline.transactions if transaction.resource == resource
        ]
        starts = np.array([served.start_s for served in mine])
        lengths = np.array([served.end_s - served.start_s for served in mine])
        # A resource serves one at a time, so the busy time before an instant is what has ended
        # and the part of the one at hand.
        done = np.concatenate([[0.0], np.cumsum(lengths)])
        n_started = np.searchsorted(starts, edges, side="right")
        last = np.maximum(n_started - 1, 0)
        served_s = np.minimum(edges - starts[last], lengths[last])
        before = np.where(n_started > 0, done[last] + served_s, 0.0)
        busy[resource] = np.clip(np.diff(before) / np.diff(edges), 0.0, 1.0)
    return Occupancy(edges, busy)


def occupancy_chart(timeline: Timeline, shares: Occupancy) -> Chart:
    """Operators above, and below them the share of time for which each resource is busy."""
    end = float(shares.edges_s[-1])
    marks = []
    for i, (name, begin, stop) in enumerate(timeline.operators):
        words = f"{name.replace('_', ' ')}: {format_value(begin, 's')} to {format_value(stop, 's')}"
        marks.append(Box((begin, stop), (-0.42, 0.42), "gray", (0.2, 0.4)[i % 2],
                         label=name.replace("_", " "), text=words, edge="paper"))  # fmt: skip
    for row, (resource, busy) in enumerate(shares.busy.items(), start=1):
        # Neighboring intervals with nearly the same share are one box.
        steps = np.round(busy, 2)
        starts = np.flatnonzero(np.concatenate([[True], np.diff(steps) != 0]))
        stops = [*starts[1:].tolist(), len(steps)]
        for first, last in zip(starts.tolist(), stops, strict=True):
            share = float(steps[first])
            x = (float(shares.edges_s[first]), float(shares.edges_s[last]))
            if share:
                marks.append(Box(x, (row - 0.42, row + 0.42), "blue", share, edge="",
                                 text=f"{resource}: busy {100 * share:.0f} %"))  # fmt: skip
    names = Axis((-0.5, len(shares.busy) + 0.5), names=["operators", *shares.busy])
    time = Axis((0.0, end), f"Time ({axis_unit((0.0, end), 's')}); darker: busier", "s")
    panel = Panel(time, names, marks, height=30.0 * (len(shares.busy) + 1))
    return Chart([panel], "Share of time for which each resource is busy")


def trace_events(timeline: Timeline) -> JsonObject:
    """The timeline in the JSON of Chrome's trace viewer, which Perfetto opens; microseconds.

    One row per resource, one for the operators.
    """
    rows = {name: i for i, name in enumerate(["operators", *timeline.resources])}
    metadata: list[tuple[str, int, JsonObject]] = [("process_name", 0, {"name": "NPU"})]
    for name, row in rows.items():
        metadata.append(("thread_name", row, {"name": name}))
        metadata.append(("thread_sort_index", row, {"sort_index": row}))
    events = [
        {"name": name, "ph": "M", "pid": 0, "tid": row, "args": arguments}
        for name, row, arguments in metadata
    ]
    events += [
        {"name": name, "cat": "operator", "ph": "X", "pid": 0, "tid": 0,
         "ts": start * 1e6, "dur": (end - start) * 1e6}
        for name, start, end in timeline.operators
    ]  # fmt: skip
    events += [
        {"name": transaction.activity, "cat": "transaction", "ph": "X", "pid": 0,
         "tid": rows[transaction.resource], "ts": transaction.start_s * 1e6,
         "dur": (transaction.end_s - transaction.start_s) * 1e6,
         "args": {"step": transaction.step, "bytes": transaction.size_bytes}}
        for transaction in timeline.transactions
    ]  # fmt: skip
    return {"displayTimeUnit": "ns", "traceEvents": events}


def save_trace(timeline: Timeline, path: Path) -> Path:
    """Write the trace viewer's JSON.

    Raises:
        InputError: The file cannot be written.
    """
    return write_text(path, json.dumps(trace_events(timeline)) + "\n")
