"""One design with everything that an evaluator says of it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from codesign.base.columns import (
    FieldRows,
    Fields,
    FloatMap,
    JsonObject,
    StringList,
    Strings,
    ValueMap,
    first_values,
)
from codesign.base.evaluator import Evaluator, Explanation, PoolAccount, reading_of
from codesign.base.metrics import Metric
from codesign.base.notebook import metric_text, table_html
from codesign.base.records import drop_none, frozen
from codesign.base.schema import Record
from codesign.search.derived_metrics import DerivedMetric
from codesign.space import DesignSpace


class _LimitedDesign:
    """Conclusions from the violations of a design."""

    violations: FloatMap

    @property
    def is_feasible(self) -> bool:
        """Whether every limit is kept."""
        return all(value <= 0 for value in self.violations.values())

    @property
    def broken(self) -> StringList:
        """The limits that the design breaks, in words."""
        return [
            f"{name} (by {excess:.1%})" for name, excess in self.violations.items() if excess > 0
        ]

    @property
    def _state(self) -> str:
        return "keeps every limit" if self.is_feasible else "breaks " + ", ".join(self.broken)


@frozen
class AssessedDesign(_LimitedDesign):
    """The metrics and limits of one design, without what explains them.

    Attributes:
        design: Value by parameter; None where absent.
        metrics: Values by name; NaN where the evaluator has none.
        violations: Relative excess over every limit; ``<= 0`` is within.
    """

    design: ValueMap
    metrics: FloatMap
    violations: FloatMap

    def _repr_html_(self) -> str:
        """The metrics in a notebook."""
        metrics = ((name, f"{value:.6g}") for name, value in self.metrics.items())
        return table_html(f"A design that {self._state}", ("metric", "value"), metrics)


@frozen
class EvaluatedDesign(_LimitedDesign):
    """One design and what became of it.

    Attributes:
        space: Where the design comes from.
        inputs: Name of the evaluator, its workload and options as the caller stated them; the
            campaign too if the design is evaluated as that campaign does.
        design: Value by parameter; None where absent.
        derived: Derived quantities of the space.
        explanation: Metrics, operators, memory levels, power, and the assumptions.
        violations: Every limit: of the space, of the evaluator, of the campaign if it is evaluated
            as one does; ``<= 0`` is within.
        derived_metrics: Of the campaign; their values are in ``explanation`` as well.
    """

    space: DesignSpace
    evaluator: Evaluator
    inputs: Fields
    design: ValueMap
    derived: FloatMap
    explanation: Explanation
    violations: FloatMap
    derived_metrics: tuple[DerivedMetric, ...] = ()

    @property
    def reading(self) -> JsonObject:
        """Name, profile and options of the evaluator."""
        return reading_of(self.inputs["evaluator"], self.evaluator, self.inputs["options"])

    @property
    def workload(self) -> Record | None:
        """Workload of the evaluator, where it keeps that."""
        return self.evaluator.workload

    @property
    def options(self) -> Record | None:
        """The options that the evaluator was built with, where it keeps them."""
        return self.evaluator.options

    @property
    def metrics(self) -> FloatMap:
        """Values by the names of ``known_metrics``."""
        return self.explanation.metrics

    @property
    def known_metrics(self) -> tuple[Metric, ...]:
        """Meanings of the evaluator's metrics and the derived ones."""
        return (*self.evaluator.metrics, *(metric.metric for metric in self.derived_metrics))

    @property
    def operators(self) -> FieldRows:
        """One row per operator: time, what bounds it, traffic by memory level, energy."""
        return self.explanation.operators

    @property
    def levels(self) -> FieldRows:
        """One row per memory level: what it is, what it holds, what crosses it."""
        return self.explanation.levels

    @property
    def costs(self) -> FieldRows:
        """One row per block or part: area and price of one device."""
        return self.explanation.costs

    @property
    def floorplan(self) -> FieldRows:
        """One row per rectangle of the die: block, place, density and temperature."""
        return self.explanation.floorplan

    @property
    def power(self) -> FieldRows:
        """One row per component: TDP and average watts."""
        return self.explanation.power

    @property
    def notes(self) -> Strings:
        """The assumptions that limit the numbers."""
        return self.explanation.notes

    @cached_property
    def pools(self) -> Mapping[str, EvaluatedDesign]:
        """Machines of a system, one of each pool as a design of the pool's own space."""
        if not self.space.pools:
            return {}
        columns = self.space.columns(self.space.encode(self.design))
        accounts = self.evaluator.explain_pools(columns)
        return {name: self._pool_design(name, account) for name, account in accounts.items()}

    def _pool_design(self, name: str, account: PoolAccount) -> EvaluatedDesign:
        pool = self.space.pools[name]
        design = {key: self.design[pool.full_name(key)] for key in pool.parameter_names}
        row = pool.space.encode(design)
        limits = first_values(pool.space.violations(row))
        return EvaluatedDesign(
            space=pool.space,
            evaluator=account.evaluator,
            inputs={**self.inputs, "evaluator": account.evaluator_name, "options": {}},
            design=design,
            derived=first_values(pool.space.derived(row)),
            explanation=account.explanation,
            violations=limits | dict(account.explanation.violations),
        )

    def _repr_html_(self) -> str:
        """The design and its metrics in a notebook."""
        values = drop_none(self.design)
        units = {metric.name: metric for metric in self.known_metrics}
        metrics = [
            (name, metric_text(value, units[name]) if name in units else f"{value:.4g}")
            for name, value in self.metrics.items()
        ]
        return table_html(
            f"{self.space.name}: {self._state}", ("metric", "value"), metrics
        ) + table_html("Design", ("parameter", "value"), ((k, str(v)) for k, v in values.items()))
