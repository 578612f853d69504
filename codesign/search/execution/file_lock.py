"""A lock of processes that ends with the process that holds it."""

from __future__ import annotations

import os
import threading
import time

from filelock import unlock_descriptor

from codesign.base.locks import PAUSE_S, try_lock


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
            time.sleep(PAUSE_S)
        return True

    def release(self) -> None:
        """Give the lock back."""
        unlock_descriptor(self._descriptor)
        self._threads.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()

    def _try(self) -> bool:
        if not self._threads.acquire(blocking=False):
            return False
        is_locked = False
        try:
            is_locked = try_lock(self._descriptor)
        finally:
            if not is_locked:
                self._threads.release()
        return is_locked
