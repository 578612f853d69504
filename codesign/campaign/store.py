"""The store of a campaign: one SQLite file, one writer, every batch durable before the next.

Tables
    meta          key and JSON value: layout, definition, resolved inputs, versions, reference point
    runs          optimizer and seed of each run, and its final state once it has one
    observations  one row each, ordered by run and step; equal bytes for equal campaigns
    timings       wall time of each batch, apart because it is never the same twice

``design`` holds d little-endian int32 level indices, ``numbers`` the float64 metrics and
violations named in the layout; ``checksum`` is the CRC-32 of a row, for SQLite does not notice
when a value changes on the disk. A batch is one transaction with ``synchronous=FULL``. The journal
is a write-ahead log, so that readers and the writer do not wait for each other, except on file
systems shared between machines, where that needs memory which such systems do not share.
"""

from __future__ import annotations

import json
import os
import sqlite3
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from codesign.campaign.observations import Layout, ObservationBatch, Run, Status, Table
from codesign.errors import CodesignError, JobError, StoreError

SCHEMA_VERSION = 2
APPLICATION_ID = 0x636F6465
"""Marks the file as ours: "code" in ASCII."""
CHUNK = 20_000
"""Observations read at a time: enough to be fast, few enough to need little memory."""

_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE runs (
    run INTEGER PRIMARY KEY, optimizer TEXT NOT NULL, seed INTEGER NOT NULL, ended TEXT
);
CREATE TABLE observations (
    run INTEGER NOT NULL, step INTEGER NOT NULL, batch INTEGER NOT NULL,
    design BLOB NOT NULL, numbers BLOB NOT NULL, status INTEGER NOT NULL, reason TEXT,
    hypervolume REAL NOT NULL, checksum INTEGER NOT NULL,
    PRIMARY KEY (run, step)
) WITHOUT ROWID;
CREATE TABLE timings (
    run INTEGER NOT NULL, batch INTEGER NOT NULL, ask_seconds REAL NOT NULL,
    evaluate_seconds REAL NOT NULL,
    PRIMARY KEY (run, batch)
) WITHOUT ROWID;
"""

_SHARED_FILE_SYSTEMS = frozenset(
    {
        "nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "gpfs", "beegfs", "ceph", "glusterfs",
        "afs", "9p", "fuse.sshfs",
    }
)  # fmt: skip


@dataclass(frozen=True)
class RunCounts:
    """How far a run has come.

    Attributes:
        run: Optimizer and seed.
        done: Observations in the store.
        feasible: Those that met every constraint.
        failed: Those on which the evaluator gave up.
        hypervolume: After the last observation.
        seconds: Wall time of its batches.
        ended: ``complete`` or ``exhausted`` (no further design existed); None before.
    """

    run: Run
    done: int
    feasible: int
    failed: int
    hypervolume: float
    seconds: float
    ended: str | None


@dataclass(frozen=True)
class BatchTiming:
    """Wall time of one batch: never the same twice, so no result depends on it.

    Attributes:
        run: Index of the run.
        batch: Number of the batch within the run; the initial designs are batch 0.
        n_designs: Observations in it.
        ask_seconds: The optimizer's.
        evaluate_seconds: The evaluator's.
    """

    run: int
    batch: int
    n_designs: int
    ask_seconds: float
    evaluate_seconds: float


class Store:
    """An open store; use :func:`create_store`, :func:`open_store`.

    Args:
        path: The file.
        connection: In autocommit mode.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        with _explained(path):
            self.meta: dict[str, Any] = _read_meta(path, connection)
            self.runs: tuple[Run, ...] = tuple(
                Run(optimizer, seed)
                for optimizer, seed in connection.execute(
                    "SELECT optimizer, seed FROM runs ORDER BY run"
                )
            )
            self.layout = _read_layout(path, self.meta)
        self._n_parameters = len(self.meta["parameters"])

    def close(self) -> None:
        """Close the file; a writer's journal is folded into it."""
        self._connection.close()

    def append(self, batches: Sequence[ObservationBatch]) -> None:
        """Make batches durable, all or none.

        Raises:
            JobError: The disk is full or fails; what was stored before is intact.
        """
        with _explained(self.path), self._transaction():
            for batch in batches:
                self._connection.executemany(
                    "INSERT INTO observations VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", _records(batch)
                )
                self._connection.execute(
                    "INSERT INTO timings VALUES (?, ?, ?, ?)",
                    (batch.run, batch.batch, batch.ask_seconds, batch.evaluate_seconds),
                )

    def end_run(self, run: int, ended: str) -> None:
        """Record that a run needs no further batch."""
        with _explained(self.path), self._transaction():
            self._connection.execute("UPDATE runs SET ended = ? WHERE run = ?", (ended, run))

    def counts(self) -> list[RunCounts]:
        """How far each run has come."""
        with _explained(self.path), self._snapshot():
            ended = dict(self._connection.execute("SELECT run, ended FROM runs"))
            seconds = dict(
                self._connection.execute(
                    "SELECT run, sum(ask_seconds + evaluate_seconds) FROM timings GROUP BY run"
                )
            )
            by_status: dict[tuple[int, int], int] = {}
            for run, status, number in self._connection.execute(
                "SELECT run, status, count(*) FROM observations GROUP BY run, status"
            ):
                by_status[run, status] = number
            return [
                self._counts_of(index, by_status, seconds, ended) for index in range(len(self.runs))
            ]

    def _counts_of(
        self,
        index: int,
        by_status: Mapping[tuple[int, int], int],
        seconds: Mapping[int, float],
        ended: Mapping[int, str | None],
    ) -> RunCounts:
        last = self._connection.execute(
            "SELECT hypervolume FROM observations WHERE run = ? ORDER BY step DESC LIMIT 1",
            (index,),
        ).fetchone()
        number = {status: by_status.get((index, status), 0) for status in Status}
        return RunCounts(
            run=self.runs[index],
            done=sum(number.values()),
            feasible=number[Status.FEASIBLE],
            failed=number[Status.FAILED],
            hypervolume=last[0] if last else 0.0,
            seconds=seconds.get(index, 0.0),
            ended=ended.get(index),
        )

    def timings(self) -> list[BatchTiming]:
        """Wall time of every batch, in the order of run and batch."""
        with _explained(self.path), self._snapshot():
            return [
                BatchTiming(*row)
                for row in self._connection.execute(
                    "SELECT run, batch, count(*), ask_seconds, evaluate_seconds "
                    "FROM timings JOIN observations USING (run, batch) "
                    "GROUP BY run, batch ORDER BY run, batch"
                )
            ]

    def read(self, run: int | None = None) -> Table:
        """The observations of one run, or of all, in the order of run and step.

        Raises:
            StoreError: The file is damaged.
        """
        where, arguments = ("WHERE run = ?", (run,)) if run is not None else ("", ())
        with _explained(self.path), self._snapshot():
            n = self._connection.execute(
                f"SELECT count(*) FROM observations {where}", arguments
            ).fetchone()[0]
            cursor = self._connection.execute(
                "SELECT run, step, batch, design, numbers, status, reason, hypervolume, checksum "
                f"FROM observations {where} ORDER BY run, step",
                arguments,
            )
            return self._filled(cursor, n)

    def _filled(self, cursor: sqlite3.Cursor, n: int) -> Table:
        table = Table.empty(n, self._n_parameters, self.layout.width)
        reasons: dict[int, str] = {}
        start = 0
        while chunk := cursor.fetchmany(CHUNK):
            if not all(map(_is_intact, chunk)):
                raise _damaged(self.path, "an observation is not what was written")
            run, step, batch, design, numbers, status, reason, hypervolume, _ = zip(
                *chunk, strict=True
            )
            part = slice(start, start + len(chunk))
            table.run[part], table.step[part], table.batch[part] = run, step, batch
            table.rows[part] = self._matrix(design, "<i4", self._n_parameters)
            table.numbers[part] = self._matrix(numbers, "<f8", self.layout.width)
            table.status[part], table.hypervolume[part] = status, hypervolume
            reasons |= {start + i: text for i, text in enumerate(reason) if text is not None}
            start += len(chunk)
        starts = np.flatnonzero(np.diff(table.run, prepend=-1))
        within = np.arange(n) - np.repeat(starts, np.diff(np.append(starts, n)))
        if start != n or not np.array_equal(table.step, within):
            raise _damaged(self.path, "observations are missing")
        return replace(table, reasons=reasons)

    def _matrix(self, blobs: Iterable[bytes], kind: str, width: int) -> np.ndarray[Any, Any]:
        blobs = tuple(blobs)
        dtype = np.dtype(kind)
        if any(len(blob) != width * dtype.itemsize for blob in blobs):
            raise _damaged(self.path, "an observation has the wrong length")
        return np.frombuffer(b"".join(blobs), dtype=dtype).reshape(len(blobs), width)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:  # Ctrl-C too must leave the last whole batch
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        """Several reads of one state, also while another process writes."""
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")


