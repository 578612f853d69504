"""All feasible designs with objectives in a region, dominated ones too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from codesign.base.columns import (
    ArrayDict,
    Arrays,
    BoolArray,
    Columns,
    Domains,
    FloatArray,
    IntArray,
    Strings,
)
from codesign.base.loop_progress import LoopProgress
from codesign.base.records import frozen
from codesign.search.enumeration.composition import (
    SystemSearch,
    pool_front,
    pool_problem,
    settings_of,
)
from codesign.search.enumeration.decomposition import Part
from codesign.search.enumeration.front import Archive, ExactFront, dominated_by
from codesign.search.enumeration.pool_front import PoolFront
from codesign.search.enumeration.walk import PartialFront, Walk
from codesign.search.execution.executors import spread
from codesign.search.problem import Problem

_ROOTS, _ROUND, _PART = 1 << 12, 1 << 16, 1 << 14
"""Roots of a block of a search, of the blocks that start with the same traits, whoever searches
them, and of a part of a pass over all roots. [ours]"""

FrontFinder = Callable[[Problem], ExactFront]
"""Function that returns the exact front of a problem."""

Region = tuple[Sequence[tuple[Problem, Strings]], Callable[[FloatArray], BoolArray]]
"""Problems with the metrics that may be best there, and a function from (n, m) minimized objectives
to (n,) True in the region. A design has each objective and limit at its best. The function must be
true for a point that is nowhere worse than a point in the region. Unbounded objectives are minus
infinity."""


@frozen
class Trait:
    """A decision as columns of a design's row; without columns, no design has it."""

    name: str
    columns: IntArray

    def has(self, rows: IntArray, row: IntArray) -> BoolArray:
        """(n,) True for designs with the values of ``row`` in these columns."""
        is_equal = rows[:, self.columns] == row[self.columns]
        return np.asarray(is_equal.all(axis=1) & (len(self.columns) > 0))


EVERY = Trait("", np.empty(0, np.int64))
"""A trait that every design lacks."""


class Within(NamedTuple):
    """Designs in a region.

    Attributes:
        rows: (n, d) every feasible design that lacks one of the traits that are alive.
        alive: (t,) False for traits that too many designs lack.
        n_bounded: Number of partial designs bounded, at most the budget; 0 for systems.
    """

    rows: IntArray
    alive: BoolArray
    n_bounded: int


class _TooManyError(Exception):
    """More designs than wanted."""


class _RegionWalk(Walk):
    """A walk that leaves out all designs outside a region."""

    def __init__(self, region: Region) -> None:
        self.best, self._reaches = region
        self.bounds: dict[int, tuple[Arrays, Arrays]] = {}
        problem, _ = self.best[0]
        super().__init__(problem, np.empty((0, len(problem.objectives))))

    def _best_case(self, columns: Columns, undecided: Domains) -> tuple[Arrays, Arrays]:
        best: ArrayDict = {}
        least: ArrayDict = {}
        better = {
            x.name: np.fmax if x.sense == "maximize" else np.fmin for x in self.problem.metrics
        }
        for i, (problem, metrics) in enumerate(self.best):
            if i not in self.bounds:
                self.bounds[i] = (
                    problem.best_case(columns, undecided, metrics),
                    problem.evaluator.least_violations(columns, undecided),
                )
            bounds, violations = self.bounds[i]
            for name, values in bounds.items():
                best[name] = better[name](best.get(name, values), values)
            for name, values in violations.items():
                least[name] = np.fmin(least.get(name, values), values)
        return best, least

    def _is_beaten(self, bounds: FloatArray, met: FloatArray) -> BoolArray:
        return ~self._reaches(bounds)

    def reaching(self, roots: IntArray) -> IntArray:
        """The roots that may have a design in the region."""
        self.bounds = {}
        return roots[~self._excluded(self.decomposition.roots(roots), 0, np.empty(0))]


