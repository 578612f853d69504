"""Multi-objective TPE with constraints, by Optuna.

Ozaki et al., "Multiobjective tree-structured Parzen estimator", 2022. All parameters are drawn
together, around evaluated designs, which are admissible. Optuna's default for several objectives
draws them one by one, and hardly any combination met the constraints.

Optuna knows neither constraints between parameters nor absent parameters. A trial states the
position of each parameter's level. An absent parameter takes the middle level, which says the
least, and is dropped from proposals. Inadmissible and repeated proposals are drawn again; the
neighbors of the last one are candidates, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from codesign.base.columns import IntArray
from codesign.base.errors import needing_extra
from codesign.base.schema import Record
from codesign.search.observations import Observations
from codesign.search.optimizers.base import BaseOptimizer, Count, KeySet

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.study import Study
    from optuna.trial import FrozenTrial

_LARGEST = 1e300
"""Finite substitute for an infinite violation, which Optuna's sums cannot take."""


@contextmanager
def _quietly() -> Iterator[None]:
    """Let Optuna log only errors, and restore its verbosity afterwards."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


class Tpe(BaseOptimizer):
    """Optuna's multivariate sampler over the levels of the parameters.

    Failed designs are remembered, but not learned from. Pending designs are running trials, which
    Optuna's constant liar takes to come out badly.

    Raises:
        MissingExtraError: Optuna is not installed.
    """

    class Options(Record):
        """Options of TPE."""

        startup: Count = 10
        """Results before the sampler learns; until then it draws uniformly."""
        candidates: Count = 24
        """Values that compete for each parameter."""
        attempts: Count = 4
        """Proposals before the neighbors of the last one count too."""

    knows_pending = True
    _options: Options

    def _set_up(self) -> None:
        with needing_extra("optimizer tpe", "tpe"):
            import_module("optuna")

        self._trials: list[FrozenTrial] = []
        parameters = self._space.space.parameters
        self._distributions = {
            parameter.name: _distribution(
                len(parameter.values), parameter.optional, parameter.kind == "categorical"
            )
            for parameter in parameters
            if len(parameter.values) > 1 or parameter.optional
        }
        self._fillers = np.array([len(parameter.values) // 2 for parameter in parameters])
        self._is_optional = np.array([parameter.optional for parameter in parameters])

    def ask(self, n: int, pending: IntArray | None = None) -> IntArray:
        """(k, d) as the protocol promises."""
        rng = self._rng(pending)
        waiting = self._space.no_rows if pending is None else pending
        rows = self._space.no_rows
        proposed = KeySet(self._space.space.keys(waiting))
        while len(rows) < n:
            row = self._propose(rng, proposed, waiting)
            if not len(row):
                break
            rows = np.concatenate([rows, row])
            proposed.add(self._space.space.keys(row))
        return rows

    def _propose(self, rng: np.random.Generator, proposed: KeySet, pending: IntArray) -> IntArray:
        """(1, d) a new design; (0, d) if there is none."""
        search = self._space
        if len(self._trials) >= self._options.startup and self._distributions:
            study = self._study(pending, int(rng.integers(2**32)))
            for attempt in range(self._options.attempts):
                params = study.ask(self._distributions).params
                codes = [params.get(name, 0) for name in search.space.names]
                rows = search.space.canonical(np.array([codes], np.int64))
                if attempt == self._options.attempts - 1:
                    rows = np.concatenate([rows, search.space.neighbors(rows[0])])
                fresh = search.distinct(search.unseen(rows, self._seen), proposed)
                if len(fresh):
                    # The draw itself if it can be had.
                    is_drawn = (fresh[0] == rows[0]).all()
                    return fresh[:1] if is_drawn else fresh[rng.integers(len(fresh), size=1)]
        others = search.sample_unseen(rng, len(proposed) + 1, self._seen)
        return search.distinct(others, proposed)[:1]

    def _study(self, pending: IntArray, seed: int) -> Study:
        """A study of all results, with pending designs as running trials.

        The constant liar keeps away from pending designs and from earlier draws.
        """
        import optuna

        sampler = optuna.samplers.TPESampler(
            seed=seed,
            n_startup_trials=self._options.startup,
            n_ei_candidates=self._options.candidates,
            multivariate=True,
            # Only then are there running trials to keep away from.
            constant_liar=len(pending) > 0,
        )
        with _quietly():
            study = optuna.create_study(
                directions=["minimize"] * self._n_objectives, sampler=sampler
            )
        study.add_trials(self._trials)
        running = optuna.trial.TrialState.RUNNING
        study.add_trials([self._trial(row, state=running) for row in pending])
        return study

    def _learn(self, results: Observations) -> None:
        """Add results as finished trials."""
        for i in np.flatnonzero(~results.failed):
            limits = np.clip(results.violations[i], -_LARGEST, _LARGEST).tolist()
            constraints = {str(j): limit for j, limit in enumerate(limits)}
            self._trials.append(
                self._trial(
                    results.rows[i], values=results.objectives[i].tolist(), constraints=constraints
                )
            )

    def _trial(self, row: IntArray, **results: Any) -> FrozenTrial:
        """Trial of a canonical row."""
        from optuna.trial import create_trial

        filled = np.where((row < 0) & ~self._is_optional, self._fillers, row).tolist()
        codes = dict(zip(self._space.space.names, filled, strict=True))
        return create_trial(
            params={name: codes[name] for name in self._distributions},
            distributions=self._distributions,
            **results,
        )


def _distribution(n_levels: int, optional: bool, is_categorical: bool) -> BaseDistribution:
    """Distribution of a parameter's level codes, -1 for absence if it is optional."""
    from optuna.distributions import CategoricalDistribution, IntDistribution

    first = -1 if optional else 0
    if is_categorical or optional:
        return CategoricalDistribution(list(range(first, n_levels)))
    return IntDistribution(first, n_levels - 1)
