"""The exact front of a whole space: block after block, in parallel, resumable.

Blocks do not depend on one another, so neither the number of workers nor a restart changes the
front or the counts. Memory holds a block of partial designs per process and the front.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from codesign.base.columns import FloatArray
from codesign.base.errors import InfeasibleError, JobError, UnusableValueError
from codesign.base.loop_progress import LoopProgress
from codesign.search.enumeration.checkpoint import State, load_state, save_state
from codesign.search.enumeration.decomposition import Decomposition
from codesign.search.enumeration.enumeration_worker import BlockSearch, Rebuild
from codesign.search.enumeration.front import ExactFront, dominated_by
from codesign.search.enumeration.incumbents import find_incumbents
from codesign.search.enumeration.walk import PartialFront, Walk
from codesign.search.enumeration.wanted import WantedPart, barriers
from codesign.search.execution.executors import opened, spread
from codesign.search.execution.guard import is_foreign
from codesign.search.problem import Problem, most_broken

_BLOCKS = 256
"""Blocks of a space, so that progress shows and two processes end together."""
_LARGEST_BLOCK = 1 << 16
_LEAST_ROOTS = 1 << 11
"""Roots of a block, if the space has as many: below, the fixed cost of bounds shows. [ours]"""
_LEAST_EVALUATED = 256
"""The same where no bound leaves designs out: each is evaluated, which takes longer. [ours]"""
_SAVE_EVERY_S = 10.0
_BLAMED, _BLAMED_EVALUATED = 1024, 256
"""Random designs that tell which limit stands in the way, where nothing is feasible. [ours]"""


def enumerate_front(
    problem: Problem,
    *,
    workers: int = 1,
    rebuild: Rebuild | None = None,
    checkpoint: Path | None = None,
    executor: str | None = None,
    wanted: WantedPart | None = None,
) -> ExactFront:
    """The exact Pareto front of a problem: every feasible design of its space considered.

    An evaluator with bounds (``best_case``) lets whole blocks be left out by proof (see
    ``walk.py``); with any other, every design is evaluated.

    Args:
        problem: Its space must be small enough to be numbered.
        rebuild: How a worker gets the problem; without it there is one process.
        checkpoint: A file that an interrupted enumeration goes on from; removed at the end.
        executor: Where blocks are searched, as ``NAME`` or ``NAME:TEXT``; processes of this
            machine if None.
        wanted: The part of the front that is wanted, which may be empty; the whole front if None.

    Raises:
        InfeasibleError: The space holds no feasible design.
        InputError: The space cannot be listed.
        JobError: A worker died; or the front lacks a design that is known to be on it, which a
            wrong bound of the evaluator would cause.
    """
    try:
        n_roots = Decomposition(problem).n_roots
    except UnusableValueError as error:
        raise problem.located(error) from None
    block = _block(n_roots, problem)
    state = load_state(checkpoint, len(problem.objectives))
    if state is None:
        # Without bounds known designs would leave nothing out, and none is evaluated.
        is_pruned = problem.has_bounds and (wanted is None or wanted.is_sampled)
        nothing = np.empty((0, len(problem.objectives)))
        state = State.fresh(find_incumbents(problem) if is_pruned else nothing, n_roots, block)
    incumbents, bars = barriers(state.incumbents, wanted)
    try:
        _search(problem, state, bars, workers if rebuild else 1, rebuild, checkpoint, executor)
    finally:
        if checkpoint is not None and state.remaining:
            save_state(checkpoint, state)
    if checkpoint is not None:
        checkpoint.unlink(missing_ok=True)
    _check_complete(state.archive.points, incumbents)
    is_whole = wanted is None
    archive = state.archive
    tally = state.tally
    if not len(archive) and is_whole:
        raise InfeasibleError(
            f"no design of space {problem.space.name!r} is feasible: all "
            f"{problem.space.size:,} were considered"
            + (f", {tally.failed:,} of them failed" if tally.failed else "")
            + _blame(problem)
        )
    decomposition = Decomposition(problem)
    groups = [decomposition.members(group) for group in archive.members]
    numbers = np.concatenate([np.empty(0, np.int64), *groups])
    no_rows = np.empty((0, len(problem.space.parameters)), np.int64)
    return ExactFront(
        objectives=archive.points,
        counts=archive.counts,
        rows=problem.space.rows(numbers) if len(numbers) else no_rows,
        point=np.repeat(np.arange(len(groups)), [len(group) for group in groups]),
        n_designs=problem.space.size,
        n_evaluated=tally.evaluated,
        n_repeated=tally.repeated,
        n_excluded=tally.excluded,
        n_failed=tally.failed,
    )


def _block(n_roots: int, problem: Problem) -> int:
    """Roots of a block; an evaluator of others may take hours for what ours do in a second."""
    least = _LEAST_ROOTS
    if not problem.has_bounds:
        least = 1 if is_foreign(problem.evaluator) else _LEAST_EVALUATED
    return max(min(max(-(-n_roots // _BLOCKS), least), _LARGEST_BLOCK, n_roots), 1)


def _search(
    problem: Problem,
    state: State,
    bars: FloatArray,
    workers: int,
    rebuild: Rebuild | None,
    checkpoint: Path | None,
    executor: str | None,
) -> None:
    pending = state.remaining
    if rebuild is None or (executor is None and min(workers, len(pending)) <= 1):
        executor, workers = None, 1
    saved = time.monotonic()
    with opened(executor, workers) as place:
        search: Callable[..., PartialFront]
        if rebuild is None or place is None:
            search = Walk(problem, bars).search
        else:
            search = BlockSearch(rebuild, bars, Path.cwd())
        results = spread(search, [state.range_of(block) for block in pending], place)
        with LoopProgress("designs", problem.space.size, state.tally.total) as loop:
            for i, partial_front in results:
                state.settle(pending[i], partial_front)
                loop.advance(partial_front.tally.total)
                if checkpoint is not None and time.monotonic() - saved > _SAVE_EVERY_S:
                    save_state(checkpoint, state)
                    saved = time.monotonic()


def _blame(problem: Problem) -> str:
    """Limit that most designs of a random sample break."""
    rows = problem.space.sample(np.random.default_rng(0), _BLAMED)
    limits = problem.known_violations(rows)
    admitted = np.ones(len(rows), bool)
    for values in limits.values():
        admitted &= values <= 0
    if admitted.any():
        rows = rows[admitted][:_BLAMED_EVALUATED]
        observations = problem.evaluate(rows, problem.deciding_metrics)
        limits = observations.part(~observations.failed).violations_by_name
    blame = most_broken(limits)
    return f"; of {len(rows):,} random ones {blame}" if blame else ""


def _check_complete(front: FloatArray, incumbents: FloatArray) -> None:
    """Every design that was known before must be on the front or dominated by it.

    Raises:
        JobError: One is not.
    """
    lost = ~dominated_by(front, incumbents)
    on_front = {tuple(point) for point in front.tolist()}
    missing = [point for point in incumbents[lost].tolist() if tuple(point) not in on_front]
    if missing:
        raise JobError(
            f"the exact front lacks {len(missing)} feasible points that are known, such as "
            f"{missing[0]}: a bound of the evaluator excludes what it must not. Please report it; "
            "'codesign enumerate NAME --every-design' finds the front without bounds"
        )
