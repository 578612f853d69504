"""Designs as numbers of about 0 to 1, for models of the objectives.

Numbers are scaled over their values, by logarithm where the parameter says so; tuples give the
logarithm of each entry and of the product; other categories one column per value. A repeated
part gives, for each value of its first member, how much of it there is over all repetitions,
so that the place of a repetition does not matter. Derived quantities that are marked as
features are added by their logarithm.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial

import numpy as np

from codesign.base.columns import FloatArray, IntArray
from codesign.base.records import frozen
from codesign.space.expressions import format_value
from codesign.space.parameters import Parameter, RepeatedPart, numbers_of
from codesign.space.structure import Structure


@frozen
class Feature:
    """A number of every design.

    Attributes:
        group: The same for the values of one category, of which each is told by one feature.
        evaluate: (n,) values of (n, d) canonical rows.
    """

    name: str
    group: Hashable
    evaluate: Callable[[IntArray], FloatArray]


def _looked_up(column: int, table: FloatArray, rows: IntArray) -> FloatArray:
    """A number that depends on one parameter, looked up by its code."""
    return table[rows[:, column]]


def _tabulated(name: str, column: int, table: FloatArray) -> Feature:
    return Feature(name, name, partial(_looked_up, column, table))


def _amount(part: RepeatedPart, table: FloatArray, rows: IntArray) -> FloatArray:
    """Amount of one category, stated for each variant, over all repetitions of a part."""
    return np.asarray(table[part.ranks_in(rows)].sum(axis=1))


def _logarithm(
    structure: Structure, name: str, low: float, high: float, rows: IntArray
) -> FloatArray:
    """The logarithm of a derived quantity, scaled from its range over the space."""
    return (signed_log(structure.batch(rows)[name]) - low) / (high - low)


def signed_log(values: FloatArray) -> FloatArray:
    """Logarithms of 1 plus the sizes of values, with the signs of the values."""
    return np.sign(values) * np.log1p(np.abs(values))


def features_of(
    structure: Structure, spread: Callable[[frozenset[int]], IntArray]
) -> tuple[Feature, ...]:
    """The features of a space.

    Args:
        spread: Designs that cover what the parameters in the given columns can be; they give
            the range of each derived quantity.
    """
    features: list[Feature] = []
    for column, parameter in enumerate(structure.parameters):
        repeated_part = structure.columns_in_parts.get(column)
        if repeated_part is not None and column == repeated_part.columns[0, 0]:
            features += _amounts(structure, repeated_part)
        if repeated_part is None or column not in repeated_part.columns[:, 0]:
            features += _parameter_features(column, parameter)
    for name, quantity in structure.derived.items():
        if not quantity.feature:
            continue
        values = signed_log(structure.batch(spread(structure.roots(frozenset({name}))))[name])
        low = float(values.min())
        high = float(values.max())
        if np.isfinite([low, high]).all() and high > low:
            features.append(Feature(name, name, partial(_logarithm, structure, name, low, high)))
    return tuple(features)


def _parameter_features(column: int, parameter: Parameter) -> Iterator[Feature]:
    name = parameter.name
    values = parameter.values
    if parameter.optional or (parameter.when and not parameter.part):
        present = np.append(np.ones(len(values)), 0.0)
        yield _tabulated(f"{name} present", column, present)
    if len(values) == 1:
        return
    if parameter.is_numeric:
        yield _tabulated(name, column, _number_table(parameter))
    elif parameter.n_entries:
        yield from _entries(column, parameter)
    else:
        for code, value in enumerate(values):
            table = np.zeros(len(values) + 1)
            table[code] = 1.0
            evaluate = partial(_looked_up, column, table)
            yield Feature(f"{name} {format_value(value)}", column, evaluate)


def groups_of(features: Sequence[Feature]) -> IntArray:
    """(f,) numbers from 0 without a gap: the same for the values of one category.

    Nobody can say in advance which value of a category differs most from the others, so a model
    that treats them alike has one number to learn in place of many.
    """
    numbers: dict[Hashable, int] = {}
    groups = [numbers.setdefault(feature.group, len(numbers)) for feature in features]
    return np.array(groups, np.int64)


def _entries(column: int, parameter: Parameter) -> Iterator[Feature]:
    tuples = [value for value in parameter.values if isinstance(value, tuple)]
    array = np.array(tuples, np.float64)
    is_log = bool((array > 0).all())
    lists = {f"{parameter.name}[{entry}]": array[:, entry] for entry in range(array.shape[1])}
    if array.shape[1] > 1:
        lists = {f"{parameter.name} product": array.prod(axis=1)} | lists
    for name, numbers in lists.items():
        if numbers.min() < numbers.max():
            yield _tabulated(name, column, _scaled(numbers, is_log))


def _number_table(parameter: Parameter) -> FloatArray:
    return _scaled(np.array(numbers_of(parameter.values)), parameter.scale == "log")


def _scaled(numbers: FloatArray, is_log: bool) -> FloatArray:
    """(v + 1,) numbers on a scale from 0 to 1; 0 for absence."""
    array = np.log(numbers) if is_log else numbers
    return np.append((array - array.min()) / (array.max() - array.min()), 0.0)


def _amounts(structure: Structure, repeated_part: RepeatedPart) -> Iterator[Feature]:
    """Amounts: in one repetition 1/2 for the least of a category and 1 for the most, over all of
    them 0 to 1."""
    first, *others = (structure.parameters[column] for column in repeated_part.columns[0].tolist())
    sizes = [
        _number_table(parameter)[repeated_part.variants[:, member]]
        for member, parameter in enumerate(others, 1)
        if parameter.is_numeric and len(parameter.values) > 1
    ]
    amount = (1.0 + np.mean(sizes, axis=0)) / 2 if sizes else np.ones(len(repeated_part.variants))
    for code, value in enumerate(first.values):
        is_value = repeated_part.variants[:, 0] == code
        table = np.where(is_value, amount / len(repeated_part.columns), 0.0)
        name = f"{repeated_part.name} {format_value(value)}"
        yield Feature(name, name, partial(_amount, repeated_part, table))
