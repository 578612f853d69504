"""Helpers of the clauses of an evaluator's contract; see ``conformance.py``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from codesign.base.columns import (
    ArrayDict,
    Arrays,
    Column,
    Columns,
    Fields,
    IntArray,
    n_designs,
    taken,
)
from codesign.base.evaluator import Evaluation


def require(condition: object, sentence: str) -> None:
    """Raises AssertionError with the sentence unless the condition holds."""
    if not condition:
        raise AssertionError(sentence + ".")


def copied(designs: Columns) -> Columns:
    """The same designs in memory of their own."""
    return {name: Column(column.values, column.codes.copy()) for name, column in designs.items()}


def same_columns(a: Columns, b: Columns) -> bool:
    """Whether two batches are equal."""
    return a.keys() == b.keys() and all(
        a[name].values == b[name].values and np.array_equal(a[name].codes, b[name].codes)
        for name in a
    )


def finished(result: Evaluation, n: int) -> IntArray:
    """Positions of the designs that did not fail."""
    return np.setdiff1d(np.arange(n), np.fromiter(result.failures, np.int64))


def answer(method: str, noun: str, ask: Callable[[Columns], Arrays], designs: Columns) -> ArrayDict:
    """The (n,) arrays by name that a method gives for designs, in memory of their own.

    Requires that the method takes the designs and leaves them as they are.

    Args:
        method: Name of the method, for messages.
        kind: Kind of quantity that each array holds, for messages.
        ask: Calls the method.
    """
    before = copied(designs)
    try:
        arrays = dict(ask(designs))
    except Exception as error:
        raise AssertionError(f"{method} raised {type(error).__name__} ({error}).") from error
    require(same_columns(before, designs), f"{method} changed the designs that it was given")
    check_arrays(noun, arrays, n_designs(designs))
    return {name: values.copy() for name, values in arrays.items()}


def check_names(who: str, got: set[str], expected: set[str]) -> None:
    """Requires that all that is expected was got, and nothing else."""
    missing = sorted(expected - got)
    extra = sorted(got - expected)
    require(not missing, f"{who} must report all that it should, but leaves out {missing}")
    require(not extra, f"{who} must report only what it should, but also reports {extra}")


def check_arrays(noun: str, arrays: Fields, n: int) -> None:
    """Requires (n,) float64 arrays under names."""
    for name, values in arrays.items():
        require(isinstance(name, str) and name, f"a {noun} must have a name, got {name!r}")
        shape = getattr(values, "shape", None)
        dtype = getattr(values, "dtype", None)
        require(
            isinstance(values, np.ndarray) and shape == (n,),
            f"{noun} {name!r} must be an array of shape ({n},), got {type(values).__name__} of "
            f"shape {shape}",
        )
        require(dtype == np.float64, f"{noun} {name!r} must be an array of float64, got {dtype}")


def check_same(
    sentence: str, reference: Evaluation, result: Evaluation, positions: IntArray
) -> None:
    """Requires that ``part`` is ``reference`` at ``positions``, to the last digit."""
    for place, position in enumerate(positions.tolist()):
        require(
            (position in reference.failures) == (place in result.failures),
            f"{sentence}: design {position} fails in one and not in the other",
        )
    here = finished(result, len(positions))
    pairs = [(result.metrics, reference.metrics), (result.violations, reference.violations)]
    for smaller, larger in pairs:
        for name, values in smaller.items():
            require(name in larger, f"{sentence}: only one of them reports {name!r}")
            expected = larger[name][positions]
            same = (values == expected) | (np.isnan(values) & np.isnan(expected))
            for place in here[~same[here]][:1].tolist():
                require(
                    False,
                    f"{sentence}: {name!r} of design {positions[place]} is "
                    f"{float(values[place])!r} and {float(expected[place])!r}",
                )


def check_function(
    method: str,
    ask: Callable[[Columns], Evaluation],
    designs: Columns,
    reference: Evaluation,
    n_single: int,
) -> None:
    """Require that results depend on the design alone and share no memory with later results.

    Args:
        ask: Calls the method, for any of the designs.
        n_single: Largest number of designs that are asked for alone.
    """
    n = n_designs(designs)
    everyone = np.arange(n)
    again = ask(designs)
    check_same(f"{method} must be the same for the same designs", reference, again, everyone)
    for values in (*again.metrics.values(), *again.violations.values()):
        if values.flags.writeable:
            values[:] = -1.0
    third = ask(designs)
    check_same(f"{method} must not change by writing into a result", reference, third, everyone)
    batches = [everyone[::-1], everyone[n // 3 :], np.concatenate([everyone, everyone])]
    alone = np.unique(np.linspace(0, n - 1, min(n, n_single)).astype(int))
    for positions in (*batches, *alone[:, None]):
        result = ask(taken(designs, positions))
        for got, expected in (
            (result.metrics, reference.metrics),
            (result.violations, reference.violations),
        ):
            check_names(f"in every batch, {method}", set(got), set(expected))
        sentence = f"{method} of a design must not depend on its batch or on its place in it"
        check_same(sentence, reference, result, positions)
