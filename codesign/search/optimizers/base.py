"""Contract of every optimizer, and the parts that most of them share.

An optimizer is a function of the space, its seed and all that it was told, in order: a fresh
one that is told the same history, in whatever pieces, goes on with the same suggestions.
Randomness is ``numpy.random.default_rng([seed, number of observations told or pending])``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Annotated, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
from pydantic import Field

from codesign.base.columns import Arrays, BoolArray, FloatArray, IntArray
from codesign.base.records import frozen
from codesign.base.schema import Record
from codesign.search.observations import Observations
from codesign.search.optimizers.sobol import sobol_points
from codesign.space import DesignSpace

WholeNumber = Annotated[int, Field(ge=0, le=10**6)]
Count = Annotated[int, Field(ge=1, le=10**6)]
"""Numbers among an optimizer's options."""
HintUse = Literal["none", "start", "model", "alone"]
"""Use of an evaluator's hints in a search: none, choose the initial designs, serve the models of an
optimizer that learns, or lead one that has no model."""

_DRAWS = 1 << 10
"""Least number of designs drawn at once."""
_MOST_DRAWS = 1 << 20
"""Random draws before what is left of a space is listed, or given up if it cannot be."""
_LISTED = 1 << 22
"""Spaces up to this size are listed when random draws find nothing new."""
_LIST_CHUNK = 1 << 16
_SOBOL_BLOCK = 1 << 9
_SOBOL_STALL = 1 << 17
"""Sobol points without a new admissible design before the sequence counts as exhausted."""
_DESCRIBED = 1 << 12
"""Designs from which the range of a described number is read."""


@runtime_checkable
class Optimizer(Protocol):
    """The contract; :func:`codesign.testing.check_optimizer` tests it.

    A class is registered in the entry-point group ``codesign.optimizers`` and is built as
    ``Class(space, n_objectives, seed, options)``. With an attribute ``takes_reference_point`` that
    is true it is given a keyword ``reference_point`` too, the (m,) bound of the hypervolume in
    minimized objectives. An attribute ``hint_use`` that is ``model`` or ``alone`` says that it
    looks at hints; without it, its space has none. With an attribute ``knows_pending`` that is
    true, ``ask`` takes a second argument, the (p, d) distinct designs that were proposed and have
    no result yet, in the order of their proposal, and proposes none of them. An optimizer without
    it may propose a pending design, which is then dropped. One that asks a cheaper evaluator first
    has the methods ``ask_screened`` and ``tell_screened`` of ``gp-ehvi``.
    """

    Options: ClassVar[type[Record]]
    """Options that a campaign's ``optimizers:`` may state next to ``name:``; all have defaults."""

    @property
    def preferred_batch(self) -> int:
        """Default number of designs that the method asks for."""
        ...

    def ask(self, n: int) -> IntArray:
        """(k, d) new admissible designs, at most ``n``, none told before and none twice.

        None only if the space holds no other. Changes nothing: asking again gives the same.
        """
        ...

    def tell(
        self, rows: IntArray, objectives: FloatArray, violations: FloatArray, failed: BoolArray
    ) -> None:
        """Take the results of designs, whoever proposed them.

        Args:
            rows: (k, d) designs.
            objectives: (k, m) to minimize; NaN where failed.
            violations: (k, c) limits, ``<= 0`` is within; NaN where failed.
            failed: (k,) designs without a result.
        """
        ...


class KeySet:
    """A growing set of designs' keys, 64-bit or Python's integers, in a sorted array."""

    def __init__(self, keys: IntArray | None = None) -> None:
        self._sorted = np.empty(0, np.int64) if keys is None else np.unique(keys)

    def __len__(self) -> int:
        return len(self._sorted)

    def add(self, keys: IntArray) -> None:
        """Add keys; keys already in the set change nothing."""
        self._sorted = self.joined(keys)._sorted

    def joined(self, keys: IntArray) -> KeySet:
        """New set with the keys added."""
        fresh = np.unique(keys)
        fresh = fresh[~self.contains(fresh)]
        union = KeySet()
        union._sorted = fresh
        if len(self):
            places = np.searchsorted(self._sorted, fresh)
            union._sorted = np.insert(self._sorted, places, fresh)
        return union

    def contains(self, keys: IntArray) -> BoolArray:
        """(n,) whether each key is in the set."""
        if not len(self):
            return np.zeros(len(keys), bool)
        places = np.minimum(np.searchsorted(self._sorted, keys), len(self) - 1)
        return np.asarray(self._sorted[places] == keys)


