"""A batch of designs as columns of level codes: what search hands to the hardware models.

A column is a short table of distinct values and one small integer per design. Whatever
depends on one parameter is computed once per value and gathered, never once per design.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from codesign.base.records import frozen

FloatArray = NDArray[np.float64]
Floats = FloatArray | float
"""An array, or a number that broadcasts against one."""
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
Value = bool | int | float | str | tuple[int, ...] | None


@frozen
class Column:
    """One parameter over ``n`` designs.

    Attributes:
        values: The distinct values.
        codes: (n,) indices into ``values``; -1 where the parameter is absent.
    """

    values: tuple[Value, ...]
    codes: IntArray

    def lookup(self, function: Callable[[Any], float], absent: float = 0.0) -> FloatArray:
        """(n,) ``function`` of each design's value, called once per distinct value."""
        table = [absent if value is None else float(function(value)) for value in self.values]
        # Code -1 indexes the last entry, which is therefore the absent one.
        return np.asarray([*table, absent], np.float64)[self.codes]

    def decoded(self) -> list[Value]:
        """The value of each design; None where absent."""
        values = (*self.values, None)
        return [values[code] for code in self.codes]

    def __len__(self) -> int:
        return len(self.codes)


Columns = Mapping[str, Column]
"""Parameter name to column, all of one length."""


class SharedColumns(dict[str, Column]):
    """Columns that several evaluators look at; what follows from them alone is computed once."""

    def __init__(self, columns: Columns) -> None:
        super().__init__(columns)
        self.results: dict[Hashable, Any] = {}


def compute_once(columns: Columns, key: Hashable, function: Function) -> Any:
    """The result of a function of columns, from an earlier call if they are shared."""
    results = getattr(columns, "results", {})
    if key not in results:
        results[key] = function()
    return results[key]


Arrays = Mapping[str, FloatArray]
"""Numbers of designs by name, such as values of metrics; (n,) where nothing else is stated."""
Domains = Mapping[str, Sequence[Value]]
"""The values that each parameter may take, by its name."""
Fields = Mapping[str, Any]
"""Values by name: a design, a row of a table, an object of a document."""
JsonObject = dict[str, Any]
"""A new object of a document, which its maker may still fill."""
JsonRows = list[JsonObject]
FieldRows = Sequence[Fields]
Strings = Sequence[str]
StringList = list[str]
StringTuple = tuple[str, ...]
StringPair = tuple[str, str]
StringMap = Mapping[str, str]
StringDict = dict[str, str]
StringArray = NDArray[np.str_]
IntegerList = list[int]
IntegerTuple = tuple[int, ...]
IntegerPair = tuple[int, int]
FloatList = list[float]
ValueTuple = tuple[Value, ...]
ValueMap = Mapping[str, Value]
IntegerMap = Mapping[str, int]
FloatSequence = Sequence[float]
IntegerSequence = Sequence[int]
IntegerDict = dict[str, int]
ArrayList = list[FloatArray]
ArrayTuple = tuple[FloatArray, ...]
Function = Callable[..., Any]
FloatMap = Mapping[str, float]
FloatDict = dict[str, float]
FloatPair = tuple[float, float]
ArrayPair = tuple[FloatArray, FloatArray]
ArrayTriple = tuple[FloatArray, FloatArray, FloatArray]
ArrayDict = dict[str, FloatArray]
"""Arrays by name, in a mapping that may still be filled."""


