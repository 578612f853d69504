"""What models learn from: results with what is known of their designs, and how much of it.

A process is conditioned on all results up to a bound. Its hyperparameters, which cost many times
as much, are learned from fewer, and of a long history not anew with each result. Both follow from
the history alone, so a search that was resumed goes on in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from codesign.base.columns import FloatArray, IntArray
from codesign.search.observations import Observations
from codesign.search.optimizers.embedding import Embedding
from codesign.search.optimizers.surrogate import Fitted

_EACH = 100
"""Results up to which hyperparameters are learned anew after each [ours]."""
_DECIDED_EVERY = 5
"""Results after which the form of a process is decided anew; later, a quarter more [ours]."""
_EMBEDDED_EVERY = 10
"""Results, up to a hundred, after which positions of categories are learned anew [ours]."""
_REFITS = 10
"""Beyond, times that they are learned while the number of results doubles, about [ours]."""


@dataclass(frozen=True)
class Evidence:
    """A history with what models know of its designs.

    Attributes:
        features: (n, f) of the designs.
        predicted: (n, m + c) their objectives and violations as a cheaper model has them, NaN in
            the columns that it does not have; None without one.
    """

    history: Observations
    features: FloatArray
    predicted: FloatArray | None = None

    def predictions(self, position: int) -> FloatArray | None:
        """(n,) of an objective or of a limit; None if there are none."""
        if self.predicted is None or np.isnan(self.predicted[:, position]).any():
            return None
        return self.predicted[:, position]

    def part(self, chosen: slice | IntArray) -> Evidence:
        """Some of it, in the order chosen."""
        return Evidence(
            self.history.part(chosen),
            self.features[chosen],
            None if self.predicted is None else self.predicted[chosen],
        )

    def with_results(self, most: int, rng: np.random.Generator) -> Evidence:
        """What did not fail, at most so much of it."""
        known = np.flatnonzero(~self.history.failed)
        return self.part(training_of(self.history, known, most, rng))

    def thinned(self, most: int, rng: np.random.Generator) -> Evidence:
        """At most so much of it, what failed included."""
        return self.part(training_of(self.history, np.arange(len(self.features)), most, rng))


def training_of(
    history: Observations, known: IntArray, most: int, rng: np.random.Generator
) -> IntArray:
    """Positions to learn from: all that are known, or half front, a quarter latest, others."""
    if len(known) <= most:
        return known
    front = rng.permutation(np.intersect1d(history.front, known))[: most // 2]
    chosen = np.union1d(front, known[-(most // 4) :]) if most >= 4 else front
    others = rng.permutation(np.setdiff1d(known, chosen))
    return np.sort(np.concatenate([chosen, others[: most - len(chosen)]]))


def milestone(n: int, position: int = 0) -> int:
    """Number of results whose hyperparameters serve after ``n``; at least nine tenths of them.

    Beyond a hundred results, each process has milestones of its own, so that those of no two fall
    on the same result as long as there are not more processes than results between milestones.

    Args:
        n: Number of results.
        position: Of the process among all.

    >>> [milestone(n) for n in (7, 100, 112, 1000, 1004)]
    [7, 100, 110, 960, 960]
    >>> [milestone(n, 3) for n in (7, 100, 112, 1000, 1004)]
    [7, 100, 103, 963, 963]
    """
    delayed = max(n - position, 0)
    step = 1 if delayed <= _EACH else 2 ** int(np.log2(delayed / _EACH)) * _EACH // _REFITS
    return n - delayed % step


def decided_at(n: int, position: int = 0) -> int:
    """Number of results that decide the form of the process that is learned from ``n``.

    >>> [decided_at(n) for n in (3, 20, 23, 99, 110)]
    [3, 20, 20, 90, 90]
    """
    delayed, decided = max(n - position, 0), 2 * _DECIDED_EVERY
    if delayed < decided:
        return n
    while (later := decided + max(_DECIDED_EVERY, decided // 4)) <= delayed:
        decided = later
    return decided + position


def embedded_at(n: int, position: int = 0) -> int:
    """Number of results that the positions of categories are learned from after ``n``.

    >>> [embedded_at(n) for n in (3, 20, 29, 99, 112)]
    [3, 20, 20, 90, 110]
    """
    if n > _EACH:
        return milestone(n, position)
    return n - n % _EMBEDDED_EVERY if n >= _EMBEDDED_EVERY else n


@dataclass(frozen=True)
class Form:
    """What kind of process explains the results best.

    Attributes:
        logarithmic: It is about the logarithm of an objective that has one sign.
        has_sum: Its kernel is a product and a sum over the parameters.
        has_noise: It learns how much noise there is.
    """

    logarithmic: bool
    has_sum: bool = False
    has_noise: bool = False


@dataclass(frozen=True)
class Learned:
    """What is learned of a process besides its observations.

    Attributes:
        fitted: Its hyperparameters, and how likely they are.
    """

    fitted: Fitted
    form: Form


class HyperparameterMemory:
    """Hyperparameters of each process's latest milestone, so that each is learned once.

    They are a function of the history; remembering them saves time and changes nothing.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Learn everything anew, from evidence that changed."""
        self._learned: dict[tuple[str, int], tuple[int, Learned]] = {}
        self._plain: dict[tuple[str, int], tuple[int, Learned]] = {}
        self._decided: dict[tuple[str, int], tuple[int, Learned]] = {}
        self._embedded: tuple[int, Mapping[tuple[str, int], Embedding]] | None = None

    def get(self, n: int, name: tuple[str, int], learn: Callable[[], Learned]) -> Learned:
        """Those of a process after ``n`` results, learned if they are not remembered."""
        return _remembered(self._learned, n, name, learn)

    def plain(self, n: int, name: tuple[str, int], learn: Callable[[], Learned]) -> Learned:
        """Those of a process whose features are not embedded, after ``n`` results."""
        return _remembered(self._plain, n, name, learn)

    def embedded(
        self, n: int, learn: Callable[[], Mapping[tuple[str, int], Embedding]]
    ) -> Mapping[tuple[str, int], Embedding]:
        """Embeddings of the processes that have one, after ``n`` results."""
        if self._embedded is None or self._embedded[0] != n:
            self._embedded = n, learn()
        return self._embedded[1]

    def decided(self, n: int, name: tuple[str, int], decide: Callable[[], Learned]) -> Learned:
        """What was learned when the form of a process was decided, after ``n`` results."""
        return _remembered(self._decided, n, name, decide)


def _remembered(
    memory: dict[tuple[str, int], tuple[int, Learned]],
    n: int,
    name: tuple[str, int],
    learn: Callable[[], Learned],
) -> Learned:
    if name not in memory or memory[name][0] != n:
        memory[name] = n, learn()
    return memory[name][1]
