"""Worker processes: started anew, one thread each, ended with their parent and all they started.

Started anew rather than forked: a fork of a process with threads may hang, and a user's script
need not guard its main module.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

from codesign.base.columns import JsonObject, StringMap
from codesign.base.process_tree import CAN_SUPERVISE, TERMINATE, end_all, marked, supervise

ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
}
"""One process per core leaves no core for a second thread."""

WORKER = "CODESIGN_WORKER"
"""Environment variable of a worker and of all that it starts, by which they are found."""
_LOOK_S, _PAUSE_S = 0.5, 0.02
"""Time between two looks whether a process lives, and whether those to be ended have ended."""

_BOOTSTRAP = (
    "import importlib, json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from codesign.base.processes import connect; connection = connect(int(sys.argv[3])); "
    "importlib.import_module(sys.argv[2]).main(connection)"
)
_GIVE_UP_S = 15.0
"""Time after which a supervisor that does not end is killed itself [ours]."""


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
        environment: StringMap | None = None,
    ) -> None:
        self.connection, theirs = Pipe()
        self.is_alive = True
        self._mark = uuid4().hex
        path = json.dumps([path or str(Path.cwd()) for path in sys.path])
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _BOOTSTRAP, path, module, str(theirs.fileno())],
            stdin=subprocess.PIPE,  # breaks when the parent dies
            # Standard output belongs to the parent's report.
            stdout=2 if output is None else output,
            stderr=output,
            **_inheriting(theirs),
            env={**os.environ, **ONE_THREAD, **(environment or {}), WORKER: self._mark},
            # Ctrl-C is for the parent to handle.
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
        """True if a message came, or the process ended, within a time; None: wait for it.

        What the process started may hold the connection open after its end, so both are watched.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            rest_s = _LOOK_S if deadline is None else deadline - time.monotonic()
            if self.connection.poll(max(0.0, min(rest_s, _LOOK_S))):
                return True
            if self._code() is not None:
                self.is_alive = self.connection.poll()
                return True
            if rest_s <= 0:
                return False

    def death(self) -> str:
        """The end of a process that is gone, in words."""
        self._await_end()
        code = self._code() or 0
        return f"was killed by {signal_name(-code)}" if code < 0 else f"ended with code {code}"

    def stop(self, grace_s: float = 0.0) -> None:
        """End the process and all that it started.

        Args:
            grace_s: Time between asking them to end and forcing them to.
        """
        if self._process.returncode is not None:
            return
        if grace_s:
            assert self._process.stdin is not None
            with suppress(OSError, ValueError):
                if CAN_SUPERVISE:
                    os.write(self._process.stdin.fileno(), TERMINATE)
                else:
                    self._signal("SIGTERM")
            self._await_end(grace_s)
        self.kill()
        self._await_end(_GIVE_UP_S)
        # Its process number is not given to another one before it is waited for.
        self._signal("SIGKILL")
        code = self._process.wait()
        if CAN_SUPERVISE and code == -signal.SIGKILL:  # the supervisor, perhaps
            end_all(lambda: marked(f"{WORKER}={self._mark}"))
        self.connection.close()

    def kill(self) -> None:
        """Force the process and what it started to end; whoever waits for it is told."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        if not CAN_SUPERVISE:
            self._signal("SIGKILL")

    def _signal(self, name: Literal["SIGTERM", "SIGKILL"]) -> None:
        """Send a signal to the process and its group; Windows ends the process alone."""
        with suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, signal.Signals[name])
            else:
                self._process.kill()

    def _await_end(self, most_s: float = math.inf) -> None:
        deadline = time.monotonic() + most_s
        while self._code() is None and time.monotonic() < deadline:
            time.sleep(_PAUSE_S)

    def _code(self) -> int | None:
        """Exit code, negative for a signal; None while the process lives.

        Nobody waits for the process yet, so that no other one gets its number.
        """
        if self._process.returncode is not None or not CAN_SUPERVISE:
            return self._process.poll()
        end = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if end is None:
            return None
        return end.si_status if end.si_code == os.CLD_EXITED else -end.si_status


def signal_name(number: int) -> str:
    """Such as ``signal 11 (SIGSEGV)``."""
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"


def connect(descriptor: int) -> Connection:
    """The worker's side: its connection to the parent, without whom it ends."""
    if CAN_SUPERVISE:
        supervise(descriptor)
    else:
        threading.Thread(target=_end_with_parent, daemon=True).start()
    if sys.platform == "win32":
        from multiprocessing.connection import PipeConnection

        return PipeConnection(descriptor)
    return Connection(descriptor)


def _end_with_parent() -> None:
    """Wait until the parent, dying, breaks the pipe; then end at once, with all children."""
    while os.read(0, 1):
        continue
    if hasattr(os, "killpg"):
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(1)


def _inheriting(connection: Connection) -> JsonObject:
    """Arguments of a process that inherits a connection: a descriptor, or a handle on Windows."""
    if sys.platform == "win32":
        os.set_handle_inheritable(connection.fileno(), True)
        return {"close_fds": False}
    return {"pass_fds": [connection.fileno()]}
