"""Multi-objective TPE with constraints, by Optuna.

Ozaki et al., "Multiobjective tree-structured Parzen estimator", 2022. Optuna's sampler knows
neither constraints between parameters nor which designs were evaluated, so a proposal that is
inadmissible or was seen is drawn again, then replaced by a neighbor. All parameters are drawn
together, around designs that were evaluated and so are admissible: drawn one by one, as is
Optuna's default for several objectives, hardly any combination met the constraints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field

from codesign.columns import BoolArray, FloatArray, IntArray
from codesign.errors import MissingExtraError
from codesign.optimizers.base import KeySet, SearchSpace
from codesign.schema import Record

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.samplers import TPESampler
    from optuna.study import Study
    from optuna.trial import FrozenTrial

_LARGEST = 1e300
"""Stands for an infinite violation, which Optuna's sums do not take."""


class Tpe:
    """Optuna's multivariate sampler over the levels of the parameters.

    A parameter that a design does not have takes its middle level there, which says the least;
    in a proposal it is then dropped again. Failed designs are remembered, but not learned from.

    Args:
        space: Where to look.
        n_objectives: Number of objectives.
        seed: Of all random choices.
        options: See :class:`Options`.
        reference_point: Not used.

    Raises:
        MissingExtraError: Optuna is not installed.
    """

    class Options(Record):
        """Options of TPE."""

        startup: Annotated[int, Field(ge=1)] = 10
        """Results before the sampler learns; until then it draws uniformly."""
        candidates: Annotated[int, Field(ge=1)] = 24
        """Values that compete for each parameter."""
        attempts: Annotated[int, Field(ge=1)] = 4
        """Proposals before the neighbors of the last one count too."""

    def __init__(
        self,
        space: SearchSpace,
        n_objectives: int,
        seed: int,
        options: Options,
        reference_point: FloatArray | None = None,
    ) -> None:
        try:
            import optuna
        except ImportError as error:
            raise MissingExtraError("optimizer tpe", "tpe") from error
        self._space, self._seed, self._options = space, seed, options
        verbosity = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._storage = optuna.storages.InMemoryStorage()
        self._study = optuna.create_study(
            study_name="told", storage=self._storage, directions=["minimize"] * n_objectives
        )
        optuna.logging.set_verbosity(verbosity)
        self._distributions = {
            item.name: _distribution(len(item.values), item.optional, item.kind == "categorical")
            for item in space.space.parameters
            if len(item.values) > 1 or item.optional
        }
        self._fillers = np.array([len(item.values) // 2 for item in space.space.parameters])
        self._is_optional = np.array([item.optional for item in space.space.parameters])
        self._seen, self._n_told, self._n_learned = KeySet(), 0, 0
        self.preferred_batch = 1

    # Asking

    def ask(self, n: int) -> IntArray:
        """(k, d) as the protocol promises."""
        rng = np.random.default_rng([self._seed, self._n_told])
        rows = self._space.no_rows
        taken = KeySet()
        while len(rows) < n:
            row = self._propose(rng, taken)
            if not len(row):
                break
            rows = np.concatenate([rows, row])
            taken.add(self._space.space.keys(row))
        return rows

    def _propose(self, rng: np.random.Generator, taken: KeySet) -> IntArray:
        """(1, d) a new design; (0, d) if there is none."""
        from optuna import load_study

        # A study that was sampled from keeps the trials that it saw; a fresh one sees them all.
        study = load_study(study_name="told", storage=self._storage)
        sampler = self._sampler(rng)
        is_ready = self._n_learned >= self._options.startup and self._distributions
        for attempt in range(self._options.attempts if is_ready else 0):
            rows = self._drawn(study, sampler)
            if attempt == self._options.attempts - 1:
                rows = np.concatenate([rows, self._space.space.neighbors(rows[0])])
            fresh = self._fresh(rows, taken)
            if len(fresh):
                return fresh[rng.integers(len(fresh), size=1)]
        others = self._space.sample_unseen(rng, len(taken) + 1, self._seen)
        return self._space.distinct(others, taken)[:1]

    def _fresh(self, rows: IntArray, taken: KeySet) -> IntArray:
        return self._space.distinct(self._space.unseen(rows, self._seen), taken)

    def _sampler(self, rng: np.random.Generator) -> TPESampler:
        """A sampler that knows only its seed: what it learns from is in the study."""
        from optuna.samplers import TPESampler

        return TPESampler(
            seed=int(rng.integers(2**32)),
            n_startup_trials=self._options.startup,
            n_ei_candidates=self._options.candidates,
            multivariate=True,
            # There are no running trials to keep away from.
            constant_liar=False,
        )

    def _drawn(self, study: Study, sampler: TPESampler) -> IntArray:
        """(1, d) a canonical row, drawn without leaving a trial in the study."""
        from optuna.trial import TrialState, create_trial

        trial = create_trial(state=TrialState.RUNNING)
        drawn = sampler.sample_relative(study, trial, self._distributions)
        codes = [drawn.get(name, 0) for name in self._space.space.names]
        return self._space.space.canonical(np.array([codes], dtype=np.int64))

    # Being told

    def tell(
        self, rows: IntArray, objectives: FloatArray, violations: FloatArray, failed: BoolArray
    ) -> None:
        """Take results into the study."""
        learned = np.flatnonzero(~np.asarray(failed, dtype=bool))
        for i in learned:
            self._study.add_trial(self._trial(rows[i], objectives[i], violations[i]))
        self._n_learned += len(learned)
        self._seen.add(self._space.space.keys(rows))
        self._n_told += len(rows)

    def _trial(self, row: IntArray, objectives: FloatArray, violations: FloatArray) -> FrozenTrial:
        from optuna.trial import create_trial

        filled = np.where((row < 0) & ~self._is_optional, self._fillers, row).tolist()
        codes = dict(zip(self._space.space.names, filled, strict=True))
        limits = np.minimum(violations, _LARGEST).tolist()
        return create_trial(
            values=objectives.tolist(),
            params={name: codes[name] for name in self._distributions},
            distributions=self._distributions,
            constraints={str(j): limit for j, limit in enumerate(limits)},
        )


def _distribution(n_levels: int, optional: bool, is_categorical: bool) -> BaseDistribution:
    """Of a parameter's level codes, -1 for absence where that can be chosen."""
    from optuna.distributions import CategoricalDistribution, IntDistribution

    first = -1 if optional else 0
    if is_categorical or optional:
        return CategoricalDistribution(list(range(first, n_levels)))
    return IntDistribution(first, n_levels - 1)
