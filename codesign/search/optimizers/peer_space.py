"""Box of levels that peers search, with the rules of the space that their libraries can state.

A condition states the levels of another parameter at which a parameter exists. A constraint is
linear in levels, or a list of forbidden combinations of levels, or both. A peer learns all other
rules from refused proposals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from codesign.base.columns import (
    BoolArray,
    FloatList,
    IntArray,
    IntegerList,
    IntegerPair,
    StringList,
)
from codesign.search.optimizers.base import SearchSpace
from codesign.space.expressions import Expression
from codesign.space.nodes import Compare
from codesign.space.structure import SpaceConstraint, Structure

_MOST_COMBINATIONS = 20_000
"""Most combinations of levels tried for one constraint [ours]."""
_MOST_FORBIDDEN = 2_000
"""Most forbidden combinations stated to a library for one constraint [ours]."""
_DRAWN = 256
"""Designs of the space that are tried for limits known before evaluation [ours]."""
_EXPRESSED = {
    "optuna": {"one level", "levels"},
    "ax": {"one level", "linear"},
    "smac": {"one level", "levels", "forbidden"},
    "botorch": {"linear"},
}
"""Forms of rules that libraries take, by the first word of a method; HEBO and pymoo take none.
A search space of Ax is a tree: a parameter exists at one level of another."""


@dataclass
class PeerSpace:
    """A space as peers see it; levels count from 0, which is absence if that can be chosen.

    Attributes:
        levels: Number of levels of each parameter.
        is_ordered: Whether the levels of each parameter are in an order.
        conditions: For each parameter, its parent parameter and the parent's levels at which it
            exists; None if it always exists.
        linear: Coefficients of the levels, and the bound of their sum.
        forbidden: Combinations of (parameter, level) that no design has.
        forms: Forms in which each rule of the space is stated here, by the text of the rule.
    """

    levels: IntegerList
    is_ordered: list[bool]
    conditions: list[tuple[int, IntegerList] | None]
    linear: list[tuple[FloatList, float]] = field(default_factory=list)
    forbidden: list[list[IntegerPair]] = field(default_factory=list)
    forms: dict[str, set[str]] = field(default_factory=dict)

    @classmethod
    def read(cls, search: SearchSpace) -> PeerSpace:
        """The box and the rules of a search space."""
        structure = search.space.structure
        first = -structure.has_absence.astype(np.int64)
        parameters = structure.parameters
        space = cls(
            (structure.n_levels - first).tolist(),
            [parameter.kind != "categorical" for parameter in parameters],
            [_condition(structure, first, column) for column in range(len(parameters))],
        )
        for column in structure.conditions:
            forms = space.forms[f"existence of {parameters[column].name}"] = set[str]()
            if (condition := space.conditions[column]) is not None:
                forms.add("one level" if len(condition[1]) == 1 else "levels")
        for constraint in structure.constraints:
            forms = space.forms[constraint.text] = set[str]()
            if (inequality := _inequality(structure, first, constraint)) is not None:
                space.linear.append(inequality)
                forms.add("linear")
            if combinations := _forbidden(structure, first, constraint):
                space.forbidden += combinations
                forms.add("forbidden")
        if structure.parts:
            space.forms["order of repeated parts"] = set()
        drawn = search.space.sample(np.random.default_rng(0), _DRAWN)
        if not search.admits(drawn).all():
            space.forms["limits before evaluation"] = set()
        return space

    def unexpressed(self, method: str) -> StringList:
        """Rules that a method is not told in advance."""
        expressed = _EXPRESSED.get(method.split("-")[0], set())
        return [rule for rule, forms in self.forms.items() if not forms & expressed]

    def expressed(self, method: str) -> dict[str, object]:
        """The box and the rules that a method is told, as a task has them."""
        forms = _EXPRESSED.get(method.split("-")[0], set())
        return {
            "levels": self.levels,
            "is_ordered": self.is_ordered,
            "conditions": [
                condition
                if condition and ("one level" if len(condition[1]) == 1 else "levels") in forms
                else None
                for condition in self.conditions
            ],
            "linear": self.linear if "linear" in forms else [],
            "forbidden": self.forbidden if "forbidden" in forms else [],
        }


def _tabulated(
    structure: Structure, first: IntArray, expression: Expression
) -> tuple[IntegerList, IntArray, BoolArray] | None:
    """Columns of an expression, (n, k) combinations of their levels, and (n,) True if it holds.

    Levels count from 0. None if there are too many combinations.
    """
    columns = sorted(structure.roots(expression.names))
    levels = (structure.n_levels - first)[columns].tolist()
    if math.prod(levels) > _MOST_COMBINATIONS:
        return None
    codes = np.indices(tuple(levels)).reshape(len(columns), -1).T
    rows = np.zeros((len(codes), len(structure.parameters)), np.int64)
    rows[:, columns] = codes + first[columns]
    holds = np.broadcast_to(expression.violation(structure.batch(rows)) <= 0, len(rows))
    return columns, codes, holds


def _condition(
    structure: Structure, first: IntArray, column: int
) -> tuple[int, IntegerList] | None:
    """Single parameter on which a column's existence depends, and its levels, or None."""
    if column not in structure.conditions or column in structure.columns_in_parts:
        return None
    table = _tabulated(structure, first, structure.conditions[column])
    if table is None or len(table[0]) != 1:
        return None
    (parent,), codes, holds = table
    return parent, codes[holds, 0].tolist()


def _forbidden(
    structure: Structure, first: IntArray, constraint: SpaceConstraint
) -> list[list[IntegerPair]]:
    """Combinations of levels that break a constraint; none if there are too many."""
    table = _tabulated(structure, first, constraint.expression)
    if table is None or (~table[2]).sum() > _MOST_FORBIDDEN:
        return []
    columns, codes, holds = table
    return [list(zip(columns, combination, strict=True)) for combination in codes[~holds].tolist()]


def _inequality(
    structure: Structure, first: IntArray, constraint: SpaceConstraint
) -> tuple[FloatList, float] | None:
    """Coefficients and bound of a constraint that is linear in ordered levels."""
    node = constraint.expression.node
    columns = sorted(structure.roots(constraint.expression.names))
    if not isinstance(node, Compare) or node.operator not in ("<=", ">=") or (first < 0).any():
        return None
    # A sum has a term of each parameter, which must exist.
    if any(
        column in structure.conditions or structure.parameters[column].kind == "categorical"
        for column in columns
    ):
        return None
    levels = structure.n_levels
    rows = np.zeros((1 + len(levels) + _DRAWN, len(levels)), np.int64)
    rows[1 : 1 + len(levels)] = np.diag(np.minimum(levels - 1, 1))
    rows[1 + len(levels) :] = np.random.default_rng(0).integers(levels, size=(_DRAWN, len(levels)))
    batch = structure.batch(rows)
    left, right = (operand.evaluate(batch) for operand in node.operands)
    excess = left - right
    excess = np.broadcast_to(excess if node.operator == "<=" else -excess, len(rows))
    coefficients = excess[1 : 1 + len(levels)] - excess[0]
    if not np.allclose(rows @ coefficients, excess - excess[0], atol=1e-9):
        return None
    return coefficients.tolist(), -float(excess[0])
