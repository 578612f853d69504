"""Expressions over designs, and what their names may be compared with.

``expression_parser.py`` has the grammar.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from codesign.base.columns import Arrays, FloatArray, StringMap, Value, ValueTuple
from codesign.base.errors import InputError
from codesign.base.records import frozen
from codesign.base.units import BASES, Unit, written_quantity
from codesign.space.expression_tokens import tokens_of
from codesign.space.nodes import Node

PRESENT = ".present"
"""Ending of the key under which a number that may be absent says whether it is there."""
_LIMIT = re.compile(r"^\s*(\w+)\s*(<=|<|>=|>)\s*([^<>=()]+?)\s*$")


@frozen
class Category:
    """Values with which a parameter may be compared.

    Attributes:
        values: Its values; an expression sees their positions.
        declared: Values it had before it was fixed: known words, though never met.
    """

    values: ValueTuple
    declared: ValueTuple = ()

    def code(self, value: Value) -> int | None:
        """Position of a value, -1 for absence, -2 for one that was fixed away, None if unknown."""
        if value is None:
            return -1
        if (position := position_of(value, self.values)) is not None:
            return position
        return None if position_of(value, self.declared) is None else -2


def position_of(value: object, values: Sequence[Value]) -> int | None:
    """Position of an equal value of the same type: ``true`` is not 1, but 1.0 is."""
    for position, choice in enumerate(values):
        if isinstance(value, bool) == isinstance(choice, bool) and value == choice:
            return position
    return None


@frozen
class Expression:
    """A parsed expression.

    Attributes:
        text: As it was written.
        node: What computes it.
        names: Keys that ``evaluate`` and ``violation`` look up in their values.
        unit: Dimension of a number; None for a condition.
    """

    text: str
    node: Node
    names: frozenset[str]
    unit: Unit | None

    @property
    def is_condition(self) -> bool:
        return self.unit is None

    @cached_property
    def limit(self) -> WrittenLimit | None:
        """The limit on one quantity that a condition is; None: it has another form."""
        match = _LIMIT.match(self.text)
        return WrittenLimit(*match.groups()) if match else None

    def renamed(self, names: StringMap) -> str:
        """Its text with other names for some of those that it looks up."""
        text = self.text
        for token in reversed(list(tokens_of(text))):
            if token.kind == "name" and token.text in names:
                start = token.column - 1
                text = text[:start] + names[token.text] + text[start + len(token.text) :]
        return text

    def evaluate(self, values: Arrays) -> FloatArray:
        """The value for each design; 1 or 0 for a condition."""
        if self.unit is None:
            return np.asarray(self.violation(values) <= 0, np.float64)
        with np.errstate(all="ignore"):
            return np.asarray(self.node.evaluate(values), np.float64)

    def violation(self, values: Arrays) -> FloatArray:
        """For a condition, how far each design is from meeting it; ``<= 0`` meets it.

        A comparison gives its relative excess, ``and`` the largest, ``or`` the smallest,
        ``not`` the negative. An undefined number (0/0) is violated: NaN is not ``<= 0``.
        """
        if self.unit is not None:
            raise InputError(f"expected a condition, got the number {self.text!r}")
        with np.errstate(all="ignore"):
            return np.asarray(self.node.evaluate(values), np.float64)


@frozen
class WrittenLimit:
    """A condition that compares one quantity with what may be a number, as it is written.

    Attributes:
        quantity: Name of a metric, a parameter or a derived quantity.
        comparison: ``<=``, ``<``, ``>=`` or ``>``.
        bound: What stands behind it, such as ``700 W``.

    Examples:
        >>> WrittenLimit("tdp_watts", "<=", "0.7 kW").amount
        (0.7, 'kW')
        >>> WrittenLimit("sram_dies", "<", "tier1_stacks").amount
    """

    quantity: str
    comparison: str
    bound: str

    @property
    def amount(self) -> tuple[float, str] | None:
        """The bound's number and unit, as they are written; None: it is no quantity."""
        return written_quantity(self.bound)

    @property
    def is_upper(self) -> bool:
        """Whether it bounds from above."""
        return self.comparison.startswith("<")


def format_value(value: Value) -> str:
    """A value as it is written in a file: ``none`` for absence, ``[64, 128]`` for a tuple."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    return str(list(value)) if isinstance(value, tuple) else str(value)


def describe_unit(unit: Unit) -> str:
    """A dimension in coherent SI units, such as ``B/s``; ``plain numbers`` without one."""
    powers = list(zip(BASES, unit.exponents, strict=True))
    exponents = dict(powers)
    if exponents["J"] >= 1 and exponents["s"] <= -1:  # a watt is more familiar than J/s
        powers = [
            ("W", 1),
            *((exponents | {"J": exponents["J"] - 1, "s": exponents["s"] + 1}).items()),
        ]
    above = [base if power == 1 else f"{base}^{power}" for base, power in powers if power > 0]
    below = [base if power == -1 else f"{base}^{-power}" for base, power in powers if power < 0]
    if not above and not below:
        return "plain numbers"
    return "/".join(["*".join(above) or "1", *below])
