"""All designs of a component as a decision diagram: counted, numbered and drawn exactly.

Choices are made one after the other. After each, partial designs with the same completions are
one state (see ``residuals.py``), so that the number of designs is a sum over states, from the
last choice back to the first, however many designs there are. This is the counting of ordered
decision diagrams (Bryant, "Graph-based algorithms for Boolean function manipulation", 1986; Knuth,
TAOCP 4A, section 7.1.4). Designs are numbered from 0 in lexicographic order of the choices.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from codesign.base.columns import (
    ArrayList,
    BoolArray,
    FloatArray,
    IntArray,
    IntegerSequence,
    distinct,
)
from codesign.base.records import frozen
from codesign.space.axes import ComponentAxis
from codesign.space.design_rules import Rule
from codesign.space.residuals import Candidates, Cell, Term, compiled
from codesign.space.structure import Structure

_CHUNK = 1 << 18
_FEW_CODES = 1 << 16
_INT64 = 2**63


class TooManyStatesError(Exception):
    """More steps than were allowed; names the rule that needs the most states.

    Args:
        columns: The entries of a row that it depends on.
    """

    def __init__(self, rule: Rule, columns: IntegerSequence) -> None:
        super().__init__(rule.text)
        self.rule = rule
        self.columns = tuple(columns)


@frozen
class Layer:
    """One choice in every state that the earlier choices can lead to.

    Attributes:
        children: (s, v) the state that each choice leads to; -1 if no design has it.
        starts: (s, v) designs with an earlier choice: where the numbers of this choice begin.
        counts: (s,) designs that complete each state.
    """

    children: IntArray
    starts: IntArray
    counts: IntArray


class Diagram:
    """The ways to make some choices that keep all rules.

    Numbers of designs are 64-bit integers while they fit, and Python's integers beyond.

    Args:
        layers: One for each choice, with one state in the first.
    """

    def __init__(self, layers: Sequence[Layer]) -> None:
        self.layers = tuple(layers)

    @property
    def size(self) -> int:
        """Number of designs."""
        return int(self.layers[0].counts[0])

    def digits_at(self, numbers: IntArray) -> IntArray:
        """(n, k) the choices of the designs of these numbers, ``0 <= number < size``."""
        digits = np.empty((len(numbers), len(self.layers)), np.int64)
        rest = numbers
        state = np.zeros(len(numbers), np.int64)
        for place, layer in enumerate(self.layers):
            rest = rest.astype(layer.starts.dtype)
            digit = _last_not_above(layer.starts, state, rest)
            rest = rest - layer.starts[state, digit]
            state = layer.children[state, digit]
            digits[:, place] = digit
        return digits

    def numbers_of(self, digits: IntArray) -> IntArray:
        """(n,) the number of the design with these choices; -1 if there is none."""
        numbers = np.zeros(len(digits), self.layers[0].starts.dtype)
        state = np.zeros(len(digits), np.int64)
        is_design = (digits >= 0).all(axis=1)
        for place, layer in enumerate(self.layers):
            digit = np.where(is_design, digits[:, place], 0)
            numbers = numbers + layer.starts[state, digit]
            state = layer.children[state, digit]
            is_design &= state >= 0
            state = np.where(is_design, state, 0)
        return np.where(is_design, numbers, -1)

    def digits_near(self, points: FloatArray) -> IntArray:
        """(n, k) the choices at (n, k) quantiles in [0, 1), each given those before it."""
        digits = np.empty(points.shape, np.int64)
        state = np.zeros(len(points), np.int64)
        for place, layer in enumerate(self.layers):
            digit = _last_not_above(self._shares[place], state, points[:, place])
            state = layer.children[state, digit]
            digits[:, place] = digit
        return digits

    @cached_property
    def _shares(self) -> ArrayList:
        """Starts of the quantiles of each choice, layer by layer."""
        return [
            (layer.starts / np.maximum(layer.counts, 1)[:, None]).astype(np.float64)
            for layer in self.layers
        ]

    def all_digits(self) -> IntArray:
        """(size, k) the choices of all designs, in the order of their numbers."""
        digits = np.empty((1, 0), np.int64)
        state = np.zeros(1, np.int64)
        for layer in self.layers:
            design, digit = np.nonzero(layer.children[state] >= 0)
            digits = np.column_stack([digits[design], digit])
            state = layer.children[state[design], digit]
        return digits

    def possible(self, place: int) -> IntArray:
        """Choices of designs at a place, increasing."""
        return np.flatnonzero((self.layers[place].children >= 0).any(axis=0))

    def near(self, digits: IntArray, n_changes: int) -> IntArray:
        """(n, k) the choices of designs that differ from one in 1 to ``n_changes`` choices.

        Args:
            digits: (k,) the choices of the design.
            n_changes: Most choices that differ.
        """
        # The states within reach, and the fewest changes that lead to each of them.
        reached = [np.zeros(1, np.int64)]
        fewest = np.zeros(1, np.int64)
        for layer, digit in zip(self.layers, digits.tolist(), strict=True):
            onward = layer.children[reached[-1]]
            changes = fewest[:, None] + (np.arange(onward.shape[1]) != digit)
            is_near = (onward >= 0) & (changes <= n_changes)
            states, index = np.unique(onward[is_near], return_inverse=True)
            fewest = np.full(len(states), n_changes + 1)
            np.minimum.at(fewest, index, changes[is_near])
            reached.append(states)
        # The fewest changes with which each of them is completed.
        needs = [np.zeros(1, np.int64)]
        children: list[IntArray] = []
        for place in range(len(self.layers) - 1, -1, -1):
            onward = self.layers[place].children[reached[place]]
            index = np.minimum(np.searchsorted(reached[place + 1], onward), len(needs[0]) - 1)
            is_reached = (onward >= 0) & (reached[place + 1][index] == onward)
            changes = needs[0][index] + (np.arange(onward.shape[1]) != digits[place])
            children.insert(0, np.where(is_reached, index, -1))
            needs.insert(0, np.where(is_reached, changes, n_changes + 1).min(axis=1))
        state = np.zeros(1, np.int64)
        used = np.zeros(1, np.int64)
        paths = np.empty((1, 0), np.int64)
        for place, onward in enumerate(children):
            changes = used[:, None] + (np.arange(onward.shape[1]) != digits[place])
            need = needs[place + 1][onward[state]]
            path, digit = np.nonzero((onward[state] >= 0) & (changes + need <= n_changes))
            used = changes[path, digit]
            state = onward[state[path], digit]
            paths = np.column_stack([paths[path], digit])
        return paths[used > 0]

    def restricted(self, allowed: Sequence[BoolArray]) -> Diagram | None:
        """The designs whose choices are all among the allowed (v,) ones; None if there are none."""
        reached = [np.zeros(1, np.int64)]
        children = []
        for layer, is_allowed in zip(self.layers, allowed, strict=True):
            onward = np.where(is_allowed, layer.children[reached[-1]], -1)
            states = np.unique(onward[onward >= 0])
            if not len(states):
                return None
            children.append(np.where(onward >= 0, np.searchsorted(states, onward), -1))
            reached.append(states)
        return counted(children)


def _last_not_above(
    table: FloatArray | IntArray, state: IntArray, limit: FloatArray | IntArray
) -> IntArray:
    """(n,) the last entry of a state's increasing (v,) row that is not above a limit.

    A choice that no design has begins where the next one begins, or at the state's count, so
    that it is never the last.
    """
    width = table.shape[1]
    digits = np.empty(len(state), np.int64)
    size = max(_CHUNK // width, 1)
    for start in range(0, len(state), size):
        chunk = slice(start, start + size)
        if len(table) == 1:
            digits[chunk] = np.searchsorted(table[0], limit[chunk], side="right") - 1
        else:
            digits[chunk] = (table[state[chunk]] <= limit[chunk, None]).sum(axis=1) - 1
    return digits


def counted(children: Sequence[IntArray]) -> Diagram | None:
    """The diagram of states and what each choice leads to; None if no design is complete.

    Args:
        children: For each choice the (s, v) states that it leads to, -1 for none. The last
            ones lead to state 0, a complete design.
    """
    counts = np.ones(1, np.int64)
    layers = []
    for onward in reversed(children):
        weights = np.where(onward >= 0, counts[onward], 0)
        # Of whole numbers in floats, the sum errs by far less than this factor of two.
        if weights.dtype == object or weights.sum(axis=1, dtype=np.float64).max() >= _INT64 / 2:
            weights = weights.astype(object)
        ends = np.cumsum(weights, axis=1)
        counts = ends[:, -1]
        alive = np.where(weights > 0, onward, -1)
        layers.append(Layer(alive, ends - weights, counts))
    return Diagram(layers[::-1]) if counts[0] else None


def diagram_of(
    structure: Structure,
    axes: Sequence[ComponentAxis],
    rules: Sequence[Rule],
    max_steps: int,
) -> Diagram | None:
    """The diagram of the choices that keep the rules; None if no design does.

    Args:
        axes: The choices, in the order in which they are made.
        rules: Over these choices.
        max_steps: Bound on states, times choices, times what is remembered of a state.

    Raises:
        TooManyStatesError: There are more.
    """
    terms = compiled(structure, axes, rules)
    cells: dict[Cell, FloatArray] = {}
    n_states = 1
    n_steps = 0
    children = []
    for place, axis in enumerate(axes):
        n_steps += n_states * len(axis) * (1 + len(cells))
        if n_steps > max_steps:
            worst = _most_states(terms, cells, place - 1)
            columns = np.concatenate([axes[place].columns for place in terms[worst].places])
            raise TooManyStatesError(rules[worst], np.sort(columns).tolist())
        onward, cells, n_states = _expanded(terms, cells, n_states, place, len(axis))
        children.append(onward)
        if not n_states:
            return None
    return counted(children)


def _expanded(
    terms: Sequence[Term],
    cells: dict[Cell, FloatArray],
    n_states: int,
    place: int,
    n_choices: int,
) -> tuple[IntArray, dict[Cell, FloatArray], int]:
    """Successors of each choice, the memory of the new states, and their number."""
    ending = [term for term in terms if term.last == place]
    still_open = [term for term in terms if term.is_open(place)]
    onward = np.full(n_states * n_choices, -1, np.int64)
    survivors = []
    memories = []
    size = max(_CHUNK // n_choices, 1)
    for start in range(0, n_states, size):
        states = np.arange(start, min(start + size, n_states))
        candidates = Candidates(
            place, cells, np.repeat(states, n_choices), np.tile(np.arange(n_choices), len(states))
        )
        for term in ending:
            candidates = candidates.take(candidates.value(term) <= 0)
        survivors.append(candidates.parents * n_choices + candidates.digits)
        memories.append(candidates.remembered(still_open))
    alive = np.concatenate(survivors)
    remembered = {cell: np.concatenate([chunk[cell] for chunk in memories]) for cell in memories[0]}
    first, state = _merged(list(remembered.values()), len(alive))
    onward[alive] = state
    cells = {cell: values[first] for cell, values in remembered.items()}
    return onward.reshape(n_states, n_choices), cells, len(first)


def _merged(cells: Sequence[FloatArray], n: int) -> tuple[IntArray, IntArray]:
    """Groups of equal cells: a member of each group, and the (n,) group of each."""
    key = np.zeros(n, np.int64)
    n_keys = 1
    for values in cells:
        codes, n_codes = _codes(values)
        if n_keys * n_codes >= _INT64:
            key, members = distinct(key, n_keys)
            n_keys = len(members)
        key = key * n_codes + codes
        n_keys = n_keys * n_codes
    group, members = distinct(key, n_keys)
    return members, group


def _codes(values: FloatArray) -> tuple[IntArray, int]:
    """(n,) numbers that are equal if the values are, and their range."""
    with np.errstate(invalid="ignore"):  # of infinite ones
        is_whole = len(values) > 0 and (values % 1 == 0).all()
    if is_whole:
        low = values.min()
        high = values.max()
        if high - low < _FEW_CODES:
            return (values - low).astype(np.int64), int(high - low) + 1
    distinct_values, codes = np.unique(values, return_inverse=True)
    return codes, len(distinct_values)


def _most_states(terms: Sequence[Term], cells: dict[Cell, FloatArray], place: int) -> int:
    """Rule that alone needs the most states after this place; of many states, among some."""
    nothing = np.empty(0, np.int64)
    structural = Candidates(place, {}, nothing, nothing)

    def n_states(term: Term) -> int:
        demanded = structural.demanded(term, np.empty(0, bool))
        values = [cells[cell][:_CHUNK] for cell, _ in demanded if cell in cells]
        return len(_merged(values, len(values[0]))[0]) if values else 0

    numbers = [n_states(term) for term in terms]
    return numbers.index(max(numbers))
