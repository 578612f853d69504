"""Structure of a design space for a batch: presence, canonical form, quantities, constraints.

A batch of ``n`` designs of ``d`` parameters is an ``(n, d)`` matrix of level codes, -1 where a
parameter is absent. Everything here is a table look-up and a few array operations, never a
loop over designs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property

import numpy as np

from codesign.base.columns import (
    ArrayDict,
    Arrays,
    BoolArray,
    FloatArray,
    FloatDict,
    FloatSequence,
    IntArray,
    IntegerDict,
    StringDict,
)
from codesign.base.records import frozen
from codesign.base.units import Unit, parse_unit
from codesign.space.expressions import PRESENT, Category, Expression
from codesign.space.parameters import Parameter, RepeatedPart, numbers_of


@frozen
class SpaceConstraint:
    """A condition that every design of the space meets.

    Attributes:
        description: Why it holds.
        where: Where the file says so.
    """

    expression: Expression
    description: str = ""
    where: str = ""

    @property
    def text(self) -> str:
        return self.expression.text

    def violation(self, values: Arrays) -> FloatArray:
        """Distance of each design from meeting it; ``<= 0`` meets it."""
        return self.expression.violation(values)


@frozen
class Derived:
    """A named quantity of a design.

    Attributes:
        name: As expressions and reports use it.
        unit: The unit in which it is shown; values are in coherent SI units.
        feature: Whether models of the objectives look at it.
    """

    name: str
    expression: Expression
    unit: str = ""
    feature: bool = False
    description: str = ""


@frozen
class Symbols:
    """Names that expressions may use, and the look-up table behind each name.

    Attributes:
        categories: What each parameter may be compared with.
        parts: For each repeated part, its members' names in each repetition.
        tables: Column of a row, and the value of each level, then of absence.
        constants: Numbers that do not depend on the design.
    """

    units: dict[str, Unit] = field(default_factory=dict)
    categories: dict[str, Category] = field(default_factory=dict)
    parts: dict[str, list[StringDict]] = field(default_factory=dict)
    tables: dict[str, tuple[int, FloatArray]] = field(default_factory=dict)
    constants: FloatDict = field(default_factory=dict)

    def add_parameter(self, column: int, parameter: Parameter) -> None:
        """Name a parameter, its presence and, of a tuple, its entries."""
        name = parameter.name
        values = parameter.values
        self.categories[name] = Category(values, parameter.declared)
        if parameter.is_numeric:
            self.units[name] = Unit(1.0, parse_unit(parameter.unit).exponents)
            self.tabulate(name, column, numbers_of(values))
            self.tabulate(name + PRESENT, column, [1.0] * len(values))
        else:
            self.tabulate(name, column, range(len(values)), absent=-1.0)
        for entry in range(parameter.n_entries):
            self.units[f"{name}[{entry}]"] = Unit(1.0)
            entries = [value[entry] for value in values if isinstance(value, tuple)]
            self.tabulate(f"{name}[{entry}]", column, entries)

    def tabulate(self, key: str, column: int, numbers: FloatSequence, absent: float = 0.0) -> None:
        """Set the number of each level of a parameter, and that of its absence."""
        # Code -1 indexes the last entry, which is therefore the absent one.
        self.tables[key] = (column, np.asarray([*numbers, absent], np.float64))


class RowBatch(Arrays):
    """The named numbers of a batch, each computed when it is asked for, once."""

    def __init__(
        self, rows: IntArray, symbols: Symbols, derived: Mapping[str, Derived] | None = None
    ) -> None:
        self._rows = rows
        self._symbols = symbols
        self._derived = derived or {}
        self._known: ArrayDict = {}

    def __getitem__(self, key: str) -> FloatArray:
        if key not in self._known:
            if key in self._derived:
                value = self._derived[key].expression.evaluate(self)
                self._known[key] = np.broadcast_to(value, (len(self._rows),))
            elif key in self._symbols.constants:
                self._known[key] = np.asarray(self._symbols.constants[key])
            else:
                column, table = self._symbols.tables[key]
                self._known[key] = table[self._rows[:, column]]
        return self._known[key]

    def __iter__(self) -> Iterator[str]:
        yield from (*self._derived, *self._symbols.constants, *self._symbols.tables)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, key: object) -> bool:
        name_tables = (self._derived, self._symbols.constants, self._symbols.tables)
        return any(key in names for names in name_tables)


Step = int | RepeatedPart
"""A parameter whose condition is applied, or a repeated part that is sorted."""


@frozen
class Structure:
    """The resolved definition of a space.

    Attributes:
        parameters: (d) the parameters, in the order of a row's entries.
        conditions: The condition of each column that has one.
        steps: Columns with a condition and parts, each after what it depends on.
        derived: Named quantities, each after those it uses.
        constraints: What every design must meet.
        symbols: Names and look-up tables of expressions.
    """

    parameters: tuple[Parameter, ...]
    parts: tuple[RepeatedPart, ...]
    conditions: Mapping[int, Expression]
    steps: tuple[Step, ...]
    derived: Mapping[str, Derived]
    constraints: tuple[SpaceConstraint, ...]
    symbols: Symbols

    @cached_property
    def n_levels(self) -> IntArray:
        """(d,) number of values of each parameter."""
        return np.array([len(parameter.values) for parameter in self.parameters], np.int64)

    @cached_property
    def column_of(self) -> IntegerDict:
        """Position of each parameter in a row."""
        return {parameter.name: column for column, parameter in enumerate(self.parameters)}

    @cached_property
    def columns_in_parts(self) -> dict[int, RepeatedPart]:
        """The repeated part of each column that belongs to one."""
        return {
            int(column): repeated_part
            for repeated_part in self.parts
            for column in repeated_part.columns.flat
        }

    @cached_property
    def has_absence(self) -> BoolArray:
        """(d,) whether a parameter can be chosen to be absent, conditions apart."""
        return np.array([parameter.optional for parameter in self.parameters], bool)

    def batch(self, rows: IntArray) -> RowBatch:
        """The named numbers of valid rows."""
        return RowBatch(rows, self.symbols, self.derived)

    def canonical(self, rows: IntArray, steps: Sequence[Step] | None = None) -> IntArray:
        """The rows with what is inactive absent and repeated parts in order."""
        rows = np.array(rows, np.int64)
        for step in self.steps if steps is None else steps:
            if isinstance(step, RepeatedPart):
                step.sort(rows)
            else:
                rows[~self._is_active(rows, step), step] = -1
        return rows

    def _is_active(self, rows: IntArray, column: int) -> BoolArray:
        violation = self.conditions[column].violation(self.batch(rows))
        return np.broadcast_to(violation <= 0, (len(rows),))

    def is_complete(self, rows: IntArray) -> BoolArray:
        """(n,) whether canonical rows lack nothing that must be present."""
        complete = np.ones(len(rows), bool)
        for column in np.flatnonzero((rows < 0).any(axis=0)).tolist():
            if column not in self.columns_in_parts:
                complete &= ~self.is_lacking(rows, column)
        for part in self.parts:
            is_there = rows[:, part.columns[:, 0]] >= 0
            complete &= is_there.sum(axis=1) >= part.minimum
            for member, first in enumerate(part.columns[0]):
                if member == 0 or self.parameters[first].optional:
                    continue
                for repetition, place in enumerate(part.columns[:, member].tolist()):
                    lacking = is_there[:, repetition] & (rows[:, place] < 0)
                    if place in self.conditions and lacking.any():
                        lacking &= self._is_active(rows, place)
                    complete &= ~lacking
        return complete

    def is_lacking(self, rows: IntArray, column: int) -> BoolArray:
        """(n,) whether a parameter outside the parts is absent and must not be."""
        lacking = (rows[:, column] < 0) & (not self.has_absence[column])
        if column in self.conditions and lacking.any():
            lacking &= self._is_active(rows, column)
        return lacking

    def violations(self, rows: IntArray) -> ArrayDict:
        """(n,) violation of each constraint by its text."""
        batch = self.batch(rows)
        shape = (len(rows),)
        return {
            rule.text: np.broadcast_to(rule.violation(batch), shape) for rule in self.constraints
        }

    def contains(self, rows: IntArray) -> BoolArray:
        """(n,) whether a row is a design of the space, in canonical form."""
        is_valid = np.asarray(((rows >= -1) & (rows < self.n_levels)).all(axis=1))
        valid = np.where(is_valid[:, None], rows, -1)
        is_valid &= (self.canonical(valid) == valid).all(axis=1)
        is_valid &= self.is_complete(valid)
        for violation in self.violations(valid).values():
            is_valid &= violation <= 0
        return is_valid

    def keys(self, rows: IntArray) -> IntArray:
        """(n,) a number for each of any rows with valid codes, absence included.

        64-bit integers if they can number all rows of the space, else Python's.
        """
        keys = np.zeros(len(rows), np.int64)
        for columns, weights, size in self._key_parts:
            if size is not None:
                keys = keys.astype(object) * size
            keys = keys + (rows[:, columns] + 1) @ weights
        return keys

    @cached_property
    def _key_parts(self) -> list[tuple[slice, IntArray, int | None]]:
        """Columns whose codes make one 64-bit number, its weights, its range if not the first."""
        key_parts = []
        stop = len(self.parameters)
        while stop > 0:
            weights = []
            start = stop
            size = 1
            while start > 0 and size * (int(self.n_levels[start - 1]) + 1) < 2**63:
                start -= 1
                weights.append(size)
                size *= int(self.n_levels[start]) + 1
            stride = size if start else None
            key_parts.append((slice(start, stop), np.array(weights[::-1], np.int64), stride))
            stop = start
        return key_parts[::-1]

    def roots(self, names: frozenset[str]) -> frozenset[int]:
        """Columns that an expression depends on, derived quantities looked through."""
        columns = set()
        pending = list(names)
        seen = set(names)
        while pending:
            name = pending.pop()
            if name in self.derived:
                fresh = self.derived[name].expression.names - seen
                seen |= fresh
                pending += fresh
            elif name in self.symbols.tables:
                columns.add(self.symbols.tables[name][0])
        return frozenset(columns)
