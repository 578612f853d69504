"""Designs as Optuna's trials, for the optimizers that stand on its samplers.

Optuna knows neither constraints between parameters nor parameters that a design does not have.
A parameter is the position of its level; where a design lacks one, it takes the middle level,
which says the least, and in a proposal it is then dropped again. Proposals that are
inadmissible or were seen are drawn again; the last one's neighbors count too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from codesign.base.columns import FloatArray, IntArray
from codesign.base.errors import needing_extra
from codesign.search.optimizers.base import KeySet, SearchSpace

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

_LARGEST = 1e300
"""Stands for an infinite violation, which Optuna's sums do not take."""


def require_optuna(optimizer: str, extra: str) -> None:
    """Raises MissingExtraError if Optuna is not installed."""
    with needing_extra(f"optimizer {optimizer}", extra):
        import optuna  # noqa: F401 # only whether it is there


@contextmanager
def quietly() -> Iterator[None]:
    """Optuna says no more than errors; afterwards it is as talkative as before."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


class Translation:
    """Between the rows of a space and the parameters of trials.

    Args:
        search: Where the designs are from.
    """

    def __init__(self, search: SearchSpace) -> None:
        self._search = search
        parameters = search.space.parameters
        self.distributions = {
            parameter.name: _distribution(
                len(parameter.values), parameter.optional, parameter.kind == "categorical"
            )
            for parameter in parameters
            if len(parameter.values) > 1 or parameter.optional
        }
        self._fillers = np.array([len(item.values) // 2 for item in parameters])
        self._is_optional = np.array([item.optional for item in parameters])

    def codes(self, row: IntArray) -> dict[str, int]:
        """A trial's parameters for a canonical row."""
        filled = np.where((row < 0) & ~self._is_optional, self._fillers, row).tolist()
        codes = dict(zip(self._search.space.names, filled, strict=True))
        return {name: codes[name] for name in self.distributions}

    def row(self, codes: dict[str, int]) -> IntArray:
        """(1, d) the canonical row of a trial's parameters; it may violate constraints."""
        row = [codes.get(name, 0) for name in self._search.space.names]
        return self._search.space.canonical(np.array([row], dtype=np.int64))

    def trial(self, row: IntArray, objectives: FloatArray, violations: FloatArray) -> FrozenTrial:
        """A finished trial."""
        from optuna.trial import create_trial

        limits = np.clip(violations, -_LARGEST, _LARGEST).tolist()
        return create_trial(
            values=objectives.tolist(),
            params=self.codes(row),
            distributions=self.distributions,
            constraints={str(j): limit for j, limit in enumerate(limits)},
        )

    def running(self, row: IntArray) -> FrozenTrial:
        """A trial that has no result yet."""
        from optuna.trial import TrialState, create_trial

        return create_trial(
            state=TrialState.RUNNING, params=self.codes(row), distributions=self.distributions
        )

    def repaired(
        self,
        draw: Callable[[], IntArray],
        attempts: int,
        seen: KeySet,
        taken: KeySet,
        rng: np.random.Generator,
    ) -> IntArray:
        """(1, d) a new design from what a sampler draws; (0, d) if none came of it."""
        search = self._search
        for attempt in range(attempts):
            rows = draw()
            if attempt == attempts - 1:
                rows = np.concatenate([rows, search.space.neighbors(rows[0])])
            fresh = search.distinct(search.unseen(rows, seen), taken)
            if len(fresh):
                # The draw itself if it can be had.
                is_drawn = (fresh[0] == rows[0]).all()
                return fresh[:1] if is_drawn else fresh[rng.integers(len(fresh), size=1)]
        return search.no_rows


def _distribution(n_levels: int, optional: bool, is_categorical: bool) -> BaseDistribution:
    """Distribution of a parameter's level codes, -1 for absence where that can be chosen."""
    from optuna.distributions import CategoricalDistribution, IntDistribution

    first = -1 if optional else 0
    if is_categorical or optional:
        return CategoricalDistribution(list(range(first, n_levels)))
    return IntDistribution(first, n_levels - 1)
