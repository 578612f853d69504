"""Every design of the space, one after the other: the truth, where a space is small."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from codesign.base.columns import BoolArray, FloatArray, IntArray
from codesign.base.errors import InputError
from codesign.base.schema import Record
from codesign.search.optimizers.base import BaseOptimizer, KeySet

_CHUNK = 1 << 14
_FIRST_BATCH = 256
_LARGEST = 1 << 63
"""Designs that no run would ever list."""


class Exhaustive(BaseOptimizer):
    """All admissible designs in the order of their numbers.

    With a budget of at least the size of the space its front is exact and its hypervolume the
    100 % of every other optimizer. ``codesign enumerate`` does the same for spaces that are far
    too large to store every observation.

    Raises:
        InputError: The space is too large to list its designs.
    """

    class Options(Record):
        """There are none."""

    knows_pending: ClassVar[Literal[True]] = True

    def _set_up(self) -> None:
        space = self._space.space
        if space.size >= _LARGEST:
            raise InputError(
                f"the {space.size:,} designs of {space.name} are too many to list, only to sample"
            )
        self._start = 0
        """All admissible designs with lower numbers are seen."""

    @property
    def preferred_batch(self) -> int:
        """More and more, so that a long run is fast."""
        return min(max(self._n_told, _FIRST_BATCH), _CHUNK)

    def ask(self, n: int, pending: IntArray | None = None) -> IntArray:
        """(k, d) as :class:`~codesign.search.optimizers.base.KnowsPending` promises."""
        excluded = self._excluded(pending)
        designs, start = self._space.no_rows, self._start
        while len(designs) < n and start < self._space.space.size:
            designs = np.concatenate([designs, self._remaining(start, excluded)])
            start += _CHUNK
        return designs[:n]

    def tell(
        self, rows: IntArray, objectives: FloatArray, violations: FloatArray, failed: BoolArray
    ) -> None:
        """Take note of the designs; their worth does not matter."""
        super().tell(rows, objectives, violations, failed)
        while self._start < self._space.space.size and not len(
            self._remaining(self._start, self._seen)
        ):
            self._start += _CHUNK

    def _remaining(self, start: int, excluded: KeySet) -> IntArray:
        stop = min(start + _CHUNK, self._space.space.size)
        return self._space.unseen(self._space.space.rows(np.arange(start, stop)), excluded)