def create_store(path: Path, meta: Mapping[str, Any], runs: Sequence[Run]) -> None:
    """Write a new, empty store; it appears whole or not at all.

    Args:
        path: The file to make.
        meta: JSON values; at least ``layout`` and ``parameters``.
        runs: All runs of the campaign.

    Raises:
        StoreError: The folder cannot be written.
    """
    new = path.with_name(path.name + ".new")
    with _explained(path):
        for leftover in (new, *_journals(new)):  # of a process that was killed right here
            with suppress(FileNotFoundError):
                leftover.unlink()
        with closing(sqlite3.connect(new, isolation_level=None)) as connection:
            _prepare_writer(connection, new)
            connection.executescript("BEGIN;" + _SCHEMA)
            connection.executemany(
                "INSERT INTO meta VALUES (?, ?)",
                [(key, json.dumps(value, sort_keys=True)) for key, value in sorted(meta.items())],
            )
            connection.executemany(
                "INSERT INTO runs VALUES (?, ?, ?, NULL)",
                [(index, run.optimizer, run.seed) for index, run in enumerate(runs)],
            )
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            connection.execute("COMMIT")
            _settle(connection)
        new.replace(path)
        _flush_folder(path.parent)


@contextmanager
def open_store(path: Path, writing: bool = False) -> Iterator[Store]:
    """An existing store, closed at the end of the block.

    Args:
        path: The file.
        writing: For the one process that holds the campaign's lock.

    Raises:
        StoreError: No such file, not a store, damaged, or of another version.
    """
    if not path.is_file():
        raise StoreError("no such store", str(path))
    with _explained(path):
        mode = "rw" if writing else "ro"
        uri = f"file:{quote(str(path.resolve()))}?mode={mode}"
        # Without a write-ahead log, a writer waits until the readers have finished.
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=60.0)
    with closing(connection):
        with _explained(path):
            _check_kind(connection, path)
            if writing:
                _check_intact(connection, path)
        store = Store(path, connection)
        if writing:
            with _explained(path):
                _prepare_writer(connection, path)
        try:
            yield store
        finally:
            if writing:
                _settle(connection)


