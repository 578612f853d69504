"""The problem: a design space meets an evaluator, and metrics become objectives to minimize."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeVar

import numpy as np

from codesign.base import plugins
from codesign.base.columns import (
    ArrayDict,
    Arrays,
    BoolArray,
    Columns,
    Domains,
    FloatArray,
    FloatDict,
    IntArray,
    JsonObject,
    StringList,
    Strings,
    StringTuple,
)
from codesign.base.errors import (
    InputError,
    JobError,
    UnusableValueError,
    describe_unknown,
)
from codesign.base.evaluator import Evaluation, Evaluator
from codesign.base.failures import Failure
from codesign.base.metrics import Metric, Sense, flipped, flipped_columns
from codesign.base.records import frozen, select_keys
from codesign.base.units import DIMENSIONLESS, parse_unit
from codesign.search.derived_metrics import DerivedMetric, provenance_of
from codesign.search.observations import Observations
from codesign.space import DesignSpace, Expression, parse_expression

_Amount = TypeVar("_Amount", float, FloatArray)


@frozen
class Objective:
    """A metric and the direction in which this problem wants it.

    Attributes:
        metric: As the evaluator or the campaign declares it.
        sense: Usually the metric's own, but a study may want the opposite.
        where: ``file:line: key``, for messages.
        step: If not 0, values count as the next multiple of it, on the worse side.
    """

    metric: Metric
    sense: Sense
    where: str | None = field(default=None, compare=False)
    step: float = 0.0

    def flipped(self, values: _Amount) -> _Amount:
        """Values of the metric as numbers to minimize, or such numbers as its values."""
        return flipped(values, self.sense)

    def minimized(self, values: FloatArray) -> FloatArray:
        """(n,) values of the metric as numbers to minimize, as they count."""
        signed = self.flipped(values)
        return np.ceil(signed / self.step) * self.step if self.step else signed

    def __str__(self) -> str:
        return f"{self.sense} {self.metric.name}" + (f" by {self.step:g}" if self.step else "")


def cost_column(objectives: Sequence[Objective]) -> int:
    """Position of the objective by which one design is called cheaper than another.

    It is the last of those to minimize that are no times, as in "maximize throughput, minimize TDP,
    minimize time to first token"; else the last to minimize; where all are maximized, the last.
    """
    minimized = [
        position for position, objective in enumerate(objectives) if objective.sense == "minimize"
    ]
    costs = [position for position in minimized if objectives[position].metric.unit != "s"]
    return (costs or minimized or [len(objectives) - 1])[-1]


@frozen
class Constraint:
    """A condition that a campaign sets on metrics, parameters or derived quantities.

    Attributes:
        text: As written; names the violation.
        is_known: It involves no metric, so it is checked before a design is evaluated.
        bound: The number by which it bounds one metric from its bad side, as ``tdp_watts <= 700``
            does: a better value of the metric never violates it more. None: it is no such limit.
        where: ``file:line: key``, for messages.
    """

    text: str
    expression: Expression
    is_known: bool
    bound: float | None = None
    where: str | None = field(default=None, compare=False)

    @property
    def is_limit(self) -> bool:
        """Whether it bounds one metric from its bad side."""
        return self.bound is not None


@frozen
class Problem:
    """Designs in, observations out; see :func:`codesign.search.problem_builder.build_problem`.

    Attributes:
        objectives: At least one, on distinct metrics.
        constraints: Conditions besides those of the space and of the evaluator.
        evaluator_name: Under which the evaluator is registered, for messages and provenance.
        derived: Metrics that are computed from those of the evaluator.
        evaluates_all: Whether an enumeration evaluates every design, whatever bounds there are.
    """

    space: DesignSpace
    evaluator: Evaluator
    objectives: tuple[Objective, ...]
    constraints: tuple[Constraint, ...] = ()
    evaluator_name: str = "evaluator"
    derived: tuple[DerivedMetric, ...] = ()
    evaluates_all: bool = False

    @property
    def has_bounds(self) -> bool:
        """Whether an enumeration may leave designs out by the evaluator's bounds."""
        return self.evaluator.offers("best_case") and not self.evaluates_all

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Every metric of the evaluator, in its order, and the derived ones."""
        return (
            *self.evaluator.metrics,
            *(derived_metric.metric for derived_metric in self.derived),
        )

    @property
    def metric_names(self) -> StringTuple:
        """The names of :attr:`metrics`."""
        return tuple(metric.name for metric in self.metrics)

    def sources_of(self, names: Iterable[str]) -> StringTuple:
        """The evaluator's metrics that metrics are computed from; its own are themselves."""
        sources = {
            derived_metric.metric.name: sorted(derived_metric.sources)
            for derived_metric in self.derived
        }
        return tuple(dict.fromkeys(own for name in names for own in sources.get(name, (name,))))

    def add_derived(self, metrics: Arrays) -> ArrayDict:
        """(n,) values of the evaluator's metrics, with the derived ones that follow from them."""
        known_derived = [
            derived_metric
            for derived_metric in self.derived
            if derived_metric.sources <= metrics.keys()
        ]
        return {
            **metrics,
            **{
                derived_metric.metric.name: derived_metric.values(metrics)
                for derived_metric in known_derived
            },
        }

    @property
    def evaluator_limits(self) -> tuple[Constraint, ...]:
        """Limits on metrics of the evaluator, within which it may choose."""
        own_names = set(self.evaluator.metric_names)
        return tuple(x for x in self.constraints if x.is_limit and x.expression.names <= own_names)

    @property
    def objective_metrics(self) -> list[Metric]:
        """The metric of each objective."""
        return [objective.metric for objective in self.objectives]

    @property
    def objective_names(self) -> StringList:
        """The name of each objective's metric."""
        return [metric.name for metric in self.objective_metrics]

    @property
    def senses(self) -> tuple[Sense, ...]:
        """The direction of each objective."""
        return tuple(objective.sense for objective in self.objectives)

    def flipped(self, objectives: FloatArray) -> FloatArray:
        """(..., m) objectives to minimize as values of their metrics, or the other way round."""
        return flipped_columns(objectives, self.senses)

    def natural_values(self, objectives: FloatArray) -> FloatDict:
        """(m,) objectives to minimize as values of their metrics, by name."""
        return dict(zip(self.objective_names, self.flipped(objectives).tolist(), strict=True))

    @property
    def deciding_metrics(self) -> StringTuple:
        """The metrics of objectives and constraints: they alone decide on the front."""
        used = set(self.objective_names)
        used.update(*(constraint.expression.names for constraint in self.constraints))
        return tuple(name for name in self.metric_names if name in used)

    @property
    def constraints_on_metrics(self) -> tuple[Constraint, ...]:
        """Constraints that need an evaluation; they are the last violations of an observation."""
        return tuple(constraint for constraint in self.constraints if not constraint.is_known)

    def known_violations(self, rows: IntArray) -> ArrayDict:
        """(n,) violations by name that need no evaluation, of designs of the space.

        Raises:
            InputError: A value of the space that the evaluator does not know, such as a format.
            JobError: The evaluator cannot tell.
        """
        try:
            violations = dict(self.evaluator.known_violations(self.space.columns(rows)))
        except UnusableValueError as error:
            raise self.located(error) from None
        except Exception as error:  # third-party code may fail in any way
            raise self._failed_on("known_violations", error) from error
        constraints = [constraint for constraint in self.constraints if constraint.is_known]
        return violations | self._violations_of(constraints, rows, {})

    def _failed_on(self, method: str, error: Exception) -> JobError:
        words = plugins.described(error, self.evaluator)
        return JobError(f"evaluator {self.evaluator_name!r} failed on {method}: {words}")

    def located(self, error: UnusableValueError) -> InputError:
        """The error with the place where the space's file has the value, or else with the space."""
        return located_error(error, self.space)

    def admits(self, rows: IntArray) -> BoolArray:
        """(n,) whether designs are in the space and meet all that is known before evaluation."""
        admitted = self.space.contains(rows)
        inside = np.flatnonzero(admitted)
        for values in self.known_violations(rows[inside]).values() if len(inside) else ():
            admitted[inside] &= values <= 0
        return admitted

    def features(self, rows: IntArray) -> Arrays:
        """(n,) numbers by name that the evaluator tells of designs of the space in advance.

        Without a name if it tells nothing.

        Raises:
            JobError: The evaluator fails on them, or gives something else.
        """
        try:
            features = dict(self.evaluator.features(self.space.columns(rows)))
        except Exception as error:  # third-party code may fail in any way
            raise self._failed_on("features", error) from error
        return {name: self._checked(name, values, len(rows)) for name, values in features.items()}

    @property
    def is_noisy(self) -> bool:
        """Whether the evaluator declares that its results are noisy."""
        return self.evaluator.is_noisy

    @property
    def is_predicted(self) -> bool:
        """Whether the evaluator has a cheaper model of what it computes."""
        return self.evaluator.offers("predict")

    def predictions(self, rows: IntArray) -> FloatArray:
        """(n, m) objectives to minimize as the evaluator's cheaper model has them.

        NaN in the columns of those that it does not have.

        Raises:
            JobError: There is no such model, it fails on them, or gives something else.
        """
        predicted = self._predicted(rows, self.objective_names)
        nothing = np.full(len(rows), np.nan)
        return np.column_stack(
            [
                objective.flipped(predicted.get(objective.metric.name, nothing))
                for objective in self.objectives
            ]
        )

    def predicted_violations(self, rows: IntArray) -> FloatArray:
        """(n, c) the constraints on metrics as the evaluator's cheaper model has them.

        They are the last columns of an observation's violations; NaN in the columns of those that
        depend on a metric which the model does not have.

        Raises:
            JobError: As :meth:`predictions`.
        """
        after = self.constraints_on_metrics
        used = set[str]().union(*(constraint.expression.names for constraint in after))
        names = [name for name in self.metric_names if name in used]
        predicted = self._predicted(rows, names)
        unpredicted = set(names) - set(predicted)
        predictable = [
            constraint for constraint in after if not constraint.expression.names & unpredicted
        ]
        violations = self._violations_of(predictable, rows, predicted)
        nothing = np.full(len(rows), np.nan)
        columns = [violations.get(constraint.text, nothing) for constraint in after]
        return np.column_stack([*columns, np.empty((len(rows), 0))])

    def _predicted(self, rows: IntArray, names: Strings) -> ArrayDict:
        """(n,) by name, of the metrics named those that the cheaper model has."""
        if not self.is_predicted:
            raise JobError(f"evaluator {self.evaluator_name!r} predicts nothing")
        sources = self.sources_of(names)
        try:
            predicted = dict(self.evaluator.predict(self.space.columns(rows), sources))
        except Exception as error:  # third-party code may fail in any way
            raise self._failed_on("predict", error) from error
        own_sources = {
            name: self._checked(name, predicted[name], len(rows))
            for name in sources
            if name in predicted
        }
        known_with_derived = self.add_derived(own_sources)
        values = select_keys(known_with_derived, names)
        if not all(np.isfinite(column).all() for column in values.values()):
            raise JobError(f"evaluator {self.evaluator_name!r} predicted what is not finite")
        return values

    def best_case(self, columns: Columns, undecided: Domains, names: Strings) -> ArrayDict:
        """(n,) of each of the metrics named that can be bounded, a value that no design beats.

        See :meth:`codesign.base.evaluator.Evaluator.best_case`; nothing without bounds.
        """
        if not self.has_bounds:
            return {}
        best = dict(self.evaluator.best_case(columns, undecided, self.sources_of(names)))
        own_metrics = self.evaluator.metrics
        n = len(next(iter(best.values()), ()))
        wanted_derived = [
            derived_metric for derived_metric in self.derived if derived_metric.metric.name in names
        ]
        bounded = [
            derived_metric
            for derived_metric in wanted_derived
            if derived_metric.sources & best.keys()
        ]
        return best | {
            derived_metric.metric.name: derived_metric.best_case(best, own_metrics, n)
            for derived_metric in bounded
        }

    def evaluate(self, rows: IntArray, metrics: Strings | None = None) -> Observations:
        """Evaluate designs of the space.

        An evaluator that raises on a batch is given its halves, down to the designs at fault;
        these are recorded as failed, and designs with an objective or a violation that is
        not a number, or an infinite objective, as bad output.

        Args:
            rows: (n, d) designs.
            metrics: Those to compute, the deciding ones among them; all if None.

        Raises:
            JobError: The evaluator's answer has the wrong shape or lacks an objective.
        """
        return self.observed(rows, self._attempt(rows, metrics))

    def observed(self, rows: IntArray, evaluation: Evaluation) -> Observations:
        """Observations of this problem from an evaluator's answer for designs.

        Args:
            rows: (n, d) designs.

        Raises:
            JobError: The answer has the wrong shape or lacks an objective.
        """
        if not isinstance(evaluation, Evaluation):
            output_type = type(evaluation).__name__
            raise JobError(
                f"evaluator {self.evaluator_name!r} gave {output_type}, expected an Evaluation"
            )
        n = len(rows)
        failures = {
            int(i): reason if isinstance(reason, Failure) else Failure("failed", str(reason))
            for i, reason in evaluation.failures.items()
        }
        failed = np.zeros(n, bool)
        failed[list(failures)] = True
        metric_values = self._metrics_of(evaluation, n, failed)
        violations = {name: self._checked(name, v, n) for name, v in evaluation.violations.items()}
        violations |= self._violations_of(self.constraints_on_metrics, rows, metric_values)
        self._find_failures(metric_values, violations, failures)
        failed[list(failures)] = True
        matrix = np.column_stack([*violations.values(), np.empty((n, 0))])
        if failures:
            matrix[failed] = np.nan
            metric_values = {
                name: np.where(failed, np.nan, values) for name, values in metric_values.items()
            }
        objectives = [
            objective.minimized(metric_values[objective.metric.name])
            for objective in self.objectives
        ]
        return Observations(
            rows, np.column_stack(objectives), matrix, tuple(violations), metric_values, failures
        )

    def provenance(self) -> JsonObject:
        """Everything the observations depend on, as JSON values."""
        space = self.space.provenance()
        evaluator = _used_provenance(self.evaluator.provenance(), json.dumps(space, default=str))
        return {
            "space": space,
            "evaluator": {"name": self.evaluator_name, **evaluator},
            "objectives": [str(objective) for objective in self.objectives],
            "constraints": [constraint.text for constraint in self.constraints],
            **provenance_of(self.derived),
        }

    def _attempt(self, rows: IntArray, metrics: Strings | None) -> Evaluation:
        n = len(rows)
        try:
            columns = self.space.columns(rows)
            if metrics is None:
                return self.evaluator.evaluate(columns)
            return self.evaluator.evaluate(columns, self.sources_of(metrics))
        except JobError:  # no design's fault
            raise
        except (Exception, SystemExit) as error:  # third-party code may fail in any way
            if n <= 1:
                text = plugins.described(error, self.evaluator)
                return Evaluation({}, {}, dict.fromkeys(range(n), text))
        first, second = (self._attempt(half, metrics) for half in (rows[: n // 2], rows[n // 2 :]))
        return Evaluation(
            _joined(first.metrics, second.metrics, n),
            _joined(first.violations, second.violations, n),
            {**first.failures, **{n // 2 + i: text for i, text in second.failures.items()}},
        )

    def _metrics_of(self, evaluation: Evaluation, n: int, failed: BoolArray) -> ArrayDict:
        own_names = self.evaluator.metric_names
        unknown = set(evaluation.metrics) - set(own_names)
        if unknown:
            text = describe_unknown("metric", min(unknown), own_names)
            raise JobError(f"evaluator {self.evaluator_name!r} reported an {text}")
        for name in self.sources_of(self.objective_names):
            if name not in evaluation.metrics and not failed.all():
                raise JobError(f"evaluator {self.evaluator_name!r} did not report {name}")
        nothing = np.full(n, np.nan)
        return self.add_derived(
            {
                name: self._checked(name, evaluation.metrics.get(name, nothing), n)
                for name in own_names
            }
        )

    def _checked(self, name: str, values: object, n: int) -> FloatArray:
        returned = f"evaluator {self.evaluator_name!r} returned {name}"
        try:
            array = np.asarray(values, np.float64)
        except (TypeError, ValueError) as error:
            raise JobError(f"{returned}, but not as numbers: {error}") from error
        if array.shape != (n,):
            raise JobError(f"{returned} with shape {array.shape}, but expected ({n},) numbers")
        return array

    def _find_failures(
        self,
        metrics: Arrays,
        violations: Arrays,
        failures: dict[int, Failure],
    ) -> None:
        """Add the designs whose numbers cannot be used."""
        derived = {derived_metric.metric.name: derived_metric for derived_metric in self.derived}
        limited = [name for name in self.deciding_metrics if name in derived]
        for name in dict.fromkeys([*self.objective_names, *limited]):
            values = metrics[name]
            for i in np.flatnonzero(~np.isfinite(values)).tolist():
                text = f"metric {name} is {values[i]:g}"
                if name in derived:
                    text += f": {derived[name].reason(metrics, i)}"
                failures.setdefault(i, Failure("bad-output", text))
        for name, values in violations.items():
            for i in np.flatnonzero(np.isnan(values)).tolist():
                failures.setdefault(i, Failure("bad-output", f"violation of {name!r} is nan"))

    def _violations_of(
        self,
        constraints: Sequence[Constraint],
        rows: IntArray,
        metrics: Arrays,
    ) -> ArrayDict:
        if not constraints:
            return {}
        quantities = self.space.values(rows)
        violations = {}
        for constraint in constraints:
            names = constraint.expression.names
            values = {
                name: metrics[name] if name in metrics else quantities[name] for name in names
            }
            violation = constraint.expression.violation(values)
            violations[constraint.text] = np.broadcast_to(violation, len(rows)).copy()
        return violations


def bound_on(metric: Metric, sense: Sense, condition: Expression) -> float | None:
    """The number, in the metric's unit, by which a condition bounds it from its bad side."""
    limit = condition.limit
    if limit is None or not condition.names == {metric.name} == {limit.quantity}:
        return None
    if limit.is_upper != (sense == "minimize"):
        return None
    bound = parse_expression(limit.bound, {})
    # A number without a unit is in the metric's.
    scale = 1.0 if bound.unit == DIMENSIONLESS else parse_unit(metric.unit).scale
    return float(bound.evaluate({})) / scale


def most_broken(violations: Arrays) -> str:
    """The limit that most designs break and how near one comes to it, in words; none: empty.

    Args:
        violations: (n,) relative excess by limit, of designs that did not fail.
    """
    broken = {name: int((values > 0).sum()) for name, values in violations.items()}
    worst = max(broken, key=lambda name: broken[name], default=None)
    if worst is None or not broken[worst]:
        return ""
    nearest = float(np.min(violations[worst]))
    by = f"nearest over by {nearest:.1%}" if nearest > 0 else "some keep it and break another"
    words = worst.replace("_", " ") if worst.isidentifier() else worst
    return f"{broken[worst]:,} break {words!r}, {by}"


def nearest_to_limits(violations: Arrays) -> int:
    """The position of the design whose largest excess is the smallest.

    Args:
        violations: (n,) relative excess by limit, of one or more designs that did not fail.
    """
    largest = np.max(np.stack(list(violations.values())), axis=0)
    return int(np.argmin(largest))


def located_error(error: UnusableValueError, space: DesignSpace) -> InputError:
    """The error with the place where the space's file has the value, or else with the space."""
    names = (parameter.name for parameter in space.parameters if error.got in parameter.values)
    name = next(names, None)
    place = space.source if name is None else space.where("parameters", name)
    return InputError(str(error), place)


def _used_provenance(described: Any, space: str) -> Any:
    """Provenance of an evaluator without off-chip memories and banks that its space never names.

    Adding a memory file does not change problems that cannot use it.
    """
    if not isinstance(described, Mapping):
        return described
    return {
        key: {
            name: element
            for name, element in value.items()
            if (element.get("place") != "off-chip" and element.get("unit") != "bank")
            or json.dumps(name) in space
        }
        if key == "memtech"
        else _used_provenance(value, space)
        for key, value in described.items()
    }


def _joined(first: Arrays, second: Arrays, n: int) -> ArrayDict:
    """Both halves one after the other; NaN where a half does not have the name."""
    half = n // 2
    return {
        name: np.concatenate(
            [
                np.asarray(first.get(name, np.full(half, np.nan)), np.float64),
                np.asarray(second.get(name, np.full(n - half, np.nan)), np.float64),
            ]
        )
        for name in dict.fromkeys([*first, *second])
    }
