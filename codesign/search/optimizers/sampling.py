"""Search that learns nothing: the baselines every other optimizer has to beat."""

from __future__ import annotations

import numpy as np

from codesign.base.columns import IntArray
from codesign.base.schema import Record
from codesign.search.optimizers.base import BaseOptimizer, Count, KeySet, SobolSequence

_MOST_AT_ONCE = 8192


class _Sampling(BaseOptimizer):
    """Common base of the sampling methods: the size of a batch."""

    class Options(Record):
        """Options of the sampling optimizers."""

        batch: Count | None = None
        """Designs proposed at a time. If left out, an eighth of those told so far: few enough to
        lose little when a campaign is killed, and enough to be fast when it is long."""

    knows_pending = True
    _options: Options

    @property
    def preferred_batch(self) -> int:
        """The option's, or one that grows with what was told."""
        return self._options.batch or min(max(self._n_told // 8, 1), _MOST_AT_ONCE)


class RandomSearch(_Sampling):
    """Designs drawn uniformly from those not seen."""

    def ask(self, n: int, pending: IntArray | None = None) -> IntArray:
        """(k, d) as the protocol promises."""
        return self._space.sample_unseen(self._rng(pending), n, self._excluded(pending))


class SobolSearch(_Sampling):
    """The designs of a scrambled Sobol sequence in its order, those seen left out.

    It continues the sequence of the initial designs. Once the sequence meets nothing new, as
    in a space that is almost exhausted, the rest is drawn uniformly.
    """

    def _set_up(self) -> None:
        self._sequence = SobolSequence(self._space, self._seed)

    def ask(self, n: int, pending: IntArray | None = None) -> IntArray:
        """(k, d) as the protocol promises."""
        excluded = self._excluded(pending)
        n_pending = 0 if pending is None else len(pending)
        rows = self._sequence.first_unseen(n + n_pending, self._seen)
        rows = self._space.distinct(rows, excluded)[:n]
        if len(rows) == n:
            return rows
        # The sequence is over: all its designs are in ``rows`` or taken.
        others = self._space.sample_unseen(self._rng(pending), n, excluded)
        proposed = KeySet(self._space.space.keys(rows))
        return np.concatenate([rows, self._space.distinct(others, proposed)])[:n]
