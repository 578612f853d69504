"""Parameters of a design space and the parts that repeat them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import field
from typing import Any, Literal, TypeGuard

import numpy as np

from codesign.base.columns import (
    FloatArray,
    FloatList,
    IntArray,
    IntegerSequence,
    StringTuple,
    Value,
    ValueTuple,
)
from codesign.base.errors import InputError, describe_unknown
from codesign.base.records import frozen
from codesign.base.units import DIMENSIONLESS, format_quantity, parse_unit, split_quantity
from codesign.space.expressions import format_value, position_of

Kind = Literal["categorical", "ordinal", "integer"]
Scale = Literal["linear", "log"]

MAX_LEVELS = 65_536
"""Values of one parameter."""

MAX_VARIANTS = 200_000
"""Variants of one repeated part: its members' levels, multiplied."""


@frozen
class Parameter:
    """One choice of a design.

    Attributes:
        name: As evaluators read it.
        kind: Categorical values have no order; ordinal and integer ones are increasing numbers.
        values: What it may be; a row of a batch holds a position in it. Quantities are in
            coherent SI units.
        optional: It may also be absent.
        scale: How its numbers are spaced for models: evenly, or by their logarithm.
        when: The condition on which it is present; always if empty.
        unit: The unit of its values, as the file wrote it first.
        catalog: The catalog that its values are names in.
        part: The repeated part that it belongs to.
        declared: All values of the file, also those that fixing has taken away.
    """

    name: str
    kind: Kind
    values: ValueTuple
    optional: bool = False
    scale: Scale = "linear"
    when: str = ""
    unit: str = ""
    catalog: str = ""
    part: str = ""
    declared: ValueTuple = ()
    description: str = ""

    @property
    def is_numeric(self) -> bool:
        """Whether every value is a number."""
        return all(map(is_number, self.declared or self.values))

    @property
    def n_entries(self) -> int:
        """Length of its tuples, if all values are tuples of one length; else 0."""
        lengths = {len(v) if isinstance(v, tuple) else 0 for v in self.declared or self.values}
        return lengths.pop() if len(lengths) == 1 else 0

    def code_of(self, value: object) -> int:
        """The position of a value, which may also be written as text.

        Raises:
            InputError: Not a value of this parameter; the nearest is offered.
        """
        for candidate in _readings(value, self.unit):
            position = position_of(candidate, self.values)
            if position is None and isinstance(candidate, float):  # off by rounding, read back
                near = (
                    is_number(choice) and math.isclose(choice, candidate, rel_tol=1e-12)
                    for choice in self.values
                )
                position = next((i for i, is_near in enumerate(near) if is_near), None)
            if position is not None:
                return position
        choices = [self.show(choice) for choice in self.values]
        value_text = self.show(value) if _is_value(value) else repr(value)
        raise InputError(describe_unknown(f"value of {self.name}", value_text, choices))

    def show(self, value: Any) -> str:
        """A value as a file would write it."""
        if self.unit and is_number(value):
            return format_quantity(value, self.unit, digits=12)
        return format_value(value)


_INTEGER = re.compile(r"\d{1,15}", re.ASCII)
_INTEGERS = rf"{_INTEGER.pattern}(?:\s*%s\s*{_INTEGER.pattern})+"
_TUPLE = re.compile(rf"{_INTEGERS % '[x×]'}|\[\s*{_INTEGERS % ','}\s*\]", re.ASCII)


def numbers_of(values: Iterable[Value]) -> FloatList:
    """The values of a numeric parameter as floats.

    Raises:
        TypeError: One is not a number.
    """
    numbers = []
    for value in values:
        if not is_number(value):
            raise TypeError(f"expected a number, got {value!r}")
        numbers.append(float(value))
    return numbers


def is_number(value: object) -> TypeGuard[int | float]:
    """True for a number that is no truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_value(value: object) -> TypeGuard[Value]:
    return value is None or isinstance(value, bool | int | float | str | tuple)


def _readings(value: object, unit: str) -> Iterator[Value]:
    """Possible meanings of a user's value: the value itself, a quantity, a tuple like ``64x128`` or
    ``[64, 128]``."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, list):
        value = tuple(value)
    if _is_value(value):
        yield value
    if isinstance(value, str):
        if _TUPLE.fullmatch(value):
            yield tuple(map(int, _INTEGER.findall(value)))
        if value in ("true", "false"):
            yield value == "true"
        with suppress(InputError):
            number, got, _ = split_quantity(value)
            if got.exponents == parse_unit(unit).exponents:
                yield number


def read_values(raw: Sequence[object], name: str) -> tuple[ValueTuple, str]:
    """The values of a parameter as a file writes them, and their unit.

    Raises:
        InputError: An empty list, a value of a kind that cannot be one, two equal values,
            numbers of different dimensions.
    """
    if not raw:
        raise InputError("the list of values is empty")
    if len(raw) > MAX_LEVELS:
        raise InputError(f"{len(raw)} values; at most {MAX_LEVELS}")
    read = [_read_value(value, name) for value in raw]
    units = {unit: parse_unit(unit).exponents for _, unit in read}
    if len(set(units.values())) > 1:
        listed = ", ".join(repr(unit or "no unit") for unit in units)
        raise InputError(f"the values differ in dimension: {listed}")
    values = tuple(value for value, _ in read)
    for position, value in enumerate(values):
        if position_of(value, values[:position]) is not None:
            raise InputError(f"{format_value(value)} is listed twice")
    return values, next(iter(units))