def _prepare_writer(connection: sqlite3.Connection, path: Path) -> None:
    wanted = "TRUNCATE" if _is_shared(path) else "WAL"
    try:
        connection.execute(f"PRAGMA journal_mode = {wanted}")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    except sqlite3.OperationalError:
        if wanted == "TRUNCATE":
            raise
        connection.execute("PRAGMA journal_mode = TRUNCATE")


def _settle(connection: sqlite3.Connection) -> None:
    """Leave a single file, which can be copied and read where nothing can be written."""
    with suppress(sqlite3.Error):  # a reader is looking: the next writer will do it
        connection.execute("PRAGMA busy_timeout = 0")
        connection.execute("PRAGMA journal_mode = DELETE")


def _is_shared(path: Path) -> bool:
    """Whether the path lies on a file system that several machines may mount (Linux only)."""
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    folder, best, kind = str(path.resolve().parent), "", ""
    for line in lines:
        fields, _, rest = line.partition(" - ")
        mount = fields.split()[4]
        inside = folder == mount or folder.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best):
            best, kind = mount, rest.split()[0]
    return kind in _SHARED_FILE_SYSTEMS


def _check_kind(connection: sqlite3.Connection, path: Path) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        raise _damaged(path, "it is not a codesign store")
    if version != SCHEMA_VERSION:
        raise StoreError(
            f"the store has version {version}, but this codesign reads {SCHEMA_VERSION}; "
            "use the codesign that wrote it, or give the campaign another name",
            str(path),
        )


