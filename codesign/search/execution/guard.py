"""A problem's evaluation in a process of its own, which may hang, crash or be killed.

The evaluator of a plug-in, or the simulator that it calls, can end the process in which it runs or
never return. Behind a guard only its own process goes; the design at fault is recorded as lost or
timed out, and a fresh process does the next. The observations are those of a direct evaluation to
the last bit, because an evaluator's answer for a design does not depend on its batch.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from codesign.base.columns import IntArray
from codesign.base.errors import CodesignError, InputError, JobError
from codesign.base.evaluator import Evaluation, Evaluator
from codesign.base.failures import Failure, FailureKind
from codesign.base.processes import WorkerProcess
from codesign.base.records import frozen
from codesign.evaluators.command import SCRATCH, CommandEvaluator
from codesign.search.execution.guard_log import GuardLog
from codesign.search.execution.result_store import canonical
from codesign.search.observations import Observations
from codesign.search.problem import Problem

_GRACE_S = 2.0
"""Time that simulators get to clean up before they are killed."""
_STARTS = 3
"""Attempts to start a process before the campaign gives up."""
NOTICE_S = 30.0
"""Time after which a design without a timeout is named; again after twice that time, and so on."""
_LOST_RETRIES = 2
"""After a death, if nothing else is set: it may have been the machine's fault."""

_logger = logging.getLogger(__name__)


@frozen
class GuardLimits:
    """Patience with one design.

    Attributes:
        timeout_s: Longest time for one design; None: no limit.
        retries: Further attempts at a design that failed or was lost. None: two at one that was
            lost, none at one that failed.
        pause_s: Before the second attempt; doubled before each further one.
    """

    timeout_s: float | None = None
    retries: int | None = None
    pause_s: float = 1.0

    @property
    def is_set(self) -> bool:
        """Whether designs are to be guarded each by itself."""
        return self.timeout_s is not None or self.retries is not None

    def retries_of(self, kind: FailureKind) -> int:
        """Attempts after the first: a design that took too long, or whose output cannot be read,
        would do so again."""
        if kind == "lost":
            return _LOST_RETRIES if self.retries is None else self.retries
        return (self.retries or 0) if kind == "failed" else 0


@frozen
class GuardedProblem:
    """Message from which the guarded process builds the problem.

    Attributes:
        build: Called there; must be importable there, such as a partial of ``load_problem``.
        provenance: Canonical JSON of the problem's, which must come out the same.
    """

    build: Callable[[], Problem]
    provenance: str


@frozen
class Ready:
    """The process has built the problem."""


@frozen
class Refusal:
    """An error for the caller, such as an evaluator that breaks its contract."""

    text: str
    is_input: bool

    @classmethod
    def describe(cls, error: CodesignError) -> Refusal:
        """Refusal for an error, fit for another process."""
        return cls(str(error), is_input=not isinstance(error, JobError))

    def error(self) -> CodesignError:
        """Error as it was raised."""
        return InputError(self.text) if self.is_input else JobError(self.text)


def is_foreign(evaluator: Evaluator) -> bool:
    """Whether the evaluator is another package's, or another program: it may end its process."""
    is_ours = type(evaluator).__module__.startswith("codesign.")
    return not is_ours or isinstance(evaluator, CommandEvaluator)


def waiting_words(problem: Problem, rows: IntArray, seconds: float) -> str:
    """Message to a person who waits for (n, d) designs that have no timeout."""
    if len(rows) == 1:
        design = problem.space.decode(rows)[0]
        subject = f"design {', '.join(f'{name}={value}' for name, value in design.items())} has"
    else:
        subject = f"{len(rows)} designs have"
    return (
        f"{subject} run for {seconds:g} s without a result, and no timeout is set: Ctrl-C stops; "
        "run again with --timeout DURATION to end and record what takes longer"
    )


