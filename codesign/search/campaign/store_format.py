"""The form of a store's tables: their columns and checksums."""

from __future__ import annotations

import json
import sqlite3
import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from codesign.search.campaign.observations import Layout, ObservationBatch

SCHEMA_VERSION = 3
APPLICATION_ID = 0x636F6465
"""Marks the file as ours: "code" in ASCII."""
SCHEMA = """
CREATE TABLE meta (
    key TEXT PRIMARY KEY, value TEXT NOT NULL, checksum INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE runs (
    run INTEGER PRIMARY KEY, optimizer TEXT NOT NULL, seed INTEGER NOT NULL, ended TEXT,
    checksum INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE observations (
    run INTEGER NOT NULL, step INTEGER NOT NULL, batch INTEGER NOT NULL,
    design BLOB NOT NULL, numbers BLOB NOT NULL, status INTEGER NOT NULL, reason TEXT,
    hypervolume REAL NOT NULL, checksum INTEGER NOT NULL,
    PRIMARY KEY (run, step)
) WITHOUT ROWID;
CREATE TABLE timings (
    run INTEGER NOT NULL, batch INTEGER NOT NULL, ask_seconds REAL NOT NULL,
    evaluate_seconds REAL NOT NULL, checksum INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (run, batch)
) WITHOUT ROWID;
"""
EPOCHS = """
CREATE TABLE epochs (
    epoch INTEGER PRIMARY KEY, first_steps TEXT NOT NULL, changes TEXT NOT NULL,
    inputs TEXT NOT NULL, checksum INTEGER NOT NULL
)
"""
PROPOSALS = """
CREATE TABLE proposals (
    run INTEGER NOT NULL, proposal INTEGER NOT NULL, batch INTEGER NOT NULL,
    told INTEGER NOT NULL, design BLOB NOT NULL, checksum INTEGER NOT NULL,
    PRIMARY KEY (run, proposal)
) WITHOUT ROWID
"""
SCREENINGS = """
CREATE TABLE IF NOT EXISTS screenings (
    run INTEGER NOT NULL, number INTEGER NOT NULL, told INTEGER NOT NULL,
    design BLOB NOT NULL, numbers BLOB NOT NULL, reason TEXT,
    seconds REAL NOT NULL, checksum INTEGER NOT NULL,
    PRIMARY KEY (run, number)
) WITHOUT ROWID
"""
INSERT = "INSERT INTO observations VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
CHECKED = {
    "meta": ("key", "value"),
    "runs": ("run", "optimizer", "seed", "ended"),
    "timings": ("run", "batch", "ask_seconds", "evaluate_seconds"),
    "proposals": ("run", "proposal", "batch", "told", "design"),
    "screenings": ("run", "number", "told", "design", "numbers", "reason", "seconds"),
    "epochs": ("epoch", "first_steps", "changes", "inputs"),
}
"""Columns under the checksum, by table; observations have one of their own kind."""


def create_tables(connection: sqlite3.Connection) -> None:
    """Empty tables of this version, in the transaction of the caller."""
    for statement in (*SCHEMA.split(";"), EPOCHS, PROPOSALS):
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def has_screenings(connection: sqlite3.Connection) -> bool:
    """Whether a cheaper evaluator was asked: only then is there a table of what it said."""
    listed = "SELECT count(*) FROM sqlite_master WHERE name = 'screenings'"
    return bool(connection.execute(listed).fetchone()[0])


def changed_rows(connection: sqlite3.Connection, table: str) -> int:
    """Rows of a table that are not what was written."""
    if table == "screenings" and not has_screenings(connection):
        return 0
    columns = ", ".join(CHECKED[table])
    rows = connection.execute(f"SELECT {columns}, checksum FROM {table}")
    return sum(row_checksum(row[:-1]) != row[-1] for row in rows)


def insert(
    connection: sqlite3.Connection, table: str, row: tuple[Any, ...], verb: str = "INSERT"
) -> None:
    """Insert a row with its checksum."""
    marks = ", ".join("?" * (len(row) + 1))
    connection.execute(f"{verb} INTO {table} VALUES ({marks})", (*row, row_checksum(row)))


def row_checksum(row: Sequence[Any]) -> int:
    """CRC-32 of a row's values, to the last bit of numbers."""
    return zlib.crc32(json.dumps([str(x) if isinstance(x, bytes) else x for x in row]).encode())


def records(batch: ObservationBatch, layout: Layout) -> Iterator[tuple[Any, ...]]:
    """The rows of ``observations`` for a batch."""
    observations = batch.observations
    k, d = observations.rows.shape
    designs = memoryview(np.ascontiguousarray(observations.rows, "<i4").tobytes())
    table = layout.numbers_of(observations)
    numbers = memoryview(np.ascontiguousarray(table, "<f8").tobytes())
    width = layout.width * 8
    status = observations.status.tolist()
    hypervolume = batch.hypervolume.tolist()
    reasons = {i: failure.reason for i, failure in observations.failures.items()}
    for i in range(k):
        row = (
            batch.run,
            batch.first_step + i,
            batch.batch,
            designs[i * d * 4 : (i + 1) * d * 4],
            numbers[i * width : (i + 1) * width],
            status[i],
            reasons.get(i),
            hypervolume[i],
        )
        yield (*row, _checksum(*row))


def is_intact(row: tuple[Any, ...]) -> bool:
    """Whether a row of ``observations`` is what was written."""
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


def json_value(value: Any) -> str:
    """A JSON value as the store has it."""
    return json.dumps(value, sort_keys=True)
