"""Designs that are one move away from a design."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from codesign.columns import IntArray
from codesign.space.structure import Structure

_MAX_REPLACEMENTS = 256
"""Variants with which a repetition is replaced as a whole; above, member by member only."""


def neighbors(structure: Structure, row: IntArray) -> IntArray:
    """(k, d) feasible canonical designs that differ from ``row`` by one move.

    A move changes a categorical parameter to any other value, a number to the next one up or
    down, makes an optional parameter present or absent, or adds, removes or replaces one
    repetition of a part. What a move brings to life is tried at each of its values.
    """
    start = structure.canonical(np.atleast_2d(np.asarray(row, dtype=np.int64)))
    moved = [_changed(structure, start, column) for column in range(start.shape[1])]
    for part in structure.parts:
        if len(part.legal) <= _MAX_REPLACEMENTS:
            contents = part.variants[np.append(part.legal, part.absent)]
            moved += [_with(start, columns, contents) for columns in part.columns]
    rows = structure.canonical(_completed(structure, np.concatenate(moved)))
    rows = np.unique(rows[structure.contains(rows)], axis=0)
    return np.asarray(rows[(rows != start).any(axis=1)])


def _with(start: IntArray, columns: IntArray, contents: IntArray) -> IntArray:
    rows = np.repeat(start, len(contents), axis=0)
    rows[:, columns] = contents
    return rows


def _changed(structure: Structure, start: IntArray, column: int) -> IntArray:
    codes = np.array(sorted(_next_codes(structure, int(start[0, column]), column)), dtype=np.int64)
    return _with(start, np.array([column]), codes[:, None])


def _next_codes(structure: Structure, code: int, column: int) -> Iterator[int]:
    levels = int(structure.n_levels[column])
    if code >= 0 and structure.has_absence[column]:
        yield -1
    if code < 0 or structure.parameters[column].kind == "categorical":
        yield from (next_code for next_code in range(levels) if next_code != code)
    else:
        yield from (next_code for next_code in (code - 1, code + 1) if 0 <= next_code < levels)


def _completed(structure: Structure, rows: IntArray) -> IntArray:
    """Every way to fill in parameters that a move has made necessary."""
    for step in structure.steps:
        if not isinstance(step, int):
            continue
        lacking = structure.is_lacking(structure.canonical(rows), step)
        if step in structure.columns_in_parts or not lacking.any():
            continue
        levels = np.arange(structure.n_levels[step])
        filled = np.repeat(rows[lacking], len(levels), axis=0)
        filled[:, step] = np.tile(levels, int(lacking.sum()))
        rows = np.concatenate([rows[~lacking], filled])
    return rows
