"""The exact front of a whole space: block after block, in parallel, resumable.

Blocks do not depend on one another, so neither the number of workers nor a restart changes the
front or the counts. Memory holds a block of partial designs per process and the front.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import Protocol

import numpy as np

from codesign.columns import FloatArray
from codesign.enumeration.checkpoint import State, load_state, save_state
from codesign.enumeration.decomposition import Decomposition
from codesign.enumeration.front import ExactFront, dominated_by
from codesign.enumeration.incumbents import find_incumbents
from codesign.enumeration.walk import PartialFront, Walk
from codesign.errors import InfeasibleError, InputError, JobError
from codesign.problem import Problem, most_broken
from codesign.processes import WorkerProcess

_BLOCKS = 256
"""Blocks of a space, so that progress shows and two processes end together."""
_LARGEST_BLOCK = 1 << 16
_LEAST_DESIGNS = 1 << 17
"""Designs of a block, if the space has as many: below, the fixed cost of a block shows."""
_SAVE_EVERY_S = 10.0
_BLAMED, _BLAMED_EVALUATED = 1024, 256
"""Random designs that tell which limit stands in the way, where nothing is feasible. [ours]"""

Rebuild = Callable[[], Problem]
"""Builds the same problem in another process; must survive pickling."""


class EnumerationProgress(Protocol):
    """What an enumeration tells of its progress."""

    def start(self, total: int, done: int) -> None:
        """Designs of the space, and how many an earlier run has settled."""
        ...

    def advance(self, n: int) -> None:
        """``n`` more designs are settled: evaluated, or shown to be off the front."""
        ...

    def finish(self) -> None:
        """No further call comes."""
        ...


class _Quiet:
    def start(self, total: int, done: int) -> None:
        pass

    def advance(self, n: int) -> None:
        pass

    def finish(self) -> None:
        pass


@dataclass(frozen=True)
class EnumerationSetup:
    """What a worker needs before its first block."""

    rebuild: Rebuild
    incumbents: FloatArray


@dataclass(frozen=True)
class Failure:
    """Why a worker could not search a block."""

    message: str
    is_input: bool


def enumerate_front(
    problem: Problem,
    *,
    workers: int = 1,
    rebuild: Rebuild | None = None,
    checkpoint: Path | None = None,
    progress: EnumerationProgress | None = None,
) -> ExactFront:
    """The exact Pareto front of a problem: every feasible design of its space considered.

    An evaluator with the protocol ``Bounds`` lets whole blocks be left out by proof (see
    ``walk.py``); with any other, every design is evaluated.

    Args:
        problem: Its space must be small enough to be numbered.
        workers: Processes.
        rebuild: How a worker gets the problem; without it there is one process.
        checkpoint: A file that an interrupted enumeration goes on from; removed at the end.
        progress: Told of every block.

    Raises:
        InfeasibleError: The space holds no feasible design.
        InputError: The space cannot be listed.
        JobError: A worker died; or the front lacks a design that is known to be on it, which a
            wrong bound of the evaluator would cause.
    """
    n_roots = Decomposition(problem).n_roots
    block = _block(n_roots, problem.space.size)
    state = load_state(checkpoint, len(problem.objectives))
    if state is None:
        state = State.fresh(find_incumbents(problem), n_roots, block)
    watcher = progress or _Quiet()
    watcher.start(problem.space.size, state.tally.total)
    try:
        _search(problem, state, workers if rebuild else 1, rebuild, checkpoint, watcher)
    finally:
        watcher.finish()
        if checkpoint is not None and state.remaining:
            save_state(checkpoint, state)
    if checkpoint is not None:
        checkpoint.unlink(missing_ok=True)
    return _finished(problem, state)


def _block(n_roots: int, size: int) -> int:
    """Roots of a block."""
    for_enough_designs = -(-_LEAST_DESIGNS * n_roots // size)
    return max(min(max(-(-n_roots // _BLOCKS), for_enough_designs), _LARGEST_BLOCK, n_roots), 1)


def _search(
    problem: Problem,
    state: State,
    workers: int,
    rebuild: Rebuild | None,
    checkpoint: Path | None,
    progress: EnumerationProgress,
) -> None:
    pending = state.remaining
    if rebuild is None or min(workers, len(pending)) <= 1:
        results = _here(problem, state, pending)
    else:
        results = _in_processes(
            EnumerationSetup(rebuild, state.incumbents), state, pending, workers
        )
    saved = time.monotonic()
    for block, partial_front in results:
        state.settle(block, partial_front)
        progress.advance(partial_front.tally.total)
        if checkpoint is not None and time.monotonic() - saved > _SAVE_EVERY_S:
            save_state(checkpoint, state)
            saved = time.monotonic()


def _here(
    problem: Problem, state: State, pending: Sequence[int]
) -> Iterator[tuple[int, PartialFront]]:
    walk = Walk(problem, state.incumbents)
    for block in pending:
        yield block, walk.search(*state.range_of(block))


def _in_processes(
    setup: EnumerationSetup, state: State, pending: Sequence[int], workers: int
) -> Iterator[tuple[int, PartialFront]]:
    waiting = deque(pending)
    crew: dict[object, _Searcher] = {}
    try:
        for _ in range(min(workers, len(waiting))):
            searcher = _Searcher(setup)
            searcher.assign(waiting.popleft(), state)
            crew[searcher.connection] = searcher
        while crew:
            for connection in wait([item.connection for item in crew.values()]):
                searcher = crew[connection]
                yield searcher.block, searcher.receive_front()
                if waiting:
                    searcher.assign(waiting.popleft(), state)
                else:
                    crew.pop(connection).stop()
    finally:
        for searcher in crew.values():
            searcher.stop()


class _Searcher(WorkerProcess):
    """A process that searches one block at a time."""

    def __init__(self, setup: EnumerationSetup) -> None:
        super().__init__("codesign.enumeration.worker")
        self.block = -1
        self.send(setup)

    def assign(self, block: int, state: State) -> None:
        """Give it a block."""
        self.block = block
        self.send(state.range_of(block))

    def receive_front(self) -> PartialFront:
        """Receive the front of its block.

        Raises:
            InputError: The problem cannot be built there.
            JobError: It failed or died.
        """
        try:
            reply: PartialFront | Failure = self.receive()
        except EOFError as error:
            text = f"the worker of block {self.block} {self.death()}; run again to go on"
            raise JobError(text) from error
        if isinstance(reply, Failure):
            raise (InputError if reply.is_input else JobError)(reply.message)
        return reply


def _finished(problem: Problem, state: State) -> ExactFront:
    archive, tally = state.archive, state.tally
    _check_complete(archive.points, state.incumbents)
    if not len(archive):
        raise InfeasibleError(
            f"no design of space {problem.space.name!r} is feasible: all "
            f"{problem.space.size:,} were considered"
            + (f", {tally.failed:,} of them failed" if tally.failed else "")
            + _blame(problem)
        )
    decomposition = Decomposition(problem)
    groups = [decomposition.members(group) for group in archive.members]
    return ExactFront(
        objectives=archive.points,
        counts=archive.counts,
        rows=problem.space.rows(np.concatenate(groups)),
        point=np.repeat(np.arange(len(groups)), [len(group) for group in groups]),
        n_designs=problem.space.size,
        n_evaluated=tally.evaluated,
        n_repeated=tally.repeated,
        n_excluded=tally.excluded,
        n_failed=tally.failed,
    )


def _blame(problem: Problem) -> str:
    """Which limit stands in the way, as a random sample has it."""
    rows = problem.space.sample(np.random.default_rng(0), _BLAMED)
    limits: Mapping[str, FloatArray] = problem.known_violations(rows)
    admitted = np.ones(len(rows), dtype=bool)
    for values in limits.values():
        admitted &= values <= 0
    if admitted.any():
        rows = rows[admitted][:_BLAMED_EVALUATED]
        observations = problem.evaluate(rows, problem.deciding_metrics)
        done = observations.violations[~observations.failed].T
        limits = dict(zip(observations.violation_names, done, strict=True))
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
            f"{missing[0]}: a bound of the evaluator excludes what it must not"
        )