class _Collection(_RegionWalk):
    """A walk that collects every design in a region, up to a number of them."""

    def __init__(
        self, regions: Sequence[Region], row: IntArray, traits: Sequence[Trait], most: int
    ) -> None:
        super().__init__(regions[0])
        # Limits hold somewhere in the range of constants, not at every end of it.
        self._faces = [
            _RegionWalk(([(replace(problem, constraints=()), x) for problem, x in best], reaches))
            for best, reaches in regions[1:]
        ]
        # Corners that faces share with the box are bounded once.
        self._shared = [
            [i for i, (x, _) in enumerate(face.best) if x.evaluator is self.best[i][0].evaluator]
            for face in self._faces
        ]
        self._row = row
        self._traits = traits
        self._most = most
        self.alive = np.ones(len(traits), bool)

    def collect(self, roots: IntArray, alive: BoolArray, budget: int) -> Within:
        """Designs below these roots that lack a trait that is alive."""
        self.alive = alive.copy()
        self._budget = budget
        self._rows = np.empty((0, len(self._row)), np.int64)
        self._n_bounded = 0
        with suppress(_TooManyError):
            nothing = PartialFront(Archive(len(self.problem.objectives)))
            self._descend(self.decomposition.roots(roots), 0, nothing)
        return Within(self._rows, self.alive, self._n_bounded)

    def joined(self, total: Within, within: Within) -> Within:
        """The designs of two parts of the space, without those of traits that are given up."""
        self.alive = total.alive & within.alive
        rows = self._limited(np.concatenate([total.rows, within.rows]))
        return Within(rows, self.alive, total.n_bounded + within.n_bounded)

    def _limited(self, rows: IntArray) -> IntArray:
        """The rows that lack a trait alive, after traits with too many rows are given up."""
        lacks = self._lacks(rows, len(self.decomposition.undecided))
        while (is_wanted := lacks[:, self.alive].any(axis=1)).sum() > self._most:
            self.alive[np.where(self.alive, lacks[is_wanted].sum(axis=0), -1).argmax()] = False
        return rows[is_wanted]

    def _lacks(self, rows: IntArray, level: int) -> BoolArray:
        """(n, t) True if a completion may lack a trait."""
        unset = [axis.columns for axis in self.decomposition.undecided[level:]]
        is_unset = np.isin(np.arange(len(self._row)), np.concatenate([*unset, [-1]]))
        columns = [~x.has(rows, self._row) | is_unset[x.columns].any() for x in self._traits]
        return np.stack(columns, axis=1)

    def _excluded(self, partials: Part, level: int, met: FloatArray) -> BoolArray:
        rest = np.flatnonzero(self._lacks(partials.rows, level)[:, self.alive].any(axis=1))
        self._n_bounded += len(rest)
        if self._n_bounded > self._budget:
            self.alive[:] = False
            raise _TooManyError
        self.bounds = {}
        is_inside = ~super()._excluded(partials.take(rest), level, met)
        rest = rest[is_inside]
        inside = np.flatnonzero(is_inside)
        is_outside = np.full(len(rest), len(self._faces) > 0)
        for face, shared in zip(self._faces, self._shared, strict=True):
            outside = np.flatnonzero(is_outside)
            self._n_bounded += len(outside)
            places = inside[outside]
            face.bounds = {
                i: (
                    {k: x[places] for k, x in best.items()},
                    {k: x[places] for k, x in least.items()},
                )
                for i, (best, least) in self.bounds.items()
                if i in shared
            }
            is_outside[outside] = face._excluded(partials.take(rest[outside]), level, met)
        excluded = np.ones(len(partials), bool)
        excluded[rest] = is_outside
        return excluded

    def _evaluate(self, partials: Part, partial_front: PartialFront) -> None:
        rows = partials.rows[self.problem.admits(partials.rows)]
        rows = rows[is_within((self.best, self._reaches), rows)]
        self._rows = self._limited(np.concatenate([self._rows, rows]))
        if not self.alive.any():
            raise _TooManyError


def is_within(region: Region, rows: IntArray) -> BoolArray:
    """(n,) True for feasible designs in a region."""
    best, reaches = region
    observed = [problem.evaluate(rows, problem.deciding_metrics) for problem, _ in best]
    excess = np.fmin.reduce([x.violations for x in observed])
    reached = reaches(np.fmin.reduce([x.objectives for x in observed]))
    return np.asarray((excess <= 0).all(axis=1) & reached)


def roots_within(region: Region, executor: Executor | None = None) -> IntArray:
    """(r,) roots of a space that may have a design in a region.

    No other root has a design in a smaller region.
    """
    walk = _RegionWalk(region)
    n_roots = walk.decomposition.n_roots
    slices = np.split(np.arange(n_roots), range(_PART, n_roots, _PART))
    reaching = dict.fromkeys(range(len(slices)), np.empty(0, np.int64))
    with LoopProgress("parts of the space", n_roots) as loop:
        for i, roots in spread(walk.reaching, [(roots,) for roots in slices], executor):
            reaching[i] = roots
            loop.advance(len(slices[i]))
    return np.concatenate([*reaching.values()])


