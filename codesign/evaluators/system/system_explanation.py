"""One system in full: its pools, its links, the way of one request, and which of them sets the
rate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from codesign.base.columns import (
    Columns,
    FloatArray,
    FloatPair,
    JsonObject,
    JsonRows,
    StringList,
    first_values,
)
from codesign.base.evaluator import Explanation, PoolAccount
from codesign.base.metrics import SYSTEM_METRICS
from codesign.evaluators.system.design_pool import DesignPool
from codesign.evaluators.system.flow import SystemFlow
from codesign.evaluators.system.hand_over import WIDE_FORMAT
from codesign.evaluators.system.parts import ExchangeFlow, HandOverFlow, PoolFlow

if TYPE_CHECKING:
    from codesign.evaluators.system.system_evaluator import SystemEvaluator


def explain(evaluator: SystemEvaluator, designs: Columns) -> Explanation:
    """The full account of a batch of one system."""
    names = evaluator.metric_names
    evaluation = evaluator.evaluate(designs, names)
    needed = evaluator.pool_metrics(names)
    columns = {name: evaluator.pool_columns(designs, name) for name in evaluator.machines}
    values = {}
    for name, machine in evaluator.machines.items():
        of_pool = sorted({*needed[name], *_OF_TIMELINE}.intersection(machine.metric_names))
        metrics = machine.evaluate(columns[name], of_pool).metrics
        values[name] = dict.fromkeys(_OF_TIMELINE, np.full(1, np.nan)) | dict(metrics)
    flow = evaluator.flow(values, evaluator.shared_values(designs))
    accounts = {
        name: machine.explain(columns[name]) for name, machine in evaluator.machines.items()
    }
    notes: dict[str, StringList] = {}
    for name, account in accounts.items():
        for note in account.notes:
            notes.setdefault(note, []).append(name)
    return Explanation(
        metrics=first_values(evaluation.metrics),
        violations=first_values(evaluation.violations),
        operators=_named_rows({name: account.operators for name, account in accounts.items()}),
        levels=_named_rows({name: account.levels for name, account in accounts.items()}),
        power=_named_rows({name: account.power for name, account in accounts.items()}),
        notes=[
            *_assumptions(evaluator, flow, designs),
            *(f"{' and '.join(names)}: {note}" for note, names in notes.items()),
        ],
        timeline=timeline(flow),
    )


_OF_TIMELINE = ("batch_size", "dynamic_joules_per_token", "idle_watts")
"""Metrics of machines that the rows of a time line show, whether or not a system needs them; NaN
where a machine does not report them."""


def explain_pools(evaluator: SystemEvaluator, designs: Columns) -> Mapping[str, PoolAccount]:
    """One machine of each pool of a batch of one system, explained by itself."""
    accounts = {}
    for name, machine in evaluator.machines.items():
        explanation = machine.explain(evaluator.pool_columns(designs, name))
        accounts[name] = PoolAccount(machine.evaluator_name, machine.evaluator, explanation)
    return accounts


def _named_rows(rows: Mapping[str, Sequence[Any]]) -> list[Any]:
    """The rows of every pool, with its name before theirs and before their titles."""
    return [
        row | {key: f"{name} {row[key]}" for key in ("name", "title") if key in row}
        for name, listed in rows.items()
        for row in listed
    ]


def timeline(flow: SystemFlow) -> JsonRows:
    """The way of one request that waits for nobody: a row for each pool and each hand-over."""
    rows = []
    clock_s = 0.0
    for position, stage in enumerate(flow.stages):
        end_s = clock_s + _first(stage.stage_s)
        rows += [
            _row(
                flow, pool, pool.stage.phase, [pool], (clock_s, end_s),
                pool.joules_per_request(flow.requests_per_s), np.zeros(1),
            )
            for pool in stage.pools
        ]  # fmt: skip
        if stage.exchange is not None:
            # The messages of all layers in one pass, there and back.
            exchange = stage.exchange
            pools = [exchange.attention, exchange.ffn]
            rows.append(
                _row(
                    flow, exchange, "exchange", pools, (clock_s, end_s),
                    exchange.joules_per_request, exchange.pass_bytes,
                )
            )  # fmt: skip
        clock_s = end_s
        if position < len(flow.links):
            # It begins when the sender has something to send, a prefill after its first layer.
            link = flow.links[position]
            is_prefill = stage.request.phase == "prefill"
            share = (link.n_layers - 1) / link.n_layers if is_prefill else 0.0
            ends_s = clock_s - share * _first(stage.stage_s), clock_s + _first(link.exposed_s)
            pools = [link.sender.first, link.receiver.first]
            rows.append(
                _row(
                    flow, link, "hand-over", pools, ends_s,
                    link.joules_per_request, link.request_bytes,
                )
            )  # fmt: skip
            clock_s = rows[-1]["end_s"]
    slowest = max(rows, key=lambda row: row["utilization"])
    return [{**row, "sets_rate": row is slowest} for row in rows]


def _row(
    flow: SystemFlow,
    member: PoolFlow | HandOverFlow | ExchangeFlow,
    member_kind: str,
    pools: Sequence[PoolFlow],
    ends_s: FloatPair,
    joules_per_request: FloatArray,
    sent_bytes: FloatArray,
) -> JsonObject:
    """A row of a pool or of a link."""
    if isinstance(member, HandOverFlow):
        step_s = member.exposed_s
        batch_size = np.ones(1)
    else:
        step_s = member.step_s
        batch_size = pools[0].metrics["batch_size"]
    return {
        "name": member.name,
        "kind": member_kind,
        "machines": int(min(pool.machines[0] for pool in pools)),
        "start_s": ends_s[0],
        "end_s": ends_s[1],
        "step_s": _first(step_s),
        "batch_size": _first(batch_size),
        "requests_per_s": _first(member.requests_per_s),
        "utilization": _first(flow.utilization(member.name)),
        "joules_per_request": _first(joules_per_request),
        "bytes": _first(sent_bytes),
    }


def _first(values: FloatArray) -> float:
    return float(values[0])


def _assumptions(evaluator: SystemEvaluator, flow: SystemFlow, designs: Columns) -> Iterator[str]:
    yield (
        "all requests are alike and arrive on demand; none waits in a queue; the "
        "machines of a pool share them evenly"
    )
    yield (
        "operators, memory levels and power are those of one machine of each pool, always busy; "
        "energy counts boards of devices, but only chip and memories of designs"
    )
    if flow.links:
        first = evaluator.options.first_token
        yield (
            "the KV cache leaves the prefill layer by layer, in the format of the pool that made "
            f"it; pairs of machines send side by side; the {first} pool gives the first token"
        )
    for pool, machine in evaluator.machines.items():
        lacking = [name for name in evaluator.unreported(pool) if name in SYSTEM_METRICS]
        if lacking and isinstance(machine, DesignPool):
            yield (
                f"no {', '.join(lacking)}: evaluator {machine.evaluator_name!r} of pool {pool} "
                "does not report their inputs"
            )
    for link in flow.links:
        formats = [
            str(machine["kv_format"].decoded()[0]) if "kv_format" in machine else WIDE_FORMAT
            for stage in (link.sender, link.receiver)
            for machine in [evaluator.pool_columns(designs, stage.first.name)]
        ]
        if formats[0] != formats[1]:
            yield (
                f"{link.name}: the KV cache is converted from {formats[0]} to {formats[1]} where "
                "it arrives, beside the machines' work; this costs neither time nor energy"
            )
