"""Execution of a campaign's runs: here, in processes, on an executor, several in flight."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from codesign.base.columns import FloatArray, IntegerSequence
from codesign.search.campaign.asynchronous import execute_in_flight
from codesign.search.campaign.campaign_definition import ResolvedDefinition
from codesign.search.campaign.executor import (
    Recorder,
    execute_here,
    execute_in_processes,
)
from codesign.search.campaign.farm import Farm
from codesign.search.campaign.guarded_evaluation import (
    evaluation,
    is_isolated,
    screening_evaluation,
)
from codesign.search.campaign.loop import Plan
from codesign.search.campaign.observations import Layout
from codesign.search.campaign.slices import execute_slices
from codesign.search.campaign.tasks import RunSite, Site, evaluate_designs, leave_workplaces
from codesign.search.execution.answers import EvaluateEach
from codesign.search.execution.executors import LOCAL, THREADS, open_executor

_RETRIES = 2
"""Further attempts at a design whose worker died, if the campaign sets none."""


class Job:
    """Evaluations of a campaign: its reference sample, and the runs that it still lacks.

    A context manager: an executor is started when it is first needed, and ends with the block.

    Args:
        workers: Processes, or places of an executor.
    """

    def __init__(self, resolved: ResolvedDefinition, folder: Path, workers: int) -> None:
        self.resolved = resolved
        self.folder = folder
        self._workers = workers
        self._execution = resolved.definition.execution
        self._opened: Executor | None = None

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *error: object) -> None:
        leave_workplaces()  # first: a thread waits for its design, which may never end
        if self._opened is not None:
            self._opened.shutdown(wait=True, cancel_futures=True)

    @contextmanager
    def sample_evaluation(self) -> Iterator[EvaluateEach]:
        """The evaluation of the reference sample of a slow evaluator, where runs are evaluated.

        As many designs at a time as the runs will have.
        """
        problem = self.resolved.problem
        execution = self._execution
        if execution.in_flight > 1 or execution.executor is not None:
            places = None
        else:
            places = min(self._workers, len(self.resolved.definition.runs))
        if places != 1:
            farm = self._farm()
            yield partial(replace(farm, runs=places or farm.runs).evaluate_each, problem)
            leave_workplaces()  # which do not know the sample
            return
        with evaluation(self.resolved, self.folder) as evaluate:
            yield lambda rows: ((i, evaluate(rows[i : i + 1])) for i in range(len(rows)))

    def do(
        self, layout: Layout, reference: FloatArray, pending: IntegerSequence, recorder: Recorder
    ) -> None:
        """Do the runs.

        Args:
            layout: Names of the recorded numbers.
            reference: (m,) reference point, minimized.
            pending: Indices of the runs.
            recorder: Stores what comes of them.

        Raises:
            InputError: The executor cannot be used, or the campaign changed meanwhile.
            JobError: A run failed; the others were done.
        """
        # What was in flight when the campaign stopped is evaluated first, whatever is set now.
        execution = self._execution
        workers = self._workers
        was_in_flight = any(recorder.stored.proposals(run) for run in pending)
        # Of a slow evaluator every observation is stored as it ends, even if that costs time.
        module = type(self.resolved.problem.evaluator).__module__
        is_slow = execution.guard_limits.is_set or self.resolved.screening is not None
        is_slow |= module.startswith("codesign.evaluators.command")
        if execution.in_flight > 1 or was_in_flight or is_slow:
            with screening_evaluation(self.resolved, self.folder) as screen:
                here = self.resolved.problem.evaluate
                plan = Plan(self.resolved, layout, reference, here, screen)
                execute_in_flight(plan, pending, recorder, self._farm())
            return
        if execution.executor is None and min(workers, len(pending)) <= 1:
            with evaluation(self.resolved, self.folder) as evaluate:
                plan = Plan(self.resolved, layout, reference, evaluate)
                execute_here(plan, pending, recorder)
            return
        site = RunSite(Site.describe(self.resolved, self.folder), layout, reference)
        if execution.executor is not None:
            execute_slices(site, pending, recorder, self._executor(workers), workers)
        else:
            execute_in_processes(site, pending, recorder, workers)

    def _executor(self, places: int) -> Executor:
        """The executor, started for so many tasks at a time if it was not before."""
        if self._opened is None:
            # A guarded evaluation is a process already; another around it would only cost memory.
            default = THREADS if is_isolated(self.resolved) else LOCAL
            self._opened = open_executor(self._execution.executor or default, places)
        return self._opened

    def _farm(self) -> Farm:
        execution = self._execution
        in_flight = execution.in_flight
        retries = execution.guard_limits.retries
        runs = max(self._workers // in_flight, 1)
        return Farm(
            self._executor(runs * in_flight),
            partial(evaluate_designs, Site.describe(self.resolved, self.folder)),
            in_flight,
            runs,
            _RETRIES if retries is None else retries,
            names_slow=execution.executor not in (None, LOCAL, THREADS)
            and execution.guard_limits.timeout_s is None,
        )
