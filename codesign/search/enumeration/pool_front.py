"""Non-dominated designs of one pool, in halves of halves with the best that each holds."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np

from codesign.base.columns import ArrayDict, FloatArray, IntArray
from codesign.base.metrics import Metric
from codesign.base.records import frozen


@frozen
class PoolFront:
    """Non-dominated designs of a pool, halved again and again.

    Attributes:
        metrics: The ``k`` metrics that decide on systems.
        columns: Entries of a system's row that a design of the pool sets.
        values: (p, k) metrics, minimized.
        counts: (p,) designs that have these metrics.
        rows: (p, d) one of these designs.
    """

    name: str
    metrics: tuple[Metric, ...]
    columns: IntArray
    values: FloatArray
    counts: IntArray
    rows: IntArray

    @property
    def depth(self) -> int:
        """Halvings until every part has one design."""
        return math.ceil(math.log2(len(self.values)))

    def ordered(self) -> PoolFront:
        """The designs in the order in which halves are near one another."""
        order = _halved(self.values, np.arange(len(self.values)))
        arrays = {name: getattr(self, name)[order] for name in ("values", "counts", "rows")}
        return replace(self, **arrays)

    def ideals(self, depth: int) -> FloatArray:
        """(2 ** depth, k) best of every metric in each part."""
        bounds = boundaries(len(self.values), depth)
        return np.stack(
            [
                self.values[start:stop].min(axis=0, initial=np.inf)
                for start, stop in itertools.pairwise(bounds)
            ]
        )

    def natural(self, values: FloatArray) -> ArrayDict:
        """(n,) by metric, each with its own sign, of (n, k) minimized values."""
        return {metric.name: metric.flipped(values[:, j]) for j, metric in enumerate(self.metrics)}


def boundaries(n: int, depth: int) -> IntArray:
    """Boundaries of the halves of ``n`` designs; each is halved by ``_middle``."""
    bounds = [0, n]
    for _ in range(depth):
        middles = [_middle(start, stop) for start, stop in itertools.pairwise(bounds)]
        bounds = [0, *(x for pair in zip(middles, bounds[1:], strict=True) for x in pair)]
    return np.array(bounds)


def _middle(start: int, stop: int) -> int:
    return (start + stop + 1) // 2


def _halved(values: FloatArray, positions: IntArray) -> IntArray:
    """The positions, so that each half is one side of the widest metric, and so on."""
    if len(positions) <= 2:
        return positions
    ranks = values[positions].argsort(axis=0, kind="stable").argsort(axis=0, kind="stable")
    spread = np.ptp(values[positions], axis=0) / np.maximum(
        np.abs(values[positions]).max(axis=0), np.finfo(float).tiny
    )
    positions = positions[np.argsort(ranks[:, int(np.argmax(spread))], kind="stable")]
    middle = _middle(0, len(positions))
    return np.concatenate(
        [_halved(values, positions[:middle]), _halved(values, positions[middle:])]
    )
