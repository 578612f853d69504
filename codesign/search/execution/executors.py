"""Executors of tasks: any ``concurrent.futures.Executor``, by name.

An entry point of the group ``codesign.executors`` is called with the text after the colon of
``NAME:TEXT`` (None if there is none) and the number of tasks that are to run at once, and returns
an executor. Only functions that a worker can import and values that can be pickled are submitted.
A task returns its errors as a ``Refusal`` (see ``guard.py``), for few exceptions survive
the way back; an exception means that it was lost.
"""

from __future__ import annotations

from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

from codesign.base import plugins
from codesign.base.errors import CodesignError, InputError, JobError
from codesign.base.processes import WorkerProcess

LOCAL, THREADS = "local", "threads"


class TaskLostError(Exception):
    """The process of a task ended before the task did."""


class MisdeliveredError(TaskLostError):
    """An executor returned the result of another task, such as an earlier one's a second time."""


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
        process = self._idle_process()
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

    def _idle_process(self) -> WorkerProcess:
        with suppress(Empty):
            return self._idle.get_nowait()
        return WorkerProcess("codesign.search.execution.task_worker")

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


_OURS = {LOCAL: local, THREADS: threads}


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
    factory = _OURS.get(name) or plugins.load("executors", name, "executor")
    try:
        executor: Executor = factory(argument or None, places)
    except CodesignError:
        raise
    except Exception as error:  # a stranger's executor may fail in any way
        words = " ".join(str(error).split())
        raise JobError(f"executor {text!r} does not start: {words}") from error
    return executor
