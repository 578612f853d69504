"""NSGA-II on discrete, conditional spaces, with pymoo's sorting, crowding and operators.

Deb et al., "A fast and elitist multiobjective genetic algorithm: NSGA-II", 2002. Parents mix
and mutate in the unit cube, where every parameter has a coordinate; what comes back is put in
canonical form, and what is inadmissible or was seen is drawn again. Feasible designs come
before infeasible ones, these by how much they violate.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from codesign.base.columns import BoolArray, FloatArray, IntArray
from codesign.base.errors import needing_extra
from codesign.base.schema import PositiveAmount, Record
from codesign.search.observations import Observations
from codesign.search.optimizers.base import BaseOptimizer, Count, KeySet
from codesign.search.optimizers.history import scaled_excess

_ROUNDS = 16
"""Attempts to fill a generation by variation before it is filled at random."""


class Nsga2(BaseOptimizer):
    """A population that advances by one generation each time ``population`` designs were told.

    Until the first generation is complete, designs are drawn uniformly. Designs that failed
    count, but do not enter the population. While designs are pending there is no waiting for the
    end of a generation: each offspring has the best parents of all that was told (steady state).

    Raises:
        MissingExtraError: pymoo is not installed.
    """

    class Options(Record):
        """Options of NSGA-II."""

        population: Annotated[Count, Field(ge=2)] = 20
        """Designs that survive a generation, and that one generation proposes."""
        crossover: Annotated[float, Field(ge=0, le=1)] = 0.9
        """Probability that a pair of parents is mixed and not copied."""
        mutations: PositiveAmount = 1.0
        """Parameters that mutate in one design, on average."""
        mutation_index: PositiveAmount = 3.0
        """Index of polynomial mutation of numbers: the larger, the shorter the steps."""

    knows_pending = True
    _options: Options

    def _set_up(self) -> None:
        with needing_extra("optimizer nsga2", "nsga2"):
            from pymoo.operators.mutation.pm import mut_pm
            from pymoo.operators.survival.rank_and_crowding.metrics import get_crowding_function
            from pymoo.util.misc import crossover_mask
            from pymoo.util.nds.non_dominated_sorting import NonDominatedSorting
        self._mutate = mut_pm
        self._mix = crossover_mask
        self._sorting = NonDominatedSorting()
        self._crowding = get_crowding_function("cd")
        parameters = self._space.space.parameters
        self._is_categorical = np.array(
            [parameter.kind == "categorical" for parameter in parameters]
        )
        free = [
            parameter for parameter in parameters if len(parameter.values) > 1 or parameter.optional
        ]
        self._probability = min(self._options.mutations / max(len(free), 1), 1.0)
        self._population: Observations | None = None
        self._generation: list[Observations] = []
        # As of the start of the generation, like the designs that are seen, so that the offspring
        # do not depend on when they are asked for.
        self._offspring: IntArray | None = None

    @property
    def preferred_batch(self) -> int:
        """A generation."""
        return self._options.population

    # Asking

    def ask(self, n: int, pending: IntArray | None = None) -> IntArray:
        """(k, d) as the protocol promises; beside nothing, no more than the generation lacks."""
        if pending is not None and len(pending):
            excluded = self._excluded(np.concatenate([self._told_in_generation(), pending]))
            parents = self._survivors().rows if self._n_told else self._space.no_rows
            return self._bred(n, parents, self._rng(pending), excluded)
        evaluated = self._told_in_generation()
        lacking = self._options.population - len(evaluated)
        n = min(n, lacking)
        if self._offspring is None:
            # A function of all results before this generation.
            rng = np.random.default_rng([self._seed, self._n_told - len(evaluated)])
            parents = self._space.no_rows if self._population is None else self._population.rows
            self._offspring = self._bred(self._options.population, parents, rng, self._seen)
        mine = KeySet(self._space.space.keys(evaluated))
        rows = self._space.distinct(self._offspring, mine)
        if len(rows) < min(n, 1):
            # Others' designs took the place of all offspring.
            more = self._space.sample_unseen(self._rng(), n + len(evaluated), self._seen)
            rows = self._space.distinct(more, mine)
        return rows[:n]

    def _told_in_generation(self) -> IntArray:
        return np.concatenate([self._space.no_rows, *(batch.rows for batch in self._generation)])

    def _bred(
        self, size: int, parents: IntArray, rng: np.random.Generator, excluded: KeySet
    ) -> IntArray:
        """(k, d) new designs by variation, the rest at random."""
        rows = self._space.no_rows
        for _ in range(_ROUNDS if len(parents) >= 2 else 0):
            children = self._vary(parents, rng, 2 * (size - len(rows)))
            fresh = self._space.unseen(children, excluded)
            rows = self._space.distinct(np.concatenate([rows, fresh]), excluded)[:size]
            if len(rows) == size:
                return rows
        others = self._space.sample_unseen(rng, size, excluded)
        return self._space.distinct(np.concatenate([rows, others]), excluded)[:size]

    def _vary(self, parents: IntArray, rng: np.random.Generator, n_children: int) -> IntArray:
        """About ``n_children`` canonical designs, admissible or not."""
        n_pairs = (n_children + 1) // 2
        # The better of two random parents each; they are sorted best first.
        pairs = rng.integers(len(parents), size=(2, 2, n_pairs)).min(axis=0)
        points = self._space.space.points(parents)[pairs]
        mixed = rng.random((n_pairs, points.shape[2])) < 0.5
        mixed &= rng.random((n_pairs, 1)) < self._options.crossover
        children = np.concatenate(self._mix(points, mixed))
        n, d = children.shape
        chance = np.full(n, self._probability)
        index = np.full(n, self._options.mutation_index)
        moved = self._mutate(
            children, np.zeros(d), np.ones(d), index, chance, False, random_state=rng
        )
        # Categories have no order, so any other is as near.
        again = (rng.random((n, d)) < self._probability) & self._is_categorical
        mutated = np.where(self._is_categorical, children, moved)
        return self._space.space.rows_near(np.where(again, rng.random((n, d)), mutated))

    # Being told

    def tell(
        self, rows: IntArray, objectives: FloatArray, violations: FloatArray, failed: BoolArray
    ) -> None:
        """Take results; a generation ends with each ``population`` of them."""
        results = Observations.copied(rows, objectives, violations, failed)
        start = 0
        while start < len(rows):
            lacking = self._options.population - len(self._told_in_generation())
            batch = results.part(slice(start, start + lacking))
            self._generation.append(batch)
            self._n_told += len(batch.rows)
            start += len(batch.rows)
            if len(batch.rows) == lacking:
                self._seen.add(self._space.space.keys(self._told_in_generation()))
                self._population = self._survivors()
                self._generation = []
                self._offspring = None

    def _survivors(self) -> Observations:
        """The best of the population and of what was told since, best first."""
        before = [] if self._population is None else [self._population]
        pool = Observations.joined([*before, *self._generation])
        pool = pool.part(~pool.failed)
        excess = scaled_excess(pool)
        feasible = np.flatnonzero(excess == 0)
        infeasible = np.flatnonzero(excess > 0)
        order = []
        fronts = self._sorting.do(
            pool.objectives[feasible], n_stop_if_ranked=self._options.population
        )
        for front in fronts:
            members = feasible[front]
            crowding = self._crowding.do(pool.objectives[members])
            order.append(members[np.argsort(-crowding, kind="stable")])
        order.append(infeasible[np.argsort(excess[infeasible], kind="stable")])
        return pool.part(np.concatenate(order)[: self._options.population])
