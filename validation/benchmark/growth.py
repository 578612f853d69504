"""Growth of the time of an evaluation with designs, operators, tiers and metrics."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from codesign.evaluators.npu.choice import BatchAndOrderChoice
from codesign.evaluators.npu.operator_times import Pass
from validation.benchmark.evaluation_rates import (
    OBJECTIVES,
    Row,
    benchmark_space,
    evaluator,
    random_rows,
)
from validation.benchmark.timing import Effort, best_seconds, ways, working

_OBJECTIVES = [*OBJECTIVES, "tokens_per_joule", "shoreline_mm"]


def growth(effort: Effort) -> list[Row]:
    """Seconds per evaluation against one size at a time, for decode of the first model."""
    rows: list[Row] = []
    for way in ways():
        with working(way):
            for varied, size, n, seconds in (
                *_designs(effort),
                *_operators(effort, way),
                *_tiers(effort),
                *_metrics(effort),
            ):
                rows.append(
                    {
                        "against": varied,
                        "size": size,
                        "way": way,
                        "time_s": seconds,
                        "microseconds_per_design": 1e6 * seconds / n,
                    }
                )
    return rows


Point = tuple[str, int, int, float]
"""Against what, its size, designs, seconds."""


def _designs(effort: Effort) -> Iterator[Point]:
    npu, n = evaluator(effort.model_names[0], "decode"), 1
    while n <= effort.largest_batch:
        columns = benchmark_space().columns(random_rows(n))
        call = partial(npu.evaluate, columns, OBJECTIVES)
        yield "designs", n, n, best_seconds(call, effort.repeats if n < 1e5 else 1)
        n *= 10


def _operators(effort: Effort, way: str) -> Iterator[Point]:
    """The choice alone, over the first few operators of a pass."""
    npu, n = evaluator(effort.model_names[0], "decode"), effort.n_designs // 4
    table = npu.pass_.all_operators
    designs = benchmark_space().columns(random_rows(n))
    for count in range(2, len(table) + 1, 4):
        few = Pass(table.take(np.arange(count)), npu.options, npu.workload.phase)
        choice = BatchAndOrderChoice(few, npu.preparation)
        call = partial(choice.choose, designs, way == "compiled")
        yield "operators", len(few.table), n, best_seconds(call, effort.repeats)


def _tiers(effort: Effort) -> Iterator[Point]:
    npu, space = evaluator(effort.model_names[0], "decode"), benchmark_space()
    rows = random_rows(4 * effort.n_designs)
    names = [f"tier{tier}_technology" for tier in (1, 2, 3)]
    present = np.stack([rows[:, space.names.index(name)] >= 0 for name in names])
    for n_tiers in (1, 2, 3):
        chosen_rows = rows[present.sum(axis=0) == n_tiers]
        chosen_rows = np.resize(chosen_rows, (effort.n_designs // 4, rows.shape[1]))
        call = partial(npu.evaluate, space.columns(chosen_rows), OBJECTIVES)
        yield "off-chip tiers", n_tiers, len(chosen_rows), best_seconds(call, effort.repeats)


def _metrics(effort: Effort) -> Iterator[Point]:
    npu, n = evaluator(effort.model_names[0], "decode"), effort.n_designs // 4
    columns = benchmark_space().columns(random_rows(n))
    for count in range(1, len(_OBJECTIVES) + 1):
        call = partial(npu.evaluate, columns, _OBJECTIVES[:count])
        yield "objectives", count, n, best_seconds(call, effort.repeats)
