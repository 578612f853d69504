"""The file of a cache of results: answers of evaluators, and claims on designs being evaluated.

Tables
    sources   evaluators that gave the answers, each with all that its numbers depend on
    results   one answer each, by the digest of its source and its design
    owners    processes that evaluate a design now; others wait for their answers

Any number of processes write, each call in a connection of its own. The owner of claims holds a
lock file while it works, which the system frees if its process ends. A process that waits then
takes over the claims.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

from codesign.base.columns import StringList, Strings, plain_value
from codesign.base.databases import prepare_writer, transaction
from codesign.base.errors import InputError
from codesign.base.failures import Failure
from codesign.base.locks import exclusive, is_held
from codesign.base.records import frozen
from codesign.base.resources import user_cache
from codesign.search.execution.answers import Answer, plain_answer, read_answer

FILE = "results.sqlite"
_APPLICATION_ID = 0x636F6463
_VERSION = 2
_DAY_S = 86_400.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS sources (
    source TEXT PRIMARY KEY, evaluator TEXT NOT NULL, description TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS results (
    key TEXT PRIMARY KEY, source TEXT NOT NULL, design TEXT NOT NULL, answer TEXT NOT NULL,
    stored_s INTEGER NOT NULL, checksum INTEGER NOT NULL
) WITHOUT ROWID;
DROP TABLE IF EXISTS claims;
CREATE TABLE IF NOT EXISTS owners (
    key TEXT PRIMARY KEY, owner TEXT NOT NULL
) WITHOUT ROWID;
"""


@frozen
class Source:
    """An evaluator with all that its numbers depend on besides designs.

    Attributes:
        evaluator: Name under which it is registered.
        description: Canonical JSON of its provenance and code.
    """

    evaluator: str
    description: str

    @property
    def digest(self) -> str:
        """Digest of the whole source."""
        return _digest(self.evaluator, self.description)

    def key(self, design: str) -> str:
        """Key of a design, given as canonical JSON, evaluated by this source."""
        return _digest(self.digest, design)


@frozen
class Holding:
    """Content of a cache for one source.

    Attributes:
        source: First digits of its digest.
        results: Number of answers.
        size_bytes: Text of the answers and their designs.
        oldest_days: Since the first of them was stored, by this machine's clock.
        newest_days: Since the last.
    """

    evaluator: str
    source: str
    results: int
    size_bytes: int
    oldest_days: float
    newest_days: float


