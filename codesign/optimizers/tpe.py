"""Multi-objective TPE with constraints, by Optuna.

Ozaki et al., "Multiobjective tree-structured Parzen estimator", 2022. All parameters are drawn
together, around designs that were evaluated and so are admissible: drawn one by one, as is
Optuna's default for several objectives, hardly any combination met the constraints. See
``trials.py`` for how proposals are repaired.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field

from codesign.columns import BoolArray, FloatArray, IntArray
from codesign.optimizers.base import BaseOptimizer, KeySet
from codesign.optimizers.trials import Translation, quietly, require_optuna
from codesign.schema import Record

if TYPE_CHECKING:
    from optuna.samplers import TPESampler
    from optuna.study import Study


class Tpe(BaseOptimizer):
    """Optuna's multivariate sampler over the levels of the parameters.

    Failed designs are remembered, but not learned from.

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

    _options: Options

    def _set_up(self) -> None:
        require_optuna("tpe", "tpe")
        import optuna

        self._storage = optuna.storages.InMemoryStorage()
        with quietly():
            self._study = optuna.create_study(
                study_name="told",
                storage=self._storage,
                directions=["minimize"] * self._n_objectives,
            )
        self._translation = Translation(self._space)
        self._n_learned = 0

    # Asking

    def ask(self, n: int) -> IntArray:
        """(k, d) as the protocol promises."""
        rng = self._rng()
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
        row = self._space.no_rows
        if self._n_learned >= self._options.startup and self._translation.distributions:
            row = self._translation.repaired(
                lambda: self._drawn(study, sampler), self._options.attempts, self._seen, taken, rng
            )
        if len(row):
            return row
        others = self._space.sample_unseen(rng, len(taken) + 1, self._seen)
        return self._space.distinct(others, taken)[:1]

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
        drawn = sampler.sample_relative(study, trial, self._translation.distributions)
        return self._translation.row(drawn)

    # Being told

    def tell(
        self, rows: IntArray, objectives: FloatArray, violations: FloatArray, failed: BoolArray
    ) -> None:
        """Take results into the study."""
        super().tell(rows, objectives, violations, failed)
        learned = np.flatnonzero(~np.asarray(failed, dtype=bool))
        for i in learned:
            trial = self._translation.trial(rows[i], objectives[i], violations[i])
            self._study.add_trial(trial)
        self._n_learned += len(learned)
