"""The contract of an evaluator as a check that anybody can run on theirs.

Each clause is a function that raises ``AssertionError`` with one sentence; the campaign relies on
every one of them (a resumed campaign, for instance, repeats the numbers only if a design's result
does not depend on its batch).
"""

from __future__ import annotations

import json
from typing import get_args

import numpy as np

from codesign.base.columns import Columns, IntArray, StringList, n_designs, taken
from codesign.base.errors import CodesignError
from codesign.base.evaluator import Evaluation, Evaluator
from codesign.base.failures import Failure
from codesign.base.metrics import Metric, Sense
from codesign.base.schema import Record
from codesign.base.units import parse_unit
from codesign.evaluators.clauses import (
    answer,
    check_arrays,
    check_function,
    check_names,
    check_same,
    copied,
    finished,
    require,
    same_columns,
)
from codesign.evaluators.conformance_optional import check_optional


def check_evaluator(evaluator: Evaluator, designs: Columns, n_single: int = 16) -> None:
    """Checks that an evaluator keeps the contract of :class:`codesign.base.evaluator.Evaluator`.

    Its optional methods are held to their promises too: ``explain``, ``features``, ``predict``,
    ``best_case``, ``interchangeable`` and ``superseded``.

    Limiting assumption: only what shows on these designs can be found; give some fifty different
    ones, infeasible ones among them.

    Args:
        evaluator: Built as a campaign builds it.
        designs: A batch of two designs or more, such as ``space.columns(space.sample(rng, 50))``.
        n_single: Largest number of designs that are evaluated one by one; the others are evaluated
            in batches only.

    Raises:
        AssertionError: With the first clause that does not hold, in one sentence.
    """
    require(
        isinstance(evaluator, Evaluator),
        f"the class must derive from codesign.base.evaluator.Evaluator, got {type(evaluator)!r}",
    )
    _check_declaration(evaluator, designs)
    before = copied(designs)
    first = _evaluate(evaluator, designs)
    require(same_columns(before, designs), "evaluate changed the designs that it was given")
    _check_evaluation(evaluator, first, n_designs(designs))
    reference = Evaluation(
        {name: values.copy() for name, values in first.metrics.items()},
        {name: values.copy() for name, values in first.violations.items()},
        dict(first.failures),
    )
    _check_subsets(evaluator, designs, reference)

    def evaluated(some: Columns) -> Evaluation:
        result = _evaluate(evaluator, some)
        _check_evaluation(evaluator, result, n_designs(some))
        return result

    check_function("evaluate", evaluated, designs, reference, n_single)
    everyone = np.arange(n_designs(designs))
    check_same("a later call must not change an earlier result", reference, first, everyone)
    admissible = _check_known_violations(evaluator, designs, reference)
    try:
        texts = [
            json.dumps(evaluator.provenance(), sort_keys=True, allow_nan=False) for _ in range(2)
        ]
    except (TypeError, ValueError) as error:
        raise AssertionError(f"provenance must be plain JSON values: {error}.") from error
    require(texts[0] == texts[1], "provenance must be the same at every call")
    require(
        json.loads(texts[0]) == evaluator.provenance(),
        "provenance must read back from JSON as it is: text keys, lists, no tuples",
    )
    check_optional(evaluator, designs, reference, taken(designs, admissible))


def _evaluate(
    evaluator: Evaluator, designs: Columns, metrics: StringList | None = None
) -> Evaluation:
    try:
        result = evaluator.evaluate(designs, metrics)
    except Exception as error:
        raise AssertionError(
            f"evaluate raised {type(error).__name__} ({error}) instead of naming the designs "
            "that it cannot do in `failures`."
        ) from error
    require(
        isinstance(result, Evaluation),
        f"evaluate must return an Evaluation, but returned {type(result).__name__}",
    )
    assert isinstance(result, Evaluation)  # for the type checker
    return result


