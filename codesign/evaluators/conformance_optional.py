"""Checks of the optional methods of an evaluator, as a part of ``conformance.py``'s check.

A broken hint misleads a search and a broken bound loses designs of an exact front, both without a
word; so both are held to the results of ``evaluate`` here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import numpy as np

from codesign.base.columns import (
    Arrays,
    BoolArray,
    Column,
    Columns,
    Domains,
    Strings,
    ValueTuple,
    n_designs,
    taken,
)
from codesign.base.evaluator import Evaluation, Evaluator
from codesign.base.metrics import Metric
from codesign.base.records import drop_keys
from codesign.evaluators.clauses import (
    answer,
    check_arrays,
    check_function,
    check_names,
    check_same,
    finished,
    require,
)

_N_BOXES = 24
"""Random boxes for each number of undecided parameters. [ours]"""
_N_SINGLE = 8
"""Largest number of designs that are asked for alone. [ours]"""


def check_optional(
    evaluator: Evaluator, designs: Columns, reference: Evaluation, admissible: Columns
) -> None:
    """Check each optional method that the evaluator offers.

    Args:
        evaluator: An evaluator that keeps the contract of every evaluator.
        reference: Results of the evaluator on that batch.
        admissible: The designs that keep every limit known before evaluation; hints are for these
            designs alone.

    Raises:
        AssertionError: With the first clause that does not hold, in one sentence.
    """
    if evaluator.offers("explain"):
        _check_explanation(evaluator, designs, reference)
    if evaluator.offers("features"):
        _check_hint("features", "feature", evaluator.features, admissible)
    if evaluator.offers("predict"):
        _check_predictions(evaluator, evaluator.metric_names, admissible)
    is_noisy = evaluator.is_noisy
    require(isinstance(is_noisy, bool), f"is_noisy must be true or false, got {is_noisy!r}")
    if evaluator.offers("best_case"):
        undecided = evaluator.undecided_parameters
        require(
            isinstance(undecided, tuple) and len(set(undecided)) == len(undecided),
            f"undecided_parameters must be a tuple of different names, got {undecided!r}",
        )
        unknown = sorted(
            set(undecided) - evaluator.required_parameters - evaluator.optional_parameters
        )
        require(not unknown, f"undecided_parameters names {unknown}, which are not declared")
        order = [name for name in undecided if name in designs]
        rng = np.random.default_rng(0)
        for level in range(len(order) + 1):
            every = {name: _possible(designs[name]) for name in order[level:]}
            boxes = [_around(designs, [*every], rng) for _ in range(_N_BOXES if every else 0)]
            # Alone, all metrics with nothing decided, and in turn with more.
            _check_best_case(
                evaluator, designs, reference, every, slice(level % 4, None, 4 if level else 1)
            )
            for values in boxes:
                _check_best_case(evaluator, designs, reference, values, slice(0))
        for name in designs:
            _check_interchangeable(evaluator, designs, reference, name)
        if evaluator.offers("superseded"):
            _check_superseded(evaluator, designs, reference)


def _check_explanation(evaluator: Evaluator, designs: Columns, reference: Evaluation) -> None:
    done = finished(reference, n_designs(designs))
    if not len(done):
        return
    explanation = evaluator.explain(taken(designs, done[:1]))
    require(explanation is not None, "explain must give an account of every design, but gave None")
    assert explanation is not None  # for the type checker
    check_names("explain", set(explanation.metrics), set(evaluator.metric_names))
    for name, value in (*explanation.metrics.items(), *explanation.violations.items()):
        source = reference.metrics if name in explanation.metrics else reference.violations
        require(name in source, f"explain reports {name!r}, which evaluate does not")
        expected = float(source[name][done[0]])
        require(
            value == expected or (np.isnan(value) and np.isnan(expected)),
            f"explain must report the metrics of evaluate, but {name!r} is {value} and {expected}",
        )
    try:
        json.dumps(
            [*explanation.operators, *explanation.levels, *explanation.power, *explanation.notes]
        )
    except (TypeError, ValueError) as error:
        raise AssertionError(f"the rows of explain must be plain JSON values: {error}.") from error


# Hints


def _check_hint(
    method: str, noun: str, ask: Callable[[Columns], Arrays], designs: Columns
) -> Arrays:
    """Check numbers about designs in advance of their results.

    They are finite, have the same names always, and are a function of the design alone.
    """
    n = n_designs(designs)
    require(n, f"the check itself needs a design within the known limits to ask for {method}")
    reference = answer(method, noun, ask, designs)
    for name, values in reference.items():
        for position in np.flatnonzero(~np.isfinite(values))[:1].tolist():
            require(
                False,
                f"{method} must give finite numbers, but {name!r} of design {position} "
                f"of those within the known limits is {float(values[position])!r}",
            )

    def answered(some: Columns) -> Evaluation:
        arrays = ask(some)
        check_arrays(noun, arrays, n_designs(some))
        return Evaluation(arrays)

    check_function(method, answered, designs, Evaluation(reference), _N_SINGLE)
    return reference


def _check_predictions(evaluator: Evaluator, names: Strings, designs: Columns) -> None:
    """Each metric that is predicted is predicted alone as with the others."""

    def ask(metric_names: Strings) -> Callable[[Columns], Arrays]:
        return lambda some: evaluator.predict(some, metric_names)

    noun = "prediction of metric"
    predictions = _check_hint("predict", noun, ask(names), designs)
    check_names("predict", set(predictions), set(predictions) & set(names))
    for name in names:
        alone = answer("predict", noun, ask([name]), designs)
        check_names(f"asked for {name!r} alone, predict", set(alone), {name} & set(predictions))
        check_same(
            "a prediction asked for alone must equal itself among all",
            Evaluation(predictions),
            Evaluation(alone),
            np.arange(n_designs(designs)),
        )


# Bounds


def _possible(column: Column) -> ValueTuple:
    """Every value, and absence if it occurs."""
    return (*column.values, None) if (column.codes < 0).any() else column.values


def _around(designs: Columns, names: Strings, rng: np.random.Generator) -> dict[str, ValueTuple]:
    """Values of a random box around a random design: its own, and any of the others."""
    center = int(rng.integers(n_designs(designs)))
    values = {}
    for name in names:
        value_of_center = designs[name].decoded()[center]
        share = rng.random()
        values[name] = tuple(
            value
            for value in _possible(designs[name])
            if value == value_of_center or rng.random() < share
        )
    return values


def _check_best_case(
    evaluator: Evaluator,
    designs: Columns,
    reference: Evaluation,
    values: Domains,
    alone: slice,
) -> None:
    """Check that no design whose undecided values are among these beats its best case.

    Args:
        values: Values of each undecided parameter.
        alone: Metrics whose best case is asked for without the others, too, and must be the same.
    """
    names = evaluator.metric_names
    inside = np.ones(n_designs(designs), bool)
    for name, among in values.items():
        is_among = np.array([value in among for value in (*designs[name].values, None)])
        inside &= is_among[designs[name].codes]
    positions = np.flatnonzero(inside)
    decided = taken(drop_keys(designs, values), positions)

    def best_case(metric_names: Strings) -> Arrays:
        return answer(
            "best_case",
            "best case of metric",
            lambda some: evaluator.best_case(some, values, metric_names),
            decided,
        )

    best = best_case(names)
    extra = sorted(set(best) - set(names))
    require(not extra, f"best_case reports {extra}, which it was not asked for")
    for metric in evaluator.metrics:
        if metric.name not in best:
            continue
        bounds = best[metric.name]
        results = reference.metrics[metric.name][positions]
        require(
            not np.isnan(bounds).any(),
            f"the best case of {metric.name!r} must be a number, got NaN: it would leave designs "
            "out that it does not bound",
        )
        beaten = metric.flipped(results) < metric.flipped(bounds)
        for row in np.flatnonzero(beaten)[:1].tolist():
            words = {name: list(among) for name, among in values.items()} or "nothing"
            require(
                False,
                f"no design may beat its best case, but with {words} undecided, "
                f"{metric.name!r} of design {positions[row]} is {float(results[row])!r} and its "
                f"best case {float(bounds[row])!r}",
            )
    for name in list(best)[alone]:
        by_itself = best_case([name])
        check_names(f"asked for {name!r} alone, best_case", set(by_itself), {name})
        check_same(
            "a best case asked for alone must equal itself among all",
            Evaluation(best),
            Evaluation(by_itself),
            np.arange(len(positions)),
        )


def _check_interchangeable(
    evaluator: Evaluator, designs: Columns, reference: Evaluation, name: str
) -> None:
    column = designs[name]
    try:
        keys = list(evaluator.interchangeable(name, column.values))
        n_different = len(set(keys))
    except Exception as error:
        raise AssertionError(
            f"interchangeable raised {type(error).__name__} ({error}) for {name!r}: it must give "
            "a hashable key for each value of every parameter."
        ) from error
    require(
        len(keys) == len(column.values),
        f"interchangeable must give one key for each of the {len(column.values)} values of "
        f"{name!r}, got {len(keys)}",
    )
    if n_different == len(keys):
        return
    first = np.array([*(keys.index(key) for key in keys), -1])
    check_same(
        f"interchangeable values of {name!r} must give the same",
        reference,
        evaluator.evaluate({**designs, name: Column(column.values, first[column.codes])}, None),
        np.arange(n_designs(designs)),
    )


def _check_superseded(evaluator: Evaluator, designs: Columns, reference: Evaluation) -> None:
    """Instead of a value that is superseded, some other value of its parameter is better."""
    values = {name: column.values for name, column in designs.items()}
    for name, beaten in evaluator.superseded(values, evaluator.metric_names).items():
        require(
            len(beaten) == len(values[name]),
            f"superseded must say of each of the {len(values[name])} values of {name!r} whether "
            f"it is, got {len(beaten)}",
        )
        is_better = ~np.isin(designs[name].codes, np.flatnonzero(beaten))
        is_better[list(reference.failures)] = True
        for code in np.flatnonzero(~np.asarray(beaten, bool)).tolist():
            column = Column(values[name], np.full(n_designs(designs), code, np.int64))
            trial = evaluator.evaluate({**designs, name: column}, None)
            is_better |= _beats(trial, reference, evaluator.metrics)
        require(
            bool(is_better.all()),
            f"a superseded value of {name!r} must be worse than some value that is not, whatever "
            f"the rest of the design, but none is better for {int((~is_better).sum())} designs",
        )


def _beats(trial: Evaluation, reference: Evaluation, metrics: Sequence[Metric]) -> BoolArray:
    """(n,) whether all metrics and violations are as good, and some metric is better."""
    pairs = [
        (metric.flipped(trial.metrics[metric.name]), metric.flipped(reference.metrics[metric.name]))
        for metric in metrics
    ]
    pairs += [(trial.violations[name], values) for name, values in reference.violations.items()]
    absent = [np.isnan(new) & np.isnan(old) for new, old in pairs]
    no_worse = np.all([new <= old for new, old in pairs] | np.array(absent), axis=0)
    return np.asarray(no_worse & np.any([new < old for new, old in pairs], axis=0))
