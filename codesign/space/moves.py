"""Designs that are one move away from a design."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from codesign.base.columns import IntArray
from codesign.space.components import Component
from codesign.space.structure import Structure

_MAX_REPLACEMENTS = 256
"""Variants with which a repetition is replaced as a whole; above, member by member only."""
_MOST_COMPLETIONS = 1024
"""Ways to fill in what one move brings to life, up to which all of them are tried."""
_SOME_COMPLETIONS = 64
"""Completions that are tried where there are more, evenly spread over the feasible ones."""


def neighbors(structure: Structure, components: Sequence[Component], row: IntArray) -> IntArray:
    """(k, d) feasible canonical designs that differ from ``row`` by one move.

    A move changes a categorical parameter to any other value, a number to the next one up or
    down, makes an optional parameter present or absent, or adds, removes or replaces one
    repetition of a part. What a move brings to life is tried at each of its values; of very many
    combinations, as when another family of accelerators has parameters of its own, at some that
    are evenly spread over the feasible ones. A parameter that constraints keep from moving alone,
    as where a sum or a product is fixed or all values differ, moves with the fewest others.
    """
    start = structure.canonical(np.atleast_2d(np.asarray(row, np.int64)))
    moved = []
    for column, code in enumerate(start[0].tolist()):
        codes = np.array(sorted(_next_codes(structure, code, column)), np.int64)
        moved.append(_substituted(start, np.array([column]), codes[:, None]))
    for repeated_part in structure.parts:
        if len(repeated_part.legal) <= _MAX_REPLACEMENTS:
            contents = repeated_part.variants[np.append(repeated_part.legal, repeated_part.absent)]
            moved += [_substituted(start, columns, contents) for columns in repeated_part.columns]
    rows = _completed(structure, components, np.concatenate(moved))
    rows = rows[structure.contains(rows)]
    joint = [
        _substituted(start, component.columns, component.joint_moves(start[0], rows))
        for component in components
        if component.constraints
    ]
    rows = np.concatenate([rows, *joint])
    rows = rows[np.unique(structure.keys(rows), return_index=True)[1]]  # rows in ascending order
    return np.asarray(rows[(rows != start).any(axis=1)])


def _substituted(start: IntArray, columns: IntArray, contents: IntArray) -> IntArray:
    rows = np.repeat(start, len(contents), axis=0)
    rows[:, columns] = contents
    return rows


def _next_codes(structure: Structure, code: int, column: int) -> Iterator[int]:
    levels = int(structure.n_levels[column])
    if code >= 0 and structure.has_absence[column]:
        yield -1
    if code < 0 or structure.parameters[column].kind == "categorical":
        yield from (next_code for next_code in range(levels) if next_code != code)
    else:
        yield from (next_code for next_code in (code - 1, code + 1) if 0 <= next_code < levels)


def _completed(structure: Structure, components: Sequence[Component], moved: IntArray) -> IntArray:
    """Canonical rows, with what a move has made necessary filled in in every way, or in some."""
    rows = moved
    move = np.arange(len(moved))
    with_many = []
    for step in structure.steps:
        # What a condition depends on has had its step before.
        rows = structure.canonical(rows, [step])
        if not isinstance(step, int) or step in structure.columns_in_parts:
            continue
        lacking = structure.is_lacking(rows, step)
        if not lacking.any():
            continue
        levels = np.arange(structure.n_levels[step])
        n_ways = np.bincount(move, np.where(lacking, len(levels), 1))
        is_many = n_ways[move] > _MOST_COMPLETIONS
        with_many += np.unique(move[is_many]).tolist()
        is_filled = lacking & ~is_many
        is_kept = ~lacking & ~is_many
        filled = np.repeat(rows[is_filled], len(levels), axis=0)
        filled[:, step] = np.tile(levels, int(is_filled.sum()))
        rows = np.concatenate([rows[is_kept], filled])
        move = np.concatenate([move[is_kept], np.repeat(move[is_filled], len(levels))])
    some = [_some_completions(structure, components, moved[i]) for i in with_many]
    return np.concatenate([rows, *some])


def _some_completions(
    structure: Structure, components: Sequence[Component], moved: IntArray
) -> IntArray:
    """(k, d) designs that agree with a row in all that it has, evenly spread over them."""
    (row,) = structure.canonical(moved[None, :])
    absent = {
        column
        for column in structure.conditions
        if column not in structure.columns_in_parts and not structure.has_absence[column]
        and row[column] < 0
    }  # fmt: skip
    lacking = [column for column in absent if structure.is_lacking(row[None, :], column)[0]]
    (component,) = (component for component in components if lacking[0] in component.columns)
    settings = component.completions(row, absent, _SOME_COMPLETIONS)
    rows = np.repeat(row[None, :], len(settings), axis=0)
    rows[:, component.columns] = settings
    return rows