def _check_intact(connection: sqlite3.Connection, path: Path) -> None:
    """Before anything is written, to leave a damaged file exactly as it is."""
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise _damaged(path, verdict.splitlines()[-1])
    for table in ("meta", "runs", "observations", "timings"):
        connection.execute(f"SELECT * FROM {table} LIMIT 0")


def _read_meta(path: Path, connection: sqlite3.Connection) -> dict[str, Any]:
    try:
        return {
            key: json.loads(value)
            for key, value in connection.execute("SELECT key, value FROM meta")
        }
    except ValueError as error:
        raise _damaged(path, "its description is not JSON") from error


def _read_layout(path: Path, meta: Mapping[str, Any]) -> Layout:
    try:
        layout = Layout.from_json(meta["layout"])
        len(meta["parameters"])
    except (KeyError, TypeError) as error:
        raise _damaged(path, "its description is incomplete") from error
    return layout


def _records(batch: ObservationBatch) -> Iterator[tuple[Any, ...]]:
    k, d = batch.rows.shape
    designs = memoryview(np.ascontiguousarray(batch.rows, dtype="<i4").tobytes())
    numbers = memoryview(np.ascontiguousarray(batch.numbers, dtype="<f8").tobytes())
    width = batch.numbers.shape[1] * 8
    status, hypervolume = batch.status.tolist(), batch.hypervolume.tolist()
    for i in range(k):
        row = (
            batch.run,
            batch.first_step + i,
            batch.batch,
            designs[i * d * 4 : (i + 1) * d * 4],
            numbers[i * width : (i + 1) * width],
            status[i],
            batch.reasons.get(i),
            hypervolume[i],
        )
        yield (*row, _checksum(*row))


def _is_intact(row: tuple[Any, ...]) -> bool:
    try:
        return bool(_checksum(*row[:-1]) == row[-1])
    except (TypeError, AttributeError, struct.error):  # a value of another kind
        return False


_SCALARS = struct.Struct("<qqqqd")


def _checksum(
    run: int,
    step: int,
    batch: int,
    design: bytes | memoryview,
    numbers: bytes | memoryview,
    status: int,
    reason: str | None,
    hypervolume: float,
) -> int:
    checksum = zlib.crc32(_SCALARS.pack(run, step, batch, status, hypervolume))
    checksum = zlib.crc32(numbers, zlib.crc32(design, checksum))
    return zlib.crc32((reason or "").encode(), checksum)


def _journals(path: Path) -> tuple[Path, ...]:
    return tuple(path.with_name(path.name + end) for end in ("-wal", "-shm", "-journal"))


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _damaged(path: Path, reason: str) -> StoreError:
    return StoreError(
        f"the store is damaged ({reason}); nothing was changed. Put back a copy of it, or move "
        "it away to start the campaign anew",
        str(path),
    )


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn SQLite's and the system's errors into one clear line."""
    try:
        yield
    except sqlite3.Error as error:
        raise _translated(path, error) from error
    except OSError as error:
        raise StoreError(f"cannot be written: {error.strerror}", str(path)) from error


def _translated(path: Path, error: sqlite3.Error) -> CodesignError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
        return JobError(f"{path}: {error}; what was stored before is intact, run again to go on")
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return StoreError(f"cannot be opened or written: {error}", str(path))
    if code == sqlite3.SQLITE_BUSY:
        return StoreError("another program is using the store", str(path))
    return _damaged(path, str(error))
