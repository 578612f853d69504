"""Training data of models: results with the features of their designs.

A process is conditioned on all results up to a bound. Its hyperparameters, which cost many times
as much, are learned from fewer, and of a long history not anew with each result. Both follow from
the history alone, so a resumed search goes on in the same way.
"""

from __future__ import annotations

import numpy as np

from codesign.base.columns import IntArray
from codesign.base.records import frozen
from codesign.search.observations import Observations
from codesign.search.optimizers.prediction import QueryPoints

_EACH = 40
"""Results up to which hyperparameters are learned anew after each [ours]."""
_SEARCHED_EVERY = 5
"""Results after which the modes are searched from the start; later, a quarter more [ours]."""


@frozen
class TrainingData:
    """A history with features and prior predictions of its designs."""

    history: Observations
    points: QueryPoints

    def subset(self, rows: slice | IntArray) -> TrainingData:
        """Some of the results, in this order."""
        return TrainingData(self.history.part(rows), self.points.subset(rows))

    def successful(self, most: int, rng: np.random.Generator) -> TrainingData:
        """At most so many of the designs that did not fail."""
        candidates = np.flatnonzero(~self.history.failed)
        return self.subset(training_rows(self.history, candidates, most, rng))

    def thinned(self, most: int, rng: np.random.Generator) -> TrainingData:
        """At most so many of the designs, the failed ones included."""
        return self.subset(training_rows(self.history, np.arange(len(self.history)), most, rng))


def training_rows(
    history: Observations, candidates: IntArray, most: int, rng: np.random.Generator
) -> IntArray:
    """Positions to learn from: all, or half front, a quarter latest and the rest at random."""
    if len(candidates) <= most:
        return candidates
    front = rng.permutation(np.intersect1d(history.front, candidates))[: most // 2]
    selected = np.union1d(front, candidates[-(most // 4) :]) if most >= 4 else front
    others = rng.permutation(np.setdiff1d(candidates, selected))
    return np.sort(np.concatenate([selected, others[: most - len(selected)]]))


def milestone(n: int, position: int = 0) -> int:
    """Number of results whose hyperparameters serve after ``n``; at least nineteen of twenty.

    Each process has milestones of its own, so that those of no two fall on the same result as long
    as there are not more processes than results between milestones.

    Args:
        n: Number of results.
        position: Of the process among all.

    >>> [milestone(n) for n in (7, 40, 45, 100, 1004)]
    [7, 40, 44, 100, 992]
    >>> [milestone(n, 1) for n in (7, 40, 45, 100, 1004)]
    [7, 40, 45, 97, 993]
    """
    delayed = max(n - position, 0)
    step = 1 if delayed <= _EACH else 2 ** int(np.log2(delayed / _EACH) + 1)
    return n - delayed % step


def searched_at(n: int, position: int = 0) -> int:
    """Number of results from which the modes that are refined with ``n`` were searched.

    >>> [searched_at(n) for n in (3, 20, 23, 99, 110)]
    [3, 20, 20, 90, 90]
    """
    delayed = max(n - position, 0)
    searched = 2 * _SEARCHED_EVERY
    if delayed < searched:
        return n
    while (later := searched + max(_SEARCHED_EVERY, searched // 4)) <= delayed:
        searched = later
    return searched + position
