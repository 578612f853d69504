"""One process at a time may run a campaign; those that only read are never in the way."""

from __future__ import annotations

import fcntl
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from codesign.base.errors import StoreError

PATIENCE_S = 0.5
"""A reader that looks whether the lock is taken holds it for an instant; that is not a refusal."""


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the lock file while the block runs; the system frees it if the process dies.

    Raises:
        StoreError: Another process holds it; its number and host are given.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise StoreError(f"cannot be written: {error.strerror}", str(path)) from error
    try:
        if not _taken(path, descriptor, time.monotonic() + PATIENCE_S):
            raise StoreError(
                f"{_holder(path)} is running this campaign; wait for it or stop it", str(path)
            )
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()} {platform.node()}\n".encode(), 0)
        yield
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def is_held(path: Path) -> bool:
    """Whether a process is running the campaign now."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(descriptor)
    return False


def _taken(path: Path, descriptor: int, until: float) -> bool:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > until:
                return False
            time.sleep(0.02)
        except OSError as error:
            raise StoreError(
                f"cannot be locked: {error.strerror}; choose a folder of a file system with locks",
                str(path),
            ) from error


def _holder(path: Path) -> str:
    try:
        number, host = path.read_text(encoding="utf-8").split()
    except (OSError, ValueError):
        return "another process"
    return f"process {number} on {host}"
