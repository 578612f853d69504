"""What the best possible result of a problem is: its exact front, or the best that is known.

An exact front is computed once per problem and kept under the hash of all that it depends on.
Before a kept front is used, its designs are evaluated again: equations that have changed since
change their objectives, and the front is then computed anew.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

import codesign
from codesign.columns import FloatArray, IntArray
from codesign.errors import JobError
from codesign.files import replacing
from codesign.pareto import hypervolume, non_dominated
from codesign.problem import Problem

TruthKind: TypeAlias = Literal["exact", "best known"]


@dataclass(frozen=True)
class Truth:
    """The 100 % of a problem.

    Attributes:
        kind: ``exact``: of the whole space; ``best known``: of all that was evaluated.
        objectives: (p, m) distinct non-dominated points, minimized, in lexicographic order.
        n_designs: Designs of the space.
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
    def scale(self) -> tuple[FloatArray, FloatArray]:
        """(m,) ideal point and (m,) ranges of the front; 1 where it has no range."""
        low, high = self.objectives.min(axis=0), self.objectives.max(axis=0)
        return low, np.where(high > low, high - low, 1.0)


def is_enumerable(problem: Problem, most: int) -> bool:
    """Whether the space can be numbered and has at most ``most`` designs."""
    return problem.space.is_size_exact and problem.space.size <= most


def exact_truth(problem: Problem, folder: Path, workers: int, tell: Callable[[str], None]) -> Truth:
    """The exact front, from the cache where it is kept and still holds.

    Args:
        problem: Whose space can be enumerated.
        folder: In which fronts are kept; made if needed.
        workers: Processes.
        tell: Is told in one line if a front must be computed.

    Raises:
        JobError: No design of the space is feasible.
        InputError: The folder cannot be written.
    """
    path = folder / f"{content_hash(problem)}.npz"
    kept = _read(path, problem)
    if kept is None:
        from codesign.enumeration import enumerate_front  # compiles, where numba is installed

        tell(f"enumerating {problem.space.size:,} designs for the exact front")
        front = enumerate_front(problem, workers=workers)
        if not len(front.objectives):
            raise JobError(f"no design of space {problem.space.name!r} keeps every limit")
        first = np.searchsorted(front.point, np.arange(len(front.objectives)))
        _write(path, front.objectives, front.counts, front.rows[first])
        kept = front.objectives, front.counts
    objectives, counts = kept
    return Truth("exact", objectives, problem.space.size, int(counts.sum()))


def best_known(problem: Problem, objectives: FloatArray) -> Truth:
    """The front of all feasible (n, m) objectives that were ever evaluated.

    Raises:
        JobError: There are none.
    """
    if not len(objectives):
        raise JobError(f"no evaluated design of space {problem.space.name!r} keeps every limit")
    points = np.unique(objectives[non_dominated(objectives)], axis=0)
    return Truth("best known", points, problem.space.size, None)


def content_hash(problem: Problem) -> str:
    """Hash of all that a problem's front depends on besides the code between two versions."""
    said = {"problem": problem.provenance(), "codesign": codesign.__version__}
    text = json.dumps(said, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _read(path: Path, problem: Problem) -> tuple[FloatArray, IntArray] | None:
    """Points and counts of a kept front; None if there is none that still holds."""
    try:
        with np.load(path, allow_pickle=False) as data:
            objectives, counts, rows = data["objectives"], data["counts"], data["rows"]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    if not problem.admits(rows).all():
        return None
    found = problem.evaluate(rows)
    holds = bool(found.feasible.all()) and np.array_equal(found.objectives, objectives)
    return (objectives, counts) if holds else None


def _write(path: Path, objectives: FloatArray, counts: IntArray, rows: IntArray) -> None:
    with replacing(path) as unfinished, unfinished.open("wb") as file:
        np.savez(file, objectives=objectives, counts=counts, rows=rows)
