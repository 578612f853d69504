"""The store of a campaign: one SQLite file, one writer, every batch durable before the next.

Tables
    meta          key and JSON value: layout, definition, resolved inputs, versions, reference point
    runs          optimizer and seed of each run, and its final state once it has one
    observations  one row each, ordered by run and step; equal bytes for equal campaigns. Run -1 is
                  the reference sample, whose observations all runs share
    timings       wall time of each batch, apart because it is never the same twice
    proposals     designs that a run evaluates beside others, stored before they are evaluated; an
                  observation's batch is that of its proposal
    screenings    what a cheaper evaluator said of designs of a run, in order, with the wall time of
                  each: objectives, minimized, and violations of constraints; there is none without
    epochs        from which step of each run on changed inputs were accepted, and these inputs

``design`` holds d little-endian int32 level indices, ``numbers`` the float64 metrics and
violations named in the layout; ``checksum`` is the CRC-32 of a row, for SQLite does not notice
when a value changes on the disk. A batch is one transaction with ``synchronous=FULL``.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from codesign.base.columns import (
    Fields,
    IntArray,
    IntegerSequence,
    IntegerTuple,
    JsonObject,
    StringList,
    Strings,
    StringTuple,
)
from codesign.base.databases import transaction
from codesign.base.failures import Failure, Status
from codesign.base.records import frozen
from codesign.search.campaign.observations import (
    SAMPLE,
    Layout,
    ObservationBatch,
    PendingDesign,
    Run,
    RunStatus,
    ScreenedBatch,
    State,
    StoredObservations,
)
from codesign.search.campaign.store_errors import DamagedStoreError, explained
from codesign.search.campaign.store_format import (
    CHECKED,
    INSERT,
    SCREENINGS,
    changed_rows,
    has_screenings,
    insert,
    is_intact,
    json_value,
    records,
    row_checksum,
)
from codesign.search.observations import Observations

CHUNK = 20_000
"""Observations read at a time: enough to be fast, few enough to need little memory."""


@frozen
class BatchTiming:
    """Wall time of one batch: never the same twice, so no result depends on it.

    Attributes:
        run: Index of the run.
        batch: Number of the batch within the run; the initial designs are batch 0.
        n_designs: Observations in it.
    """

    run: int
    batch: int
    n_designs: int
    ask_seconds: float
    evaluate_seconds: float


@frozen
class Epoch:
    """Changed inputs with which a campaign went on.

    Attributes:
        first_steps: By run, the step from which its observations were made under them.
        changes: ``key: before -> after``, one line each.
        inputs: ``identity``, ``definition`` and ``versions`` as they were then.
    """

    first_steps: IntegerTuple
    changes: StringTuple
    inputs: Fields


class Store:
    """An open store; use ``create_store`` and ``open_store`` of ``store_file.py``.

    Args:
        connection: In autocommit mode.
        notice: What whoever reads it should know of the file.
    """

    def __init__(
        self, path: Path, connection: sqlite3.Connection, notice: str | None = None
    ) -> None:
        self.path = path
        self.notice = notice
        self._connection = connection
        with explained(path):
            try:
                meta = {
                    key: json.loads(value)
                    for key, value in connection.execute("SELECT key, value FROM meta")
                }
            except ValueError as error:
                raise DamagedStoreError(path, "its description is not JSON") from error
            for table in ("meta", "runs"):
                if changed_rows(connection, table):
                    raise DamagedStoreError(path, f"a row of {table} is not what was written")
            self.meta: JsonObject = meta
            self.runs = tuple(
                Run(optimizer, seed)
                for optimizer, seed in connection.execute(
                    "SELECT optimizer, seed FROM runs ORDER BY run"
                )
            )
            try:
                self.layout = Layout.read(meta["layout"])
                self._n_parameters = len(meta["parameters"])
            except (KeyError, TypeError) as error:
                raise DamagedStoreError(path, "its description is incomplete") from error
            self.epochs = _read_epochs(path, connection)

    def close(self) -> None:
        """Close the file; a writer's journal is folded into it."""
        self._connection.close()

    def append(self, batches: Sequence[ObservationBatch]) -> None:
        """Make batches durable, all or none.

        Raises:
            JobError: The disk is full or fails; what was stored before is intact.
        """
        with explained(self.path), transaction(self._connection):
            for batch in batches:
                self._connection.executemany(INSERT, records(batch, self.layout))
                stored = self._connection.execute(
                    "SELECT ask_seconds, evaluate_seconds FROM timings WHERE run = ? AND batch = ?",
                    (batch.run, batch.batch),
                ).fetchone()
                ask_seconds, evaluate_seconds = stored or (0.0, 0.0)
                timing = (
                    batch.run,
                    batch.batch,
                    ask_seconds + batch.ask_seconds,
                    evaluate_seconds + batch.evaluate_seconds,
                )
                insert(self._connection, "timings", timing, "INSERT OR REPLACE")

    def propose(self, proposals: Sequence[PendingDesign]) -> None:
        """Make proposals durable, all or none, before they are evaluated.

        Raises:
            JobError: The disk is full or fails; what was stored before is intact.
        """
        with explained(self.path), transaction(self._connection):
            for proposal in proposals:
                design = np.ascontiguousarray(proposal.row, "<i4").tobytes()
                place = proposal.run, proposal.number, proposal.batch, proposal.n_told
                insert(self._connection, "proposals", (*place, design))

    def proposals(self, run: int) -> list[PendingDesign]:
        """The stored proposals of a run, in their order.

        Raises:
            StoreError: The file is damaged.
        """
        with explained(self.path), self._snapshot():
            rows = self._connection.execute(
                "SELECT run, proposal, batch, told, design, checksum FROM proposals "
                "WHERE run = ? ORDER BY proposal",
                (run,),
            ).fetchall()
        self._check_rows(rows, "a proposal")
        designs = self._matrix((row[4] for row in rows), "<i4", self._n_parameters)
        return [
            PendingDesign(run, number, batch, n_told, design.astype(np.int64))
            for (_, number, batch, n_told, *_rest), design in zip(rows, designs, strict=True)
        ]

    def append_screened(self, batch: ScreenedBatch) -> None:
        """Make what a cheaper evaluator said durable, all or nothing.

        Raises:
            JobError: The disk is full or fails; what was stored before is intact.
        """
        observations = batch.observations
        seconds = batch.seconds / max(len(observations), 1)
        numbers = np.hstack([observations.objectives, observations.violations])
        with explained(self.path), transaction(self._connection):
            self._connection.execute(SCREENINGS)
            for i, design in enumerate(observations.rows):
                failure = observations.failures.get(i)
                row = (
                    batch.run,
                    batch.first + i,
                    int(batch.n_told[i]),
                    np.ascontiguousarray(design, "<i4").tobytes(),
                    np.ascontiguousarray(numbers[i], "<f8").tobytes(),
                    failure and failure.reason,
                    seconds,
                )
                insert(self._connection, "screenings", row)

    def screened(self, run: int) -> ScreenedBatch:
        """All that a cheaper evaluator said of designs of a run.

        Raises:
            StoreError: The file is damaged.
        """
        with explained(self.path), self._snapshot():
            rows = (
                self._connection.execute(
                    "SELECT run, number, told, design, numbers, reason, seconds, checksum "
                    "FROM screenings WHERE run = ? ORDER BY number",
                    (run,),
                ).fetchall()
                if has_screenings(self._connection)
                else []
            )
        self._check_rows(rows, "a screened design")
        if [row[1] for row in rows] != list(range(len(rows))):
            raise DamagedStoreError(self.path, "screened designs are missing")
        m = len(self.layout.objectives)
        numbers = self._matrix((row[4] for row in rows), "<f8", len(rows[0][4]) // 8 if rows else m)
        observations = Observations(
            self._matrix((row[3] for row in rows), "<i4", self._n_parameters).astype(np.int64),
            numbers[:, :m],
            numbers[:, m:],
            failures={
                i: Failure("failed", row[5]) for i, row in enumerate(rows) if row[5] is not None
            },
        )
        n_told = np.array([row[2] for row in rows], np.int64)
        return ScreenedBatch(run, 0, n_told, observations, sum(row[6] for row in rows))

    def _check_rows(self, rows: Iterable[tuple[Any, ...]], subject: str) -> None:
        """Refuse rows that do not fit the checksums at their ends."""
        if any(row_checksum(row[:-1]) != row[-1] for row in rows):
            raise DamagedStoreError(self.path, f"{subject} is not what was written")

    def end_run(self, run: int, ended: str) -> None:
        """Record that a run needs no further batch."""
        with explained(self.path), transaction(self._connection):
            self._set_end(run, ended)

    def _set_end(self, index: int, ended: str | None) -> None:
        run = self.runs[index]
        checksum = row_checksum((index, run.optimizer, run.seed, ended))
        self._connection.execute(
            "UPDATE runs SET ended = ?, checksum = ? WHERE run = ?", (ended, checksum, index)
        )

    @property
    def inputs(self) -> Fields:
        """``identity``, ``definition`` and ``versions`` of the latest observations."""
        return self.epochs[-1].inputs if self.epochs else self.meta

    def accept(self, changes: Strings, inputs: Fields) -> None:
        """Note that what follows is made with changed inputs; runs that ended go on if they can.

        Args:
            changes: ``key: before -> after``, one line each.
            inputs: ``identity``, ``definition`` and ``versions`` as they are now.
        """
        first_steps = [count.done for count in self.counts()]
        row = (len(self.epochs) + 1, *map(json_value, (first_steps, list(changes), dict(inputs))))
        with explained(self.path), transaction(self._connection):
            insert(self._connection, "epochs", row)
            for index in range(len(self.runs)):
                self._set_end(index, None)
        self.epochs = _read_epochs(self.path, self._connection)

    def epoch_of(self, stored: StoredObservations) -> IntArray:
        """(n,) which inputs each observation was made with: 0 the first, 1 those accepted next."""
        epochs = np.zeros(len(stored), np.int64)
        for epoch in self.epochs:
            # Where no run is meant, as in the reference sample, nothing changes.
            starts = np.append(epoch.first_steps, np.iinfo(np.int64).max)
            epochs += stored.step >= starts[stored.run]
        return epochs

    def verify(self) -> StringList:
        """Damages, one line each; empty if the store is as it was written."""
        lines = []
        try:
            with explained(self.path), self._snapshot():
                verdicts = [row[0] for row in self._connection.execute("PRAGMA integrity_check(9)")]
                lines += [line for text in verdicts if text != "ok" for line in text.splitlines()]
                for table in CHECKED:
                    if number := changed_rows(self._connection, table):
                        lines.append(f"{table}: {number} rows are not what was written")
            for run in range(SAMPLE, len(self.runs)):
                try:
                    self.read(run)
                except DamagedStoreError as error:
                    of_run = "the reference sample" if run == SAMPLE else str(self.runs[run])
                    lines.append(f"observations of {of_run}: {error.reason}")
        except DamagedStoreError as error:
            lines.append(error.reason)
        return lines

    def numbers(self) -> IntegerTuple:
        """Observations of the reference sample and of each run."""
        with explained(self.path), self._snapshot():
            numbers = dict(
                self._connection.execute("SELECT run, count(*) FROM observations GROUP BY run")
            )
        return tuple(numbers.get(run, 0) for run in range(SAMPLE, len(self.runs)))

    def digest(self, numbers: IntegerSequence) -> str:
        """SHA-256 of the first observations of the reference sample and of each run."""
        digest = hashlib.sha256()
        with explained(self.path), self._snapshot():
            for run, number in enumerate(numbers, SAMPLE):
                rows = self._connection.execute(
                    "SELECT step, batch, design, numbers, status, reason, hypervolume "
                    "FROM observations WHERE run = ? AND step < ? ORDER BY step",
                    (run, number),
                )
                for row in rows:
                    digest.update(repr((run, *row)).encode())
        return digest.hexdigest()

    def counts(self) -> list[RunStatus]:
        """Progress of each run, as if none were running."""
        execute = self._connection.execute
        with explained(self.path), self._snapshot():
            ended = dict(execute("SELECT run, ended FROM runs"))
            seconds = dict(
                execute("SELECT run, sum(ask_seconds + evaluate_seconds) FROM timings GROUP BY run")
            )
            lasts = dict(
                execute(
                    "SELECT run, hypervolume FROM observations JOIN (SELECT run, max(step) AS step "
                    "FROM observations GROUP BY run) USING (run, step)"
                )
            )
            numbers: dict[int, dict[int, int]] = {}
            for run, status, number in execute(
                "SELECT run, status, count(*) FROM observations GROUP BY run, status"
            ):
                numbers.setdefault(run, {})[status] = number
        counts = []
        for index, run in enumerate(self.runs):
            number = numbers.get(index, {})
            state: State = "stopped" if number else "not started"
            if ended.get(index) is not None:
                state = "complete" if ended[index] == "complete" else "exhausted"
            failures = {x.word: number[x] for x in Status if x >= Status.FAILED and x in number}
            done = sum(number.values())
            feasible = number.get(Status.FEASIBLE, 0)
            last = lasts.get(index, 0.0)
            spent = seconds.get(index, 0.0)
            counts.append(RunStatus(run, state, done, feasible, last, spent, failures))
        return counts

    def timings(self) -> list[BatchTiming]:
        """Wall time of every batch, in the order of run and batch."""
        with explained(self.path), self._snapshot():
            return [
                BatchTiming(*row)
                for row in self._connection.execute(
                    "SELECT run, batch, count(*), ask_seconds, evaluate_seconds "
                    "FROM timings JOIN observations USING (run, batch) "
                    "GROUP BY run, batch ORDER BY run, batch"
                )
            ]

    def read(self, run: int | None = None) -> StoredObservations:
        """The observations of a run, or of all but the sample, in the order of run and step.

        Raises:
            StoreError: The file is damaged.
        """
        where, arguments = ("= ?", (run,)) if run is not None else ("> ?", (SAMPLE,))
        with explained(self.path), self._snapshot():
            n = self._connection.execute(
                f"SELECT count(*) FROM observations WHERE run {where}", arguments
            ).fetchone()[0]
            cursor = self._connection.execute(
                "SELECT run, step, batch, design, numbers, status, reason, hypervolume, checksum "
                f"FROM observations WHERE run {where} ORDER BY run, step",
                arguments,
            )
            return self._filled(cursor, n)

    def _filled(self, cursor: sqlite3.Cursor, n: int) -> StoredObservations:
        places = np.zeros((3, n), np.int64)  # run, step and batch of each
        rows = np.zeros((n, self._n_parameters), np.int64)
        numbers = np.zeros((n, self.layout.width))
        hypervolume = np.zeros(n)
        failures: dict[int, Failure] = {}
        start = 0
        while chunk := cursor.fetchmany(CHUNK):
            if not all(map(is_intact, chunk)):
                raise DamagedStoreError(self.path, "an observation is not what was written")
            *place, designs, blobs, status, reasons, volumes, _ = zip(*chunk, strict=True)
            chunk_rows = slice(start, start + len(chunk))
            places[:, chunk_rows] = place
            hypervolume[chunk_rows] = volumes
            rows[chunk_rows] = self._matrix(designs, "<i4", self._n_parameters)
            numbers[chunk_rows] = self._matrix(blobs, "<f8", self.layout.width)
            failures |= {
                start + i: Failure.read_status(ending, text or "")
                for i, (ending, text) in enumerate(zip(status, reasons, strict=True))
                if text or ending >= Status.FAILED
            }
            start += len(chunk)
        run, step, batch = places
        starts = np.flatnonzero(np.diff(run, prepend=SAMPLE - 1))
        within = np.arange(n) - np.repeat(starts, np.diff(np.append(starts, n)))
        if start != n or not np.array_equal(step, within):
            raise DamagedStoreError(self.path, "observations are missing")
        observations = self.layout.observations_of(rows, numbers, failures)
        return StoredObservations(observations, run, step, batch, hypervolume)

    def _matrix(self, blobs: Iterable[bytes], kind: str, width: int) -> np.ndarray[Any, Any]:
        blobs = tuple(blobs)
        dtype = np.dtype(kind)
        if any(len(blob) != width * dtype.itemsize for blob in blobs):
            raise DamagedStoreError(self.path, "an observation has the wrong length")
        return np.frombuffer(b"".join(blobs), dtype=dtype).reshape(len(blobs), width)

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        """Several reads of one state, also while another process writes."""
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")


def _read_epochs(path: Path, connection: sqlite3.Connection) -> tuple[Epoch, ...]:
    if changed_rows(connection, "epochs"):
        raise DamagedStoreError(path, "a row of epochs is not what was written")
    rows = connection.execute("SELECT first_steps, changes, inputs FROM epochs ORDER BY epoch")
    texts = [tuple(map(json.loads, row)) for row in rows]
    return tuple(Epoch(tuple(steps), tuple(lines), inputs) for steps, lines, inputs in texts)