def plain_value(value: Any) -> Any:
    """A value in JSON types: NumPy values as lists or numbers, all others as text."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


def n_designs(columns: Columns) -> int:
    """Number of designs of a batch."""
    return len(next(iter(columns.values())))


def taken(columns: Columns, positions: IntArray | slice) -> Columns:
    """The designs at these positions."""
    return {
        name: Column(column.values, column.codes[positions]) for name, column in columns.items()
    }


def shared_part(columns: Columns, positions: IntArray | slice) -> SharedColumns:
    """The designs at these positions, as columns that are shared."""
    return SharedColumns(taken(columns, positions))


def column_of(values: list[Value]) -> Column:
    """The column of explicit values, one per design (None: absent)."""
    distinct = tuple(dict.fromkeys(value for value in values if value is not None))
    index = {value: code for code, value in enumerate(distinct)}
    codes = np.array([-1 if value is None else index[value] for value in values], np.int64)
    return Column(distinct, codes)


def design_columns(design: Mapping[str, Value]) -> Columns:
    """The columns of one design."""
    return {name: column_of([value]) for name, value in design.items()}


def constant_column(value: Value, n: int) -> Column:
    """The column of ``n`` designs that have the same value."""
    return Column((value,), np.zeros(n, np.int64))


MACHINES = "machines"
"""Parameter of each pool, with the pool's name in front: its number of machines."""
Entry = TypeVar("Entry")


def parameters_of_pool(pool: str, values: Mapping[str, Entry]) -> dict[str, Entry]:
    """Entries of the parameters of one machine of a pool, without the pool's name."""
    prefix = f"{pool}_"
    return {
        name.removeprefix(prefix): value
        for name, value in values.items()
        if name.startswith(prefix) and name != f"{prefix}{MACHINES}"
    }


MOST_COMBINATIONS = 1 << 62
"""A key of more does not fit into 64 bits."""


def combined(*codes: IntArray) -> tuple[IntArray, int]:
    """One number for each combination of codes, equal where all the codes are.

    Args:
        codes: (n,) each, -1 and above.

    Returns:
        (n,) numbers, and the limit that they stay below; from ``MOST_COMBINATIONS`` on the numbers
        are of no use.
    """
    key = np.zeros(len(codes[0]), np.int64)
    limit = 1
    for code in codes if len(key) else ():
        least = int(code.min())
        radix = int(code.max()) - least + 1
        if radix == 1:
            continue  # the same in all
        limit *= radix
        if limit >= MOST_COMBINATIONS:
            return key, limit
        key *= radix
        key += code
        if least:
            key -= least
    return key, limit


def distinct(key: IntArray, limit: int) -> tuple[IntArray, IntArray]:
    """Numbers the distinct values of a key.

    Args:
        key: (n,) at least 0.
        limit: Above all of them.

    Returns:
        (n,) number of each one's value, and (u,) a position of each value, in ascending order.
    """
    if len(key) == 1:  # as of a single design, for which tables would take most of the time
        nothing = np.zeros(1, np.int64)
        return nothing, nothing
    if limit > 4 * len(key) + _SMALL:
        order = np.argsort(key)
        is_first = np.empty(len(key), bool)
        is_first[:1] = True
        np.not_equal(key[order[1:]], key[order[:-1]], out=is_first[1:])
        number = np.empty_like(key)
        number[order] = np.cumsum(is_first) - 1
        return number, order[is_first]
    position = np.full(limit, -1)
    position[key] = np.arange(len(key))
    present = np.flatnonzero(position >= 0)
    number = np.empty(limit, np.int64)
    number[present] = np.arange(len(present))
    return number[key], position[present]


_SMALL = 1 << 12
"""Values up to which a table of all of them costs nothing."""


def values_at(columns: Mapping[str, Any], position: int) -> dict[str, float]:
    """Numbers of the design at a position, by the name of their column."""
    return {name: float(values[position]) for name, values in columns.items()}


def first_values(columns: Mapping[str, Any]) -> dict[str, float]:
    """Numbers of the first design, by the name of their column."""
    return values_at(columns, 0)


def joined(batches: Sequence[Arrays]) -> ArrayDict:
    """Arrays of several batches, one batch after the other; all have the names of the first."""
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


def summed(terms: Sequence[FloatArray]) -> FloatArray:
    """The arrays added up, one after the other."""
    return sum(terms[1:], terms[0])


def evenly(positions: IntArray, most: int) -> IntArray:
    """At most so many of the positions, evenly spaced, both ends among them."""
    if len(positions) <= most:
        return positions
    return positions[np.linspace(0, len(positions) - 1, most).round().astype(np.int64)]
