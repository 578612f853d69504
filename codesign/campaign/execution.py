"""Which way a campaign's runs are done: here, in processes, on an executor, several in flight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from codesign.campaign.asynchronous import Farm, execute_in_flight
from codesign.campaign.definition import ResolvedDefinition
from codesign.campaign.evaluation import evaluation, is_isolated, screening_evaluation
from codesign.campaign.execution_settings import Execution
from codesign.campaign.executor import Recorder, WorkerSetup, execute_here, execute_in_processes
from codesign.campaign.loop import Plan
from codesign.campaign.observations import Layout
from codesign.campaign.slices import execute_slices
from codesign.campaign.tasks import Site, evaluate_designs, leave_workplaces
from codesign.columns import FloatArray
from codesign.execution.executors import LOCAL, THREADS, open_executor

_RETRIES = 2
"""Further attempts at a design whose worker died, if the campaign sets none."""


@dataclass(frozen=True)
class Job:
    """The runs that a campaign still lacks, and all that doing them needs.

    Attributes:
        resolved: The campaign.
        folder: Of the campaign.
        layout: Names of the recorded numbers.
        reference: (m,) reference point, minimized.
        pending: Indices of the runs.
    """

    resolved: ResolvedDefinition
    folder: Path
    layout: Layout
    reference: FloatArray
    pending: Sequence[int]

    def do(self, recorder: Recorder, workers: int) -> None:
        """Do the runs.

        Args:
            recorder: Stores what comes of them.
            workers: Processes, or places of an executor.

        Raises:
            InputError: The executor cannot be used, or the campaign changed meanwhile.
            JobError: A run failed; the others were done.
        """
        # What was in flight when the campaign stopped is evaluated first, whatever is set now.
        execution = self._execution
        was_in_flight = any(recorder.proposals(run) for run in self.pending)
        is_slow = self._is_slow or self.resolved.screening is not None
        if execution.in_flight > 1 or was_in_flight or is_slow:
            self._do_in_flight(recorder, workers)
        elif execution.executor is not None:
            self._do_in_slices(recorder, workers)
        elif min(workers, len(self.pending)) <= 1:
            with evaluation(self.resolved, self.folder) as evaluate:
                plan = Plan(self.resolved, self.layout, self.reference, evaluate)
                execute_here(plan, self.pending, recorder)
        else:
            setup = WorkerSetup(
                self.resolved.path,
                self.resolved.identity(),
                execution,
                self.layout,
                self.reference,
                self.folder,
            )
            runs = self.resolved.definition.runs
            execute_in_processes(setup, runs, self.pending, recorder, workers)

    @property
    def _execution(self) -> Execution:
        return self.resolved.definition.execution

    @property
    def _is_slow(self) -> bool:
        """Whether every observation is to be stored as it ends, even if that costs time."""
        module = type(self.resolved.problem.evaluator).__module__
        return self._execution.guard_limits.is_set or module.startswith(
            "codesign.evaluators.command"
        )

    def _do_in_flight(self, recorder: Recorder, workers: int) -> None:
        execution = self._execution
        in_flight = execution.in_flight
        runs = max(workers // in_flight, 1)
        # A guarded evaluation is a process already; another around it would only cost memory.
        default = THREADS if is_isolated(self.resolved) else LOCAL
        executor = open_executor(execution.executor or default, runs * in_flight)
        retries = execution.guard_limits.retries
        farm = Farm(
            executor,
            partial(evaluate_designs, Site.of(self.resolved, self.folder)),
            in_flight,
            runs,
            _RETRIES if retries is None else retries,
            names_slow=execution.executor not in (None, LOCAL, THREADS)
            and execution.guard_limits.timeout_s is None,
        )
        try:
            with screening_evaluation(self.resolved, self.folder) as screen:
                evaluate = self.resolved.problem.evaluate
                plan = Plan(self.resolved, self.layout, self.reference, evaluate, screen)
                execute_in_flight(plan, self.pending, recorder, farm)
        finally:
            leave_workplaces()  # first: a thread waits for its design, which may never end
            executor.shutdown(wait=True, cancel_futures=True)

    def _do_in_slices(self, recorder: Recorder, workers: int) -> None:
        site = Site.of(self.resolved, self.folder)
        executor = open_executor(self._execution.executor or LOCAL, workers)
        try:
            execute_slices(
                site, self.layout, self.reference, self.pending, recorder, executor, workers
            )
        finally:
            leave_workplaces()
            executor.shutdown(wait=True, cancel_futures=True)
