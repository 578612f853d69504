"""Designs near good ones: mutants of one, mixtures of two, and jumps of a number.

Random designs of a large space are hardly ever near its front, and a move to the next level
hardly ever leaves a basin. Steps of a number are spread evenly by their logarithm, from one level
to its whole range, so that every scale is tried as often as any other.
"""

from __future__ import annotations

import numpy as np

from codesign.base.columns import IntArray
from codesign.space import DesignSpace

_MOST_CHANGES = 3
"""Parameters that a mutant changes at most; each number up to it as often [ours]."""
_MIXED = 0.5
"""Share of mutants that begin as a mixture of two parents [ours]."""


def mutants(space: DesignSpace, parents: IntArray, n: int, rng: np.random.Generator) -> IntArray:
    """(n, d) canonical rows, admissible or not, near (k, d) parents; none if there is no parent.

    Half of them take each parameter from one of two parents. Then up to three parameters change:
    categories to any other value, numbers by a step up or down.
    """
    if not len(parents):
        return parents
    # Codes of a parameter begin with -1 where absence can be chosen.
    first = -space.structure.has_absence.astype(np.int64)
    n_codes = space.structure.n_levels - first
    pairs = parents[rng.integers(len(parents), size=(2, n))]
    is_from_other = (rng.random((n, 1)) < _MIXED) & (rng.random((n, len(first))) < 0.5)
    rows = np.where(is_from_other, pairs[1], pairs[0])
    # What has no value has none to step from.
    anything = first + (rng.random(rows.shape) * n_codes).astype(np.int64)
    rows = np.where(rows < first, anything, rows)
    uniform = rng.random((2, *rows.shape))
    sizes = np.maximum(n_codes - 1, 1).astype(np.float64) ** uniform[0]
    moved = np.clip(
        rows + np.where(uniform[1] < 0.5, -1, 1) * sizes.round().astype(np.int64),
        first,
        first + n_codes - 1,
    )
    is_category = np.array([parameter.kind == "categorical" for parameter in space.parameters])
    moved = np.where(is_category | (rows < 0), anything, moved)
    can_change = n_codes > 1
    order = np.where(can_change, rng.random((n, len(can_change))), np.inf)
    ranks = order.argsort(axis=1).argsort(axis=1)
    return space.canonical(
        np.where(
            (ranks < rng.integers(1, _MOST_CHANGES + 1, size=(n, 1))) & can_change,
            moved,
            rows,
        )
    )


def strides(space: DesignSpace, row: IntArray) -> IntArray:
    """(k, d) canonical rows, admissible or not, with one number 2, 4, 8 ... levels away."""
    rows = [row]
    for column, parameter in enumerate(space.parameters):
        code = int(row[column])
        n_levels = len(parameter.values)
        if parameter.kind == "categorical" or code < 0:
            continue
        sizes = 2 ** np.arange(1, max((n_levels - 1).bit_length(), 1))
        codes = np.concatenate([code - sizes, code + sizes])
        codes = codes[(codes >= 0) & (codes < n_levels)]
        moved = np.repeat(row[None, :], len(codes), axis=0)
        moved[:, column] = codes
        rows.append(moved)
    return space.canonical(np.vstack(rows)[1:]) if len(rows) > 1 else row[None, :][:0]
