"""Checks of the contracts, for our own optimizers and evaluators and for those of others.

>>> from codesign.search.optimizers.sampling import RandomSearch
>>> check_optimizer(RandomSearch)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from codesign.base.columns import IntArray
from codesign.base.records import frozen
from codesign.base.schema import Record
from codesign.evaluators.conformance import check_evaluator
from codesign.search.observations import Observations
from codesign.search.optimizers.base import (
    KeySet,
    Optimizer,
    SearchSpace,
    initial_designs,
)
from codesign.space import DesignSpace, parse_space

__all__ = ["check_evaluator", "check_optimizer"]

_ORDINARY = """
parameters:
  size: {values: [1, 2, 4, 8, 16], scale: log}
  ports: {low: 1, high: 4}
  policy: [lru, fifo, random]
  cached: [true, false]
  cache_size: {values: [1, 2, 4], when: cached}
derived:
  cost: {value: size * ports, feature: true}
constraints:
  - cost <= 40
"""
_TINY = """
parameters:
  size: {low: 1, high: 3}
"""
_N_INITIAL = 6
_BATCH_SIZES = (1, 2, 4, 3)
_MOST_LISTED = 10_000


@frozen
class _Task:
    """An objective function with a difficulty; its words end the sentence of a failure."""

    words: str
    n_objectives: int = 2
    share_failing: float = 0.0
    limit: float = 0.7
    is_constant: bool = False
    is_unbounded: bool = False


_TASKS = (
    _Task("two objectives and a limit"),
    _Task("one objective", n_objectives=1),
    _Task("three objectives and some failed evaluations", n_objectives=3, share_failing=0.3),
    _Task("only failed evaluations", share_failing=1.0),
    _Task("nothing feasible", limit=-1.0),
    _Task("one objective that is constant", is_constant=True),
    _Task("violations that are infinite", limit=0.3, is_unbounded=True),
)


def check_optimizer(
    factory: Callable[..., Optimizer],
    *,
    space: DesignSpace | SearchSpace | None = None,
    seed: int = 0,
    options: Record | None = None,
) -> None:
    """Hold an optimizer to its contract, :class:`codesign.search.optimizers.base.Optimizer`.

    It proposes admissible designs in canonical form, none twice, at most as many as asked for
    and none only if there are no more; asking changes nothing; told the same history, at once
    or in pieces, a fresh one goes on with the same suggestions; it takes failed evaluations,
    infeasible starts, infinite violations, constant objectives and tiny spaces. One that knows
    pending designs proposes none of them and changes nothing if there are none.

    Args:
        factory: The class as it is registered.
        space: Where to try it; a small space of ours if not given.
        options: Given to it; its defaults if not given.

    Raises:
        AssertionError: One sentence that names the promise and where it was broken.
    """
    if options is None:
        _require(
            hasattr(factory, "Options"),
            "it has no Options, the record of the keys that a campaign may set",
        )
        options = factory.Options()  # type: ignore[attr-defined] # seen on the line before
    ours = parse_space(_ORDINARY, {}, "ordinary.yaml")
    chosen_space = ours if space is None else space
    search = (
        chosen_space
        if isinstance(chosen_space, SearchSpace)
        else SearchSpace(chosen_space, chosen_space.contains)
    )
    for task in _TASKS:
        _Check(factory, search, seed, options, task).replay()
    tiny = parse_space(_TINY, {}, "tiny.yaml")
    _Check(factory, SearchSpace(tiny, tiny.contains), seed, options, _TASKS[0]).exhaust()
    some = SearchSpace(ours, lambda rows: ours.contains(rows) & (rows[:, 1:3] == 0).all(axis=1))
    _Check(factory, some, seed, options, _TASKS[0]).exhaust()
    _Check(factory, search, seed, options, _TASKS[0]).ask_beside_pending()


def _require(kept: object, promise: str) -> None:
    if not kept:
        raise AssertionError(f"an optimizer's contract: {promise}")


class _Check:
    """One optimizer on one task, watched."""

    def __init__(
        self,
        factory: Callable[..., Optimizer],
        search: SearchSpace,
        seed: int,
        options: Record,
        task: _Task,
    ) -> None:
        self._factory = factory
        self._search = search
        self._task = task
        self._arguments = (search, task.n_objectives, seed, options)
        self._initial = initial_designs(search, _N_INITIAL, seed)
        self._seen = KeySet()

    def _require(self, kept: object, promise: str) -> None:
        _require(kept, f"{promise} (on {self._task.words})")

    def _fresh(self) -> Optimizer:
        return self._factory(*self._arguments)

    # The two courses

    def replay(self) -> None:
        """A course of a few steps, then the same history told to fresh optimizers."""
        optimizer = self._fresh()
        preferred = optimizer.preferred_batch
        self._require(
            isinstance(preferred, int) and preferred >= 1,
            f"preferred_batch is a number of designs, got {preferred!r}",
        )
        parts = [self._tell(optimizer, self._initial)]
        parts += [self._tell(optimizer, self._ask(optimizer, n)) for n in _BATCH_SIZES]
        history = Observations.joined(parts)
        expected = self._ask(optimizer, 3)
        for words, size in (("at once", len(history.rows)), ("one by one", 1)):
            fresh = self._fresh()
            for start in range(0, len(history.rows), size):
                fresh.tell(*history.part(slice(start, start + size)).tell_arguments)
            self._require(
                np.array_equal(fresh.ask(3), expected),
                f"a fresh optimizer that is told the same history {words} goes on with the "
                "same suggestions",
            )

    def ask_beside_pending(self) -> None:
        """Asked while designs are pending, and told these in another order."""
        optimizer: Any = self._fresh()
        if not getattr(optimizer, "knows_pending", False):
            return
        self._tell(optimizer, self._initial)
        self._require(
            np.array_equal(optimizer.ask(3), optimizer.ask(3, self._search.no_rows)),
            "without pending designs it proposes the same as ever",
        )
        pending = self._search.no_rows
        for n in (3, 1, 1, 2):
            rows = optimizer.ask(n, pending)
            self._require(
                np.array_equal(rows, optimizer.ask(n, pending)),
                "asking twice gives the same designs",
            )
            self._look_at(rows, n)
            keys = self._search.space.keys
            self._require(
                not np.isin(keys(rows), keys(pending)).any(), "it proposes no pending design"
            )
            pending = np.concatenate([pending, rows])
            if n == 1:
                # Not in the order of the proposals.
                self._tell(optimizer, pending[-1:])
                pending = pending[:-1]

    def exhaust(self) -> None:
        """Until nothing is left: every admissible design is proposed, then none."""
        optimizer = self._fresh()
        left = self._n_left()
        if left > _N_INITIAL:
            self._tell(optimizer, self._initial)
        while self._n_left():
            self._tell(optimizer, self._ask(optimizer, 4))
        rows = optimizer.ask(4)
        self._require(
            rows.shape == self._search.no_rows.shape,
            f"with no design left it returns 0 rows of all parameters, got shape {rows.shape}",
        )

    def _n_left(self) -> int:
        space = self._search.space
        return len(self._search.unseen(space.rows(np.arange(space.size)), self._seen))

    # Steps

    def _tell(self, optimizer: Optimizer, rows: IntArray) -> Observations:
        """Evaluate designs and tell their results."""
        task = self._task
        space = self._search.space
        points = space.points(rows)
        targets = np.linspace(0.2, 0.9, task.n_objectives)
        weights = 1.0 + np.arange(points.shape[1]) / 7
        gaps = points[:, :, None] - targets
        objectives = 0.1 + (weights[:, None] * gaps**2).sum(axis=1)
        if task.is_constant:
            objectives[:, 0] = 1.0
        violations = points[:, :1] - task.limit
        if task.is_unbounded:
            violations[violations > 0] = np.inf
        failed = (space.keys(rows) * 7919 % 100) < 100 * task.share_failing
        objectives[failed] = np.nan
        violations[failed] = np.nan
        results = Observations(rows.copy(), objectives, violations)
        handed = results.part(np.arange(len(rows)))  # copies
        optimizer.tell(*handed.tell_arguments)
        self._require(
            all(
                np.array_equal(*pair, equal_nan=True)
                for pair in zip(handed.tell_arguments, results.tell_arguments, strict=True)
            ),
            "tell leaves the arrays as they are that it was given",
        )
        # An optimizer that kept these arrays notices nothing if it copied them.
        handed.objectives[:] = 1e3
        handed.violations[:] = 1e3
        self._seen.add(self._search.space.keys(rows))
        return results

    def _ask(self, optimizer: Optimizer, n: int) -> IntArray:
        """Ask twice and look at what comes."""
        state = str(np.random.get_state())  # noqa: NPY002 # the state that others may rely on
        rows = optimizer.ask(n)
        again = optimizer.ask(n)
        self._require(
            state == str(np.random.get_state()),  # noqa: NPY002 # as above
            "it keeps to its own random numbers and leaves NumPy's global ones alone",
        )
        self._look_at(rows, n)
        self._require(np.array_equal(rows, again), "asking twice gives the same designs")
        return rows

    def _look_at(self, rows: IntArray, n: int) -> None:
        space = self._search.space
        d = len(space.parameters)
        is_matrix = isinstance(rows, np.ndarray) and rows.ndim == 2
        self._require(
            is_matrix and rows.dtype.kind == "i" and rows.shape[1] == d,
            f"ask returns rows of {d} integers, got {rows!r:.60}",
        )
        self._require(len(rows) <= n, f"ask({n}) returns at most {n} designs, got {len(rows)}")
        valid = ((rows >= -1) & (rows < space.structure.n_levels)).all()
        self._require(valid, "every design lies in the space: a level is out of range")
        self._require((space.canonical(rows) == rows).all(), "every design is in canonical form")
        self._require(space.contains(rows).all(), "every design lies in the space")
        self._require(
            self._search.admits(rows).all(),
            "every design meets what is known before evaluation",
        )
        keys = space.keys(rows)
        self._require(len(np.unique(keys)) == len(keys), "a batch proposes no design twice")
        self._require(
            not self._seen.contains(keys).any(), "no design is proposed that was told before"
        )
        is_listed = space.size <= _MOST_LISTED
        if not len(rows) and is_listed:
            self._require(not self._n_left(), "ask returns designs as long as there are any")