def _read_value(raw: object, name: str) -> tuple[Value, str]:
    if isinstance(raw, list) and raw and all(type(entry) is int for entry in raw):
        return tuple(raw), ""
    if isinstance(raw, bool) or (isinstance(raw, int | float) and math.isfinite(raw)):
        return raw, ""
    if isinstance(raw, str) and raw:
        try:
            number, unit, text = split_quantity(raw)
        except InputError:
            if re.match(r"[-+]?\.?\d+\.?\d*\s", raw):
                raise
            return _checked_word(raw, name), ""
        if unit == DIMENSIONLESS and not text:
            return _checked_word(raw, name), ""
        return number, text
    raise InputError(
        f"expected names, numbers, quantities, true/false or lists of integers, got {raw!r}"
    )


def _checked_word(word: str, name: str) -> str:
    if word == "none":
        raise InputError(f"'none' means absent; to allow it, write 'optional: true' for {name}")
    return word


@frozen
class RepeatedPart:
    """Parameters that occur several times, in an order that has no meaning of its own.

    Two rows with the same parts in another order are one design: the canonical one has the
    parts by falling order key, and the absent ones last.

    Attributes:
        members: Names of one repetition's parameters; the first says whether it is there.
        columns: (k, p) position of each repetition's parameters in a row.
        minimum: Repetitions that must be there.
        order: Expressions over the members, the largest first; ties by the next, and at last
            by the levels themselves.
        variants: (v, p) every content of one repetition in canonical order; the last is absence.
        ranks: (r,) position in ``variants`` by the members' mixed-radix code.
        strides: (p,) weights of that code.
        legal: Ranks whose members are present as they must be.
    """

    name: str
    members: StringTuple
    columns: IntArray
    minimum: int
    order: StringTuple
    variants: IntArray = field(repr=False)
    ranks: IntArray = field(repr=False)
    strides: IntArray = field(repr=False)
    legal: IntArray = field(repr=False)

    @property
    def absent(self) -> int:
        """The rank of an absent repetition."""
        return len(self.variants) - 1

    def ranks_in(self, rows: IntArray) -> IntArray:
        """(n, k) rank of each repetition."""
        codes: IntArray = (rows[:, self.columns] + 1) @ self.strides
        return self.ranks[codes]

    def sort(self, rows: IntArray) -> None:
        """Bring the repetitions of each row into canonical order, in place."""
        rows[:, self.columns] = self.variants[np.sort(self.ranks_in(rows), axis=1)]


def contents_of(levels: IntegerSequence) -> IntArray:
    """(r, p) every combination of codes -1 to level-1, in the order of the mixed-radix code."""
    total = math.prod(level + 1 for level in levels)
    if total > MAX_VARIANTS:
        raise InputError(f"{total:,} variants of one repetition; at most {MAX_VARIANTS:,}")
    grid = np.indices([level + 1 for level in levels], dtype=np.int64)
    return grid.reshape(len(levels), -1).T - 1


def repeated_part(
    name: str,
    parameters: Sequence[tuple[str, Parameter]],
    columns: IntArray,
    minimum: int,
    order: StringTuple,
    keys: Sequence[FloatArray],
) -> RepeatedPart:
    """A repeated part with its canonical order worked out.

    Args:
        parameters: Name within the part and parameter of the first repetition.
        columns: (k, p) position of each repetition's parameters in a row.
        minimum: Repetitions that must be there.
        order: Text of the order keys.
        keys: (r,) value of each order key for each content, as :func:`contents_of` lists them.
    """
    levels = [len(parameter.values) for _, parameter in parameters]
    contents = contents_of(levels)
    present = np.flatnonzero(contents[:, 0] >= 0)
    codes = [contents[present, column] for column in reversed(range(len(levels)))]
    falling = [-key[present] for key in reversed(keys)]
    ordered = present[np.lexsort([*codes, *falling])]
    ranks = np.full(len(contents), len(ordered), np.int64)
    ranks[ordered] = np.arange(len(ordered))
    variants = np.vstack([contents[ordered], np.full((1, len(levels)), -1)])
    needed = [not (parameter.optional or parameter.when) for _, parameter in parameters]
    needed[0] = False
    is_legal = ~((variants < 0) & np.array(needed)).any(axis=1)
    is_legal[-1] = False
    strides = np.array(
        [math.prod(level + 1 for level in levels[i + 1 :]) for i in range(len(levels))]
    )
    return RepeatedPart(
        name, tuple(short for short, _ in parameters), columns, minimum, order,
        variants, ranks, strides.astype(np.int64), np.flatnonzero(is_legal),
    )  # fmt: skip
