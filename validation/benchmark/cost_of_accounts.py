"""Time that the accounts (price, area, heat, wear, carbon, ownership) add to an evaluation.

Both sides are measured in turn in one process, so that what else runs slows both of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from codesign.evaluators.npu.cost_metrics import COST_METRICS
from validation.benchmark.evaluation_rates import (
    OBJECTIVES,
    PHASES,
    Row,
    benchmark_space,
    evaluator,
    random_rows,
)
from validation.benchmark.timing import Effort, added_share, ways, working

_PAIRS = 7
"""Comparisons for each repeat of other measurements; the median counts."""
_PARTS = {"numpy": 16, "compiled": 4}
"""One over the part of the designs of other measurements that is compared."""


def account_shares(effort: Effort) -> list[Row]:
    """Time that metrics add to that of others, relative; first model, every phase and way."""
    return list(_shares(effort))


def _shares(effort: Effort) -> Iterator[Row]:
    model = effort.model_names[0]
    for way in ways():
        columns = benchmark_space().columns(random_rows(effort.n_designs // _PARTS[way]))
        for phase in PHASES:
            npu = evaluator(model, phase)
            names = [metric.name for metric in npu.metrics]
            others = [name for name in names if name not in COST_METRICS]
            for added, over, before, after in (
                ("unit cost", "objectives", OBJECTIVES, [*OBJECTIVES, "unit_cost_usd"]),
                ("all accounts", "objectives", OBJECTIVES, [*OBJECTIVES, *COST_METRICS]),
                ("all accounts", "all other metrics", others, names),
            ):
                with working(way):
                    share = added_share(
                        partial(npu.evaluate, columns, before),
                        partial(npu.evaluate, columns, after),
                        _PAIRS * effort.repeats,
                    )
                yield {
                    "added": added,
                    "to": over,
                    "phase": phase,
                    "way": way,
                    "model": model,
                    "share": share,
                }
