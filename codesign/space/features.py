"""Designs as numbers of about 0 to 1, for models of the objectives.

Numbers are scaled over their values, by logarithm where the parameter says so; tuples give the
logarithm of each entry and of the product; other categories one column per value. A repeated
part gives, for each value of its first member, how much of it there is over all repetitions,
so that the place of a repetition does not matter. Derived quantities that are marked as
features are added by their logarithm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from codesign.base.columns import FloatArray, IntArray
from codesign.space.expressions import format_value
from codesign.space.parameters import Parameter, RepeatedPart, numbers_of
from codesign.space.structure import Structure


@dataclass(frozen=True)
class TableFeature:
    """A number that depends on one parameter, looked up by its code."""

    name: str
    column: int
    table: FloatArray
    is_indicator: bool = False
    """Whether it says no more than that the parameter, a category, has one of its values."""

    def evaluate(self, rows: IntArray) -> FloatArray:
        """(n,) values of canonical rows."""
        return self.table[rows[:, self.column]]


@dataclass(frozen=True)
class AmountFeature:
    """Amount of one category that the repetitions of a part hold together."""

    name: str
    part: RepeatedPart
    table: FloatArray
    """Amount in each variant."""

    def evaluate(self, rows: IntArray) -> FloatArray:
        """(n,) values of canonical rows."""
        return np.asarray(self.table[self.part.ranks_in(rows)].sum(axis=1))


@dataclass(frozen=True)
class DerivedFeature:
    """The logarithm of a derived quantity, scaled from its range over the space."""

    name: str
    structure: Structure
    low: float
    high: float

    def evaluate(self, rows: IntArray) -> FloatArray:
        """(n,) values of canonical rows."""
        values = _log(self.structure.batch(rows)[self.name])
        return (values - self.low) / (self.high - self.low)


Feature = TableFeature | AmountFeature | DerivedFeature


def _log(values: FloatArray) -> FloatArray:
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
        values = _log(structure.batch(spread(structure.roots(frozenset({name}))))[name])
        low, high = float(values.min()), float(values.max())
        if np.isfinite([low, high]).all() and high > low:
            features.append(DerivedFeature(name, structure, low, high))
    return tuple(features)


def _parameter_features(column: int, parameter: Parameter) -> Iterator[TableFeature]:
    name, values = parameter.name, parameter.values
    can_be_absent = parameter.optional or (bool(parameter.when) and not parameter.part)
    if can_be_absent:
        present = np.ones(len(values))
        yield TableFeature(f"{name} present", column, np.append(present, 0.0))
    if len(values) == 1:
        return
    if parameter.is_numeric:
        yield _scaled(name, column, numbers_of(values), parameter.scale == "log")
    elif parameter.n_entries:
        yield from _entries(column, parameter)
    else:
        for code, value in enumerate(values):
            table = np.zeros(len(values) + 1)
            table[code] = 1.0
            yield TableFeature(f"{name} {format_value(value)}", column, table, is_indicator=True)


def groups_of(features: Sequence[Feature]) -> IntArray:
    """(f,) numbers from 0 without a gap: the same for the values of one category.

    Nobody can say in advance which value of a category differs most from the others, so a model
    that treats them alike has one number to learn in place of many.
    """
    numbers: dict[object, int] = {}
    return np.array(
        [
            numbers.setdefault(
                feature.column
                if isinstance(feature, TableFeature) and feature.is_indicator
                else feature.name,
                len(numbers),
            )
            for feature in features
        ],
        dtype=np.int64,
    )


def _entries(column: int, parameter: Parameter) -> Iterator[TableFeature]:
    tuples = [value for value in parameter.values if isinstance(value, tuple)]
    array = np.array(tuples, dtype=np.float64)
    is_log = bool((array > 0).all())
    lists = {f"{parameter.name}[{entry}]": array[:, entry] for entry in range(array.shape[1])}
    if array.shape[1] > 1:
        lists = {f"{parameter.name} product": array.prod(axis=1)} | lists
    for name, numbers in lists.items():
        if numbers.min() < numbers.max():
            yield _scaled(name, column, list(numbers), is_log)


def _scaled(name: str, column: int, numbers: Sequence[float], is_log: bool) -> TableFeature:
    array = np.log(numbers) if is_log else np.asarray(numbers, dtype=np.float64)
    table = (array - array.min()) / (array.max() - array.min())
    return TableFeature(name, column, np.append(table, 0.0))


def _amounts(structure: Structure, repeated_part: RepeatedPart) -> Iterator[AmountFeature]:
    """Amounts: in one repetition 1/2 for the least of a category and 1 for the most, over all of
    them 0 to 1."""
    columns = repeated_part.columns[0]
    first = structure.parameters[int(columns[0])]
    sizes = []
    for member, column in enumerate(columns):
        parameter = structure.parameters[int(column)]
        if member and parameter.is_numeric and len(parameter.values) > 1:
            (scaled,) = (
                feature
                for feature in _parameter_features(0, parameter)
                if not feature.name.endswith(" present")
            )
            sizes.append(scaled.table[repeated_part.variants[:, member]])
    amount = (1.0 + np.mean(sizes, axis=0)) / 2 if sizes else np.ones(len(repeated_part.variants))
    for code, value in enumerate(first.values):
        table = np.where(
            repeated_part.variants[:, 0] == code, amount / len(repeated_part.columns), 0.0
        )
        yield AmountFeature(f"{repeated_part.name} {format_value(value)}", repeated_part, table)
