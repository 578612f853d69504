"""Branch and bound over a part of a space.

A partial design is left out, with all that could become of it, if even its best case violates
a constraint or is dominated by a feasible design. What is left is decided one component
further, down to whole designs, which are evaluated.

That nothing of the front is lost follows from one property, which ``check_evaluator`` tests:
no completion is better than ``best_case``. If a feasible design f dominates the best case b of
a part, then for every completion a of it f <= b <= a, with f < b in some objective, so f
dominates a. Equal objectives do not dominate, so ties are kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from codesign.base.columns import Arrays, BoolArray, Columns, Domains, FloatArray
from codesign.base.records import frozen
from codesign.search.enumeration.decomposition import Decomposition, Part
from codesign.search.enumeration.dominance_table import DominanceTable
from codesign.search.enumeration.front import Archive, dominated_by
from codesign.search.problem import Problem

_PART = 1 << 15
"""Partial designs looked at together: some megabytes."""


@dataclass
class Tally:
    """Outcomes of the designs of a branch; the numbers add up to its size.

    Attributes:
        evaluated: Designs whose objectives were computed.
        repeated: Designs that no metric can tell from an evaluated one.
        excluded: Designs that a bound, or a limit known before evaluation, excluded.
        failed: Of those evaluated or repeated, designs without a result.
    """

    evaluated: int = 0
    repeated: int = 0
    excluded: int = 0
    failed: int = 0

    @property
    def total(self) -> int:
        """Designs that are settled."""
        return self.evaluated + self.repeated + self.excluded

    def add(self, tally: Tally) -> None:
        """Take over another's numbers."""
        for name, value in vars(tally).items():
            setattr(self, name, getattr(self, name) + value)


@frozen
class PartialFront:
    """The front of a part of a space, and what it took."""

    archive: Archive
    tally: Tally = field(default_factory=Tally)


class Walk:
    """The search of parts of a space, one after the other.

    Args:
        barriers: (b, m) objectives of feasible designs that are known, and what else cuts off
            (see ``wanted.py``), non-dominated, in lexicographic order; the better they are, the
            more is left out.
    """

    def __init__(self, problem: Problem, barriers: FloatArray) -> None:
        self.problem = problem
        self.decomposition = Decomposition(problem)
        self._barriers = barriers
        has_table = barriers.shape[1] > 3 and len(barriers) > 0
        self._table = DominanceTable(barriers) if has_table else None
        self._metrics = problem.deciding_metrics
        self._limits = [constraint for constraint in problem.constraints if constraint.is_limit]

    def search(self, start: int, stop: int) -> PartialFront:
        """The front of the designs that come from these roots; see ``Decomposition.roots``."""
        partial_front = PartialFront(Archive(len(self.problem.objectives)))
        n_designs = 0
        for first in range(start, stop, _PART):
            roots = self.decomposition.roots(np.arange(first, min(first + _PART, stop)))
            self._descend(roots, 0, partial_front)
            n_designs += int(roots.weights.sum()) * self.decomposition.remaining(0)
        # What is left are designs with values that others supersede.
        partial_front.tally.excluded += n_designs - partial_front.tally.total
        return partial_front

    def _descend(self, partials: Part, level: int, partial_front: PartialFront) -> None:
        excluded = self._excluded(partials, level, partial_front.archive.points)
        partial_front.tally.excluded += int(
            partials.weights[excluded].sum()
        ) * self.decomposition.remaining(level)
        partials = partials.take(np.flatnonzero(~excluded))
        if level == len(self.decomposition.undecided):
            self._evaluate(partials, partial_front)
            return
        size = max(_PART // len(self.decomposition.undecided[level]), 1)
        for start in range(0, len(partials), size):
            piece = partials.take(slice(start, start + size))
            self._descend(self.decomposition.decide(piece, level), level + 1, partial_front)

    def _excluded(self, partials: Part, level: int, met: FloatArray) -> BoolArray:
        """(n,) whether no completion of a partial design can be on the front."""
        if not self.problem.has_bounds or not len(partials):
            return np.zeros(len(partials), bool)
        columns, undecided = self.decomposition.columns(partials, level)
        best, least = self._best_case(columns, undecided)
        excluded = np.zeros(len(partials), bool)
        for violation in least.values():
            excluded |= violation > 0
        for limit in self._limits:
            if limit.expression.names <= set(best):
                excluded |= ~(limit.expression.violation(best) <= 0)
        bounds = np.full((len(partials), len(self.problem.objectives)), -np.inf)
        for j, objective in enumerate(self.problem.objectives):
            name = objective.metric.name
            if name in best and objective.sense == objective.metric.sense:
                bounds[:, j] = objective.minimized(best[name])
        return excluded | self._is_beaten(bounds, met)

    def _best_case(self, columns: Columns, undecided: Domains) -> tuple[Arrays, Arrays]:
        """(n,) best metrics of partial designs, and least violations that the evaluator bounds."""
        best = self.problem.best_case(columns, undecided, self._metrics)
        return best, self.problem.evaluator.least_violations(columns, undecided)

    def _is_beaten(self, bounds: FloatArray, met: FloatArray) -> BoolArray:
        """(n,) whether no completion with these best objectives is wanted."""
        beaten = dominated_by(self._barriers, bounds, self._table)
        return beaten | dominated_by(met, bounds)

    def _evaluate(self, partials: Part, partial_front: PartialFront) -> None:
        if not len(partials):
            return
        violations = self.problem.known_violations(partials.rows)
        admitted = np.ones(len(partials), bool)
        for values in violations.values():
            admitted &= values <= 0
        partial_front.tally.excluded += int(partials.weights[~admitted].sum())
        partials = partials.take(np.flatnonzero(admitted))
        results = self.problem.evaluate(partials.rows, self._metrics)
        designs = int(partials.weights.sum())
        partial_front.tally.evaluated += len(partials)
        partial_front.tally.repeated += designs - len(partials)
        partial_front.tally.failed += int(partials.weights[results.failed].sum())
        feasible = np.flatnonzero(results.feasible)
        partial_front.archive.add(
            results.objectives[feasible],
            partials.numbers[feasible],
            partials.weights[feasible],
        )
