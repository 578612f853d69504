"""Observations of a campaign, and their places in the runs.

A run is one optimizer with one seed. Its observations are numbered by steps 0, 1, 2, ... in the
order they were asked for; those asked for together, at one state of the optimizer, form a batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from codesign.base.columns import FloatArray, IntArray, IntegerMap, JsonObject, StringTuple
from codesign.base.errors import JobError
from codesign.base.failures import Failure
from codesign.base.metrics import Sense, flipped, flipped_columns
from codesign.base.records import frozen
from codesign.search.observations import Observations

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


State = Literal["not started", "running", "stopped", "complete", "exhausted"]
"""``stopped``: begun, to be continued. ``exhausted``: no further design existed."""


@frozen
class RunStatus:
    """Progress of a run.

    Attributes:
        done: Designs evaluated.
        feasible: Of those, within every limit.
        failures: Number of those without a result by kind: failed, timeout, bad-output, lost.
        hypervolume: After the last design.
        seconds: Wall time spent.
    """

    run: Run
    state: State
    done: int = 0
    feasible: int = 0
    hypervolume: float = 0.0
    seconds: float = 0.0
    failures: IntegerMap = field(default_factory=dict)

    @property
    def failed(self) -> int:
        """Designs without a result."""
        return sum(self.failures.values())

    @property
    def has_ended(self) -> bool:
        """True if the run is complete, or no further design existed."""
        return self.state in ("complete", "exhausted")


@frozen
class Layout:
    """Numbers of an observation that the store keeps, in their order, with the objectives marked.

    Attributes:
        metrics: Names of the first columns.
        violations: Names of the columns after them.
        objectives: Metrics that are objectives, in the problem's order.
    """

    metrics: StringTuple
    violations: StringTuple
    objectives: StringTuple
    senses: tuple[Sense, ...]

    @property
    def width(self) -> int:
        """Numbers per observation."""
        return len(self.metrics) + len(self.violations)

    def numbers_of(self, observations: Observations) -> FloatArray:
        """(n, width) metrics and violations, as they are stored.

        Raises:
            JobError: The evaluator reports other limits than it did before the first run.
        """
        unexpected = set(observations.violation_names) - set(self.violations)
        absent = set(self.violations) - set(observations.violation_names)
        if unexpected or (absent and not observations.failed.all()):
            raise JobError(
                f"the evaluator reported the limits {sorted(observations.violation_names)}, "
                f"but expected {sorted(self.violations)} as before"
            )
        metrics = [observations.metrics[name] for name in self.metrics]
        return np.column_stack([*metrics, observations.limited_to(self.violations).violations])

    def observations_of(
        self, rows: IntArray, numbers: FloatArray, failures: Mapping[int, Failure]
    ) -> Observations:
        """The inverse of :meth:`numbers_of`."""
        columns = [self.metrics.index(name) for name in self.objectives]
        return Observations(
            rows,
            flipped_columns(numbers[:, columns], self.senses),
            numbers[:, len(self.metrics) :],
            self.violations,
            dict(zip(self.metrics, numbers.T, strict=False)),
            failures,
        )

    def recorded(self, observations: Observations) -> Observations:
        """The same as the store gives it back, so that a run that goes on is told the same."""
        numbers = self.numbers_of(observations)
        return self.observations_of(observations.rows, numbers, observations.failures)

    def document(self) -> JsonObject:
        """Plain values, for the store."""
        return {
            "metrics": list(self.metrics),
            "violations": list(self.violations),
            "objectives": list(self.objectives),
            "signs": [flipped(1.0, sense) for sense in self.senses],
        }

    @classmethod
    def read(cls, data: Mapping[str, Sequence[Any]]) -> Layout:
        """The inverse of :meth:`document`."""
        metrics, violations, objectives = (
            tuple(data[key]) for key in ("metrics", "violations", "objectives")
        )
        senses: Iterable[Sense] = ("minimize" if x > 0 else "maximize" for x in data["signs"])
        return cls(metrics, violations, objectives, tuple(senses))


@frozen
class ObservationBatch:
    """``k`` observations of one run that become durable together.

    Attributes:
        run: Index of the run.
        batch: Number of the batch within the run.
        first_step: Step of the first observation.
        hypervolume: (k,) hypervolume of the run up to and including each observation.
        ask_seconds: Wall time of the optimizer.
        evaluate_seconds: Wall time of the evaluator.
    """

    run: int
    batch: int
    first_step: int
    observations: Observations
    hypervolume: FloatArray
    ask_seconds: float = 0.0
    evaluate_seconds: float = 0.0

    def __len__(self) -> int:
        return len(self.observations)


@frozen
class StoredObservations:
    """Observations of one run or of several, in the order of their runs and steps.

    Attributes:
        run: (n,) index of the run.
        step: (n,) number of the observation within the run.
        batch: (n,) number of the batch within the run.
        hypervolume: (n,) hypervolume of the run so far.
    """

    observations: Observations
    run: IntArray
    step: IntArray
    batch: IntArray
    hypervolume: FloatArray

    def __len__(self) -> int:
        return len(self.observations)


@frozen
class ScreenedBatch:
    """``k`` designs as a cheaper evaluator has them; they become durable together.

    Attributes:
        run: Index of the run.
        first: Number of the first of them within the run.
        n_told: (k,) observations that the optimizer knew when it asked.
        observations: With violations of the constraints on metrics alone.
        seconds: Wall time of all, for people: no proposal depends on it.
    """

    run: int
    first: int
    n_told: IntArray
    observations: Observations
    seconds: float


@frozen
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
