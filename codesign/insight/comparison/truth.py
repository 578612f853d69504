"""Best possible result of a problem: its exact front, or the best that is known."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from codesign.base.columns import ArrayPair, FloatArray, FloatMap
from codesign.base.errors import JobError
from codesign.base.records import frozen
from codesign.search.campaign.campaign_definition import load_definition
from codesign.search.enumeration.front_cache import exact_front, stored_front
from codesign.search.pareto import hypervolume, non_dominated
from codesign.search.problem import Problem
from codesign.search.problems.problem_records import definition_digest, published, read_front

TruthKind = Literal["exact", "best known"]


@frozen
class Truth:
    """The 100 % of a problem.

    Attributes:
        kind: ``exact``: of the whole space; ``best known``: of all that was evaluated.
        objectives: (p, m) distinct non-dominated points, minimized, in lexicographic order.
        n_front_designs: Designs that have these objectives; None if only the best is known.
    """

    kind: TruthKind
    objectives: FloatArray
    n_designs: int
    n_front_designs: int | None

    def hypervolume(self, reference: FloatArray) -> float:
        """Volume that the front dominates, bounded by the (m,) minimized ``reference``."""
        return hypervolume(self.objectives, reference)

    @property
    def scale(self) -> ArrayPair:
        """(m,) ideal point and (m,) ranges of the front; 1 where it has no range."""
        low = self.objectives.min(axis=0)
        high = self.objectives.max(axis=0)
        return low, np.where(high > low, high - low, 1.0)


def exact_truth(
    problem: Problem, file: Path, folder: Path, workers: int, tell: Callable[[str], None]
) -> Truth:
    """The exact front, from its file where it was computed before.

    Args:
        problem: Whose space can be enumerated.
        file: The campaign file that says it, from which other processes build it.
        folder: In which fronts are kept; made if needed.
        tell: Is told in one line if a front must be computed.

    Raises:
        InputError: No design of the space is feasible; the folder cannot be written.
        JobError: The enumeration failed.
    """
    front = stored_front(problem, folder)
    if front is None:
        tell(f"enumerating {problem.space.size:,} designs for the exact front")
        front = exact_front(problem, folder, workers=workers, rebuild=partial(problem_of, file))
    return Truth("exact", front.objectives, front.n_designs, int(front.counts.sum()))


def published_truth(problem: Problem, reference_point: FloatMap) -> Truth | None:
    """The exact front that is published of a problem of the public set; None of any other.

    Args:
        problem: Whose space may be too large to be listed.
        reference_point: By objective, in natural sign.

    Raises:
        JobError: The file of the front is not the one that was published.
    """
    key = definition_digest(problem, reference_point)
    for record in published().values():
        if record.definition_sha256 == key:
            points = problem.flipped(read_front(record)[1])
            return Truth("exact", points, record.n_designs, record.front_designs)
    return None


def problem_of(file: Path) -> Problem:
    """The problem of a campaign file."""
    return load_definition(file).problem


def best_known(problem: Problem, objectives: FloatArray) -> Truth:
    """The front of all feasible (n, m) objectives that were ever evaluated.

    Raises:
        JobError: There are none.
    """
    if not len(objectives):
        raise JobError(f"no evaluated design of space {problem.space.name!r} keeps every limit")
    points = np.unique(objectives[non_dominated(objectives)], axis=0)
    return Truth("best known", points, problem.space.size, None)
