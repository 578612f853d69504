"""Executors of tasks: any ``concurrent.futures.Executor``, by name.

An entry point of the group ``codesign.executors`` is called with the text after the colon of
``NAME:TEXT`` (None if there is none) and the number of tasks that are to run at once, and returns
an executor. Only functions that a worker can import and values that can be pickled are submitted.
A task returns its errors as a ``Refusal`` (see ``guard.py``), for few exceptions survive
the way back; an exception means that it was lost.
"""

from __future__ import annotations

import pickle
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from codesign.base import plugins
from codesign.base.errors import CodesignError, InputError, JobError
from codesign.base.processes import WorkerProcess
from codesign.search.execution.guard import Refusal

LOCAL = "local"
THREADS = "threads"
_MOST_LOSSES = 2
"""Losses of one task in a row after which the executor is given up."""
R = TypeVar("R")


class TaskLostError(Exception):
    """The process of a task ended before the task did."""


class MisdeliveredError(TaskLostError):
    """An executor returned the result of another task, such as an earlier one's a second time."""


class ExecutorGoneError(JobError):
    """Raised if the executor has stopped for good, so that no task can run."""

    def __init__(self, error: BaseException) -> None:
        words = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(": ")
        super().__init__(
            f"the executor no longer works ({words}); what was finished is stored, "
            "run again to go on"
        )


def loss(future: Future[R], is_its_result: Callable[[R], bool]) -> BaseException | None:
    """Reason for which a finished task has no result of its own; None if it has one."""
    error = future.exception()
    if error is None and not is_its_result(future.result()):
        return MisdeliveredError("the executor returned the result of another task")
    return error


def carried_out(
    executor: Executor,
    function: Callable[..., R],
    waiting: deque[int],
    arguments: Callable[[int], tuple[Any, ...]],
    is_its_result: Callable[[int, R], bool],
    places: int,
) -> Iterator[tuple[int, R]]:
    """Numbers of tasks with their results, as these come; a task that is lost is done again.

    Args:
        function: Does a task on a worker, which must be able to import it.
        waiting: Numbers of tasks. One that is added meanwhile is done, too.
        arguments: Those of a task.
        is_its_result: Whether a result belongs to a task.
        places: Tasks at the same time.

    Raises:
        ExecutorGoneError: A task was lost too often in a row.
    """
    tasks: dict[Future[R], int] = {}
    losses: Counter[int] = Counter()
    try:
        while waiting or tasks:
            while waiting and len(tasks) < places:
                number = waiting.popleft()
                inputs = arguments(number)
                try:
                    tasks[executor.submit(function, *inputs)] = number
                except Exception as error:  # third-party executor may fail in any way
                    raise ExecutorGoneError(error) from error
            for future in wait(tasks, return_when=FIRST_COMPLETED).done:
                number = tasks.pop(future)
                failure = loss(future, partial(is_its_result, number))
                if failure is None:
                    losses[number] = 0
                    yield number, future.result()
                    continue
                losses[number] += 1
                if losses[number] > _MOST_LOSSES:
                    raise ExecutorGoneError(failure)
                waiting.appendleft(number)
    finally:  # of results that are no longer wanted
        for future in tasks:
            future.cancel()


def spread(
    function: Callable[..., R], inputs: Sequence[tuple[Any, ...]], executor: Executor | None
) -> Iterator[tuple[int, R]]:
    """Positions of inputs with their results, by an executor as these come, or here in order.

    Args:
        function: Must survive pickling where there is an executor.
        executor: Place of the calls; this process if None.

    Raises:
        CodesignError: As of the function.
        ExecutorGoneError: A call was lost too often in a row.
    """
    if executor is None:
        for i, arguments in enumerate(inputs):
            yield i, function(*arguments)
        return
    pickled = pickle.dumps(function)
    n = len(inputs)
    results = carried_out(
        executor, _called, deque(range(n)), lambda i: (pickled, i, *inputs[i]),
        lambda i, result: result[0] == i, n,
    )  # fmt: skip
    for i, (_, result) in results:
        if isinstance(result, Refusal):
            raise result.error()
        yield i, result


