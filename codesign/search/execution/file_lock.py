"""A lock of processes that ends with the process that holds it."""

from __future__ import annotations

import fcntl
import os
import threading
import time

_POLL_S = 0.02
"""Between two tries to get a lock that another process holds [ours]."""


class FileLock:
    """A lock of processes that ends with its holder; as :class:`multiprocessing.Lock`. Linux only.

    Args:
        path: Of the file that is locked; by default one in memory, which lasts as long as this
            process.
    """

    def __init__(self, path: str | None = None) -> None:
        if path is None:
            path = f"/proc/{os.getpid()}/fd/{os.memfd_create('lock')}"
        self._path = path
        self._descriptor = os.open(path, os.O_RDWR)
        self._threads = threading.Lock()  # a file's lock is one for all threads of a process

    def __reduce__(self) -> tuple[type[FileLock], tuple[str]]:
        return FileLock, (self._path,)

    def acquire(self, block: bool = True, timeout: float | None = None) -> bool:
        """Whether the lock is held now; waits for it, at most ``timeout`` seconds, if ``block``."""
        end = float("inf") if timeout is None else time.monotonic() + timeout
        while not self._try():
            if not block or time.monotonic() >= end:
                return False
            time.sleep(_POLL_S)
        return True

    def release(self) -> None:
        """Give the lock back."""
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        self._threads.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()

    def _try(self) -> bool:
        if not self._threads.acquire(blocking=False):
            return False
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._threads.release()
            return False
        except OSError:
            self._threads.release()
            raise
        return True