@frozen
class _Described:
    """A described number and how it is scaled."""

    name: str
    is_logarithmic: bool
    low: float
    high: float

    @classmethod
    def scale(cls, name: str, values: FloatArray) -> _Described | None:
        """Description from values over a sample; None if it does not tell designs apart."""
        values = np.asarray(values, np.float64)
        is_logarithmic = bool((values > 0).all())
        seen = np.log(values) if is_logarithmic else values
        if not np.isfinite(seen).all() or not np.ptp(seen):
            return None
        return cls(name, is_logarithmic, float(seen.min()), float(seen.max()))

    def scaled(self, values: FloatArray) -> FloatArray:
        """(n,) about 0 to 1; what lies far outside of the sample's range is drawn near."""
        if self.is_logarithmic:
            values = np.log(np.maximum(values, np.finfo(float).tiny))
        scaled = (values - self.low) / (self.high - self.low)
        return np.clip(np.nan_to_num(scaled, nan=0.0), -1.0, 2.0)


@frozen
class ScreeningTerms:
    """Costs of a cheaper evaluator.

    Attributes:
        cost: Time of one of its evaluations over that of one of the dear evaluator.
        share: Most time for it, as a share of that for the dear evaluator.
    """

    cost: float
    share: float

    def n_allowed(self, n_evaluations: int) -> int:
        """Screened designs that so many evaluations pay for."""
        return int(self.share * n_evaluations / self.cost + 1e-9)


@frozen
class SearchSpace:
    """Designs among which an optimizer may choose.

    Attributes:
        admits: (n, d) rows to (n,): whether each is a design of the space that meets all that
            is known before evaluation. Takes any integers.
        describe: (n, d) designs to (n,) numbers by name, for models of the objectives to look
            at besides the space's own features; cheap, and None if there are no such numbers.
        predict: (n, d) designs to what a cheaper model says of their objectives, (n, m) to
            minimize, NaN in the columns that it does not have; None if there is no such model.
        predict_violations: (n, d) designs to what that model says of the last c limits, (n, c),
            ``<= 0`` is within, NaN in the columns that it does not have; None if there is no such
            model.
        screening: Of a cheaper evaluator that can be asked design by design; None without one.
    """

    space: DesignSpace
    admits: Callable[[IntArray], BoolArray]
    describe: Callable[[IntArray], Arrays] | None = None
    predict: Callable[[IntArray], FloatArray] | None = None
    predict_violations: Callable[[IntArray], FloatArray] | None = None
    screening: ScreeningTerms | None = None

    def hintless(self) -> SearchSpace:
        """The same designs; nothing is known of them in advance but which are admissible."""
        return SearchSpace(self.space, self.admits)

    @property
    def no_rows(self) -> IntArray:
        """(0, d) no design."""
        return np.empty((0, len(self.space.parameters)), np.int64)

    @cached_property
    def _described(self) -> tuple[_Described, ...]:
        """The described numbers that vary and are finite, with their ranges."""
        if self.describe is None:
            return ()
        rows = self.space.sample(np.random.default_rng(0), _DESCRIBED)
        rows = rows[self.admits(rows)]
        if not len(rows):
            return ()
        described_numbers = (
            _Described.scale(name, values) for name, values in self.describe(rows).items()
        )
        return tuple(
            described_number
            for described_number in described_numbers
            if described_number is not None
        )

    @property
    def has_features(self) -> bool:
        """Whether there is anything that tells designs apart."""
        return bool(self.space.feature_names or self._described)

    def features(self, rows: IntArray) -> FloatArray:
        """(n, f) numbers of about 0 to 1 that describe canonical rows to a model.

        The space's, then what :attr:`describe` gives, by its logarithm if it is positive,
        scaled from its range over a fixed sample of the space.
        """
        own_features = self.space.features(rows)
        if self.describe is None or not self._described:
            return own_features
        numbers = self.describe(rows)
        return np.column_stack(
            [own_features, *(number.scaled(numbers[number.name]) for number in self._described)]
        )

    @cached_property
    def feature_groups(self) -> IntArray:
        """(f,) which features are alike: those of one category; each of the others by itself."""
        own_feature_groups = self.space.feature_groups
        first = int(own_feature_groups.max(initial=-1)) + 1
        return np.concatenate([own_feature_groups, np.arange(first, first + len(self._described))])

    def distinct(self, rows: IntArray, seen: KeySet) -> IntArray:
        """(k, d) the rows whose keys are new, each once, in their order."""
        keys = self.space.keys(rows)
        first = np.sort(np.unique(keys, return_index=True)[1])
        return rows[first[~seen.contains(keys[first])]]

    def unseen(self, rows: IntArray, seen: KeySet) -> IntArray:
        """(k, d) the admissible rows among those that are :meth:`distinct`."""
        rows = self.distinct(rows, seen)
        return rows[self.admits(rows)] if len(rows) else rows

    def sample_unseen(self, rng: np.random.Generator, n: int, seen: KeySet) -> IntArray:
        """(k, d) designs, uniform over the admissible ones not seen, without replacement.

        Fewer than ``n`` only if there are no more; or if the space is too large to be listed
        and a million draws found too few.
        """
        designs = self.no_rows
        drawn = 0
        size = max(_DRAWS, 2 * n)
        while len(designs) < n and drawn < _MOST_DRAWS:
            fresh = self.unseen(self.space.sample(rng, size), seen)
            designs = self.distinct(np.concatenate([designs, fresh]), seen)
            drawn += size
            if drawn > 16 * self.space.size:
                break
            size = min(2 * size, _LIST_CHUNK)
        if len(designs) < n and self.space.size <= _LISTED:
            size = self.space.size
            chunks = [
                self.unseen(self.space.rows(np.arange(start, min(start + _LIST_CHUNK, size))), seen)
                for start in range(0, size, _LIST_CHUNK)
            ]
            rest = np.concatenate([self.no_rows, *chunks])
            return rest[rng.permutation(len(rest))[:n]]
        return designs[:n]


