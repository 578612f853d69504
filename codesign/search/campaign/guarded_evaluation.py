"""Evaluation of a campaign's designs in this process or guarded in a separate one, with results
from the reference sample and the cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import cached_property, partial
from pathlib import Path

from codesign.base.columns import IntArray, Strings
from codesign.base.errors import StoreError
from codesign.base.records import frozen
from codesign.search.campaign.campaign_definition import (
    ResolvedDefinition,
    load_definition,
    load_problem,
    load_screening,
)
from codesign.search.campaign.observations import SAMPLE
from codesign.search.campaign.store_file import STORE, open_store
from codesign.search.execution.answers import Evaluate
from codesign.search.execution.guard import Guard, is_foreign
from codesign.search.execution.known_answers import KnownAnswers
from codesign.search.execution.result_cache import ResultCache
from codesign.search.execution.result_store import ResultStore
from codesign.search.observations import Observations
from codesign.search.problem import Problem

LOG, SCRATCH = "logs/evaluator.log", "scratch"
"""Log and working folder of evaluators, within a campaign's folder."""


def is_isolated(resolved: ResolvedDefinition) -> bool:
    """Whether designs are evaluated in a process of their own."""
    execution = resolved.definition.execution
    if execution.isolated is not None:
        return execution.isolated
    return is_foreign(resolved.problem.evaluator) or execution.guard_limits.is_set


@contextmanager
def evaluation(
    resolved: ResolvedDefinition,
    folder: Path | None = None,
    build: Callable[[], Problem] | None = None,
) -> Iterator[Evaluate]:
    """The evaluation of a campaign's designs.

    Guarded and cached for evaluators that are not ours or call other programs, and where the
    campaign says so; our own are faster than the way to another process or to a file.

    Args:
        folder: Of the campaign; None: no log is kept, and no reference sample is known.
        build: Builds the problem in a process of its own, if it is not the one of the campaign's
            file; no reference sample is known of it.
    """
    problem = resolved.problem
    with _guarded(resolved, folder, build) as evaluate:
        layers = []
        if _is_cached(resolved):
            layers.append(ResultCache(problem, ResultStore(_cache_folder(resolved))).evaluate)
        has_sample = _is_slow(resolved) and build is None
        sample = _stored_sample(folder / STORE) if has_sample and folder else None
        if sample is not None:
            layers.append(KnownAnswers(problem, sample).evaluate)
        for layer in layers:
            evaluate = partial(layer, inner=evaluate)
        yield evaluate


@contextmanager
def screening_evaluation(resolved: ResolvedDefinition, folder: Path) -> Iterator[Evaluate | None]:
    """The evaluation of designs by a campaign's cheaper evaluator; None without one.

    Guarded and cached as :func:`evaluation` says.
    """
    if resolved.screening is None:
        yield None
        return
    build = partial(load_screening, resolved.path)
    with evaluation(replace(resolved, problem=resolved.screening), folder, build) as evaluate:
        yield evaluate


@frozen
class RememberedProblem(Problem):
    """A problem whose results are kept in the cache, and looked up there, wherever it is evaluated.

    Attributes:
        cache_folder: Of the cache; None: the user's.
    """

    cache_folder: Path | None = None

    def evaluate(self, rows: IntArray, metrics: Strings | None = None) -> Observations:
        """All metrics, whichever are asked for: others will need them."""
        return self._cache.evaluate(rows, super().evaluate)

    @cached_property
    def _cache(self) -> ResultCache:
        return ResultCache(self, ResultStore(self.cache_folder))


def enumerated_problem(resolved: ResolvedDefinition) -> Problem:
    """A campaign's problem to be enumerated: with the cache of results, if the campaign has it."""
    if not _is_cached(resolved):
        return resolved.problem
    problem_fields = {
        field.name: getattr(resolved.problem, field.name) for field in fields(Problem)
    }
    return RememberedProblem(**problem_fields, cache_folder=_cache_folder(resolved))


def load_enumerated(path: Path) -> Problem:
    """:func:`enumerated_problem` of a campaign file."""
    return enumerated_problem(load_definition(path))


def _is_slow(resolved: ResolvedDefinition) -> bool:
    isolated = resolved.definition.execution.isolated
    return is_foreign(resolved.problem.evaluator) and isolated is not False


def _is_cached(resolved: ResolvedDefinition) -> bool:
    cache = resolved.definition.execution.cache
    return _is_slow(resolved) if cache is None else cache


def _cache_folder(resolved: ResolvedDefinition) -> Path | None:
    folder = resolved.definition.execution.cache_folder
    return Path(folder) if folder else None


def _stored_sample(path: Path) -> Observations | None:
    """The reference sample as a store has it; None without a store, as on another machine."""
    try:
        with open_store(path) as store:
            return store.read(SAMPLE).observations
    except StoreError:
        return None


@contextmanager
def _guarded(
    resolved: ResolvedDefinition, folder: Path | None, build: Callable[[], Problem] | None
) -> Iterator[Evaluate]:
    if not is_isolated(resolved):
        yield resolved.problem.evaluate
        return
    limits = resolved.definition.execution.guard_limits
    build = build or partial(load_problem, resolved.path)
    log = folder / LOG if folder else None
    scratch = folder / SCRATCH if folder else None
    with Guard(resolved.problem, build, limits, log, scratch) as guard:
        yield guard.evaluate
