"""A good front, quickly: what lets the walk leave out most of a space.

A uniform sample, then the neighbors of its front, and theirs, until nothing new is found: a
Pareto local search. It decides how much work the exact front takes, never what the front is.
"""

from __future__ import annotations

import numpy as np

from codesign.base.columns import FloatArray
from codesign.search.enumeration.front import Archive
from codesign.search.problem import Problem

SEED = 40_000
"""Seed of the sample."""
SAMPLE = 1 << 16
_SHARE = 16
"""Divisor of the size of a smaller space that gives the number of drawn designs."""
_MOST_ROUNDS = 60
_MOST_NEIGHBORS_OF = 512
"""Points of the front whose neighbors are looked at in one round, evenly spread over it."""


def find_incumbents(problem: Problem) -> FloatArray:
    """(p, m) objectives of feasible designs, non-dominated, in lexicographic order."""
    rng = np.random.default_rng(SEED)
    archive = Archive(len(problem.objectives))
    explored = set()
    rows = problem.space.sample(rng, min(SAMPLE, -(-problem.space.size // _SHARE)))
    for _ in range(_MOST_ROUNDS):
        rows = rows[problem.admits(rows)]
        results = problem.evaluate(rows, problem.deciding_metrics)
        feasible = np.flatnonzero(results.feasible)
        keys = problem.space.keys(rows[feasible])
        archive.add(results.objectives[feasible], keys, np.ones(len(keys), np.int64))
        seen = dict(zip(keys.tolist(), rows[feasible], strict=True))
        # One design of each point of the front that was just met.
        first = [int(group[0]) for group in archive.members]
        fresh = [seen[key] for key in first if key in seen and key not in explored]
        if not fresh:
            break
        spread = np.linspace(0, len(fresh) - 1, min(len(fresh), _MOST_NEIGHBORS_OF))
        picked = [fresh[i] for i in np.unique(spread.astype(np.int64))]
        explored.update(problem.space.keys(np.stack(picked)).tolist())
        rows = np.concatenate([problem.space.neighbors(row) for row in picked])
    return archive.points
