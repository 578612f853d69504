"""Every way to spread a model over a number of devices, and the best of them.

GenZ's tool tries fewer: it leaves out those in which tensor and pipeline parallelism together
use all devices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from codesign.base.columns import Column, Columns, FloatArray, IntArray, column_of
from codesign.base.metrics import PLATFORM_METRICS, Metric
from codesign.evaluators.platform.platform_evaluator import PlatformEvaluator
from codesign.evaluators.platform.platform_limits import limits
from codesign.evaluators.platform.platform_serving import PlatformServing
from codesign.models.deployments.parallelism import SEARCHED_DEGREES, divisors
from codesign.models.workload.model import LanguageModel


def factorizations(n_devices: int) -> IntArray:
    """(f, 4) every ordered way to write a number as a product of the four degrees.

    Examples:
        >>> len(factorizations(8))  # 3 twos in 4 places
        20
    """
    rows = [
        (tp, pp, ep, n_devices // (tp * pp * ep))
        for tp in divisors(n_devices)
        for pp in divisors(n_devices // tp)
        for ep in divisors(n_devices // (tp * pp))
    ]
    return np.array(rows, dtype=np.int64)


def instances(model: LanguageModel, stages: Sequence[int], most_devices: int) -> IntArray:
    """(f, 3) tensor, pipeline and expert parallelism of the instances that divide a model.

    Args:
        model: Its experts and heads are divided.
        stages: Stages that an instance may have.
        most_devices: Devices of the largest instance.
    """
    rows = [
        (tensor, pipeline, expert)
        for expert in divisors(model.moe_dims.n_routed_experts if model.is_mixture else 1)
        for tensor in divisors(model.num_attention_heads)
        for pipeline in stages
        if tensor * pipeline * expert <= most_devices
    ]
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


def candidates(
    model: LanguageModel, n_devices: Sequence[int], *, replicas: bool = True
) -> IntArray:
    """(f, 4) the factorizations of several numbers of devices that suit a model.

    Args:
        model: Experts, heads and layers bound the degrees.
        replicas: Whether data parallelism is among the choices.
    """
    split = instances(model, range(1, model.num_hidden_layers + 1), max(n_devices))
    n_replicas, rest = np.divmod(np.asarray(n_devices)[:, None], split.prod(axis=1))
    suits = (rest == 0) & (replicas | (n_replicas == 1))
    return np.column_stack([split[np.nonzero(suits)[1]], n_replicas[suits]])


@dataclass(frozen=True)
class ParallelismChoices:
    """Ways to spread the work over devices.

    Attributes:
        degrees: (f, 4) degrees of parallelism, in the order of ``SEARCHED_DEGREES``.
        feasible: (f,) whether the choice keeps every limit.
    """

    degrees: IntArray
    serving: PlatformServing
    feasible: Any

    def values(self, metric: str) -> FloatArray:
        """(f,) values of a metric; NaN where a choice is infeasible."""
        metric_values = np.asarray(getattr(self.serving, metric), dtype=np.float64)
        return np.where(self.feasible, metric_values, np.nan)


def evaluate_choices(
    evaluator: PlatformEvaluator, degrees: IntArray, others: Mapping[str, Any]
) -> ParallelismChoices:
    """Evaluate ways to spread the work, all in one batch.

    Args:
        evaluator: The evaluator of the workload.
        degrees: (f, 4) degrees of parallelism, in the order of ``SEARCHED_DEGREES``.
        others: The design's other parameters, the same for all.
    """
    serving = evaluator.serving(columns_of(degrees, others))
    within = [np.asarray(values) <= 0 for values in limits(serving).values()]
    return ParallelismChoices(degrees, serving, np.all(within, axis=0))


def ranked(choices: ParallelismChoices, by: Metric) -> list[dict[str, Any]]:
    """The feasible ways, the best first, each with its degrees and metrics."""
    order = np.argsort(by.flipped(choices.values(by.name)), kind="stable")
    order = order[choices.feasible[order]]
    metrics = {name: choices.values(name) for name in PLATFORM_METRICS}
    return [
        dict(zip(SEARCHED_DEGREES, choices.degrees[i].tolist(), strict=True))
        | {name: float(values[i]) for name, values in metrics.items()}
        for i in order
    ]


def columns_of(degrees: IntArray, others: Mapping[str, Any]) -> Columns:
    """The columns of designs that differ in their degrees only."""
    n = len(degrees)
    columns: dict[str, Column] = {}
    for j, name in enumerate(SEARCHED_DEGREES):
        values, codes = np.unique(degrees[:, j], return_inverse=True)
        columns[name] = Column(tuple(int(value) for value in values), codes.reshape(n))
    for name, value in others.items():
        column = column_of([value])
        columns[name] = Column(column.values, np.repeat(column.codes, n))
    return columns
