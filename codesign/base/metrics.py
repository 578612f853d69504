"""Every metric that the built-in evaluators report: name, sense, unit, meaning (``metrics.csv``).

A metric's name carries its unit. Evaluators from elsewhere declare their own in the same form.

This is the only place where a sign is flipped: what is maximized enters the search negated.
"""

from __future__ import annotations

import csv
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar, cast

from codesign.base.errors import check_known
from codesign.base.records import frozen

if TYPE_CHECKING:
    from codesign.base.columns import FloatArray, StringList, Strings

Sense = Literal["minimize", "maximize"]
_SIGNS: dict[Sense, float] = {"minimize": 1.0, "maximize": -1.0}
_Amount = TypeVar("_Amount", float, "FloatArray")


def flipped(values: _Amount, sense: Sense) -> _Amount:
    """Values of a metric as numbers to minimize, or such numbers as values of the metric.

    Args:
        values: A number or an array.
        sense: In which direction the metric gets better.

    Examples:
        >>> flipped(3.0, "maximize"), flipped(-3.0, "maximize"), flipped(3.0, "minimize")
        (-3.0, 3.0, 3.0)
    """
    return _SIGNS[sense] * values


def flipped_columns(values: FloatArray, senses: Sequence[Sense]) -> FloatArray:
    """(..., m) values of metrics, :func:`flipped` each in its own sense."""
    return values * [_SIGNS[sense] for sense in senses]


@frozen
class Metric:
    """Meaning of a number.

    Attributes:
        name: Snake case, ending in its unit.
        sense: The direction in which it gets better.
        unit: As ``units.py`` reads it, or empty.
        meaning: One sentence for tables and help.
    """

    name: str
    sense: Sense
    unit: str
    meaning: str

    def flipped(self, values: _Amount) -> _Amount:
        """Values of the metric as numbers to minimize, or such numbers as its values."""
        return flipped(values, self.sense)


def chosen_metrics(names: Strings | None, known: Collection[str]) -> StringList:
    """The names of the metrics to report: the known ones if none are named.

    Raises:
        UnknownNameError: A metric that is not known.
    """
    for name in names or ():
        check_known("metric", name, known)
    return list(known if names is None else names)


def _read_groups() -> dict[str, dict[str, Metric]]:
    """Metrics by group and name; a row without a sense repeats a metric of an earlier group."""
    groups: dict[str, dict[str, Metric]] = {}
    metrics: dict[str, Metric] = {}
    with Path(__file__).with_name("metrics.csv").open(encoding="utf-8", newline="") as file:
        for group, name, sense, unit, meaning in list(csv.reader(file))[1:]:
            metric = Metric(name, cast(Sense, sense), unit, meaning) if sense else metrics[name]
            groups.setdefault(group, {})[name] = metric
            metrics.setdefault(name, metric)
    return groups


_GROUPS = _read_groups()
METRICS = _GROUPS["npu"]
"""Metrics of ``npu`` by name, which most evaluators share."""
PLATFORM_METRICS = _GROUPS["platform"]
"""Metrics of the ``platform`` evaluator by name."""
ECONOMICS_METRICS = _GROUPS["economics"]
"""Metrics of the ``economics`` evaluator by name."""
ACCURACY_METRICS = _GROUPS["accuracy"]
"""Metrics that the ``npu`` evaluator adds with its option ``accuracy``, by name."""
DIVERGENCE_METRICS = _GROUPS["divergence"]
"""Metrics that the ``npu`` evaluator adds with its option ``accuracy_table``, by name."""
FORMAT_METRICS = ACCURACY_METRICS | DIVERGENCE_METRICS
"""Metrics of the accuracy of formats, by name."""
POOL_METRICS = _GROUPS["pool"]
"""Metrics of a machine that only systems need, by name."""
EXCHANGED = ("exchange_bytes", "exchange_bytes_per_token")
"""Metrics of machines that have a share of every layer."""
OF_PLACE = (*EXCHANGED, "handover_requests")
"""Metrics that follow from the place of the machine's pool."""
FOR_POOLS = frozenset(POOL_METRICS) - frozenset(OF_PLACE)
"""Metrics that an evaluator reports of one machine."""

SESSION_METRICS = _GROUPS["session"]
"""Metrics of the ``sessions`` evaluator by name."""
HIT_METRICS = _GROUPS["hits"]
"""Metrics of the shares of prompts that caches hold; systems have them too."""

SYSTEM_METRICS = _GROUPS["system"]
"""Metrics of the ``system`` evaluator by name, besides the utilization of each pool and link."""

ALL_METRICS: dict[str, Metric] = (
    METRICS
    | FORMAT_METRICS
    | PLATFORM_METRICS
    | ECONOMICS_METRICS
    | POOL_METRICS
    | SYSTEM_METRICS
    | SESSION_METRICS
    | _GROUPS["mix"]
)
"""Metrics of every built-in evaluator by name."""

AMOUNTS: frozenset[Metric] = frozenset(
    metric
    for metrics in (METRICS, PLATFORM_METRICS, ECONOMICS_METRICS, SYSTEM_METRICS, SESSION_METRICS)
    for metric in metrics.values()
)
"""Metrics that are never negative."""
