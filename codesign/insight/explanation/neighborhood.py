"""Designs one move away from a front: the cost of a change, and near misses.

A move is that of :meth:`codesign.space.DesignSpace.neighbors`: another value of a category, the
next value of a number, one part more, less or replaced. Every move is evaluated, so its numbers are
exact. Designs further away are not evaluated. Statements about a value that the front lacks
therefore hold for these neighbors only; ``codesign explain`` covers the whole space.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from codesign.base.columns import Arrays, BoolArray, FloatArray, IntArray, Value, evenly
from codesign.base.loop_progress import LoopProgress
from codesign.insight.explanation.choices import possible_codes
from codesign.insight.explanation.distance import Measure
from codesign.search.observations import Observations
from codesign.search.pareto import non_dominated
from codesign.search.problem import Problem

MOST_NEIGHBORS = 4_000
"""[ours] Designs that are evaluated around a front; of more, evenly many."""
_FEW, _SOON_S = 16, 1.0
"""[ours] So many designs are evaluated at once, and twice as many after a part took less time."""


@dataclass(frozen=True)
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

    def broken(self, place: int) -> dict[str, float]:
        """The limits that a design breaks, with the excess."""
        excess = {name: float(values[place]) for name, values in self.excess.items()}
        return {name: value for name, value in excess.items() if value > 0}


def neighborhood(problem: Problem, rows: IntArray, metrics: Sequence[str]) -> Neighborhood:
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
            loop.done += len(batch)
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


@dataclass(frozen=True)
class NearMiss:
    """A value that no design of the whole front has, in the neighbor that lacks least.

    Attributes:
        value: None: the parameter's absence.
        place: Of the neighbor.
        dominator: Position in ``front_rows`` of the design that is better and most alike.
        regret: See :mod:`.distance`; the neighbor's.
    """

    parameter: str
    value: Value
    place: int
    dominator: int
    regret: float


def near_misses(
    problem: Problem,
    near: Neighborhood,
    front_rows: IntArray,
    measure: Measure,
    known_rows: IntArray,
) -> list[NearMiss]:
    """For each value that the whole front lacks, the feasible neighbor with the least regret.

    Args:
        near: The neighborhood of ``front_rows``.
        front_rows: (p, d) a design of each point of the measure's front, in its order; where
            points are folded, of those that are not.
        measure: Of improvements with respect to ``front_rows``.
        known_rows: (k, d) all known designs of the whole front; no value that one of them has is
            missing.

    Returns:
        The least regret first; values without a feasible neighbor are left out.
    """
    misses = []
    inside = np.flatnonzero(near.feasible)
    for column, parameter in enumerate(problem.space.parameters):
        for code in possible_codes(problem.space, column):
            having = inside[near.rows[inside, column] == code]
            if (known_rows[:, column] == code).any() or not len(having):
                continue
            place = int(having[measure.nearest(near.objectives[having])])
            better = measure.dominating(near.objectives[place])
            if not len(better):
                continue
            alike = (front_rows[better] == near.rows[place]).sum(axis=1)
            misses.append(
                NearMiss(
                    parameter=parameter.name,
                    value=parameter.values[code] if code >= 0 else None,
                    place=place,
                    dominator=int(better[alike.argmax()]),
                    regret=float(measure.regret(near.objectives[[place]])[0]),
                )
            )
    return sorted(misses, key=lambda model: model.regret)


@dataclass(frozen=True)
class FoldedChoice:
    """A value that designs of the front have only where they are folded under a cheaper one.

    Attributes:
        value: None: the parameter's absence.
        places: Of the folded designs that have it, ascending.
    """

    parameter: str
    value: Value
    places: tuple[int, ...]


def folded_choices(
    problem: Problem, known_rows: IntArray, places: IntArray, kept_places: IntArray
) -> list[FoldedChoice]:
    """Values that only folded designs of a front have.

    Args:
        known_rows: (k, d) all known designs of the whole front.
        places: (k,) the place on the front of each.
        kept_places: Places that are not folded.
    """
    is_kept = np.isin(places, kept_places)
    choices = []
    for column, parameter in enumerate(problem.space.parameters):
        for code in possible_codes(problem.space, column):
            has_code = known_rows[:, column] == code
            if has_code.any() and not (has_code & is_kept).any():
                value = parameter.values[code] if code >= 0 else None
                owners = tuple(np.unique(places[has_code]).tolist())
                choices.append(FoldedChoice(parameter.name, value, owners))
    return choices


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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
    ratios: Mapping[str, float]


def verdicts(problem: Problem, reading: Reading, rows: IntArray, n_asked: int) -> list[Verdict]:
    """Verdicts of a model on the first ``n_asked`` of (n, d) designs that are compared in it."""
    compared = rows[:n_asked] if reading.is_costly else rows
    names = problem.objective_names
    ours, theirs = (
        candidate.evaluate(compared, candidate.deciding_metrics)
        for candidate in (problem, reading.problem)
    )
    admitted = theirs.feasible & reading.problem.admits(compared)
    best: BoolArray = np.zeros(len(compared), dtype=bool)
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
