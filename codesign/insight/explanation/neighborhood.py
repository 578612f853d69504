"""Designs one move away from a front, and other models' verdicts on designs.

A move is that of :meth:`codesign.space.DesignSpace.neighbors`: another value of a category, the
next value of a number, one part more, less or replaced. Every move is evaluated, so its numbers are
exact. Designs further away are not evaluated; ``codesign explain`` covers the whole space.
"""

from __future__ import annotations

import time

import numpy as np

from codesign.base.columns import (
    Arrays,
    BoolArray,
    FloatArray,
    FloatDict,
    FloatMap,
    IntArray,
    Strings,
    evenly,
)
from codesign.base.loop_progress import LoopProgress
from codesign.base.records import frozen
from codesign.search.observations import Observations
from codesign.search.pareto import non_dominated
from codesign.search.problem import Problem

MOST_NEIGHBORS = 4_000
"""[ours] Designs that are evaluated around a front; of more, evenly many."""
_FEW, _SOON_S = 16, 1.0
"""[ours] So many designs are evaluated at once, and twice as many after a part took less time."""


@frozen
class Neighborhood:
    """Designs one move away from others, evaluated.

    Attributes:
        rows: (n, d) distinct designs.
        metrics: (n,) values by name; NaN where failed.
        objectives: (n, m) minimized; NaN where failed.
        feasible: (n,) whether every limit is kept, those that need no evaluation among them.
        excess: (n,) by limit, the relative excess; NaN where failed.
    """

    rows: IntArray
    metrics: Arrays
    objectives: FloatArray
    feasible: BoolArray
    excess: Arrays

    def broken(self, place: int) -> FloatDict:
        """The limits that a design breaks, with the excess."""
        excess = {name: float(values[place]) for name, values in self.excess.items()}
        return {name: value for name, value in excess.items() if value > 0}


def neighborhood(problem: Problem, rows: IntArray, metrics: Strings) -> Neighborhood:
    """The designs one move away from any of (k, d) ``rows``, without these.

    Args:
        rows: The centers.
        metrics: To be computed besides those that decide.
    """
    space = problem.space
    moved = np.concatenate([np.empty((0, rows.shape[1]), int), *map(space.neighbors, rows)])
    moved = np.unique(moved, axis=0)
    moved = moved[~np.isin(space.keys(moved), space.keys(rows))]
    moved = evenly(moved, MOST_NEIGHBORS)
    names = list(dict.fromkeys([*problem.deciding_metrics, *metrics]))
    batches: list[Observations] = []
    n_of_part = _FEW
    with LoopProgress("designs around the front", len(moved)) as loop:
        while not batches or loop.done < len(moved):
            began_s = time.monotonic()
            batch = moved[loop.done : loop.done + n_of_part]
            batches.append(problem.evaluate(batch, names))
            loop.advance(len(batch))
            n_of_part *= 2 if time.monotonic() - began_s < _SOON_S else 1
    observed = Observations.joined(batches)
    return Neighborhood(
        rows=moved,
        metrics=observed.metrics,
        objectives=observed.objectives,
        feasible=observed.feasible & problem.admits(moved),
        excess=dict(space.violations(moved))
        | problem.known_violations(moved)
        | observed.violations_by_name,
    )


@frozen
class Reading:
    """The same problem as another model of the hardware reads it.

    Attributes:
        name: ``memexplorer``, ``simulation``.
        title: ``profile memexplorer``, ``simulation``.
        problem: With that model as its evaluator.
        is_costly: It takes long for a design, so that few are asked of it.
    """

    name: str
    title: str
    problem: Problem
    is_costly: bool = False


@frozen
class Verdict:
    """Verdict of another model on one design.

    Attributes:
        n_compared: Designs that it was compared with, itself included.
        is_feasible: It keeps every limit.
        is_non_dominated: It is feasible and none of the others dominates it.
        ratios: By metric, of that reading's value to the campaign's.
    """

    reading: Reading
    n_compared: int
    is_feasible: bool
    is_non_dominated: bool
    ratios: FloatMap


def verdicts(problem: Problem, reading: Reading, rows: IntArray, n_asked: int) -> list[Verdict]:
    """Verdicts of a model on the first ``n_asked`` of (n, d) designs that are compared in it."""
    compared = rows[:n_asked] if reading.is_costly else rows
    names = problem.objective_names
    ours, theirs = (
        candidate.evaluate(compared, candidate.deciding_metrics)
        for candidate in (problem, reading.problem)
    )
    admitted = theirs.feasible & reading.problem.admits(compared)
    best: BoolArray = np.zeros(len(compared), bool)
    inside = np.flatnonzero(admitted)
    best[inside] = non_dominated(theirs.objectives[inside])
    return [
        Verdict(
            reading=reading,
            n_compared=len(compared),
            is_feasible=bool(admitted[i]),
            is_non_dominated=bool(best[i]),
            ratios={
                name: float(theirs.metrics[name][i] / ours.metrics[name][i])
                for name in names
                if ours.metrics[name][i] and np.isfinite(theirs.metrics[name][i])
            },
        )
        for i in range(n_asked)
    ]
