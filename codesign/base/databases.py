"""SQLite files with one or several writers, on local and on shared file systems."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_SHARED_FILE_SYSTEMS = frozenset(
    {
        "nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "gpfs", "beegfs", "ceph", "glusterfs",
        "afs", "9p", "fuse.sshfs",
    }
)  # fmt: skip


def prepare_writer(connection: sqlite3.Connection, path: Path) -> None:
    """Choose the journal for the place, and see that it can be written.

    A write-ahead log, so that readers and writers do not wait for each other, except on file
    systems shared between machines, where that needs memory which such systems do not share.
    """
    mode = "TRUNCATE" if is_shared(path) else "WAL"
    try:
        connection.execute(f"PRAGMA journal_mode = {mode}")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    except sqlite3.OperationalError:
        if mode == "TRUNCATE":
            raise
        connection.execute("PRAGMA journal_mode = TRUNCATE")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All that is written within, or nothing of it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:  # Ctrl-C too
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def settle(connection: sqlite3.Connection) -> None:
    """Leave a single file, which can be copied and read where nothing can be written."""
    with suppress(sqlite3.Error):  # a reader is looking: the next writer will do it
        if connection.in_transaction:  # of which an interrupt is the end
            connection.rollback()
        connection.execute("PRAGMA busy_timeout = 0")
        connection.execute("PRAGMA journal_mode = DELETE")


def is_shared(path: Path) -> bool:
    """Whether the path lies on a file system that several machines may mount (Linux only)."""
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    folder = str(path.resolve().parent)
    best = ""
    file_system = ""
    for line in lines:
        fields, _, rest = line.partition(" - ")
        mount = fields.split()[4]
        inside = folder == mount or folder.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best):
            best = mount
            file_system = rest.split()[0]
    return file_system in _SHARED_FILE_SYSTEMS
