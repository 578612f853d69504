"""Numeric parameters that stand at an end of their range, and the effect of one value beyond.

The space is widened by the next value of the parameter's steps. Front designs at the end get that
value, everything else stays, and are evaluated. The gain is therefore a lower bound: a new value
may gain more with other changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from codesign.base.columns import FloatArray, FloatList, IntArray, IntegerList
from codesign.base.errors import InputError
from codesign.base.records import frozen
from codesign.search.enumeration import ExactFront
from codesign.search.pareto import fold, non_dominated
from codesign.search.problem import Problem, cost_column


@frozen
class RangeEnd:
    """A parameter whose least or largest value stands on the front.

    Attributes:
        parameter: Its name, such as ``tier stacks``, or ``pe_array[0]`` of an entry.
        end: The least or the largest value.
        n_points: Listed points with that value.
        beyond: The next value by the parameter's steps; None if there is none.
        n_feasible: Designs of the front with the next value instead that keep all limits.
        n_new: Points that they add to the front.
        best: (m,) best value of each objective with them, minimized.
    """

    parameter: str
    end: float
    n_points: int
    beyond: float | None
    n_feasible: int
    n_new: int
    best: FloatArray


def range_ends(problem: Problem, front: ExactFront, tolerance: float) -> list[RangeEnd]:
    """The ends of ranges that stand on a front, the most frequent first.

    Args:
        tolerance: Share within which points are folded; only listed points count.
    """
    space = problem.space
    if space.with_values is None or space.pools:
        return []
    columns: dict[str, IntegerList] = {
        f"{repeated.name} {member}": repeated.columns[:, place].tolist()
        for repeated in space.structure.parts
        for place, member in enumerate(repeated.members)
    }
    repeated_columns = {column for places in columns.values() for column in places}
    for column, name in enumerate(space.names):
        if column not in repeated_columns:
            columns[name] = [column]
    fixed = space.provenance().get("fixed", {})
    under = fold(front.objectives, cost_column(problem.objectives), tolerance)
    listed = front.only(np.flatnonzero(under == np.arange(len(under))))
    ends = [
        end
        for name, places in columns.items()
        if not any(space.names[place] in fixed for place in places)
        for end in _ends(problem, front, listed, name, places)
    ]
    return sorted(ends, key=lambda end: -end.n_points)


def _ends(
    problem: Problem, front: ExactFront, listed: ExactFront, name: str, columns: IntegerList
) -> Iterator[RangeEnd]:
    parameter = problem.space.parameters[columns[0]]
    n_entries = parameter.n_entries
    if not n_entries and not (parameter.is_numeric and not parameter.catalog):
        return
    values: list[Any] = [value if n_entries else (value,) for value in parameter.values]
    if not all(isinstance(entry, int | float) for value in values for entry in value):
        return
    for entry in range(n_entries or 1):
        levels = sorted({value[entry] for value in values})
        for level, beyond in _next_levels(levels):
            codes = [code for code, value in enumerate(values) if value[entry] == level]
            is_end = np.isin(listed.rows[:, columns], codes).any(axis=1)
            n_points = len(np.unique(listed.point[is_end]))
            if not n_points:
                continue
            title = f"{name}[{entry}]" if n_entries else name
            end = RangeEnd(title, level, n_points, beyond, 0, 0, front.objectives.min(axis=0))
            if beyond is not None:
                new = [(*values[c][:entry], beyond, *values[c][entry + 1 :]) for c in codes]
                moves = dict(zip(codes, new if n_entries else [beyond] * len(new), strict=True))
                end = _widened(problem, front, listed.rows[is_end], name, columns, moves, end)
            yield end


def _next_levels(levels: FloatList) -> Iterator[tuple[float, float | None]]:
    """Both ends of increasing levels, each with the next level by their steps or their ratio."""
    if len(levels) < 2:
        return
    is_positive = levels[0] > 0
    is_even = np.allclose(np.diff(levels), levels[1] - levels[0])
    is_even &= len(levels) > 2 or not is_positive
    for end, near in ((levels[0], levels[1]), (levels[-1], levels[-2])):
        beyond = 2 * end - near if is_even else end * end / near if near else 0.0
        is_integer = all(isinstance(level, int) for level in levels)
        beyond = round(beyond) if is_integer else beyond
        yield end, None if beyond < 0 or beyond == end or (is_positive and not beyond) else beyond


def _widened(
    problem: Problem,
    front: ExactFront,
    rows: IntArray,
    name: str,
    columns: IntegerList,
    moves: dict[int, Any],
    end: RangeEnd,
) -> RangeEnd:
    """The end with its designs moved to the next value and evaluated in the widened space."""
    parameter = problem.space.parameters[columns[0]]
    new_values = [*parameter.values, *dict.fromkeys(moves.values())]
    if not parameter.n_entries:
        new_values.sort(key=lambda value: float(str(value)))
    written = [
        list(value) if isinstance(value, tuple) else parameter.show(value) if parameter.unit
        else value
        for value in new_values
    ]  # fmt: skip
    assert problem.space.with_values is not None
    try:
        space = problem.space.with_values(name, written)
        encoded = []
        for row, design in zip(rows, problem.space.decode(rows), strict=True):
            changed = {problem.space.names[c]: moves[row[c]] for c in columns if row[c] in moves}
            encoded.append(space.encode(design | changed))
        wide = replace(problem, space=space)
        moved = np.unique(np.concatenate(encoded), axis=0)
        observed = wide.evaluate(moved[wide.admits(moved)], wide.deciding_metrics)
    except InputError:
        return replace(end, beyond=None)
    new = observed.objectives[observed.feasible]
    joined = np.unique(np.concatenate([front.objectives, new]), axis=0)
    joined = joined[non_dominated(joined)]
    is_old = (joined[:, None] == front.objectives).all(axis=2).any(axis=1)
    n_new = int((~is_old).sum())
    return replace(end, n_feasible=len(new), n_new=n_new, best=joined.min(axis=0))
