"""Worker processes: started anew, one thread each, ended with their parent.

Started anew rather than forked: a fork of a process with threads may hang, and a user's script
need not guard its main module.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
}
"""One process per core leaves no core for a second thread."""

_LOOK_S, _PAUSE_S = 0.5, 0.02
"""Time between two looks whether a process lives, and whether those to be ended have ended."""

_BOOTSTRAP = (
    "import importlib, json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from codesign.base.processes import connect; "
    "getattr(importlib.import_module(sys.argv[2]), 'main')(connect(int(sys.argv[3])))"
)


def n_cores() -> int:
    """Cores that the scheduler lets this process use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class WorkerProcess:
    """The parent's handle of a process that runs the ``main(connection)`` of a module.

    Args:
        module: Full name of the module.
        output: Descriptor to which the process writes; the parent's standard error if None.
        environment: Variables besides those of the parent.

    Attributes:
        is_alive: Whether it was so when last spoken to.
    """

    def __init__(
        self,
        module: str,
        output: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.connection, theirs = Pipe()
        self.is_alive = True
        path = json.dumps([path or str(Path.cwd()) for path in sys.path])
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _BOOTSTRAP, path, module, str(theirs.fileno())],
            stdin=subprocess.PIPE,  # never written to: it breaks when the parent dies
            # Standard output belongs to the parent's report.
            stdout=2 if output is None else output,
            stderr=output,
            pass_fds=[theirs.fileno()],
            env={**os.environ, **ONE_THREAD, **(environment or {})},
            # Ctrl-C is for the parent to handle; and what a worker starts can be ended with it.
            start_new_session=True,
        )
        theirs.close()

    def send(self, message: Any) -> None:
        """Send, unless the process is gone, which :meth:`receive` tells."""
        try:
            self.connection.send(message)
        except (BrokenPipeError, ConnectionResetError):
            self.is_alive = False

    def receive(self) -> Any:
        """The next message.

        Raises:
            EOFError: The process is gone; :meth:`death` tells how.
        """
        try:
            return self.connection.recv()
        except (EOFError, ConnectionResetError) as error:
            self.is_alive = False
            raise EOFError from error

    def has_news(self, timeout_s: float | None) -> bool:
        """Whether a message came, or the process ended, within a time; None: wait for it.

        What the process started may hold the connection open after its end, so both are watched.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left = _LOOK_S if deadline is None else deadline - time.monotonic()
            if self.connection.poll(max(0.0, min(left, _LOOK_S))):
                return True
            if self._process.poll() is not None:
                self.is_alive = self.connection.poll()
                return True
            if left <= 0:
                return False

    def death(self) -> str:
        """How a process that is gone ended."""
        code = self._process.wait()
        return f"was killed by {signal_name(-code)}" if code < 0 else f"ended with code {code}"

    def stop(self, grace_s: float = 0.0) -> None:
        """End the process and what it started.

        Args:
            grace_s: Time between asking them to end and forcing them to.
        """
        if grace_s:
            self._signal(signal.SIGTERM)
            deadline = time.monotonic() + grace_s
            while self._signal(0) and time.monotonic() < deadline:
                self._process.poll()
                time.sleep(_PAUSE_S)
        self.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self.connection.close()

    def kill(self) -> None:
        """Force the process and what it started to end; whoever waits for it is told."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> bool:
        """Signal the process and what it started; whether any of them is left."""
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return False
        except PermissionError:  # macOS says so of processes that have ended
            return False
        return True


def signal_name(number: int) -> str:
    """Such as ``signal 11 (SIGSEGV)``."""
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"


def connect(descriptor: int) -> Connection:
    """The worker's side: its connection to the parent, without whom it ends."""
    if hasattr(fcntl, "F_SETSIG"):
        _let_the_system_end_it()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    return Connection(descriptor)


def _let_the_system_end_it() -> None:
    """On Linux the kernel kills the group when the parent's pipe breaks.

    A thread cannot while compiled code holds the interpreter's lock. PR_SET_PDEATHSIG would act
    when the thread that started the worker ends, and would spare what the worker started.
    """
    fcntl.fcntl(0, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(0, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC)


def _end_with_parent() -> None:
    """Wait until the parent, dying, breaks the pipe; then end at once, with all children."""
    while os.read(0, 1):
        continue
    os.killpg(os.getpgrp(), signal.SIGKILL)