def designs_within(
    regions: Sequence[Region], row: IntArray, traits: Sequence[Trait], most: int, budget: int,
    roots: IntArray | None = None, executor: Executor | None = None,
) -> Within:  # fmt: skip
    """Every feasible design in a region that lacks a trait of a design.

    The evaluator's bounds exclude only designs that cannot reach the region. Only one of the
    designs that the evaluator calls interchangeable is listed. The result does not depend on the
    executor.

    Args:
        regions: The first, with the limits of its problem, holds for all designs. If there are
            more, designs must also reach one of those.
        row: (d,) the design.
        traits: The one that most designs lack is given up where there are too many.
        most: Number of designs beyond which a trait is given up.
        budget: Number of partial designs beyond which all traits are given up.
        roots: Roots that may have such designs; all if None.
        executor: Place of the search; this process if None.
    """
    walk = _Collection(regions, row, traits, most)
    if roots is None:
        roots = np.arange(walk.decomposition.n_roots)
    total = Within(np.empty((0, len(row)), np.int64), walk.alive, 0)
    with LoopProgress("parts of the space", len(roots)) as loop:
        for later in np.split(roots, range(_ROUND, len(roots), _ROUND)):
            inputs = [
                (block, total.alive, budget - total.n_bounded)
                for block in np.split(later, range(_ROOTS, len(later), _ROOTS))
            ]
            remaining, parts = budget - total.n_bounded, {}
            for i, within in spread(walk.collect, inputs, executor):
                parts[i] = within
                if (remaining := remaining - within.n_bounded) < 0:  # whichever parts come first
                    return Within(total.rows[:0], np.zeros(len(traits), bool), budget)
            for i in range(len(inputs)):
                total = walk.joined(total, parts[i])
            if not total.alive.any():
                break
            loop.advance(len(later))
    return total


class _SystemCollection(SystemSearch):
    """A search that collects every system in a region, up to a number of them."""

    def __init__(self, region: Region, pools: Sequence[PoolFront], most: int, budget: int) -> None:
        ((problem, _),), self._reaches = region
        super().__init__(problem, pools, settings_of(problem))
        self._most = most
        self._budget = budget
        self.numbers = np.empty(0, np.int64)

    def _is_candidate(self, objectives: FloatArray) -> BoolArray:
        self._budget -= len(objectives)
        return self._reaches(objectives)

    def _add(self, objectives: FloatArray, numbers: IntArray, weights: IntArray) -> None:
        self.numbers = np.concatenate([self.numbers, numbers])
        if len(self.numbers) > self._most or self._budget < 0:
            raise _TooManyError


def systems_within(
    region: Region, typical: Problem, worst: Problem, slack: float, find: FrontFinder,
    row: IntArray, traits: Sequence[Trait], most: int, budget: int,
    executor: Executor | None = None,
) -> Within:  # fmt: skip
    """The systems in a region that count wherever constants are in a range.

    A design of a pool is left out if another one with the constants at their bad ends dominates it
    at their good ends. In every system, the dominating design is then as good over the whole range.
    Dominating designs are those of the pool's front at the typical constants, which is the same
    for all ranges.

    Args:
        region: A single problem, with the constants at their good ends, and the region.
        typical: The problem with the constants at their typical values.
        worst: The problem with the constants at their bad ends.
        slack: Share by which bad ends may be better than good ones.
        find: Function that returns the exact front of a pool's problem.
        row: (d,) a system.
        traits: All are given up if there are too many systems.
        most: Number of systems, or of designs of a pool, beyond which traits are given up.
        budget: Number of partial designs of a pool, or of systems, beyond which traits are given
            up.
        executor: Searches the pools; this process if None.
    """
    ((problem, _),), pools = region[0], []
    within = Within(np.empty((0, len(row)), np.int64), np.zeros(len(traits), bool), 0)
    with suppress(_TooManyError):
        for name in problem.evaluator.pool_evaluators():
            machines = pool_problem(problem, name)
            rows = find(pool_problem(typical, name)).representatives()
            worst_results = pool_problem(worst, name).evaluate(rows, machines.deciding_metrics)
            barriers = worst_results.front_values
            reaches = partial(_is_undominated, barriers + slack * np.abs(barriers))
            best = [(machines, machines.deciding_metrics)]
            first = row[: len(machines.space.names)]
            regions = [(best, reaches)]
            rows, alive, _ = designs_within(
                regions, first, [EVERY], most, budget, executor=executor
            )
            if not alive:
                raise _TooManyError
            points = machines.evaluate(rows, machines.deciding_metrics).objectives
            pools.append(pool_front(problem, name, points, np.ones(len(rows), np.int64), rows))
        systems = _SystemCollection(region, pools, most, budget)
        systems.search()
        within = Within(systems.rows_of(systems.numbers), ~within.alive, 0)
    return within


def _is_undominated(barriers: FloatArray, points: FloatArray) -> BoolArray:
    return ~dominated_by(barriers, points)
