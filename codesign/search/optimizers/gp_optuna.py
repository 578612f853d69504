"""Optuna's Gaussian-process sampler, as its documentation uses it, through ask and tell.

Its expected hypervolume improvement knows limits that were violated; see ``trials.py`` for how
proposals are repaired. A study is made afresh from the history for every question, so that the
answer does not depend on what was asked before.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from codesign.base.columns import IntArray
from codesign.base.errors import needing_extra
from codesign.base.schema import Record
from codesign.search.observations import Observations
from codesign.search.optimizers.base import KeySet
from codesign.search.optimizers.history import LearningOptimizer
from codesign.search.optimizers.surrogate import single_thread
from codesign.search.optimizers.trials import Translation, quietly, require_optuna

if TYPE_CHECKING:
    from optuna.study import Study


class GpOptuna(LearningOptimizer):
    """Optuna's ``GPSampler`` over the levels of the parameters.

    Pending designs, and in a batch those chosen before, are running trials to it. Failed designs
    are remembered, but not learned from. Optuna takes a reference point of its own.

    Raises:
        MissingExtraError: Optuna or PyTorch is not installed.
    """

    class Options(Record):
        """Options of Optuna's Gaussian processes."""

        startup: Annotated[int, Field(ge=1, le=10**6)] = 10
        """Results before the sampler learns; until then it draws uniformly."""
        deterministic: bool = True
        """Take evaluations to have no noise."""
        attempts: Annotated[int, Field(ge=1, le=10**6)] = 2
        """Proposals before the neighbors of the last one count too."""
        training: Annotated[int, Field(ge=2, le=10**6)] = 300
        """Most results, the latest ones, that the sampler is told."""

    knows_pending: ClassVar[Literal[True]] = True
    _options: Options

    def _set_up(self) -> None:
        require_optuna("gp-optuna", "tpe")
        with needing_extra("optimizer gp-optuna", "gp"):
            import torch  # noqa: F401 # only whether it is there
        super()._set_up()
        self._translation = Translation(self._space)

    def ask(self, n: int, pending: IntArray | None = None) -> IntArray:
        """(k, d) as the protocol promises."""
        rng = self._rng(pending)
        waiting = self._space.no_rows if pending is None else pending
        history = self._memory.history()
        is_ready = (~history.failed).sum() >= self._options.startup
        if not is_ready or not self._translation.distributions:
            return self._space.sample_unseen(rng, n, self._taken(pending))
        rows, taken = waiting, KeySet()
        taken.add(self._space.space.keys(waiting))
        with single_thread(), warnings.catch_warnings():
            # That a parameter of the sampler is experimental, that a fit stopped early.
            warnings.simplefilter("ignore")
            while len(rows) < len(waiting) + n:
                row = self._propose(history, rows, taken, rng)
                if not len(row):
                    break
                rows = np.concatenate([rows, row])
                taken.add(self._space.space.keys(row))
        return rows[len(waiting) :]

    def _propose(
        self, history: Observations, chosen: IntArray, taken: KeySet, rng: np.random.Generator
    ) -> IntArray:
        """(1, d) a new design; (0, d) if there is none."""
        seen = self._seen
        row = self._translation.repaired(
            lambda: self._drawn(history, chosen, rng), self._options.attempts, seen, taken, rng
        )
        if len(row):
            return row
        others = self._space.sample_unseen(rng, len(taken) + 1, seen)
        return self._space.distinct(others, taken)[:1]

    def _drawn(self, history: Observations, chosen: IntArray, rng: np.random.Generator) -> IntArray:
        """(1, d) a canonical row."""
        study = self._study(history, chosen, int(rng.integers(2**32)))
        trial = study.ask(self._translation.distributions)
        return self._translation.row(trial.params)

    def _study(self, history: Observations, chosen: IntArray, seed: int) -> Study:
        """A study that holds the history, and running trials for what was chosen."""
        import optuna

        with quietly():
            study = optuna.create_study(
                directions=["minimize"] * self._n_objectives,
                sampler=optuna.samplers.GPSampler(
                    seed=seed,
                    n_startup_trials=self._options.startup,
                    deterministic_objective=self._options.deterministic,
                ),
            )
        known = np.flatnonzero(~history.failed)[-self._options.training :]
        # Limits that are always met would only cost it time.
        limits = history.violations[:, (history.violations[known] > 0).any(axis=0)]
        study.add_trials(
            [
                self._translation.trial(history.rows[i], history.objectives[i], limits[i])
                for i in known
            ]
        )
        for row in chosen:
            study.add_trial(self._translation.running(row))
        return study
