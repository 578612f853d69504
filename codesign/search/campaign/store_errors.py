"""Errors of the file of a store, each in one clear line."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from codesign.base.errors import CodesignError, JobError, StoreError


class DamagedStoreError(StoreError):
    """The file is not what was written.

    Args:
        reason: What does not fit.
    """

    def __init__(self, path: Path, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"the store is damaged ({reason}); nothing was changed. Put back a copy of it, or "
            "move it away to start the campaign anew",
            str(path),
        )


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn SQLite's and the system's errors into one clear line."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        translated: CodesignError = DamagedStoreError(path, str(error))
        if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
            words = "what was stored before is intact, run again to go on"
            translated = JobError(f"{path}: {error}; {words}")
        elif code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
            translated = StoreError(f"cannot be opened or written: {error}", str(path))
        elif code == sqlite3.SQLITE_BUSY:
            translated = StoreError("another program is using the store", str(path))
        raise translated from error
    except OSError as error:
        raise StoreError(f"cannot be written: {error.strerror}", str(path)) from error
