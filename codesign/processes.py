"""Worker processes: started anew, one thread each, ended with their parent.

Started anew rather than forked: a fork of a process with threads may hang, and a user's script
need not guard its main module.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
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

_BOOTSTRAP = (
    "import importlib, json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from codesign.processes import connect; "
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

    Attributes:
        connection: To the process.
        is_alive: Whether it was so when last spoken to.
    """

    def __init__(self, module: str) -> None:
        self.connection, theirs = Pipe()
        self.is_alive = True
        path = json.dumps([path or str(Path.cwd()) for path in sys.path])
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _BOOTSTRAP, path, module, str(theirs.fileno())],
            stdin=subprocess.PIPE,  # never written to: it breaks when the parent dies
            stdout=2,  # standard output belongs to the parent's report
            pass_fds=[theirs.fileno()],
            env={**os.environ, **ONE_THREAD},
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

    def death(self) -> str:
        """How a process that is gone ended."""
        code = self._process.wait()
        if code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return f"ended with code {code}"

    def stop(self) -> None:
        """End the process and what it started."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self.connection.close()


def connect(descriptor: int) -> Connection:
    """The worker's side: its connection to the parent, without whom it ends."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    return Connection(descriptor)


def _end_with_parent() -> None:
    """Wait until the parent, dying, breaks the pipe; then end at once, with all children."""
    while os.read(0, 1):
        continue
    os.killpg(os.getpgrp(), signal.SIGKILL)
