"""The contract of an evaluator as a check that anybody can run on theirs.

Each clause is a function that raises ``AssertionError`` with one sentence; the campaign relies on
every one of them (a resumed campaign, for instance, repeats the numbers only if a design's result
does not depend on its batch).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, get_args

import numpy as np

from codesign.columns import Column, Columns, FloatArray, IntArray, Value
from codesign.errors import CodesignError
from codesign.evaluators.base import Bounds, Evaluation, Evaluator, Explains
from codesign.metrics import Metric, Sense
from codesign.schema import Record
from codesign.units import parse_unit


def check_evaluator(evaluator: Evaluator, designs: Columns, n_single: int = 16) -> None:
    """Checks that an evaluator keeps the contract of :class:`codesign.evaluators.base.Evaluator`.

    Limiting assumption: only what shows on these designs can be found; give some fifty different
    ones, infeasible ones among them.

    Args:
        evaluator: Built as a campaign builds it.
        designs: A batch of two designs or more, such as ``space.columns(space.sample(rng, 50))``.
        n_single: At most how many designs are evaluated one by one; the others only in other
            batches.

    Raises:
        AssertionError: With the first clause that does not hold, in one sentence.
    """
    _check_declaration(evaluator, designs)
    before = _copy(designs)
    first = _evaluate(evaluator, designs)
    _require(_same_columns(before, designs), "evaluate changed the designs that it was given")
    _check_evaluation(evaluator, first, _length(designs))
    whole = Evaluation(_copied(first.metrics), _copied(first.violations), dict(first.failures))
    _check_subsets(evaluator, designs, whole)
    _check_purity(evaluator, designs, whole)
    _check_batches(evaluator, designs, whole, n_single)
    everyone = np.arange(_length(designs))
    _check_same("a later call must not change an earlier result", whole, first, everyone)
    _check_known_violations(evaluator, designs, whole)
    _check_provenance(evaluator)
    if isinstance(evaluator, Explains):
        _check_explanation(evaluator, evaluator, designs, whole)
    if isinstance(evaluator, Bounds):
        _check_bounds(evaluator, evaluator, designs, whole)


def _require(condition: object, sentence: str) -> None:
    if not condition:
        raise AssertionError(sentence + ".")


def _length(designs: Columns) -> int:
    return min(len(column) for column in designs.values())


def _take(designs: Columns, positions: IntArray) -> Columns:
    return {name: Column(item.values, item.codes[positions]) for name, item in designs.items()}


def _copy(designs: Columns) -> Columns:
    return {name: Column(item.values, item.codes.copy()) for name, item in designs.items()}


def _same_columns(a: Columns, b: Columns) -> bool:
    return a.keys() == b.keys() and all(
        a[name].values == b[name].values and np.array_equal(a[name].codes, b[name].codes)
        for name in a
    )


def _evaluate(
    evaluator: Evaluator, designs: Columns, metrics: list[str] | None = None
) -> Evaluation:
    try:
        result: object = evaluator.evaluate(designs, metrics)
    except Exception as error:
        raise AssertionError(
            f"evaluate raised {type(error).__name__} ({error}) instead of naming the designs "
            "that it cannot do in `failures`."
        ) from error
    _require(
        isinstance(result, Evaluation),
        f"evaluate must return an Evaluation, but returned {type(result).__name__}",
    )
    assert isinstance(result, Evaluation)  # for the type checker
    return result


def _check_declaration(evaluator: Evaluator, designs: Columns) -> None:
    for name in ("Workload", "Options"):
        record = getattr(evaluator, name, None)
        _require(
            isinstance(record, type) and issubclass(record, Record),
            f"{name} must be a subclass of codesign.schema.Record, but is {record!r}",
        )
    _require(
        isinstance(evaluator.metrics, tuple) and evaluator.metrics,
        "metrics must be a tuple of at least one Metric",
    )
    for metric in evaluator.metrics:
        _check_metric(metric)
    names = [metric.name for metric in evaluator.metrics]
    _require(len(set(names)) == len(names), "metrics must not declare a name twice")
    required, optional = evaluator.required_parameters, evaluator.optional_parameters
    for label, value in (("required", required), ("optional", optional)):
        _require(isinstance(value, frozenset), f"{label}_parameters must be a frozenset")
    both = sorted(required & optional)
    _require(not both, f"a parameter is required or optional, but {both} are declared as both")
    _require(_length(designs) >= 2, "the check itself needs at least two designs")
    missing = sorted(required - designs.keys())
    _require(not missing, f"the designs given to the check lack the required parameters {missing}")
    unknown = sorted(designs.keys() - required - optional)
    _require(
        not unknown,
        f"the designs have the parameters {unknown}, which are not declared: declare every "
        "parameter that evaluate reads, and give the check no others",
    )


def _check_metric(metric: object) -> None:
    _require(isinstance(metric, Metric), f"metrics must hold Metric records, but has {metric!r}")
    assert isinstance(metric, Metric)  # for the type checker
    _require(
        metric.name.isidentifier(),
        f"the name of a metric must work in expressions, but {metric.name!r} does not",
    )
    _require(
        metric.sense in get_args(Sense),
        f"metric {metric.name!r} must have a sense of {get_args(Sense)}, got {metric.sense!r}",
    )
    try:
        parse_unit(metric.unit)
    except CodesignError as error:
        raise AssertionError(f"metric {metric.name!r} has no readable unit: {error}.") from error


def _check_evaluation(evaluator: Evaluator, result: Evaluation, n: int) -> None:
    declared = {metric.name for metric in evaluator.metrics}
    _check_names("without names, evaluate", set(result.metrics), declared)
    _check_arrays("metric", result.metrics, n)
    _check_arrays("violation", result.violations, n)
    for position, reason in result.failures.items():
        _require(
            isinstance(position, int) and 0 <= position < n,
            f"failures must be keyed by the design's position from 0 to {n - 1}, got {position!r}",
        )
        _require(
            isinstance(reason, str) and reason.strip(),
            f"failure {position} must give its reason in words, got {reason!r}",
        )
    done = _done(result, n)
    for name, values in result.violations.items():
        _require(
            not np.isnan(values[done]).any(),
            f"violation {name!r} is NaN on a design that did not fail: it must be a number",
        )


def _check_names(who: str, got: set[str], expected: set[str]) -> None:
    missing, extra = sorted(expected - got), sorted(got - expected)
    _require(not missing, f"{who} must report all that it should, but leaves out {missing}")
    _require(not extra, f"{who} must report only what it should, but also reports {extra}")


def _check_arrays(kind: str, arrays: Mapping[str, Any], n: int) -> None:
    for name, values in arrays.items():
        _require(isinstance(name, str) and name, f"a {kind} must have a name, got {name!r}")
        shape, dtype = getattr(values, "shape", None), getattr(values, "dtype", None)
        _require(
            isinstance(values, np.ndarray) and shape == (n,),
            f"{kind} {name!r} must be an array of shape ({n},), got {type(values).__name__} of "
            f"shape {shape}",
        )
        _require(dtype == np.float64, f"{kind} {name!r} must be an array of float64, got {dtype}")


def _done(result: Evaluation, n: int) -> IntArray:
    """Positions of the designs that did not fail."""
    return np.setdiff1d(np.arange(n), np.fromiter(result.failures, dtype=np.int64))


def _check_same(sentence: str, whole: Evaluation, part: Evaluation, positions: IntArray) -> None:
    """Requires that ``part`` is ``whole`` at ``positions``, to the last digit."""
    for at, position in enumerate(positions.tolist()):
        _require(
            (position in whole.failures) == (at in part.failures),
            f"{sentence}: design {position} fails in one and not in the other",
        )
    here = _done(part, len(positions))
    pairs = [(part.metrics, whole.metrics), (part.violations, whole.violations)]
    for smaller, larger in pairs:
        for name, values in smaller.items():
            _require(name in larger, f"{sentence}: only one of them reports {name!r}")
            expected = larger[name][positions]
            same = (values == expected) | (np.isnan(values) & np.isnan(expected))
            for at in here[~same[here]][:1].tolist():
                _require(
                    False,
                    f"{sentence}: {name!r} of design {positions[at]} is {float(values[at])!r} "
                    f"and {float(expected[at])!r}",
                )


def _check_subsets(evaluator: Evaluator, designs: Columns, whole: Evaluation) -> None:
    everyone = np.arange(_length(designs))
    for metric in evaluator.metrics:
        result = _evaluate(evaluator, designs, [metric.name])
        _check_names(
            f"asked for {metric.name!r} alone, evaluate", set(result.metrics), {metric.name}
        )
        _check_same("a metric asked for alone must equal itself among all", whole, result, everyone)
    nothing = _evaluate(evaluator, designs, [])
    _check_names("asked for no metric, evaluate", set(nothing.metrics), set())


def _copied(arrays: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    return {name: values.copy() for name, values in arrays.items()}


def _check_purity(evaluator: Evaluator, designs: Columns, whole: Evaluation) -> None:
    everyone = np.arange(_length(designs))
    second = _evaluate(evaluator, designs)
    _check_same("evaluate must give the same for the same designs", whole, second, everyone)
    for arrays in (second.metrics, second.violations):
        for values in arrays.values():
            if values.flags.writeable:
                values[:] = -1.0
    third = _evaluate(evaluator, designs)
    _check_same("writing into a result must not change a later one", whole, third, everyone)


def _check_batches(evaluator: Evaluator, designs: Columns, whole: Evaluation, most: int) -> None:
    n = _length(designs)
    everyone = np.arange(n)
    orders = [everyone[::-1], everyone[n // 3 :], np.concatenate([everyone, everyone])]
    orders += [np.array([i]) for i in np.unique(np.linspace(0, n - 1, min(n, most)).astype(int))]
    for positions in orders:
        part = _evaluate(evaluator, _take(designs, positions))
        _check_evaluation(evaluator, part, len(positions))
        sentence = "a design's result must not depend on its batch or on its place in it"
        _check_same(sentence, whole, part, positions)
        _check_names("in every batch, evaluate", set(part.violations), set(whole.violations))


def _check_known_violations(evaluator: Evaluator, designs: Columns, whole: Evaluation) -> None:
    before = _copy(designs)
    try:
        known = dict(evaluator.known_violations(designs))
    except Exception as error:
        raise AssertionError(
            f"known_violations raised {type(error).__name__} ({error})."
        ) from error
    _require(_same_columns(before, designs), "known_violations changed the designs")
    n = _length(designs)
    _check_arrays("known violation", known, n)
    for name, values in known.items():
        _require(not np.isnan(values).any(), f"known violation {name!r} must be a number, got NaN")
    both = {name: values for name, values in known.items() if name in whole.violations}
    _check_same(
        "a violation known before evaluation must be the one that evaluate reports",
        whole,
        Evaluation({}, both, whole.failures),
        np.arange(n),
    )


def _check_provenance(evaluator: Evaluator) -> None:
    try:
        texts = [_to_json(evaluator.provenance()) for _ in range(2)]
    except (TypeError, ValueError) as error:
        raise AssertionError(f"provenance must be plain JSON values: {error}.") from error
    _require(texts[0] == texts[1], "provenance must be the same at every call")
    _require(
        json.loads(texts[0]) == evaluator.provenance(),
        "provenance must read back from JSON as it is: text keys, lists, no tuples",
    )


def _to_json(value: object) -> str:
    return json.dumps(value, sort_keys=True, allow_nan=False)


def _check_explanation(
    evaluator: Evaluator, explains: Explains, designs: Columns, whole: Evaluation
) -> None:
    done = _done(whole, _length(designs))
    if not len(done):
        return
    positions = done[:1]
    told = explains.explain(_take(designs, positions))
    _check_names("explain", set(told.metrics), {metric.name for metric in evaluator.metrics})
    for name, value in (*told.metrics.items(), *told.violations.items()):
        source = whole.metrics if name in told.metrics else whole.violations
        _require(name in source, f"explain reports {name!r}, which evaluate does not")
        expected = float(source[name][positions[0]])
        _require(
            value == expected or (np.isnan(value) and np.isnan(expected)),
            f"explain must report the metrics of evaluate, but {name!r} is {value} and {expected}",
        )
    try:
        json.dumps([*told.operators, *told.levels, *told.power, *told.notes])
    except (TypeError, ValueError) as error:
        raise AssertionError(f"the rows of explain must be plain JSON values: {error}.") from error


def _check_bounds(
    evaluator: Evaluator, bounds: Bounds, designs: Columns, whole: Evaluation
) -> None:
    """No design beats its best case, whatever is undecided; equal keys mean equal results."""
    order = [name for name in bounds.undecided_parameters if name in designs]
    unknown = set(order) - evaluator.required_parameters - evaluator.optional_parameters
    _require(not unknown, f"undecided_parameters names {sorted(unknown)}, which are not declared")
    for level in range(len(order) + 1):
        decided = {name: item for name, item in designs.items() if name not in order[level:]}
        undecided = {name: _possible(designs[name]) for name in order[level:]}
        names = [metric.name for metric in evaluator.metrics]
        best = bounds.best_case(decided, undecided, names)
        _check_arrays("best case of metric", best, _length(designs))
        for metric in evaluator.metrics:
            if metric.name in best:
                _check_not_beaten(metric, best[metric.name], whole, order[level:])
    for name in order:
        _check_interchangeable(evaluator, bounds, designs, name)


def _possible(column: Column) -> tuple[Value, ...]:
    """Every value, and absence if it occurs."""
    return (*column.values, None) if (column.codes < 0).any() else column.values


def _check_not_beaten(
    metric: Metric, best: FloatArray, whole: Evaluation, undecided: list[str]
) -> None:
    values = whole.metrics[metric.name]
    beaten = metric.sign * values < metric.sign * best
    for position in np.flatnonzero(beaten)[:1].tolist():
        _require(
            False,
            f"no design may beat its best case, but with {undecided or 'nothing'} undecided, "
            f"{metric.name!r} of design {position} is {float(values[position])!r} and its best "
            f"case {float(best[position])!r}",
        )


def _check_interchangeable(
    evaluator: Evaluator, bounds: Bounds, designs: Columns, name: str
) -> None:
    column = designs[name]
    keys = list(bounds.interchangeable(name, column.values))
    _require(
        len(keys) == len(column.values),
        f"interchangeable must give one key for each of the {len(column.values)} values of "
        f"{name!r}, got {len(keys)}",
    )
    everyone = np.arange(_length(designs))
    first = np.array([*(keys.index(key) for key in keys), -1])
    other = _evaluate(evaluator, {**designs, name: Column(column.values, first[column.codes])})
    same = _evaluate(evaluator, designs)
    _check_same(f"interchangeable values of {name!r} must give the same", same, other, everyone)