def _check_declaration(evaluator: Evaluator, designs: Columns) -> None:
    for name in ("Workload", "Options"):
        record = getattr(evaluator, name, None)
        require(
            isinstance(record, type) and issubclass(record, Record),
            f"{name} must be a subclass of codesign.base.schema.Record, but is {record!r}",
        )
    require(
        isinstance(evaluator.metrics, tuple) and evaluator.metrics,
        "metrics must be a tuple of at least one Metric",
    )
    for metric in evaluator.metrics:
        require(isinstance(metric, Metric), f"metrics must hold Metric records, but has {metric!r}")
        assert isinstance(metric, Metric)  # for the type checker
        require(
            metric.name.isidentifier(),
            f"the name of a metric must work in expressions, but {metric.name!r} does not",
        )
        require(
            metric.sense in get_args(Sense),
            f"metric {metric.name!r} must have a sense of {get_args(Sense)}, got {metric.sense!r}",
        )
        try:
            parse_unit(metric.unit)
        except CodesignError as error:
            raise AssertionError(
                f"metric {metric.name!r} has no readable unit: {error}."
            ) from error
    names = evaluator.metric_names
    require(len(set(names)) == len(names), "metrics must not declare a name twice")
    required = evaluator.required_parameters
    optional = evaluator.optional_parameters
    for label, value in (("required", required), ("optional", optional)):
        require(isinstance(value, frozenset), f"{label}_parameters must be a frozenset")
    shared = sorted(required & optional)
    require(not shared, f"a parameter is required or optional, but {shared} are declared as both")
    require(n_designs(designs) >= 2, "the check itself needs at least two designs")
    missing = sorted(required - designs.keys())
    require(not missing, f"the designs given to the check lack the required parameters {missing}")
    unknown = sorted(designs.keys() - required - optional)
    require(
        not unknown,
        f"the designs have the parameters {unknown}, which are not declared: declare every "
        "parameter that evaluate reads, and give the check no others",
    )


def _check_evaluation(evaluator: Evaluator, result: Evaluation, n: int) -> None:
    declared = set(evaluator.metric_names)
    check_names("without names, evaluate", set(result.metrics), declared)
    check_arrays("metric", result.metrics, n)
    check_arrays("violation", result.violations, n)
    for position, reason in result.failures.items():
        require(
            isinstance(position, int) and 0 <= position < n,
            f"failures must be keyed by the design's position from 0 to {n - 1}, got {position!r}",
        )
        require(
            isinstance(reason, str | Failure) and str(reason).strip(),
            f"failure {position} must give its reason in words, got {reason!r}",
        )
    done = finished(result, n)
    for name, values in result.violations.items():
        require(
            not np.isnan(values[done]).any(),
            f"violation {name!r} is NaN on a design that did not fail: it must be a number",
        )


def _check_subsets(evaluator: Evaluator, designs: Columns, reference: Evaluation) -> None:
    everyone = np.arange(n_designs(designs))
    for metric in evaluator.metrics:
        result = _evaluate(evaluator, designs, [metric.name])
        check_names(
            f"asked for {metric.name!r} alone, evaluate", set(result.metrics), {metric.name}
        )
        check_same(
            "a metric asked for alone must equal itself among all", reference, result, everyone
        )
    nothing = _evaluate(evaluator, designs, [])
    check_names("asked for no metric, evaluate", set(nothing.metrics), set())


def _check_known_violations(
    evaluator: Evaluator, designs: Columns, reference: Evaluation
) -> IntArray:
    """Positions of the designs that meet what is known before evaluation."""
    violations = answer("known_violations", "known violation", evaluator.known_violations, designs)
    for name, values in violations.items():
        require(not np.isnan(values).any(), f"known violation {name!r} must be a number, got NaN")
    common_violations = {
        name: values for name, values in violations.items() if name in reference.violations
    }
    everyone = np.arange(n_designs(designs))
    check_same(
        "a violation known before evaluation must be the one that evaluate reports",
        reference,
        Evaluation({}, common_violations, reference.failures),
        everyone,
    )
    return everyone[
        np.all([values <= 0 for values in (*violations.values(), everyone * 0)], axis=0)
    ]
