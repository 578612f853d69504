"""What a campaign records of its designs, as arrays: the form of the store, the loop and results.

A run is one optimizer with one seed. Its observations are numbered by steps 0, 1, 2, ... in the
order they were asked for; those asked for together, at one state of the optimizer, form a batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from codesign.columns import BoolArray, FloatArray, IntArray
from codesign.evaluators.base import Failure, FailureKind
from codesign.metrics import Sense, flipped, flipped_columns
from codesign.problem import Observations

StatusArray = NDArray[np.int8]
SAMPLE = -1
"""Index of the reference sample where others have that of a run."""


@dataclass(frozen=True, order=True)
class Run:
    """One optimizer with one seed.

    Attributes:
        optimizer: The optimizer's label in the definition.
        seed: Seed of the initial designs and of the optimizer.
    """

    optimizer: str
    seed: int

    def __str__(self) -> str:
        return f"{self.optimizer}, seed {self.seed}"


class Status(IntEnum):
    """How an observation ended; from ``FAILED`` on it has no result.

    A design that the evaluator refused as infeasible has none either, only a reason.
    """

    FEASIBLE = 0
    INFEASIBLE = 1
    FAILED = 2
    TIMEOUT = 3
    BAD_OUTPUT = 4
    LOST = 5

    @property
    def word(self) -> str:
        """As people read it: ``ok``, ``infeasible``, or the kind of the failure."""
        return "ok" if self is Status.FEASIBLE else self.name.lower().replace("_", "-")


def failure_of(status: int, reason: str) -> Failure:
    """The failure behind a stored status from ``FAILED`` on."""
    kinds: dict[str, FailureKind] = {kind: kind for kind in get_args(FailureKind)}
    return Failure(kinds[Status(status).word], reason)


def status_of(observations: Observations) -> StatusArray:
    """(n,) values of :class:`Status`."""
    status = np.where(observations.feasible, Status.FEASIBLE, Status.INFEASIBLE).astype(np.int8)
    for position, failure in observations.failures.items():
        status[position] = Status[failure.kind.upper().replace("-", "_")]
    return status


@dataclass(frozen=True)
class Layout:
    """Which number stands where in a row of ``Table.numbers``, and which are objectives.

    Attributes:
        metrics: Names of the first columns.
        violations: Names of the columns after them.
        objectives: Metrics that are objectives, in the problem's order.
    """

    metrics: tuple[str, ...]
    violations: tuple[str, ...]
    objectives: tuple[str, ...]
    senses: tuple[Sense, ...]

    @property
    def width(self) -> int:
        """Numbers per observation."""
        return len(self.metrics) + len(self.violations)

    def objectives_of(self, numbers: FloatArray) -> FloatArray:
        """(n, m) objectives to minimize; NaN where the observation failed."""
        columns = [self.metrics.index(name) for name in self.objectives]
        return flipped_columns(numbers[:, columns], self.senses)

    def violations_of(self, numbers: FloatArray) -> FloatArray:
        """(n, c) violations; ``<= 0`` is within the limit."""
        return numbers[:, len(self.metrics) :]

    def to_json(self) -> dict[str, Any]:
        """Plain values, for the store."""
        return {
            "metrics": list(self.metrics),
            "violations": list(self.violations),
            "objectives": list(self.objectives),
            "signs": [flipped(1.0, sense) for sense in self.senses],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Sequence[Any]]) -> Layout:
        """The inverse of :meth:`to_json`."""
        metrics, violations, objectives = (
            tuple(data[key]) for key in ("metrics", "violations", "objectives")
        )
        senses: Iterable[Sense] = ("minimize" if x > 0 else "maximize" for x in data["signs"])
        return cls(metrics, violations, objectives, tuple(senses))


@dataclass(frozen=True)
class ObservationBatch:
    """``k`` observations of one run that become durable together.

    Attributes:
        run: Index of the run.
        batch: Number of the batch within the run.
        first_step: Step of the first observation.
        rows: (k, d) designs.
        numbers: (k, width) metrics, then violations, as :class:`Layout` names them.
        status: (k,) values of :class:`Status`.
        reasons: Why an observation failed, by index within the batch.
        hypervolume: (k,) hypervolume of the run up to and including each observation.
        ask_seconds: Wall time of the optimizer.
        evaluate_seconds: Wall time of the evaluator.
    """

    run: int
    batch: int
    first_step: int
    rows: IntArray
    numbers: FloatArray
    status: StatusArray
    reasons: Mapping[int, str]
    hypervolume: FloatArray
    ask_seconds: float
    evaluate_seconds: float

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class ScreenedBatch:
    """``k`` designs as a cheaper evaluator has them; they become durable together.

    Attributes:
        run: Index of the run.
        first: Number of the first of them within the run.
        n_told: (k,) observations that the optimizer knew when it asked.
        rows: (k, d) designs.
        numbers: (k, m + c) objectives, minimized, and violations of the constraints on metrics; NaN
            where the evaluator failed.
        reasons: Why it failed, by index within the batch.
        seconds: Wall time of all, for people: no proposal depends on it.
    """

    run: int
    first: int
    n_told: IntArray
    rows: IntArray
    numbers: FloatArray
    reasons: Mapping[int, str]
    seconds: float

    @property
    def failed(self) -> BoolArray:
        """(k,) designs without a result."""
        mask = np.zeros(len(self.rows), dtype=bool)
        mask[list(self.reasons)] = True
        return mask


@dataclass(frozen=True)
class PendingDesign:
    """A design that a run evaluates beside others: stored before it is evaluated.

    Attributes:
        run: Index of the run.
        number: Of the proposal within the run.
        batch: Number of the batch in which its optimizer was asked for it.
        n_told: Observations that the optimizer knew.
        row: (d,) the design.
    """

    run: int
    number: int
    batch: int
    n_told: int
    row: IntArray


@dataclass(frozen=True)
class Table:
    """Observations in the order of their runs and steps.

    Attributes:
        run: (n,) index of the run.
        step: (n,) number of the observation within the run.
        batch: (n,) number of the batch within the run.
        rows: (n, d) designs.
        numbers: (n, width) as in :class:`ObservationBatch`.
        status: (n,) values of :class:`Status`.
        reasons: Why an observation failed, by index within the table.
        hypervolume: (n,) hypervolume of the run so far.
    """

    run: IntArray
    step: IntArray
    batch: IntArray
    rows: IntArray
    numbers: FloatArray
    status: StatusArray
    reasons: Mapping[int, str]
    hypervolume: FloatArray

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def feasible(self) -> BoolArray:
        """(n,) whether the observation met every constraint."""
        return np.equal(self.status, Status.FEASIBLE)

    @property
    def failed(self) -> BoolArray:
        """(n,) whether the evaluator gave no result."""
        mask = np.greater_equal(self.status, Status.FAILED)
        mask[list(self.reasons)] = True
        return mask

    @classmethod
    def empty(cls, n: int, parameters: int, width: int) -> Table:
        """A table of ``n`` observations to be filled in."""
        return cls(
            np.zeros(n, dtype=np.int64),
            np.zeros(n, dtype=np.int64),
            np.zeros(n, dtype=np.int64),
            np.zeros((n, parameters), dtype=np.int64),
            np.zeros((n, width)),
            np.zeros(n, dtype=np.int8),
            {},
            np.zeros(n),
        )
