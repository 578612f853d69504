"""Search that learns nothing: the baselines every other optimizer has to beat."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from codesign.columns import BoolArray, FloatArray, IntArray
from codesign.optimizers.base import KeySet, SearchSpace, SobolSequence
from codesign.schema import Record

_MOST_AT_ONCE = 8192


class _Sampling:
    """What both remember: which designs were told."""

    class Options(Record):
        """Options of the sampling optimizers."""

        batch: Annotated[int, Field(ge=1)] | None = None
        """Designs proposed at a time. If left out, an eighth of those told so far: few enough to
        lose little when a campaign is killed, and enough to be fast when it is long."""

    def __init__(
        self,
        space: SearchSpace,
        n_objectives: int,
        seed: int,
        options: Options,
        reference_point: FloatArray | None = None,
    ) -> None:
        self._space, self._seed = space, seed
        self._seen, self._n_told = KeySet(), 0
        self._batch = options.batch

    @property
    def preferred_batch(self) -> int:
        """The option's, or one that grows with what was told."""
        return self._batch or min(max(self._n_told // 8, 1), _MOST_AT_ONCE)

    def tell(
        self, rows: IntArray, objectives: FloatArray, violations: FloatArray, failed: BoolArray
    ) -> None:
        """Take note of the designs; their worth does not matter."""
        self._seen.add(self._space.space.keys(rows))
        self._n_told += len(rows)

    def _random(self, n: int, seen: KeySet) -> IntArray:
        rng = np.random.default_rng([self._seed, self._n_told])
        return self._space.sample_unseen(rng, n, seen)


class RandomSearch(_Sampling):
    """Designs drawn uniformly from those not seen.

    Args:
        space: Where to look.
        n_objectives: Not used.
        seed: Of the draws.
        options: See :class:`Options`.
        reference_point: Not used.
    """

    def ask(self, n: int) -> IntArray:
        """(k, d) as :class:`~codesign.optimizers.base.Optimizer` promises."""
        return self._random(n, self._seen)


class SobolSearch(_Sampling):
    """The designs of a scrambled Sobol sequence in its order, those seen left out.

    It continues the sequence of the initial designs. Once the sequence meets nothing new, as
    in a space that is almost exhausted, the rest is drawn uniformly.

    Args:
        space: Where to look.
        n_objectives: Not used.
        seed: Of the scrambling.
        options: See :class:`Options`.
        reference_point: Not used.
    """

    def __init__(
        self,
        space: SearchSpace,
        n_objectives: int,
        seed: int,
        options: _Sampling.Options,
        reference_point: FloatArray | None = None,
    ) -> None:
        super().__init__(space, n_objectives, seed, options, reference_point)
        self._sequence = SobolSequence(space, seed)

    def ask(self, n: int) -> IntArray:
        """(k, d) as :class:`~codesign.optimizers.base.Optimizer` promises."""
        rows = self._sequence.first_unseen(n, self._seen)
        if len(rows) == n:
            return rows
        # The sequence is over: all its designs are in ``rows`` or seen.
        others = self._random(n, self._seen)
        chosen = KeySet()
        chosen.add(self._space.space.keys(rows))
        return np.concatenate([rows, self._space.distinct(others, chosen)])[:n]
