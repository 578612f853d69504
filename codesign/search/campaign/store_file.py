"""The file of a store: made whole or not at all, opened for its writer or for readers."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from codesign.base.columns import Fields
from codesign.base.databases import prepare_writer, settle
from codesign.base.errors import StoreError
from codesign.base.locks import is_held
from codesign.search.campaign.observations import Layout, ObservationBatch, Run
from codesign.search.campaign.store import Store
from codesign.search.campaign.store_errors import DamagedStoreError, explained
from codesign.search.campaign.store_format import (
    APPLICATION_ID,
    INSERT,
    SCHEMA_VERSION,
    create_tables,
    insert,
    json_value,
    records,
)

STORE = "campaign.sqlite"
"""Name of the file in a campaign's folder."""
_PATIENCE_S = 60.0
"""Without a write-ahead log, a writer waits until the readers have finished."""
_PAGES_OF_JOURNAL = 100
"""After so many pages the log is copied into the file: a copy of the file alone lacks little."""
_WITHOUT_LOG = (
    "{path} is a copy that was taken while a campaign ran, without {log}: what was stored after "
    "the last checkpoint is missing"
)


def create_store(
    path: Path,
    meta: Fields,
    runs: Sequence[Run],
    sample: ObservationBatch | None = None,
) -> None:
    """Write a new, empty store; it appears whole or not at all.

    Args:
        meta: JSON values; at least ``layout`` and ``parameters``.
        runs: All runs of the campaign.
        sample: Observations of run :data:`~codesign.search.campaign.observations.SAMPLE`.

    Raises:
        StoreError: The folder cannot be written.
    """
    new = path.with_name(path.name + ".new")
    with explained(path):
        for leftover in (new, *_journals(new)):  # of a process that was killed right here
            with suppress(FileNotFoundError):
                leftover.unlink()
        with closing(sqlite3.connect(new, isolation_level=None)) as connection:
            prepare_writer(connection, new)
            connection.execute("BEGIN")
            create_tables(connection)
            for key, value in sorted(meta.items()):
                insert(connection, "meta", (key, json_value(value)))
            for i, run in enumerate(runs):
                insert(connection, "runs", (i, run.optimizer, run.seed, None))
            if sample is not None:
                layout = Layout.read(meta["layout"])
                connection.executemany(INSERT, records(sample, layout))
            connection.execute("COMMIT")
            settle(connection)
        if any(journal.exists() for journal in _journals(new)):  # not all is in the file
            raise OSError(errno.EIO, "its journal cannot be folded into it")
        new.replace(path)
        descriptor = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def open_store(path: Path, writing: bool = False, is_ours: bool = False) -> Iterator[Store]:
    """An existing store, closed at the end of the block.

    Args:
        writing: For the one process that holds the campaign's lock.
        is_ours: To be read by that process, so that nobody writes.

    Raises:
        StoreError: No such file, not a store, damaged, or of another version.
    """
    if not path.is_file():
        raise StoreError("no such store", str(path))
    with _reachable(path, writing, is_ours) as (uri, notice):
        with explained(path):
            connection = sqlite3.connect(
                uri,
                uri=True,
                isolation_level=None,
                timeout=_PATIENCE_S,
                check_same_thread=False,  # two threads, one after the other: ``asynchronous.py``
            )
        with closing(connection):
            with explained(path):
                _check_version(connection, path)
                if writing:
                    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
                    if verdict != "ok":
                        raise DamagedStoreError(path, verdict.splitlines()[-1])
                    for table in ("meta", "runs", "observations", "timings"):
                        connection.execute(f"SELECT * FROM {table} LIMIT 0")
            try:  # at once: Ctrl-C may come while the journal is chosen
                if writing:
                    with explained(path):
                        prepare_writer(connection, path)
                        connection.execute(f"PRAGMA wal_autocheckpoint = {_PAGES_OF_JOURNAL}")
                yield Store(path, connection, notice)
            finally:
                if writing:
                    settle(connection)


@contextmanager
def _reachable(path: Path, writing: bool, is_ours: bool) -> Iterator[tuple[str, str | None]]:
    """Address by which a file is opened in place, and a notice for its reader.

    A file whose journal is a write-ahead log needs that log, and a folder that can be written.
    Without the log, it is a copy that was taken of the file alone. In a closed folder, both are
    read as copies. So is what a kill left with a rollback journal, which only a writer undoes.
    """
    log, _, journal = _journals(path)
    if writing or (not is_ours and is_held(path.with_name("lock"))):
        yield _uri(path, "mode=rw" if writing else "mode=ro"), None
    elif journal.exists():
        with _copied(path, journal) as uri:
            yield uri, None
    elif not _has_write_ahead_log(path) or (log.exists() and os.access(path.parent, os.W_OK)):
        yield _uri(path, "mode=ro"), None
    elif not log.exists():
        yield _uri(path, "mode=ro&immutable=1"), _WITHOUT_LOG.format(path=path, log=log.name)
    else:
        with _copied(path, log) as uri:
            yield uri, None


@contextmanager
def _copied(path: Path, beside: Path) -> Iterator[str]:
    """Address by which copies of a file and of its journal are opened."""
    with tempfile.TemporaryDirectory() as folder, explained(path):
        for file in (path, beside):
            shutil.copyfile(file, Path(folder, file.name))
        yield _uri(Path(folder, path.name), "mode=rw")


def _has_write_ahead_log(path: Path) -> bool:
    """Whether the file says that its latest changes are in a write-ahead log beside it."""
    with explained(path), path.open("rb") as file:
        return file.read(20)[18:] == b"\x02\x02"


def _uri(path: Path, options: str) -> str:
    return f"file:{quote(str(path.resolve()))}?{options}"


def _check_version(connection: sqlite3.Connection, path: Path) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        raise DamagedStoreError(path, "it is not a codesign store")
    if version != SCHEMA_VERSION:
        raise StoreError(
            f"the store has version {version}, but this codesign reads {SCHEMA_VERSION}; "
            "use the codesign that wrote it, or give the campaign another name",
            str(path),
        )


def _journals(path: Path) -> tuple[Path, ...]:
    return tuple(path.with_name(path.name + end) for end in ("-wal", "-shm", "-journal"))