class Guard:
    """Evaluates a problem's designs in a process of its own; for one thread at a time.

    Args:
        build: Builds the same problem in the process.
        log: File for what the process writes; discarded if None.
        scratch: Folder in which evaluators may work; the system's for temporary files if None.
    """

    def __init__(
        self,
        problem: Problem,
        build: Callable[[], Problem],
        limits: GuardLimits | None = None,
        log: Path | None = None,
        scratch: Path | None = None,
    ) -> None:
        self._problem = problem
        self._limits = limits or GuardLimits()
        self._guarded = GuardedProblem(build, canonical(problem.provenance()))
        self._log = log
        self._scratch = scratch
        self._process: _GuardedProcess | None = None
        self._closed = threading.Event()

    def __enter__(self) -> Guard:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process; an evaluation in another thread raises JobError."""
        self._closed.set()
        self._end_process(0.0)

    def evaluate(self, rows: IntArray) -> Observations:
        """The observations of designs, as ``problem.evaluate`` gives them.

        Without limits a batch is evaluated as a whole, and design by design only if the process
        dies of it; with limits always design by design.

        Args:
            rows: (n, d) designs.

        Raises:
            InputError: The process cannot build the problem.
            JobError: The evaluator's answer has the wrong shape; the process does not start.
        """
        if len(rows) != 1 and not self._limits.is_set:
            answer = self._attempt(rows)
            if isinstance(answer, Observations):
                return answer
        settled = [self._settled(row[None, :]) for row in rows]
        return Observations.joined(settled) if settled else self._problem.evaluate(rows)

    def _settled(self, row: IntArray) -> Observations:
        """(1, d) one design, tried again where that may help."""
        attempt = 0
        while True:
            answer = self._attempt(row)
            if isinstance(answer, Failure):
                answer = self._problem.observed(row, Evaluation({}, {}, {0: answer}))
            failure = answer.failures.get(0)
            retries = self._limits.retries_of(failure.kind) if failure else 0
            if failure is None or not retries:
                return answer
            if attempt >= retries:
                reason = f"{failure.reason} (the last of {attempt + 1} attempts)"
                return replace(answer, failures={0: replace(failure, reason=reason)})
            self._closed.wait(self._limits.pause_s * 2**attempt)
            attempt += 1

    def _attempt(self, rows: IntArray) -> Observations | Failure:
        """The observations of a batch, or what became of the process that evaluated it."""
        process = self._started()
        process.send(rows)
        if not self._has_news(process, rows):
            self._end_process(_GRACE_S)
            return Failure("timeout", f"no result within {self._limits.timeout_s:g} s")
        try:
            answer = process.answer()
        except EOFError:
            death = process.death()
            self._end_process(0.0)
            return Failure("lost", f"the process of the evaluator {death}")
        if isinstance(answer, Refusal):
            raise answer.error()
        assert isinstance(answer, Observations)
        # Its rows are a copy; and a reason may hold whatever a program printed.
        return replace(answer, rows=rows)

    def _has_news(self, process: _GuardedProcess, rows: IntArray) -> bool:
        """Whether an answer comes in time; without a limit, name what is waited for."""
        if self._limits.timeout_s is not None:
            return process.has_news(self._limits.timeout_s)
        notice_s = NOTICE_S
        pause_s = NOTICE_S
        while not process.has_news(pause_s):
            _logger.warning("%s", waiting_words(self._problem, rows, notice_s))
            notice_s, pause_s = 2.0 * notice_s, notice_s
        return True

    def _started(self) -> _GuardedProcess:
        for _ in range(_STARTS):
            if self._closed.is_set():
                raise JobError("the evaluation was stopped")
            if self._process is None:
                self._process = _GuardedProcess(self._guarded, self._log, self._scratch)
            if self._process.is_ready():
                return self._process
            death = self._process.death()
            self._end_process(0.0)
        log = f"; it wrote to {self._log}" if self._log else ""
        raise JobError(
            f"the process of evaluator {self._problem.evaluator_name!r} {death} while it started, "
            f"{_STARTS} times{log}"
        )

    def _end_process(self, grace_s: float) -> None:
        process = self._process
        self._process = None
        if process is not None:
            process.stop(grace_s)


class _GuardedProcess(WorkerProcess):
    """The parent's handle of a guarded process."""

    def __init__(self, guarded: GuardedProblem, log: Path | None, scratch: Path | None) -> None:
        self._log = GuardLog(log)
        self._is_ready = False
        environment = {} if scratch is None else {SCRATCH: str(scratch.resolve())}
        super().__init__(
            "codesign.search.execution.guard_worker", self._log.descriptor, environment
        )
        self._log.follow()
        self.send(guarded)

    def is_ready(self) -> bool:
        """Whether the process lives and has built the problem.

        Raises:
            InputError: It cannot build it.
        """
        if self._is_ready:
            return self.is_alive
        self.has_news(None)
        try:
            answer = self.answer()
        except EOFError:
            return False
        if isinstance(answer, Refusal):
            raise answer.error()
        self._is_ready = True
        return True

    def answer(self) -> Observations | Refusal | Ready:
        """The message that has come.

        Raises:
            EOFError: The process is gone.
        """
        if not self.is_alive:
            raise EOFError
        message: Observations | Refusal | Ready = self.receive()
        return message

    def stop(self, grace_s: float = 0.0) -> None:
        """End the process, what it started, and its log."""
        super().stop(grace_s)
        self._log.close()
