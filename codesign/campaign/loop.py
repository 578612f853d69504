"""One run: ask, evaluate, tell, until the budget is spent.

A run is a function of the problem, the optimizer, the seed and its own history, so a fresh
process that is told the stored history continues exactly where the killed one stopped.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from codesign.campaign.definition import ResolvedDefinition
from codesign.campaign.observations import Layout, ObservationBatch, Status, Table
from codesign.columns import FloatArray, IntArray
from codesign.errors import CodesignError, JobError
from codesign.optimizers.base import Optimizer, SearchSpace, initial_designs
from codesign.pareto import HypervolumeTracker
from codesign.problem import Observations, Problem


@dataclass(frozen=True)
class Plan:
    """What all runs of a campaign share.

    Attributes:
        resolved: The definition with its problem and optimizers.
        layout: Names of the recorded numbers.
        reference: (m,) reference point, minimized.
    """

    resolved: ResolvedDefinition
    layout: Layout
    reference: FloatArray


def run_batches(plan: Plan, index: int, history: Table) -> Iterator[ObservationBatch]:
    """The batches that a run still lacks.

    The caller stores a batch before it asks for the next. Fewer observations than the budget
    mean that no further design exists.

    Args:
        plan: Of the campaign.
        index: Of the run.
        history: What the store holds of the run.

    Raises:
        JobError: The optimizer raised, or proposed what it must not.
    """
    run = plan.resolved.definition.runs[index]
    try:
        yield from _Search(plan, index, history).batches()
    except CodesignError:
        raise
    except Exception as error:  # a stranger's optimizer may fail in any way
        raise JobError(f"the optimizer of run {run} failed: {_located(error)}") from error


class _Search:
    """The state of one run, all of which follows from its history."""

    def __init__(self, plan: Plan, index: int, history: Table) -> None:
        self._plan, self._index = plan, index
        self._problem: Problem = plan.resolved.problem
        self._run = plan.resolved.definition.runs[index]
        self._space = SearchSpace(
            self._problem.space,
            self._problem.admits,
            self._problem.features,
            self._problem.predictions if self._problem.is_predicted else None,
        )
        configured = plan.resolved.optimizer_of(self._run)
        self._optimizer: Optimizer = configured.build(
            self._space, len(self._problem.objectives), self._run.seed, plan.reference
        )
        self._tracker = HypervolumeTracker(plan.reference)
        self._seen: set[int] = set()
        self._done, self._n_batches = 0, 0
        self._replay(history)

    def batches(self) -> Iterator[ObservationBatch]:
        """Ask, evaluate, tell."""
        while self._done < self._plan.resolved.definition.budget:
            start = time.perf_counter()
            rows = self._ask()
            if not len(rows):
                return
            evaluation_start = time.perf_counter()
            observations = self._problem.evaluate(rows)
            batch = self._recorded(
                observations, evaluation_start - start, time.perf_counter() - evaluation_start
            )
            yield batch
            # Told only now: the batch is durable.
            self._tell(rows, batch.numbers, batch.status == Status.FAILED)

    def _ask(self) -> IntArray:
        definition = self._plan.resolved.definition
        if self._n_batches == 0:
            rows = initial_designs(self._space, definition.initial, self._run.seed)
        else:
            wanted = definition.batch or self._optimizer.preferred_batch
            n = min(wanted, definition.budget - self._done)
            rows = self._optimizer.ask(n)
            self._check(rows, n)
        self._check_new(rows)
        return rows

    def _check(self, rows: IntArray, n: int) -> None:
        d = len(self._problem.space.names)
        if not isinstance(rows, np.ndarray) or rows.dtype.kind != "i" or rows.shape[1:] != (d,):
            raise self._broken(f"asked for up to {n} rows of {d} integers, it gave {rows!r:.80}")
        if len(rows) > n:
            raise self._broken(f"asked for up to {n} designs, it gave {len(rows)}")

    def _check_new(self, rows: IntArray) -> None:
        if not self._problem.admits(rows).all():
            raise self._broken("it proposed a design that is not admissible")
        keys = self._problem.space.keys(rows).tolist()
        before = len(self._seen)
        self._seen.update(keys)
        if len(self._seen) < before + len(keys):
            raise self._broken("it proposed a design twice")

    def _broken(self, breach: str) -> JobError:
        return JobError(f"the optimizer of run {self._run} broke its contract: {breach}")

    def _recorded(
        self, observations: Observations, ask_seconds: float, evaluate_seconds: float
    ) -> ObservationBatch:
        numbers = recorded_numbers(observations, self._plan.layout)
        # From what is recorded, as after a restart.
        objectives = self._plan.layout.objectives_of(numbers)
        feasible = observations.feasible
        status = np.where(feasible, Status.FEASIBLE, Status.INFEASIBLE).astype(np.int8)
        status[observations.failed] = Status.FAILED
        return ObservationBatch(
            run=self._index,
            batch=self._n_batches,
            first_step=self._done,
            rows=observations.rows,
            numbers=numbers,
            status=status,
            reasons=observations.failures,
            hypervolume=self._tracked(objectives, status),
            ask_seconds=ask_seconds,
            evaluate_seconds=evaluate_seconds,
        )

    def _tracked(self, objectives: FloatArray, status: np.ndarray) -> FloatArray:
        feasible = (status == Status.FEASIBLE).tolist()
        return np.array(
            [
                self._tracker.add(point, is_feasible)
                for point, is_feasible in zip(objectives, feasible, strict=True)
            ]
        )

    def _tell(self, rows: IntArray, numbers: FloatArray, failed: np.ndarray) -> None:
        layout = self._plan.layout
        self._optimizer.tell(
            rows, layout.objectives_of(numbers), layout.violations_of(numbers), failed
        )
        self._done += len(rows)
        self._n_batches += 1

    def _replay(self, history: Table) -> None:
        """Tell the stored observations in the batches in which they were made."""
        self._seen.update(self._problem.space.keys(history.rows).tolist())
        objectives = self._plan.layout.objectives_of(history.numbers)
        self._tracked(objectives, history.status)
        bounds = np.flatnonzero(np.diff(history.batch, prepend=-1, append=-1))
        for start, end in pairwise(bounds.tolist()):
            part = slice(start, end)
            self._tell(history.rows[part], history.numbers[part], history.failed[part])


def recorded_numbers(observations: Observations, layout: Layout) -> FloatArray:
    """(n, width) metrics and violations in the layout's order.

    Raises:
        JobError: The evaluator reports other limits than it did before the first run.
    """
    reported = {
        name: observations.violations[:, j] for j, name in enumerate(observations.violation_names)
    }
    unexpected = set(reported) - set(layout.violations)
    absent = set(layout.violations) - set(reported)
    if unexpected or (absent and not observations.failed.all()):
        raise JobError(
            f"the evaluator reported the limits {sorted(reported)}, "
            f"but expected {sorted(layout.violations)} as before"
        )
    nothing = np.full(len(observations.rows), np.nan)
    columns = [observations.metrics[name] for name in layout.metrics]
    columns += [reported.get(name, nothing) for name in layout.violations]
    return np.column_stack(columns)


def _located(error: Exception) -> str:
    """The error and where it was raised, in one line."""
    words = " ".join(str(error).split())
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})" if trace else ""
    return f"{type(error).__name__}: {words}{place}"
