"""Metrics that a campaign computes from those of its evaluator, such as throughput per area.

The evaluator knows nothing of them: a problem computes them from what it reports. A value that is
no finite number is NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated

import numpy as np

from codesign.base.columns import Arrays, FloatArray, JsonObject
from codesign.base.errors import InputError, ProblemList, mistakes_at
from codesign.base.metrics import AMOUNTS, Metric, Sense
from codesign.base.records import frozen
from codesign.base.schema import Record, one_of
from codesign.base.units import parse_unit
from codesign.space import Expression, parse_expression
from codesign.space.expression_tokens import KEYWORDS
from codesign.space.expressions import describe_unit
from codesign.space.intervals import Interval, interval_of, trend_of

_FAR = 1e300
"""Stand-in for no bound: with infinity, the relative excess over a limit would be undefined."""


Place = Callable[..., str]
"""Place of a key in a file, as :meth:`Document.where` gives it."""


def default_place(*path: str | int) -> str:
    """Place of a key that is in no file."""
    return ".".join(map(str, path))


class MetricDefinition(Record):
    """An entry of ``metrics:`` in a campaign file."""

    value: str
    """Expression over metrics of the evaluator, such as ``throughput_tokens_per_s / area_mm2``."""
    sense: Annotated[Sense, one_of("minimize", "maximize")]
    """The direction in which it gets better."""
    unit: str = ""
    """Unit of the metric, such as ``token/s/mm^2``; empty for a plain number."""
    description: str = ""
    """One sentence for tables and figures."""


@frozen
class DerivedMetric:
    """A metric with the expression that computes it from others.

    Attributes:
        metric: Its name, sense, unit and meaning, as those of any other.
        expression: Over metrics of the evaluator, in coherent SI units.
    """

    metric: Metric
    expression: Expression

    @property
    def definition(self) -> MetricDefinition:
        """Definition in a campaign file."""
        metric = self.metric
        return MetricDefinition(
            value=self.expression.text,
            sense=metric.sense,
            unit=metric.unit,
            description=metric.meaning,
        )

    @property
    def sources(self) -> frozenset[str]:
        """The metrics that it is computed from."""
        return self.expression.names

    def values(self, metrics: Arrays) -> FloatArray:
        """(n,) values in its unit; NaN where it is not finite.

        Args:
            metrics: (n,) values of its sources, each in its own unit.
        """
        values = self._scaled(self.expression.evaluate(metrics))
        return np.where(np.isfinite(values), values, np.nan)

    def best_case(self, best: Arrays, metrics: Sequence[Metric], n: int) -> FloatArray:
        """(n,) a value that no finite one beats in the metric's own sense.

        Args:
            best: (n,) such values of its sources, of those that have any.
            metrics: Those of the evaluator.
        """
        own_metrics = [metric for metric in metrics if metric.name in self.sources]
        intervals = {
            metric.name: _interval_from(metric, best.get(metric.name)) for metric in own_metrics
        }
        low, high = interval_of(self.expression.node, intervals)
        end = self._scaled(high if self.metric.sense == "maximize" else low)
        minimized = np.fmax(self.metric.flipped(end), -_FAR)
        return np.broadcast_to(self.metric.flipped(minimized), n)

    def follows(self, metrics: Sequence[Metric]) -> bool:
        """True if it never gets worse while none of its sources does.

        Args:
            metrics: Those of the evaluator.
        """
        trends = {
            metric.name: (1 if metric.sense == "maximize" else -1, metric in AMOUNTS)
            for metric in metrics
        }
        trend, _ = trend_of(self.expression.node, trends)
        return trend in (0, 1 if self.metric.sense == "maximize" else -1)

    def reason(self, metrics: Arrays, position: int) -> str:
        """Formula of one value with its numbers, in words."""
        sources = (f"{name} {metrics[name][position]:g}" for name in sorted(self.sources))
        return f"{self.expression.text} with {', '.join(sources)}"

    def _scaled(self, values: FloatArray) -> FloatArray:
        with np.errstate(all="ignore"):
            return values / parse_unit(self.metric.unit).scale


def _interval_from(metric: Metric, best: FloatArray | None) -> Interval:
    """Between which numbers a metric is of which this is the best; an undefined best is none."""
    least = 0.0 if metric in AMOUNTS else -np.inf
    best_value = np.asarray(np.nan if best is None else best)
    if metric.sense == "minimize":
        return np.fmax(best_value, least), np.asarray(np.inf)
    return np.asarray(least), np.fmin(best_value, np.inf)


def read_metrics(
    definitions: Mapping[str, MetricDefinition],
    reported: Sequence[Metric],
    reserved: Collection[str],
    where: Place,
) -> tuple[DerivedMetric, ...]:
    """Derived metrics from their definitions.

    Args:
        reported: The metrics of the evaluator.
        reserved: Names that stand for something else in constraints, such as parameters.
        where: ``file:line: key`` of ``("metrics", NAME)``, ``("metrics", NAME, "value")``, ...

    Raises:
        InputError: A definition is invalid; the message lists every problem, with near names.
    """
    problems = ProblemList()
    derived = []
    for name, definition in definitions.items():
        with problems.caught(), mistakes_at(where("metrics", name)):
            if not (name.isascii() and name.isidentifier()) or name in KEYWORDS:
                expected = "a name of letters, digits and '_' that is no word of expressions"
                raise InputError(f"expected {expected}, got {name!r}")
            if name in {metric.name for metric in reported}:
                raise InputError(f"the evaluator has a metric {name!r}; expected another name")
            if name in reserved:
                raise InputError(f"the space has a quantity {name!r}; expected another name")
        with problems.caught():
            derived.append(_read(name, definition, reported, where))
    problems.raise_any()
    return tuple(derived)


def _read(
    name: str, definition: MetricDefinition, reported: Sequence[Metric], where: Place
) -> DerivedMetric:
    place = where("metrics", name, "value")
    units = {metric.name: parse_unit(metric.unit) for metric in reported}
    expression = parse_expression(definition.value, units, place)
    if expression.unit is None or not expression.names:
        raise InputError(
            f"expected a number computed from metrics, got {definition.value!r}", place
        )
    with mistakes_at(where("metrics", name, "unit")):
        unit = parse_unit(definition.unit)
        if unit.exponents != expression.unit.exponents:
            raise InputError(
                f"{definition.value!r} is in {describe_unit(expression.unit)}, "
                f"got the unit {definition.unit!r}"
            )
    metric = Metric(name, definition.sense, definition.unit, definition.description)
    return DerivedMetric(metric, expression)


def definitions_of(derived: Sequence[DerivedMetric]) -> dict[str, MetricDefinition]:
    """Definitions by name, as a campaign file has them."""
    return {derived_metric.metric.name: derived_metric.definition for derived_metric in derived}


def provenance_of(derived: Sequence[DerivedMetric]) -> JsonObject:
    """All that their values depend on, as JSON values; nothing if there are none."""
    stated = {
        name: definition.model_dump(include={"value", "sense", "unit"})
        for name, definition in definitions_of(derived).items()
    }
    return {"metrics": stated} if stated else {}
