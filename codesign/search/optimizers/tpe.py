"""Multi-objective TPE with constraints, by Optuna.

Ozaki et al., "Multiobjective tree-structured Parzen estimator", 2022. All parameters are drawn
together, around designs that were evaluated and so are admissible: drawn one by one, as is
Optuna's default for several objectives, hardly any combination met the constraints. See
``trials.py`` for how proposals are repaired.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from codesign.base.columns import BoolArray, FloatArray, IntArray
from codesign.base.schema import Record
from codesign.search.optimizers.base import BaseOptimizer, KeySet
from codesign.search.optimizers.trials import Translation, quietly, require_optuna

if TYPE_CHECKING:
    from optuna.samplers import TPESampler


class Tpe(BaseOptimizer):
    """Optuna's multivariate sampler over the levels of the parameters.

    Failed designs are remembered, but not learned from. Pending designs are running trials, which
    Optuna's constant liar takes to come out badly.

    Raises:
        MissingExtraError: Optuna is not installed.
    """

    class Options(Record):
        """Options of TPE."""

        startup: Annotated[int, Field(ge=1, le=10**6)] = 10
        """Results before the sampler learns; until then it draws uniformly."""
        candidates: Annotated[int, Field(ge=1, le=10**6)] = 24
        """Values that compete for each parameter."""
        attempts: Annotated[int, Field(ge=1, le=10**6)] = 4
        """Proposals before the neighbors of the last one count too."""

    knows_pending: ClassVar[Literal[True]] = True
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

    def ask(self, n: int, pending: IntArray | None = None) -> IntArray:
        """(k, d) as the protocol promises."""
        rng = self._rng(pending)
        waiting = self._space.no_rows if pending is None else pending
        rows = self._space.no_rows
        taken = KeySet()
        taken.add(self._space.space.keys(waiting))
        while len(rows) < n:
            row = self._propose(rng, taken, waiting)
            if not len(row):
                break
            rows = np.concatenate([rows, row])
            taken.add(self._space.space.keys(row))
        return rows

    def _propose(self, rng: np.random.Generator, taken: KeySet, pending: IntArray) -> IntArray:
        """(1, d) a new design; (0, d) if there is none."""
        is_beside = len(pending) > 0
        from optuna.samplers import TPESampler

        sampler = TPESampler(
            seed=int(rng.integers(2**32)),
            n_startup_trials=self._options.startup,
            n_ei_candidates=self._options.candidates,
            multivariate=True,
            # Only then are there running trials to keep away from.
            constant_liar=is_beside,
        )
        draw = self._draws_beside(pending, sampler) if len(pending) else self._draws(sampler)
        row = self._space.no_rows
        if self._n_learned >= self._options.startup and self._translation.distributions:
            row = self._translation.repaired(draw, self._options.attempts, self._seen, taken, rng)
        if len(row):
            return row
        others = self._space.sample_unseen(rng, len(taken) + 1, self._seen)
        return self._space.distinct(others, taken)[:1]

    def _draws(self, sampler: TPESampler) -> Callable[[], IntArray]:
        """Sampler of (1, d) canonical rows that leaves no trial in the study."""
        from optuna import load_study
        from optuna.trial import TrialState, create_trial

        # A study that was sampled from keeps the trials that it saw; a fresh one sees them all.
        study = load_study(study_name="told", storage=self._storage)

        def draw() -> IntArray:
            trial = create_trial(state=TrialState.RUNNING)
            drawn = sampler.sample_relative(study, trial, self._translation.distributions)
            return self._translation.row(drawn)

        return draw

    def _draws_beside(self, pending: IntArray, sampler: TPESampler) -> Callable[[], IntArray]:
        """Sampler of (1, d) canonical rows beside pending designs, in a study of its own.

        The constant liar keeps its draws as running trials, so what a draw gave is kept away
        from too.
        """
        import optuna

        with quietly():
            study = optuna.create_study(
                directions=["minimize"] * self._n_objectives, sampler=sampler
            )
        study.add_trials(self._study.get_trials(deepcopy=False))
        study.add_trials([self._translation.running(row) for row in pending])
        return lambda: self._translation.row(study.ask(self._translation.distributions).params)

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
