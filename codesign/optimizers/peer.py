"""Other people's optimizers, as their documentation shows them, each in a process of its own.

They are here to be compared with, not to be good on these spaces: each sees a plain box of levels
(what a condition makes inactive is ignored) and is told of a limit only by its violation. The
process gets all that was told at every proposal and builds its study anew, so a peer is a function
of its history like every optimizer here, whatever it keeps to itself. A proposal that is not
admissible, or was evaluated before, costs no evaluation: it is told back, and after a few of these
a random new design is taken. That flatters peers which repeat themselves.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import weakref
from pathlib import Path
from typing import IO, Any, ClassVar, Literal, TypeAlias

import numpy as np

from codesign.columns import BoolArray, FloatArray, IntArray
from codesign.errors import InputError, JobError, MissingExtraError
from codesign.optimizers.base import BaseOptimizer, KeySet
from codesign.processes import ONE_THREAD
from codesign.schema import Record

PeerMethod: TypeAlias = Literal[
    "optuna-tpe", "optuna-nsga2", "optuna-gp", "botorch-qlognehvi", "ax", "smac-parego"
]
PYTHON = "CODESIGN_PEER_PYTHON"
"""Environment variable: the interpreter in which the peers' libraries are installed."""
_ATTEMPTS = 10
"""Useless proposals of one step before a random design is taken. [ours]"""
_SCRIPT = Path(__file__).with_name("peer_worker.py")
_EXTRAS = {"optuna": "tpe", "botorch": "gp"}
_INADMISSIBLE = 1.0
"""Violation told for a design that breaks a limit known before evaluation. [ours]"""


class Peer(BaseOptimizer):
    """One method of another library; the reference point is given to those that take one.

    Raises:
        MissingExtraError: The library is not installed in the peers' interpreter.
    """

    class Options(Record):
        """Options of a peer."""

        method: PeerMethod = "optuna-tpe"
        """Library and method."""

    knows_pending: ClassVar[Literal[True]] = True
    _options: Options

    def _set_up(self) -> None:
        structure = self._space.space.structure
        self._first = -structure.has_absence.astype(np.int64)
        self._bins = structure.n_levels - self._first
        self._records: list[dict[str, Any]] = []
        self._by_key: dict[int, dict[str, Any]] = {}
        parameters, reference = self._space.space.parameters, self._reference
        self._process = _PeerProcess(
            {
                "method": self._options.method,
                "bins": self._bins.tolist(),
                "is_ordered": [item.kind != "categorical" for item in parameters],
                "n_objectives": self._n_objectives,
                "reference_point": None if reference is None else reference.tolist(),
            }
        )

    def ask(self, n: int, pending: IntArray | None = None) -> IntArray:
        """(k, d) as the protocol promises."""
        waiting = self._space.no_rows if pending is None else pending
        rows = waiting
        while len(rows) < len(waiting) + n:
            row = self._new_design(rows)
            if not len(row):
                break
            rows = np.concatenate([rows, row])
        return rows[len(waiting) :]

    def _new_design(self, taken: IntArray) -> IntArray:
        """(1, d) the next proposal that is admissible and new; (0, d) if no design is left."""
        step = [self._seed, len(self._records), len(taken)]
        known = KeySet()
        known.add(self._space.space.keys(taken))
        rejected = [self._record(row, None, [_INADMISSIBLE]) for row in taken]
        # Nothing to learn from: no method is asked.
        has_results = any(record["objectives"] is not None for record in self._records)
        for attempt in range(_ATTEMPTS if has_results else 0):
            seed = int(np.random.default_rng([*step, attempt]).integers(2**31))
            bins = self._process.propose(self._records, rejected, seed)
            row = self._space.space.from_unit((np.array([bins]) + 0.5) / self._bins)
            fresh = self._space.unseen(row, self._seen)
            if len(fresh) and not known.contains(self._space.space.keys(fresh)).any():
                return fresh
            again = self._by_key.get(int(self._space.space.keys(row)[0]))
            unwanted = {"objectives": None, "violations": [_INADMISSIBLE]}
            rejected.append({**(again or unwanted), "bins": bins})
        rng = np.random.default_rng(step)
        others = self._space.sample_unseen(rng, len(taken) + 1, self._seen)
        return self._space.distinct(others, known)[:1]

    def tell(
        self, rows: IntArray, objectives: FloatArray, violations: FloatArray, failed: BoolArray
    ) -> None:
        """Keep the results; they are sent with the next proposal."""
        super().tell(rows, objectives, violations, failed)
        keys = self._space.space.keys(rows)
        for i, key in enumerate(keys.tolist()):
            values = None if failed[i] else objectives[i].tolist()
            excess = [] if failed[i] else violations[i].tolist()
            record = self._record(rows[i], values, excess)
            self._records.append(record)
            self._by_key[key] = record

    def _record(
        self, row: IntArray, objectives: list[float] | None, violations: list[float]
    ) -> dict[str, Any]:
        bins = np.maximum(row - self._first, 0).tolist()
        return {"bins": bins, "objectives": objectives, "violations": violations}


class _PeerProcess:
    """A process that runs ``peer_worker.py``; started at the first proposal.

    Args:
        setup: What does not change between proposals.
    """

    def __init__(self, setup: dict[str, Any]) -> None:
        self._setup = setup
        self._process: subprocess.Popen[str] | None = None
        self._log: IO[bytes] | None = None

    def propose(
        self, records: list[dict[str, Any]], rejected: list[dict[str, Any]], seed: int
    ) -> list[int]:
        """The bins of the next proposal.

        Raises:
            MissingExtraError: The library is not installed there.
            InputError: The interpreter cannot be started.
            JobError: The process died, or the method raised.
        """
        process = self._started()
        request = {**self._setup, "told": records, "rejected": rejected, "seed": seed}
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise JobError(
                f"peer {self._setup['method']!r}: its process ended: {self._last_word()}"
            )
        reply = json.loads(line)
        if "missing" in reply:
            library = str(reply["missing"])
            feature = f"peer {self._setup['method']!r} (library {library!r} in {PYTHON})"
            raise MissingExtraError(feature, _EXTRAS.get(library, "peers"))
        if "error" in reply:
            raise JobError(f"peer {self._setup['method']!r}: {reply['error']}")
        bins: list[int] = reply["bins"]
        return bins

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
            interpreter = os.environ.get(PYTHON) or sys.executable
            try:
                self._process = subprocess.Popen(
                    [interpreter, "-P", str(_SCRIPT)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=self._log,
                    text=True,
                    env={**os.environ, **ONE_THREAD},
                )
            except OSError as error:
                self._log.close()
                text = f"cannot be started: {interpreter}: {error.strerror}"
                raise InputError(text, PYTHON) from error
            weakref.finalize(self, _end, self._process, self._log)
        return self._process

    def _last_word(self) -> str:
        assert self._log is not None
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "without a word"


def _end(process: subprocess.Popen[str], log: IO[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, log):
        if pipe is not None:
            pipe.close()