def _called(pickled: bytes, number: int, *inputs: Any) -> tuple[int, Any]:
    """The result of a pickled function, with the number by which it is told from another."""
    try:
        return number, _loaded(pickled, threading.get_ident())(*inputs)
    except CodesignError as error:
        return number, Refusal.describe(error)


@lru_cache(maxsize=16)
def _loaded(pickled: bytes, thread: int) -> Callable[..., Any]:
    function: Callable[..., Any] = pickle.loads(pickled)
    return function


@contextmanager
def opened(text: str | None, workers: int) -> Iterator[Executor | None]:
    """An executor that ends its tasks at the end; None if that is this process.

    Args:
        text: As of :func:`open_executor`; processes of this machine if None.
        workers: Tasks that are to run at once.
    """
    if text is None and workers <= 1:
        yield None
        return
    executor = open_executor(text or LOCAL, workers)
    try:
        yield executor
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


class LocalExecutor(Executor):
    """Tasks in processes of this machine, each of which does one at a time.

    A process that dies takes only its own task with it; the next task gets a fresh one.

    Args:
        places: Processes.
    """

    def __init__(self, places: int) -> None:
        self._threads = ThreadPoolExecutor(places)
        self._idle: SimpleQueue[WorkerProcess] = SimpleQueue()
        self._at_work: set[WorkerProcess] = set()
        self._is_stopped = False

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit a task; the future of a lost task raises :class:`TaskLostError`."""
        return self._threads.submit(self._run, fn, args, kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes; with ``cancel_futures`` also those that are at work."""
        self._threads.shutdown(wait=wait and not cancel_futures, cancel_futures=cancel_futures)
        self._is_stopped = True
        self._stop_idle_processes()
        # The thread that waits for a process closes what belongs to it, for nobody else knows when.
        for process in list(self._at_work):
            process.kill()
        self._threads.shutdown(wait=wait)

    def _run(self, fn: Any, args: Any, kwargs: Any) -> Any:
        try:
            process = self._idle.get_nowait()
        except Empty:
            process = WorkerProcess("codesign.search.execution.task_worker")
        self._at_work.add(process)
        try:
            if self._is_stopped:  # too late to be seen by a shutdown
                process.kill()
            process.send((fn, args, kwargs))
            result = process.receive()
        except (EOFError, OSError) as error:
            death = "was stopped" if self._is_stopped else process.death()
            process.stop()
            raise TaskLostError(f"its process {death}") from error
        except BaseException:  # such as a task that cannot be pickled
            process.stop()
            raise
        finally:
            self._at_work.discard(process)
        self._idle.put(process)
        if self._is_stopped:
            self._stop_idle_processes()
        return result

    def _stop_idle_processes(self) -> None:
        with suppress(Empty):
            while True:
                self._idle.get_nowait().stop()


def local(argument: str | None, places: int) -> Executor:
    """Processes of this machine."""
    _refuse(argument, LOCAL)
    return LocalExecutor(places)


def threads(argument: str | None, places: int) -> Executor:
    """Threads of this process, for evaluators that wait for another program."""
    _refuse(argument, THREADS)
    return ThreadPoolExecutor(places)


def _refuse(argument: str | None, name: str) -> None:
    if argument is not None:
        raise InputError(f"executor {name!r} takes nothing after its name, got {argument!r}")


def open_executor(text: str, places: int) -> Executor:
    """The executor that a campaign file or a flag names.

    Args:
        text: ``NAME`` or ``NAME:TEXT``.
        places: Tasks that are to run at once.

    Raises:
        InputError: It is not registered, or cannot be used as written.
        JobError: It does not start.
    """
    name, _, argument = text.partition(":")
    factory = plugins.load("executors", name, "executor")
    try:
        executor: Executor = factory(argument or None, places)
    except CodesignError:
        raise
    except Exception as error:  # third-party executor may fail in any way
        words = " ".join(str(error).split())
        raise JobError(f"executor {text!r} does not start: {words}") from error
    return executor
