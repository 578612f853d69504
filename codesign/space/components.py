"""Independent groups of parameters: what makes counting exact and sampling uniform.

Parameters that share a condition, a constraint or a repeated part form a component. Nothing
relates two components, so the designs of the space are every combination of one row per
component: their number is a product, and a uniform design is one uniform row from each. The
rows of one component are counted by a decision diagram (see ``diagram.py``).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import cached_property

import numpy as np

from codesign.base.columns import FloatArray, IntArray, IntegerList, IntegerSequence, StringTuple
from codesign.base.errors import InputError
from codesign.space.axes import ComponentAxis, axes_of, regrouped
from codesign.space.design_rules import rules_of
from codesign.space.diagram import Diagram, TooManyStatesError, diagram_of
from codesign.space.residuals import Terms
from codesign.space.structure import SpaceConstraint, Structure

MAX_STEPS = 40_000_000
"""Bound on counting a component: states, times choices, times what is remembered of a state."""

_STEPS_IN_FILE_ORDER = 1 << 23
"""Steps after which another order of the choices is tried."""
_STEPS_OF_CHECK = 1 << 21
"""Steps in which an empty component is detected when a file is read."""

MOST_LISTED = 1 << 27
"""Numbers in the list of all rows of one component: a gigabyte."""

_TABULATED = 1 << 22
"""Numbers in such a list up to which rows are looked up in it and not worked out one by one."""
_MOST_JOINT = 4
"""Choices that change together at most, where none changes alone: three balance two equations."""
_MOST_MOVES = 1 << 9
"""Joint moves of a component, of more those that are evenly spread."""
_ONE_COORDINATE = 1 << 20
"""Rows of a component up to which one coordinate of a Sobol sequence, 30 bits, spreads them."""


class Component:
    """Parameters that depend on one another, and every way in which they can be set.

    Args:
        columns: The parameters, in increasing order.
    """

    def __init__(self, structure: Structure, columns: IntegerSequence) -> None:
        self.structure = structure
        self.columns = np.array(columns, np.int64)
        members = set(columns)
        self.constraints = [
            rule
            for rule in structure.constraints
            if structure.roots(rule.expression.names) <= members
        ]
        self._diagram: Diagram | None = None
        self._axes: tuple[ComponentAxis, ...] = ()

    @property
    def names(self) -> StringTuple:
        """The parameters' names."""
        return tuple(self.structure.parameters[column].name for column in self.columns)

    # Counting

    def check(self) -> None:
        """Refuse a component without a row, unless that takes long to see.

        Raises:
            InputError: There is none, and how many rows keep each constraint by itself.
        """
        if self.constraints or len(self.columns) > 1:
            with suppress(TooManyStatesError):
                self._count(self._file_order(), _STEPS_OF_CHECK)

    def _count(self, axes: tuple[ComponentAxis, ...], max_steps: int) -> Diagram:
        """The diagram of choices in this order; it is kept."""
        if self._diagram is None:
            diagram = self._diagram_of(axes, self.constraints, max_steps)
            if diagram is None:
                met = [
                    f"{rule.text!r} is met by {self._met(axes, rule)}" for rule in self.constraints
                ]
                raise InputError(
                    f"no design meets the constraints on {', '.join(self.names)}: of "
                    f"{self._met(axes)} combinations, {'; '.join(met) or 'none is complete'}"
                )
            self._axes = axes
            self._diagram = diagram
        return self._diagram

    def _file_order(self) -> tuple[ComponentAxis, ...]:
        return axes_of(self.structure, self.columns.tolist())

    def _diagram_of(
        self, axes: Sequence[ComponentAxis], constraints: Sequence[SpaceConstraint], max_steps: int
    ) -> Diagram | None:
        rules = rules_of(self.structure, axes, constraints)
        return diagram_of(self.structure, axes, rules, max_steps)

    def _met(self, axes: Sequence[ComponentAxis], *constraints: SpaceConstraint) -> str:
        try:
            diagram = self._diagram_of(axes, constraints, _STEPS_OF_CHECK)
        except TooManyStatesError:
            return "an unknown number"
        return f"{diagram.size if diagram else 0:,}"

    @property
    def _counted(self) -> Diagram:
        """The diagram; of choices in the file's order, or in a shorter one if that is too long.

        Raises:
            InputError: There is no row, or they cannot be counted; names the constraint.
        """
        if self._diagram is not None:
            return self._diagram
        with suppress(TooManyStatesError):
            return self._count(self._file_order(), _STEPS_IN_FILE_ORDER)
        try:
            axes = self._file_order()
            rules = rules_of(self.structure, axes, self.constraints)
            terms = Terms(self.structure, axes)
            return self._count(
                regrouped(self.structure, axes, [terms.places(rule.node) for rule in rules]),
                MAX_STEPS,
            )
        except TooManyStatesError as error:
            names = [self.structure.parameters[column].name for column in error.columns]
            raise InputError(
                f"the {error.rule.text} joins {len(names)} parameters ({', '.join(names)}) in more "
                f"ways than can be counted in {MAX_STEPS:,} steps: split it, or list fewer values",
                error.rule.where or None,
            ) from None

    @cached_property
    def size(self) -> int:
        """Number of rows.

        Raises:
            InputError: There is none, or they cannot be counted; names the constraint.
        """
        return self._counted.size

    # Rows

    @cached_property
    def rows(self) -> IntArray:
        """(s, p) every feasible canonical row of these parameters, in the order of their numbers.

        Raises:
            InputError: There are none, or too many to be listed.
        """
        if self.size * len(self.columns) > MOST_LISTED:
            raise InputError(
                f"the {self.size:,} choices of {', '.join(self.names)} are too many to be listed: "
                "fix some of these parameters"
            )
        return self._rows_of(self._counted.all_digits())

    def rows_at(self, numbers: IntArray) -> IntArray:
        """(n, p) the rows of these numbers, ``0 <= number < size``."""
        if self.size * len(self.columns) <= _TABULATED:
            return self.rows[numbers.astype(np.int64, copy=False)]
        return self._rows_of(self._counted.digits_at(numbers))

    def numbers_of(self, rows: IntArray) -> IntArray:
        """(n,) the number of each of (n, d) designs' rows; -1 where it is none of them."""
        return self._counted.numbers_of(self._digits_of(rows))

    def sample(self, rng: np.random.Generator, n: int) -> IntArray:
        """(n, p) rows, uniform over all, with replacement."""
        return self.rows_at(_random_numbers(rng, self.size, n))

    @property
    def n_coordinates(self) -> int:
        """Coordinates of :meth:`rows_near`: one, or one for each choice if there are many rows."""
        return 1 if self.size <= _ONE_COORDINATE else len(self._counted.layers)

    def rows_near(self, u: FloatArray) -> IntArray:
        """(n, p) rows at the (n, n_coordinates) quantiles ``u`` in [0, 1)."""
        if self.size <= _ONE_COORDINATE:
            position = np.clip((u[:, 0] * self.size).astype(np.int64), 0, self.size - 1)
            return self.rows_at(position)
        return self._rows_of(self._counted.digits_near(u))

    def possible_codes(self, column: int) -> IntArray:
        """Codes that rows have in this column, increasing."""
        diagram = self._counted
        for place, axis in enumerate(self._axes):
            if column in axis.columns:
                member = axis.columns.tolist().index(column)
                return np.unique(axis.choices[diagram.possible(place), member])
        raise KeyError(column)

    def completions(self, row: IntArray, open_columns: Collection[int], n: int) -> IntArray:
        """(k, p) rows that agree with a (d,) row but in some columns, at most ``n`` of them.

        If there are more, those whose numbers among them are evenly spread.
        """
        diagram = self._counted
        allowed = []
        for axis in self._axes:
            is_fixed = np.array([column not in open_columns for column in axis.columns.tolist()])
            fixed = axis.columns[is_fixed]
            allowed.append((axis.choices[:, is_fixed] == row[fixed]).all(axis=1))
        agreeing = diagram.restricted(allowed)
        if agreeing is None:
            return np.empty((0, len(self.columns)), np.int64)
        k = min(n, agreeing.size)
        numbers = [number * agreeing.size // k for number in range(k)]
        dtype = agreeing.layers[0].starts.dtype
        return self._rows_of(agreeing.digits_at(np.array(numbers, dtype)))

    def joint_moves(self, row: IntArray, moved: IntArray) -> IntArray:
        """(k, p) rows that change choices which no single move changes, with the fewest others.

        Args:
            row: (d,) a design.
            moved: (n, d) designs that single moves lead to.
        """
        diagram = self._counted
        moves = list[IntArray]()
        digits = self._digits_of(row[None, :])[0]
        is_stuck = np.array(
            [
                len(diagram.possible(place)) > 1
                and not (moved[:, axis.columns] != row[axis.columns]).any()
                for place, axis in enumerate(self._axes)
            ]
        )
        for n_changes in range(2, _MOST_JOINT + 1):
            if not is_stuck.any():
                break
            near = diagram.near(digits, n_changes)
            near = near[(near != digits)[:, is_stuck].any(axis=1)]
            is_stuck &= ~(near != digits).any(axis=0)
            moves.append(
                near[np.linspace(0, len(near) - 1, min(len(near), _MOST_MOVES)).astype(int)]
            )
        return self._rows_of(np.concatenate([digits[None, :][:0], *moves]))

    # Rows are choices: one digit for each, the position among what it may be.

    def _rows_of(self, digits: IntArray) -> IntArray:
        rows = np.empty((len(digits), len(self.columns)), np.int64)
        for place, axis in enumerate(self._axes):
            rows[:, np.searchsorted(self.columns, axis.columns)] = axis.choices[digits[:, place]]
        return rows

    def _digits_of(self, rows: IntArray) -> IntArray:
        return np.stack([axis.positions(rows) for axis in self._axes], axis=1)


def _random_numbers(rng: np.random.Generator, size: int, n: int) -> IntArray:
    """(n,) uniform whole numbers below ``size``, which may be beyond 64 bits."""
    if size < 2**63:
        return rng.integers(size, size=n)
    n_bytes = -(-size.bit_length() // 8)
    excess = 8 * n_bytes - size.bit_length()
    numbers: IntegerList = []
    while len(numbers) < n:
        # As many bits as the size has, so that at least every second number is below it.
        numbers += [
            number
            for _ in range(n - len(numbers))
            if (number := int.from_bytes(rng.bytes(n_bytes), "little") >> excess) < size
        ]
    return np.array(numbers, object)


def components_of(structure: Structure) -> tuple[Component, ...]:
    """The components, by their first parameter."""
    related_columns = [
        *(structure.roots(x.names) | {column} for column, x in structure.conditions.items()),
        *(structure.roots(rule.expression.names) for rule in structure.constraints),
        *(frozenset(repeated.columns.ravel().tolist()) for repeated in structure.parts),
    ]
    groups = [frozenset({column}) for column in range(len(structure.parameters))]
    for related in related_columns:
        joined = [group for group in groups if group & related]
        groups = [group for group in groups if not group & related]
        groups += [frozenset().union(*joined)] if joined else []
    return tuple(Component(structure, sorted(group)) for group in sorted(groups, key=min))