class ResultStore:
    """The cache in a folder; the file is made when something is first looked up.

    Args:
        folder: Of the cache; the user's cache folder if None.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.path = (folder or user_cache()) / FILE

    def look_up(self, keys: Strings) -> dict[str, Answer | Failure]:
        """The answers that are stored, by key; one that does not fit its checksum is none."""
        answers = {}
        with self._connected() as connection:
            for key in keys:
                row = _intact_row(connection, key)
                if row is not None:
                    answers[key] = read_answer(json.loads(row[3]))
        return answers

    @contextmanager
    def owner(self) -> Iterator[str]:
        """A name to claim designs by; its claims end with the block, or with the process."""
        name = uuid4().hex
        with exclusive(self._lock(name), "evaluates designs", is_kept=False):
            try:
                yield name
            finally:
                with self._connected() as connection, transaction(connection):
                    connection.execute("DELETE FROM owners WHERE owner = ?", (name,))

    def claim(self, keys: Iterable[str], owner: str) -> set[str]:
        """Claim the keys that have neither an answer nor another living owner; returns them."""
        claimed = set()
        is_alive = cache(lambda name: is_held(self._lock(name)))
        with self._connected() as connection, transaction(connection):
            for key in keys:
                if _intact_row(connection, key) is not None:
                    continue
                held = connection.execute(
                    "SELECT owner FROM owners WHERE key = ?", (key,)
                ).fetchone()
                if held is None or not is_alive(held[0]):
                    if held is not None:
                        self._lock(held[0]).unlink(missing_ok=True)
                    connection.execute("REPLACE INTO owners VALUES (?, ?)", (key, owner))
                    claimed.add(key)
        return claimed

    def _lock(self, owner: object) -> Path:
        """Lock file of an owner of claims, whose name is hexadecimal unless it is damaged."""
        name = re.sub("[^0-9a-f]", "", str(owner))
        return self.path.with_name(f"{name}.lock")

    def store(self, source: Source, answers: Mapping[str, Answer | Failure]) -> None:
        """Keep the answers of a source, by design.

        Of two answers for one design, the second replaces the first: they are equal, or the first
        is damaged.
        """
        now = int(time.time())  # for people and for prune; nothing else looks at it
        with self._connected() as connection, transaction(connection):
            connection.execute(
                "INSERT OR IGNORE INTO sources VALUES (?, ?, ?)",
                (source.digest, source.evaluator, source.description),
            )
            for design, answer in answers.items():
                key = source.key(design)
                text = canonical(plain_answer(answer))
                row = (key, source.digest, design, text)
                connection.execute(
                    "REPLACE INTO results VALUES (?, ?, ?, ?, ?, ?)",
                    (*row, now, _checksum(*row)),
                )

    def holdings(self) -> list[Holding]:
        """Content of the cache by evaluator and source; empty if there is no cache."""
        if not self.path.is_file():
            return []
        now = time.time()
        with self._connected() as connection:
            return [
                Holding(
                    evaluator,
                    source[:12],
                    count,
                    size,
                    max(0.0, (now - oldest) / _DAY_S),
                    max(0.0, (now - newest) / _DAY_S),
                )
                for evaluator, source, count, size, oldest, newest in connection.execute(
                    "SELECT evaluator, source, count(*), "
                    "sum(length(key) + length(design) + length(answer)), "
                    "min(stored_s), max(stored_s) "
                    "FROM results JOIN sources USING (source) "
                    "GROUP BY source ORDER BY evaluator, min(stored_s), source"
                )
            ]

    def verify(self) -> StringList:
        """Damages, one line each; empty if there are none."""
        if not self.path.is_file():
            return []
        with self._connected() as connection:
            verdict = [row[0] for row in connection.execute("PRAGMA integrity_check(10)")]
            lines = [] if verdict == ["ok"] else verdict
            for row in connection.execute("SELECT source, evaluator, description FROM sources"):
                if Source(*row[1:]).digest != row[0]:
                    lines.append(f"source {row[0][:12]} is not what was written")
            for row in connection.execute(
                "SELECT key, source, design, answer, checksum FROM results"
            ):
                if not _is_intact(row):
                    lines.append(f"result {row[0][:12]} is not what was written")
        return lines

    def prune(
        self,
        evaluator: str | None = None,
        older_than_days: float | None = None,
        max_bytes: float | None = None,
    ) -> int:
        """Remove results, damaged ones in any case; how many were removed.

        Args:
            evaluator: Those of this evaluator alone.
            older_than_days: Those stored longer ago than this.
            max_bytes: The oldest, until the rest is no larger. None, like the two before: no
                limit of that kind. With none of the three, only damaged results go.
        """
        if not self.path.is_file():
            return 0
        with self._connected() as connection:
            with transaction(connection):
                rows = connection.execute(
                    "SELECT key, source, design, answer, checksum FROM results"
                )
                doomed = {row[0] for row in rows if not _is_intact(row)}
                if evaluator is not None or older_than_days is not None or max_bytes is not None:
                    doomed |= _surplus(connection, evaluator, older_than_days, max_bytes)
                connection.executemany("DELETE FROM results WHERE key = ?", [(k,) for k in doomed])
                connection.execute(
                    "DELETE FROM sources WHERE source NOT IN (SELECT source FROM results)"
                )
            connection.execute("VACUUM")
        return len(doomed)

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # A connection belongs to one thread, and several may evaluate at once.
            with closing(sqlite3.connect(self.path, isolation_level=None, timeout=60.0)) as opened:
                _prepare(opened, self.path)
                yield opened
        except sqlite3.Error as error:
            raise InputError(
                f"the cache of results cannot be used: {error}; remove the file, or set "
                "execution.cache_folder or execution.cache: false in the campaign file",
                str(self.path),
            ) from error
        except OSError as error:
            raise InputError(
                f"the cache of results cannot be used: {error.strerror}", str(self.path)
            ) from error


def canonical(data: Any) -> str:
    """One JSON text for equal data."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), default=plain_value)


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if (application, version) == (_APPLICATION_ID, _VERSION):
        # An answer that a power cut takes is asked for again.
        connection.execute("PRAGMA synchronous = NORMAL")
        return
    if (application, version) not in ((0, 0), (_APPLICATION_ID, 1)):
        raise sqlite3.DatabaseError("it is no cache of results that this codesign reads")
    prepare_writer(connection, path)
    with transaction(connection):
        for statement in _SCHEMA.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {_VERSION}")


def _surplus(
    connection: sqlite3.Connection,
    evaluator: str | None,
    older_than_days: float | None,
    max_bytes: float | None,
) -> set[str]:
    """Keys that meet the condition of age and evaluator, and the oldest of those above a size."""
    rows = connection.execute(
        "SELECT key, stored_s, length(key) + length(design) + length(answer) "
        "FROM results JOIN sources USING (source) "
        "WHERE ? IS NULL OR evaluator = ? ORDER BY stored_s DESC, key",
        (evaluator, evaluator),
    ).fetchall()
    if older_than_days is None and max_bytes is None:
        return {row[0] for row in rows}
    doomed = set()
    total = 0
    now = time.time()
    for key, stored_s, size in rows:
        total += size
        is_old = older_than_days is not None and now - stored_s > older_than_days * _DAY_S
        if is_old or (max_bytes is not None and total > max_bytes):
            doomed.add(key)
    return doomed


def _intact_row(connection: sqlite3.Connection, key: str) -> tuple[Any, ...] | None:
    """The result of a key; None if there is none that fits its checksum."""
    row = connection.execute(
        "SELECT key, source, design, answer, checksum FROM results WHERE key = ?", (key,)
    ).fetchone()
    return row if row is not None and _is_intact(row) else None


def _is_intact(row: tuple[Any, ...]) -> bool:
    key, source, design, _, checksum = row
    try:
        return bool(_checksum(*row[:-1]) == checksum and _digest(source, design) == key)
    except (TypeError, AttributeError):  # a value of another kind
        return False


def _checksum(*texts: str) -> int:
    return zlib.crc32("\0".join(texts).encode())


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()
