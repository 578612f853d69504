"""A campaign's results made by hand: what report reads of them and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from codesign.columns import BoolArray, Column, FloatArray, IntArray
from codesign.metrics import METRICS
from codesign.pareto import non_dominated

_LEVELS = {
    "pe_array": ((512, 512), (2048, 128), (2048, 256)),
    "sram_3d_layers": (0, 1, 3),
    "tier1_technology": ("hbm4_12h", "lpddr5x"),
    "tier1_stacks": (1, 2),
    "dataflow": ("ws",),
}


@dataclass(frozen=True)
class Parameter:
    name: str
    values: tuple
    kind: str = "categorical"
    scale: str = "linear"
    optional: bool = False
    description: str = ""


class Space:
    """Levels of parameters, any row allowed."""

    name = "small"
    pools: ClassVar[Mapping[str, object]] = {}
    names = tuple(_LEVELS)
    parameters = tuple(Parameter(name, values) for name, values in _LEVELS.items())

    def columns(self, rows: IntArray) -> dict[str, Column]:
        return {
            parameter.name: Column(parameter.values, rows[:, at])
            for at, parameter in enumerate(self.parameters)
        }

    def decode(self, rows: IntArray) -> list[dict]:
        columns = {name: column.to_list() for name, column in self.columns(rows).items()}
        return [
            dict(zip(columns, line, strict=True)) for line in zip(*columns.values(), strict=True)
        ]


@dataclass(frozen=True)
class Results:
    """The attributes of ``codesign.campaign.Results``."""

    runs: tuple
    run_index: IntArray
    step: IntArray
    rows: IntArray
    metrics: dict[str, FloatArray]
    objectives: FloatArray
    violations: dict[str, FloatArray]
    feasible: BoolArray
    failed: BoolArray
    reasons: dict[int, str]
    hypervolume: FloatArray
    versions: dict[str, str]
    exact: SimpleNamespace | None = None
    exact_hypervolume: float | None = None
    front_run: int | None = None
    is_enumerated: bool = False
    state: str = "complete"
    accepted: tuple = ()
    failure_kinds: dict[int, str] = field(default_factory=dict)
    reading: dict[str, Any] = field(default_factory=lambda: {"name": "npu", "profile": "plain"})
    definition: SimpleNamespace = field(
        default_factory=lambda: SimpleNamespace(
            name="by-hand",
            initial=2,
            budget=4,
            workload={},
            space="small",
            fixed={},
            constraints=(),
            seeds=(0, 1),
        )
    )
    reference_point: dict[str, float] = field(
        default_factory=lambda: {"throughput_tokens_per_s": 0.0, "tdp_watts": 700.0}
    )
    problem: SimpleNamespace = field(
        default_factory=lambda: SimpleNamespace(
            space=Space(),
            evaluator=SimpleNamespace(metrics=tuple(METRICS.values())),
            objectives=(
                SimpleNamespace(metric=METRICS["throughput_tokens_per_s"], sense="maximize"),
                SimpleNamespace(metric=METRICS["tdp_watts"], sense="minimize"),
            ),
            constraints=(),
            objective_names=["throughput_tokens_per_s", "tdp_watts"],
            provenance=lambda: {"space": "small", "evaluator": {"name": "npu"}},
        )
    )

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def is_partial(self) -> bool:
        return self.state not in ("complete", "exhausted")

    @property
    def broke(self) -> BoolArray:
        return self.failed  # none was refused as infeasible

    def front(self) -> IntArray:
        kept = np.flatnonzero(self.feasible)
        kept = kept[non_dominated(self.objectives[kept])]
        _, first = np.unique(self.rows[kept], axis=0, return_index=True)
        kept = kept[np.sort(first)]
        return kept[np.argsort(self.objectives[kept, 0], kind="stable")]


@pytest.fixture
def results() -> Results:
    """Two optimizers, two seeds, four evaluations each; one failed, one over the limit."""
    n = 16
    rng = np.random.default_rng(3)
    rows = np.column_stack([rng.integers(0, len(values), n) for values in _LEVELS.values()])
    rows[0, 2:4] = -1
    throughput = rng.uniform(100.0, 5000.0, n)
    tdp = 200.0 + throughput / 10 + rng.uniform(0, 200, n)
    failed = np.arange(n) == 5
    throughput[failed], tdp[failed] = np.nan, np.nan
    limit = tdp - 700.0
    return Results(
        runs=tuple(
            SimpleNamespace(optimizer=name, seed=seed)
            for name in ("random", "tpe")
            for seed in (0, 1)
        ),
        run_index=np.repeat(np.arange(4), 4),
        step=np.tile(np.arange(4), 4),
        rows=rows,
        metrics={
            "throughput_tokens_per_s": throughput,
            "tdp_watts": tdp,
            "batch_size": np.full(n, 8.0),
        },
        objectives=np.column_stack([-throughput, tdp]),
        violations={"tdp_watts <= 700": limit},
        feasible=~failed & ~(limit > 0),
        failed=failed,
        reasons={5: "the simulator said 'no', and \"never\""},
        versions={"codesign": "0.0", "numpy": "0.0"},
        hypervolume=np.tile([1.0, 2.0, 2.0, 4.0], 4) + np.repeat([0.0, 1.0, 10.0, 14.0], 4),
    )
