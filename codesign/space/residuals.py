"""Remainders of rules after some choices: the state in which designs are counted.

Of every rule that depends on choices made and on others still to be made, only its known parts
matter for the others: the running value of a sum whose first terms are known, whether one side
of an "or" is met. Partial designs that agree in these cells have the same completions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from codesign.base.columns import BoolArray, FloatArray, IntArray, IntegerList
from codesign.space.axes import ComponentAxis
from codesign.space.bounds import WHOLE_BELOW, MagnitudeBounds, bounds_of, is_sum
from codesign.space.design_rules import ChoiceTable, Rule
from codesign.space.nodes import Combination, Constant, Fold, FoldedCall, Name, Node, Product
from codesign.space.structure import RowBatch, Structure


class Term:
    """A node of a rule, over choices that are made in a fixed order.

    Attributes:
        node: What it computes.
        places: The choices that it depends on.
        operands: The terms of its operands; none if it depends on one choice at most.
        first: The first choice that it depends on; -1 if on none.
        last: The last one.
        table: Its value for each way to make its only choice, if it has one only.
        bounds: What it can be.
    """

    def __init__(
        self,
        node: Node,
        places: frozenset[int],
        operands: tuple[Term, ...],
        table: FloatArray | None,
    ) -> None:
        self.node = node
        self.operands = operands
        self.places = places
        self.first = min(places, default=-1)
        self.last = max(places, default=-1)
        self.table = None if table is None else _signs(table) if node.is_condition else table
        known_bounds = [operand.bounds for operand in operands]
        self.bounds: MagnitudeBounds = (
            bounds_of(node, known_bounds)
            if self.table is None
            else MagnitudeBounds.tabulated(self.table)
        )
        # Products with divisors are not whole. Of a whole one, the partial ones are smaller, or 0.
        is_exact = self.bounds.is_whole and self.bounds.largest < WHOLE_BELOW
        self._is_order_free = is_exact or not (is_sum(node) or isinstance(node, Product))

    def is_open(self, place: int) -> bool:
        """Whether it depends on choices up to this place and on later ones."""
        return 0 <= self.first <= place < self.last

    def is_known(self, place: int) -> bool:
        """Whether it depends on no choice after this place."""
        return self.last <= place

    def folded(self, place: int) -> IntegerList:
        """Operands of a fold that its running value has taken in after this place."""
        known_operands = [operand.is_known(place) for operand in self.operands]
        if self._is_order_free:
            return [position for position, is_known in enumerate(known_operands) if is_known]
        return list(
            range(known_operands.index(False) if False in known_operands else len(known_operands))
        )


class Cell(NamedTuple):
    """Memory of a term: its value, or the running value of a fold."""

    term: Term
    is_running: bool


class Terms:
    """Builds the terms of rules; what occurs in several rules is one term.

    Args:
        axes: The choices, in the order in which they are made.
    """

    def __init__(self, structure: Structure, axes: Sequence[ComponentAxis]) -> None:
        self._structure = structure
        self._axes = axes
        self._place_of = {
            int(column): place for place, axis in enumerate(axes) for column in axis.columns
        }
        self._places: dict[Node, frozenset[int]] = {}
        self._terms: dict[Node, Term] = {}
        self._batches: dict[int, RowBatch] = {}

    def places(self, node: Node) -> frozenset[int]:
        """The choices that a node depends on."""
        places = self._places.get(node)
        if places is None:
            if isinstance(node, ChoiceTable):
                places = frozenset({node.place})
            elif isinstance(node, Name):
                columns = self._structure.roots(frozenset({node.key}))
                places = frozenset(self._place_of[column] for column in columns)
            else:
                places = frozenset().union(*map(self.places, node.operands))
            self._places[node] = places
        return places

    def term(self, node: Node) -> Term:
        """The term of a node."""
        if node not in self._terms:
            self._terms[node] = self._term(node)
        return self._terms[node]

    def _term(self, node: Node) -> Term:
        places = self.places(node)
        if len(places) <= 1:
            with np.errstate(all="ignore"):
                place = min(places, default=0)
                if place not in self._batches:
                    axis = self._axes[place]
                    rows = np.full((len(axis), len(self._structure.parameters)), -1, np.int64)
                    rows[:, axis.columns] = axis.choices
                    self._batches[place] = self._structure.batch(rows)
                table = node.evaluate(self._batches[place])
            length = len(self._axes[min(places)]) if places else 1
            return Term(node, places, (), np.broadcast_to(table, (length,)))
        if isinstance(node, Name):  # a derived quantity
            derived = self._structure.derived[node.key].expression.node
            node = Product((derived, Constant(node.scale)), (False, False))
        return Term(node, places, tuple(map(self.term, node.operands)), None)


def _signs(violation: FloatArray) -> FloatArray:
    """Decisive sign of a violation: -1 met, 1 not, NaN undefined."""
    return np.where(violation <= 0, -1.0, np.where(np.isnan(violation), np.nan, 1.0))


class Candidates:
    """Partial designs, each a known state with one more choice made.

    Args:
        place: Which choice.
        cells: (s,) arrays: what is remembered of the states.
        parents: (n,) the state of each candidate.
        digits: (n,) its choice.
    """

    def __init__(
        self, place: int, cells: Mapping[Cell, FloatArray], parents: IntArray, digits: IntArray
    ) -> None:
        self._place = place
        self._cells = cells
        self.parents = parents
        self.digits = digits
        self._known: dict[Cell, FloatArray] = {}

    def take(self, selection: BoolArray) -> Candidates:
        """Some of them."""
        candidates = Candidates(
            self._place, self._cells, self.parents[selection], self.digits[selection]
        )
        candidates._known = {cell: values[selection] for cell, values in self._known.items()}
        return candidates

    def value(self, term: Term) -> FloatArray:
        """(n,) values of a term that depends on no later choice; of a condition, the sign."""
        remembered_value = self._cells.get(Cell(term, False))
        return self._cell(
            Cell(term, False),
            self._value if remembered_value is None else lambda _: remembered_value[self.parents],
        )

    def running(self, fold: Term) -> FloatArray:
        """(n,) a fold's value over the operands that it has taken in."""
        return self._cell(Cell(fold, True), self._running)

    def _cell(self, cell: Cell, compute: Callable[[Term], FloatArray]) -> FloatArray:
        if cell not in self._known:
            with np.errstate(all="ignore"):
                values = np.broadcast_to(compute(cell.term), self.digits.shape)
            if cell.term.node.is_condition:
                # Of what is always defined, NaN comes from cells that do not matter any more.
                is_defined = cell.term.bounds.is_defined
                values = np.where(values <= 0, -1.0, 1.0) if is_defined else _signs(values)
            self._known[cell] = values
        return self._known[cell]

    def _value(self, term: Term) -> FloatArray:
        if term.table is not None:
            return term.table[self.digits if term.first >= 0 else np.zeros_like(self.digits)]
        if isinstance(term.node, Combination):
            return term.node.combine(*map(self.value, term.operands))
        return self._running(term)

    def _running(self, fold: Term) -> FloatArray:
        node = fold.node
        assert isinstance(node, Fold)
        total: FloatArray = np.asarray(node.start)
        pending = fold.folded(self._place)
        before = Cell(fold, True)
        if before in self._cells:
            total = self._cells[before][self.parents]
            done = set(fold.folded(self._place - 1))
            pending = [position for position in pending if position not in done]
        for position in pending:
            total = node.step(total, position, self.value(fold.operands[position]))
        return total

    def demanded(self, term: Term, is_relevant: BoolArray) -> Iterator[tuple[Cell, BoolArray]]:
        """The cells that a term needs later, and (n,) for which candidates it does.

        Where one side of an "or" is met, or one of an "and" is not, the others are settled.
        """
        if term.first < 0 or term.first > self._place:
            return
        if term.is_known(self._place):
            yield Cell(term, False), is_relevant
            return
        folded = set()
        if isinstance(term.node, Fold):
            folded = set(term.folded(self._place))
            if any(term.operands[position].first >= 0 for position in folded):
                yield Cell(term, True), is_relevant
                is_relevant = is_relevant & ~self._is_settled(term)
        for position, operand in enumerate(term.operands):
            if position not in folded:
                yield from self.demanded(operand, is_relevant)

    def _is_settled(self, term: Term) -> BoolArray:
        node = term.node
        if not (term.bounds.is_defined and isinstance(node, FoldedCall) and node.is_condition):
            return np.zeros(self.digits.shape, bool)
        is_met = self.running(term) <= 0
        return is_met if node.function == "or" else ~is_met

    def remembered(self, rules: Sequence[Term]) -> dict[Cell, FloatArray]:
        """(n,) of each cell that these rules need later; 0 where it does not matter."""
        relevant: dict[Cell, BoolArray] = {}
        everywhere = np.ones(self.digits.shape, bool)
        for rule in rules:
            for cell, is_relevant in self.demanded(rule, everywhere):
                known_setdefault = relevant.setdefault(cell, is_relevant)
                if known_setdefault is not everywhere and known_setdefault is not is_relevant:
                    relevant[cell] = known_setdefault | is_relevant
        return {
            cell: np.where(
                is_relevant,
                self.running(cell.term) if cell.is_running else self.value(cell.term),
                0.0,
            )
            for cell, is_relevant in relevant.items()
        }


def compiled(
    structure: Structure, axes: Sequence[ComponentAxis], rules: Sequence[Rule]
) -> list[Term]:
    """The rules as terms over choices that are made in the order of the axes."""
    terms = Terms(structure, axes)
    return [terms.term(rule.node) for rule in rules]