class NoOptions(Record):
    """Options of an optimizer that has none."""


class BaseOptimizer:
    """Base of our optimizers: their construction, and the designs that they were told.

    A subclass adds ``ask``; if that takes pending designs, also ``knows_pending = True``, and if it
    looks at hints, ``hint_use``. One that learns extends ``_learn``, or begins with
    :class:`~codesign.search.optimizers.history.LearningOptimizer`.

    Args:
        options: The subclass's ``Options``.
        reference_point: (m,) bound of the hypervolume, for a subclass that uses one.
    """

    Options: ClassVar[type[Record]] = NoOptions
    hint_use: ClassVar[HintUse] = "none"
    knows_pending: ClassVar[bool] = False
    takes_reference_point: ClassVar[bool] = True

    def __init__(
        self,
        space: SearchSpace,
        n_objectives: int,
        seed: int,
        options: Record,
        reference_point: FloatArray | None = None,
    ) -> None:
        self._space = space
        self._n_objectives = n_objectives
        self._seed = seed
        self._options = options
        self._reference = reference_point
        self._seen = KeySet()
        self._n_told = 0
        self._set_up()

    def _set_up(self) -> None:
        """Prepare a subclass when it is built; a missing library is named here."""

    @property
    def preferred_batch(self) -> int:
        """One: whatever is learned from a design serves the next."""
        return 1

    def tell(
        self, rows: IntArray, objectives: FloatArray, violations: FloatArray, failed: BoolArray
    ) -> None:
        """Take note of the designs; a subclass that learns extends ``_learn``."""
        self._seen.add(self._space.space.keys(rows))
        self._n_told += len(rows)
        self._learn(Observations.copied(rows, objectives, violations, failed))

    def _learn(self, results: Observations) -> None:
        """Learn from results; NaN objectives are failures."""

    def _rng(self, pending: IntArray | None = None) -> np.random.Generator:
        """The random numbers of this step; asked for again, they begin again.

        Pending designs count as if they had been told, so that no two proposals share a step.
        """
        n_pending = 0 if pending is None else len(pending)
        return np.random.default_rng([self._seed, self._n_told + n_pending])

    def _excluded(self, pending: IntArray | None) -> KeySet:
        """The designs that are not to be proposed: told or pending."""
        if pending is None or not len(pending):
            return self._seen
        return self._seen.joined(self._space.space.keys(pending))


class SobolSequence:
    """The distinct admissible designs that a scrambled Sobol sequence meets, in its order.

    The sequence and so the designs depend on the space and the seed alone.
    """

    def __init__(self, search: SearchSpace, seed: int) -> None:
        self._search = search
        self._seed = seed
        self._met = KeySet()
        self._rows = search.no_rows
        self._drawn = self._fruitless = 0

    def first_unseen(self, n: int, seen: KeySet) -> IntArray:
        """(k, d) the first ``n`` of the designs that are not seen; fewer if it ends before.

        What is seen must only grow from call to call.
        """
        self._rows = self._search.distinct(self._rows, seen)
        while len(self._rows) < n and self._fruitless < _SOBOL_STALL and self._drawn < 1 << 30:
            space = self._search.space
            points = sobol_points(space.n_coordinates, self._seed, self._drawn, _SOBOL_BLOCK)
            rows = self._search.unseen(space.sobol_rows(points), self._met)
            self._met.add(space.keys(rows))
            self._drawn += _SOBOL_BLOCK
            self._fruitless = 0 if len(rows) else self._fruitless + _SOBOL_BLOCK
            self._rows = np.concatenate([self._rows, self._search.distinct(rows, seen)])
        return self._rows[:n].copy()


def initial_designs(search: SearchSpace, n: int, seed: int) -> IntArray:
    """(k, d) distinct admissible designs, spread by a scrambled Sobol sequence.

    Every optimizer of one seed starts from them (MemExplorer section 4.4 takes 20). Fewer than
    ``n`` only if the space holds fewer.
    """
    rows = SobolSequence(search, seed).first_unseen(n, KeySet())
    if len(rows) < n:
        rng = np.random.default_rng([seed, 0])
        seen = KeySet(search.space.keys(rows))
        return np.concatenate([rows, search.sample_unseen(rng, n - len(rows), seen)])
    return rows
