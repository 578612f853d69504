"""A campaign's results made by hand: of definition and problem what report reads, nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

from codesign.base.columns import Column
from codesign.base.failures import Failure
from codesign.base.metrics import METRICS
from codesign.search.campaign import Results
from codesign.search.observations import Observations

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

    def columns(self, rows):
        return {
            parameter.name: Column(parameter.values, rows[:, at])
            for at, parameter in enumerate(self.parameters)
        }

    def keys(self, rows):
        return (rows + 1) @ 8 ** np.arange(rows.shape[1])

    def decode(self, rows):
        columns = {name: column.decoded() for name, column in self.columns(rows).items()}
        return [
            dict(zip(columns, line, strict=True)) for line in zip(*columns.values(), strict=True)
        ]


@dataclass(frozen=True)
class ByHand(Results):
    """Results without an evaluator or an exact front."""

    exact_hypervolume: float | None = None

    @property
    def reading(self):
        return {"name": "npu", "profile": "plain"}


_DEFINITION = SimpleNamespace(
    name="by-hand",
    initial=2,
    budget=4,
    workload={},
    space="small",
    fixed={},
    constraints=(),
    seeds=(0, 1),
)
_PROBLEM = SimpleNamespace(
    is_noisy=False,
    space=Space(),
    evaluator=SimpleNamespace(metrics=tuple(METRICS.values())),
    metrics=tuple(METRICS.values()),
    objectives=(
        SimpleNamespace(metric=METRICS["throughput_tokens_per_s"], sense="maximize"),
        SimpleNamespace(metric=METRICS["tdp_watts"], sense="minimize"),
    ),
    constraints=(),
    objective_metrics=[METRICS["throughput_tokens_per_s"], METRICS["tdp_watts"]],
    objective_names=["throughput_tokens_per_s", "tdp_watts"],
    provenance=lambda: {"space": "small", "evaluator": {"name": "npu"}},
)


@pytest.fixture(scope="session")
def with_observations():
    """The same results with other observations; of these, those keep every limit that are named."""

    def changed(results, feasible=None, **changes):
        observations = replace(results.observations, **changes)
        if feasible is not None:
            excess = np.where(feasible[:, None], -1.0, np.ones_like(observations.violations))
            observations = replace(observations, violations=excess)
        return replace(results, observations=observations)

    return changed


@pytest.fixture
def results():
    """Two optimizers, two seeds, four evaluations each; one failed, one over the limit."""
    n = 16
    rng = np.random.default_rng(3)
    rows = np.column_stack([rng.integers(0, len(values), n) for values in _LEVELS.values()])
    rows[0, 2:4] = -1
    throughput = rng.uniform(100.0, 5000.0, n)
    tdp = 200.0 + throughput / 10 + rng.uniform(0, 200, n)
    failed = np.arange(n) == 5
    throughput[failed], tdp[failed] = np.nan, np.nan
    observations = Observations(
        rows=rows,
        objectives=np.column_stack([-throughput, tdp]),
        violations=tdp[:, None] - 700.0,
        violation_names=("tdp_watts <= 700",),
        metrics={
            "throughput_tokens_per_s": throughput,
            "tdp_watts": tdp,
            "batch_size": np.full(n, 8.0),
        },
        failures={5: Failure("failed", "the simulator said 'no', and \"never\"")},
    )
    return ByHand(
        definition=_DEFINITION,
        problem=_PROBLEM,
        reference_point={"throughput_tokens_per_s": 0.0, "tdp_watts": 700.0},
        runs=tuple(
            SimpleNamespace(optimizer=name, seed=seed)
            for name in ("random", "tpe")
            for seed in (0, 1)
        ),
        run_index=np.repeat(np.arange(4), 4),
        step=np.tile(np.arange(4), 4),
        batch=np.tile(np.arange(4), 4),
        observations=observations,
        versions={"codesign": "0.0", "numpy": "0.0"},
        hypervolume=np.tile([1.0, 2.0, 2.0, 4.0], 4) + np.repeat([0.0, 1.0, 10.0, 14.0], 4),
    )
