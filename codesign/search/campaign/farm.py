"""Evaluation of several designs at a time, robust against the loss of workers."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import field
from functools import partial

import numpy as np

from codesign.base.columns import IntArray
from codesign.base.errors import CodesignError
from codesign.base.evaluator import Evaluation
from codesign.base.failures import Failure
from codesign.base.records import frozen
from codesign.search.execution.executors import ExecutorGoneError, loss
from codesign.search.execution.guard import NOTICE_S, Refusal
from codesign.search.observations import Observations
from codesign.search.problem import Problem

Task = Callable[[IntArray], Observations | Refusal]
"""Evaluates (1, d) designs on a worker, which must be able to import it."""
FutureObservations = Future[Observations | Refusal]
"""Result of a task that may still run."""


@frozen
class Farm:
    """Farm that evaluates the designs of all runs.

    Attributes:
        task: What is run for a design.
        in_flight: Designs of one run at the same time.
        runs: Runs at the same time.
        retries: Further attempts at a design that was lost.
        wait: Returns when at least one of the futures is done, or sooner.
        names_slow: Whether designs without a result are named, because workers cannot do it.
    """

    executor: Executor
    task: Task
    in_flight: int
    runs: int
    retries: int
    wait: Callable[[list[FutureObservations]], object] = field(
        default=partial(wait, timeout=NOTICE_S, return_when=FIRST_COMPLETED)
    )
    names_slow: bool = False

    @property
    def places(self) -> int:
        """Designs that are evaluated at the same time."""
        return self.runs * self.in_flight

    def submit(self, row: IntArray) -> FutureObservations:
        """Begin the evaluation of a (d,) design.

        Raises:
            ExecutorGoneError: The executor takes no tasks.
        """
        try:
            return self.executor.submit(self.task, row[None, :])
        except Exception as error:  # third-party executor may fail in any way
            raise ExecutorGoneError(error) from error

    def check_alive(self, loss: BaseException) -> None:
        """See that it was the design that was lost, and not the executor.

        Raises:
            ExecutorGoneError: The executor does nothing any more.
        """
        try:
            self.executor.submit(int).result()
        except Exception:  # as above
            raise ExecutorGoneError(loss) from loss

    def observed(
        self,
        problem: Problem,
        future: FutureObservations,
        row: IntArray,
        losses: Counter[int],
        number: int,
    ) -> Observations | None:
        """Observation of a design; None if it was lost and is to be tried again.

        Args:
            future: That of :meth:`submit`, which is done.
            row: (d,) the design.
            losses: How often each design was lost; this loss is counted.
            number: Of the design, there.

        Raises:
            ExecutorGoneError: The executor does nothing any more.
            CodesignError: The evaluator cannot be used.
        """
        error = loss_of_design(future, row)
        if error is None:
            result = future.result()
            if isinstance(result, Refusal):
                raise result.error()
            return result
        losses[number] += 1
        if losses[number] <= self.retries:
            return None
        self.check_alive(error)
        text = " ".join(f"lost with its worker: {error}".split())
        return problem.observed(row[None, :], Evaluation({}, {}, {0: Failure("lost", text)}))

    def evaluate_each(self, problem: Problem, rows: IntArray) -> Iterator[tuple[int, Observations]]:
        """The observations of (n, d) designs, with their positions, as they end.

        Raises:
            ExecutorGoneError: The executor works no more.
            CodesignError: The evaluator cannot be used; what was under way was given before.
        """
        waiting = deque(range(len(rows)))
        losses = Counter[int]()
        in_flight: dict[FutureObservations, int] = {}
        refusal: CodesignError | None = None
        while in_flight or (waiting and refusal is None):
            while waiting and refusal is None and len(in_flight) < self.places:
                i = waiting.popleft()
                in_flight[self.submit(rows[i])] = i
            self.wait(list(in_flight))
            for future in [future for future in in_flight if future.done()]:
                i = in_flight.pop(future)
                try:
                    observations = self.observed(problem, future, rows[i], losses, i)
                except ExecutorGoneError:
                    raise
                except CodesignError as error:
                    refusal = error
                    continue
                if observations is None:
                    waiting.appendleft(i)
                else:
                    yield i, observations
        if refusal is not None:
            raise refusal


def loss_of_design(future: FutureObservations, row: IntArray) -> BaseException | None:
    """Reason for which a finished task has no result for its (d,) design; None if it has one."""

    def is_of_design(result: Observations | Refusal) -> bool:
        return isinstance(result, Refusal) or np.array_equal(result.rows, row[None, :])

    return loss(future, is_of_design)
