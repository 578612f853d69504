"""The design space as search sees it: batches of integer rows in, everything about them out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from copy import copy
from functools import cached_property

import numpy as np

from codesign.base.columns import (
    ArrayDict,
    Arrays,
    BoolArray,
    Column,
    Fields,
    FloatArray,
    IntArray,
    JsonObject,
    StringList,
    StringTuple,
    Value,
    ValueMap,
)
from codesign.base.errors import InputError, ProblemList, describe_unknown, entry_named
from codesign.base.records import drop_keys, drop_none, select_keys
from codesign.base.units import Unit
from codesign.space.components import Component, components_of
from codesign.space.expression_parser import parse_expression
from codesign.space.expressions import Category, Expression
from codesign.space.features import Feature, features_of, groups_of
from codesign.space.moves import neighbors
from codesign.space.parameters import Parameter
from codesign.space.pools import LinkEnds, Pool
from codesign.space.structure import SpaceConstraint, Structure

_MOST_SPREAD = 1 << 16
"""Designs from which the range of a derived quantity is read."""
_INT64 = 2**63


class DesignSpace:
    """Designs described by parameters, conditions, repeated parts and constraints.

    ``n`` designs are an ``(n, d)`` matrix of level codes: positions in each parameter's values,
    -1 where a parameter is absent. Methods take valid codes and, where they say so, canonical
    rows; :meth:`contains` takes anything. The space is immutable; costly properties are
    computed on first use.

    Args:
        name: The name of its file.
        refix: Builds the space again with other overrides.
        definition: The resolved definition as plain JSON values.

    Attributes:
        designs: The file's named designs, by parameter; None where absent.
        pools: Pools of a system by name; empty for other spaces.
        links: Links between the pools of a system.
        where: Place of a key in the space's file, for messages.
        with_values: Builds the space with other values of a parameter; None without a file.
    """

    def __init__(
        self,
        structure: Structure,
        *,
        name: str,
        source: str,
        description: str,
        refix: Callable[[Fields, str | None], DesignSpace],
        definition: Fields,
    ) -> None:
        self.structure = structure
        self.name = name
        self.source = source
        self.description = description
        self.designs: Mapping[str, ValueMap] = {}
        self.pools: Mapping[str, Pool] = {}
        self.links: tuple[LinkEnds, ...] = ()
        self.where: Callable[..., str] = lambda *_: source
        self.with_values: Callable[..., DesignSpace] | None = None
        self._refix = refix
        self._definition = definition

    def __repr__(self) -> str:
        return f"<DesignSpace {self.name}: {len(self.parameters)} parameters>"

    # What it consists of

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The ``d`` parameters, in the order of a row's entries."""
        return self.structure.parameters

    @cached_property
    def names(self) -> StringTuple:
        """The parameters' names."""
        return tuple(parameter.name for parameter in self.parameters)

    @property
    def constraints(self) -> tuple[SpaceConstraint, ...]:
        """Constraints that every design meets."""
        return self.structure.constraints

    def provenance(self) -> JsonObject:
        """The resolved definition as plain JSON values: all that the designs depend on."""
        return dict(self._definition)

    def described_as(self, definition: Fields) -> DesignSpace:
        """The same designs with another :meth:`provenance`: one that was stored.

        It names no design: what the file says of them may be newer.
        """
        space = copy(self)
        space._definition = definition
        space.designs = {}
        return space

    def fix(self, overrides: Fields, where: str | None = None) -> DesignSpace:
        """The space in which parameters have one value; None makes one absent.

        Named designs that are no longer in the space are left out. In a repeated part, a value
        fixes the repetition at that place of the canonical order.

        Raises:
            InputError: An unknown parameter or value, or no design is left.
        """
        return self._refix(overrides, where)

    # Size

    @cached_property
    def components(self) -> tuple[Component, ...]:
        """Groups of parameters that are independent of one another."""
        return components_of(self.structure)

    @property
    def n_coordinates(self) -> int:
        """Dimension of the unit cube of :meth:`sobol_rows`: one per component, or per choice."""
        return sum(component.n_coordinates for component in self.components)

    @cached_property
    def size(self) -> int:
        """Number of feasible designs, each counted once; exact, and of any size.

        Raises:
            InputError: They cannot be counted; names the constraint that is in the way.
        """
        return math.prod(component.size for component in self.components)

    # Drawing designs

    def sample(self, rng: np.random.Generator, n: int) -> IntArray:
        """(n, d) designs, uniform over the feasible ones, with replacement."""
        return self._assembled([component.sample(rng, n) for component in self.components], n)

    def rows(self, indices: IntArray) -> IntArray:
        """(n, d) the designs of these numbers, ``0 <= number < size``; each has one.

        The order is lexicographic: components by their first parameter, the choices of each in
        the order of the file (see ``axes.py``), absence before the first level, an absent
        repetition after the last.

        Args:
            indices: (n,) numbers; an object array of Python's integers where 64 bits are too few.

        Raises:
            InputError: A number outside.
        """
        dtype = np.int64 if self.size < _INT64 else object
        numbers = np.atleast_1d(indices)
        if ((numbers < 0) | (numbers >= self.size)).any():
            raise InputError(f"design numbers of {self.name} go from 0 to {self.size - 1:,}")
        numbers = numbers.astype(dtype)
        rows_of_components = []
        for component in reversed(self.components):
            rows_of_components.append(component.rows_at(numbers % component.size))
            numbers = numbers // component.size
        return self._assembled(rows_of_components[::-1], len(numbers))

    def numbers(self, rows: IntArray) -> IntArray:
        """(n,) the numbers of designs: what :meth:`rows` makes these rows of.

        Python's integers in an object array where 64 bits are too few.

        Raises:
            InputError: A row that is not a design of the space.
        """
        rows = np.atleast_2d(np.asarray(rows, np.int64))
        dtype = np.int64 if self.size < _INT64 else object
        numbers: IntArray = np.zeros(len(rows), dtype)
        for component in self.components:
            digits = component.numbers_of(rows)
            if (digits < 0).any():
                raise InputError(f"a row is not a design of {self.name}")
            numbers = numbers * component.size + digits
        return numbers

    def sobol_rows(self, u: FloatArray) -> IntArray:
        """(n, d) designs at points of the unit cube.

        Args:
            u: (n, n_coordinates) in [0, 1). Each coordinate picks a component's row at its
                quantile, or one choice of a component with many rows, so evenly spread points
                give evenly spread designs.
        """
        points = np.atleast_2d(u)
        if points.shape[1] != self.n_coordinates:
            raise InputError(f"expected {self.n_coordinates} coordinates, got {points.shape[1]}")
        ends = np.cumsum([component.n_coordinates for component in self.components])
        coordinates = np.split(points, ends[:-1], axis=1)
        rows_of_components = [
            component.rows_near(point)
            for component, point in zip(self.components, coordinates, strict=True)
        ]
        return self._assembled(rows_of_components, len(points))

    def _assembled(self, rows_of_components: list[IntArray], n: int) -> IntArray:
        rows = np.empty((n, len(self.parameters)), np.int64)
        for component, component_rows in zip(self.components, rows_of_components, strict=True):
            rows[:, component.columns] = component_rows
        return rows

    def neighbors(self, row: IntArray) -> IntArray:
        """(k, d) designs one move away: a level, or a part added, removed or replaced."""
        return neighbors(self.structure, self.components, row)

    # Judging designs

    def canonical(self, rows: IntArray) -> IntArray:
        """(n, d) the rows with inactive parameters absent and repeated parts in order."""
        return self.structure.canonical(np.atleast_2d(rows))

    def violations(self, rows: IntArray) -> ArrayDict:
        """(n,) violation of each constraint by its text; ``<= 0`` meets it."""
        return self.structure.violations(np.atleast_2d(rows))

    def contains(self, rows: IntArray) -> BoolArray:
        """(n,) whether a row is canonical, complete and meets every constraint."""
        rows = np.atleast_2d(np.asarray(rows, np.int64))
        return self.structure.contains(rows)

    def keys(self, rows: IntArray) -> IntArray:
        """(n,) one number per design: equal if and only if the designs are.

        Python's integers in an object array where 64 bits are too few.
        """
        return self.structure.keys(self.canonical(rows))

    # Coordinates

    @cached_property
    def _bins(self) -> tuple[IntArray, IntArray]:
        """(d,) number of bins, and the code of the first: -1 where absence can be chosen."""
        first = -self.structure.has_absence.astype(np.int64)
        return self.structure.n_levels - first, first

    def points(self, rows: IntArray) -> FloatArray:
        """(n, d) the middle of each level's share of [0, 1]; 1/2 for what is inactive."""
        bins, first = self._bins
        rows = np.atleast_2d(rows)
        middle = (rows - first + 0.5) / bins
        return np.where(rows < first, 0.5, middle)

    def rows_near(self, u: FloatArray) -> IntArray:
        """(n, d) canonical rows whose levels own these points; they may violate constraints.

        Args:
            u: (n, d), clipped to [0, 1]. Absence, where it can be chosen, owns the lowest share.
        """
        bins, first = self._bins
        points = np.clip(np.nan_to_num(np.atleast_2d(u), nan=0.5), 0.0, 1.0)
        codes = np.minimum((points * bins).astype(np.int64), bins - 1) + first
        return self.structure.canonical(codes)

    @cached_property
    def _features(self) -> tuple[Feature, ...]:
        return features_of(self.structure, self._spread)

    def _spread(self, columns: frozenset[int]) -> IntArray:
        """Every setting of the components with these columns; a fixed sample if they are many."""
        involved = [
            not columns.isdisjoint(component.columns.tolist()) for component in self.components
        ]
        sizes = [
            component.size if is_in else 1
            for component, is_in in zip(self.components, involved, strict=True)
        ]
        if math.prod(sizes) > _MOST_SPREAD:
            return self.sample(np.random.default_rng(0), _MOST_SPREAD)
        digits = np.unravel_index(np.arange(math.prod(sizes)), sizes)
        rows_of_components = [
            component.rows[digit] for component, digit in zip(self.components, digits, strict=True)
        ]
        return self._assembled(rows_of_components, math.prod(sizes))

    @property
    def feature_names(self) -> StringTuple:
        """Names of the columns of :meth:`features`."""
        return tuple(feature.name for feature in self._features)

    @property
    def feature_groups(self) -> IntArray:
        """(f,) numbers from 0 without a gap: the same for the values of one category."""
        return groups_of(self._features)

    def features(self, rows: IntArray) -> FloatArray:
        """(n, f) numbers of about 0 to 1 that describe canonical rows to a model."""
        rows = np.atleast_2d(rows)
        if not self._features:
            return np.zeros((len(rows), 0))
        return np.stack([feature.evaluate(rows) for feature in self._features], axis=1)

    # Meaning

    def columns(self, rows: IntArray) -> dict[str, Column]:
        """The parameters of a batch, as hardware models read them."""
        rows = np.atleast_2d(rows)
        return {
            parameter.name: Column(parameter.values, np.ascontiguousarray(rows[:, column]))
            for column, parameter in enumerate(self.parameters)
        }

    def derived(self, rows: IntArray) -> ArrayDict:
        """(n,) each derived quantity of the file, in coherent SI units."""
        batch = self.structure.batch(np.atleast_2d(rows))
        return {name: batch[name] for name in self.structure.derived}

    def decode(self, rows: IntArray) -> list[dict[str, Value]]:
        """The designs by parameter name; None where absent."""
        lists = [column.decoded() for column in self.columns(rows).values()]
        return [dict(zip(self.names, values, strict=True)) for values in zip(*lists, strict=True)]

    def design(self, row: IntArray) -> dict[str, Value]:
        """The design of a (d,) row by parameter name, without what is absent."""
        return drop_none(self.decode(row[None, :])[0])

    def encode(self, design: Fields, where: str | None = None) -> IntArray:
        """(1, d) the canonical row of a design given by parameter name.

        What has one value only may be left out, and so may what can be absent. Values may be
        written as in a file: ``1 GHz``, ``[64, 128]`` or ``64x128``. The name of a pool stands for
        all parameters of its machine and takes a named design of the pool's space. Constraints are
        not looked at: see :meth:`contains`.

        Raises:
            InputError: Unknown names or values (the nearest is offered), or one that is missing.
        """
        machines = select_keys(design, self.pools)
        if machines:
            rest = drop_keys(design, machines)
            design = self._machine_values(machines, where) | rest
        problems = ProblemList(
            describe_unknown(f"parameter of {self.name}", name, self.names)
            for name in design
            if name not in self.structure.column_of
        )
        row = np.full((1, len(self.parameters)), -1, np.int64)
        for column, parameter in enumerate(self.parameters):
            value = design.get(parameter.name)
            if value is None or (isinstance(value, str) and value == "none"):
                can_be_filled = len(parameter.values) == 1 and not parameter.optional
                row[0, column] = 0 if can_be_filled and not parameter.part else -1
                continue
            with problems.caught():
                row[0, column] = parameter.code_of(value)
        canonical = self.structure.canonical(row)
        problems += [] if problems else self._lacking(canonical)
        problems.raise_any(where)
        return canonical

    def _machine_values(self, machines: Fields, where: str | None) -> dict[str, object]:
        """Values of pools' parameters from the names of their machines' designs."""
        values: dict[str, object] = {}
        for name, machine in machines.items():
            pool = self.pools[name]
            named = entry_named(f"design of pool {name}", str(machine), pool.space.designs, where)
            values |= {pool.full_name(key): value for key, value in named.items()}
        return values

    def _lacking(self, canonical: IntArray) -> StringList:
        if self.structure.is_complete(canonical)[0]:
            return []
        lacking = [
            parameter.name
            for column, parameter in enumerate(self.parameters)
            if not parameter.part and self.structure.is_lacking(canonical, column)[0]
        ]
        if not lacking:
            lacking = [
                f"{repeated.name}: at least {repeated.minimum}, each with "
                + ", ".join(repeated.members)
                for repeated in self.structure.parts
            ]
        return [f"no value for {name}" for name in lacking]

    # Expressions over designs

    @property
    def units(self) -> Mapping[str, Unit]:
        """Unit of every number that an expression over designs may name."""
        return self.structure.symbols.units

    @property
    def categories(self) -> Mapping[str, Category]:
        """Values with which each parameter may be compared in an expression."""
        return self.structure.symbols.categories

    def parse(
        self, text: str, where: str | None = None, units: Mapping[str, Unit] | None = None
    ) -> Expression:
        """Parse an expression over parameters, their attributes, derived quantities and more.

        Args:
            where: ``file:line: key`` for messages.
            units: Further names that say their unit, such as metrics, with their unit.
        """
        extra = dict(units or {})
        return parse_expression(
            text,
            {**self.units, **extra},
            where,
            categories=self.categories,
            parts=self.structure.symbols.parts,
            unit_in_name=extra,
        )

    def values(self, rows: IntArray) -> Arrays:
        """Values for expressions: every name of ``units`` and ``categories``, on demand."""
        return self.structure.batch(np.atleast_2d(rows))
