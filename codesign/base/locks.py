"""Locks of files: one process at a time does a work; readers are never in the way."""

from __future__ import annotations

import errno
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import lock_descriptor

from codesign.base.errors import StoreError

PATIENCE_S = 0.5
"""A reader that looks whether the lock is taken holds it for an instant; that is not a refusal."""
PAUSE_S = 0.02
"""Time between two tries to get a lock that another process holds [ours]."""


@contextmanager
def exclusive(
    path: Path, work: str = "is running this campaign", is_kept: bool = True
) -> Iterator[None]:
    """Hold the lock file while the block runs; the system frees it if the process dies.

    Args:
        work: Words for what the holder does.
        is_kept: Leave the file behind.

    Raises:
        StoreError: Another process holds it; its number and host are given.
    """
    descriptor = -1
    try:
        while descriptor < 0:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            if not try_lock(descriptor, PATIENCE_S):
                os.close(descriptor)
                raise StoreError(f"{_holder(path)} {work}; wait for it or stop it", str(path))
            if not is_kept and not _is_same(path, descriptor):  # its last holder removed it
                os.close(descriptor)
                descriptor = -1
    except OSError as error:
        verb = "locked" if error.errno in (errno.ENOLCK, errno.ENOTSUP) else "written"
        raise StoreError(f"cannot be {verb}: {error.strerror}", str(path)) from error
    try:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()} {platform.node()}\n".encode())
        yield
        os.ftruncate(descriptor, 0)
    finally:
        if not is_kept:
            path.unlink(missing_ok=True)
        os.close(descriptor)


def is_held(path: Path) -> bool:
    """Whether a process is running the campaign now."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        return not try_lock(descriptor, PAUSE_S)
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(descriptor)


def try_lock(descriptor: int, patience_s: float = 0.0) -> bool:
    """Lock an open file; False if somebody else holds it for longer than ``patience_s``.

    Where Python knows no lock of the operating system, nothing is locked, and the answer is True.

    Raises:
        OSError: The file system has no locks.
    """
    until = time.monotonic() + patience_s
    try:
        while not lock_descriptor(descriptor, blocking=False):
            if time.monotonic() >= until:
                return False
            time.sleep(PAUSE_S)
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise
    return True


def _is_same(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _holder(path: Path) -> str:
    try:
        number, host = path.read_text(encoding="utf-8").split()
    except (OSError, ValueError):
        return "another process"
    return f"process {number} on {host}"
