"""Runs side by side: workers compute, one process writes.

A worker is a fresh Python process with one thread. It builds the problem from the definition,
is given one run at a time with its stored history, sends each batch to the parent and goes on
when the parent says that the batch is durable. Workers never open the store, so whatever kills
one loses nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait

from codesign.base.columns import IntegerSequence, StringList
from codesign.base.errors import JobError
from codesign.base.loop_progress import LoopProgress
from codesign.base.processes import WorkerProcess
from codesign.base.records import frozen
from codesign.search.campaign.loop import Plan, run_batches
from codesign.search.campaign.observations import (
    ObservationBatch,
    Run,
    StoredObservations,
)
from codesign.search.campaign.store import Store
from codesign.search.campaign.tasks import RunSite
from codesign.search.campaign.tracker import Tracker
from codesign.search.execution.guard import Refusal

_ALL = "all evaluations"


@frozen
class Assignment:
    """A run for a worker."""

    run: int
    history: StoredObservations


@frozen
class Durable:
    """The parent's answer to a batch."""


@frozen
class Ended:
    """A worker's last word on a run.

    Attributes:
        run: Index of the run.
        error: Why it stopped early, or None. If it is in the input, no other run can do better.
    """

    run: int
    error: Refusal | None = None


class Recorder:
    """The parent's side of all runs: stores, reports progress, collects failures.

    Args:
        store: Store that is open for writing.
        budget: Observations of a complete run.
        trackers: Receive every durable result.

    Attributes:
        loops: Progress of all runs, and of those of each optimizer by its label.
    """

    def __init__(self, store: Store, budget: int, trackers: Sequence[Tracker] = ()) -> None:
        self.stored = store
        self._budget = budget
        self._trackers = trackers
        self._done = [count.done for count in store.counts()]
        self.failures: StringList = []
        counts = {_ALL: list(self._done)}
        for run, n_done in zip(store.runs, self._done, strict=True):
            counts.setdefault(run.optimizer, []).append(n_done)
        self.loops = {
            name: LoopProgress(name, budget * len(done), sum(done)) for name, done in counts.items()
        }

    def record(self, batches: Sequence[ObservationBatch]) -> None:
        """Make batches durable, and report them."""
        self.store(batches)
        self.note(batches)

    def store(self, batches: Sequence[ObservationBatch]) -> None:
        """Make batches durable; by another thread too, while this one does not use the store."""
        if batches:
            self.stored.append(batches)

    def note(self, batches: Sequence[ObservationBatch]) -> None:
        """Report durable batches."""
        for batch in batches:
            self._done[batch.run] += len(batch)
            run = self.stored.runs[batch.run]
            for name in (_ALL, run.optimizer):
                self.loops[name].advance(len(batch))
            for tracker in self._trackers:
                tracker.send_results(run, batch)

    def end(self, ended: Ended) -> None:
        """Note how a run ended.

        Raises:
            InputError: The user must change something before any run can succeed.
        """
        if ended.error is None:
            is_complete = self._done[ended.run] >= self._budget
            self.stored.end_run(ended.run, "complete" if is_complete else "exhausted")
        elif ended.error.is_input:
            raise ended.error.error()
        else:
            self.failures.append(ended.error.text)

    def finish(self) -> None:
        """Raise what went wrong.

        Raises:
            JobError: One line for each run that failed.
        """
        if self.failures:
            raise JobError("\n".join(self.failures))


def execute_here(plan: Plan, pending: IntegerSequence, recorder: Recorder) -> None:
    """Do the pending runs one after the other in this process.

    Raises:
        JobError: A run failed; the others were done.
    """
    for run in pending:
        try:
            for batch in run_batches(plan, run, recorder.stored.read(run)):
                recorder.record([batch])
        except JobError as error:
            recorder.end(Ended(run, Refusal.describe(error)))
        else:
            recorder.end(Ended(run))
    recorder.finish()


def execute_in_processes(
    site: RunSite,
    pending: IntegerSequence,
    recorder: Recorder,
    workers: int,
) -> None:
    """Do the pending runs in worker processes, in the order given.

    Raises:
        JobError: A run failed or its worker died; the others were done.
    """
    waiting = deque(pending)
    crew: dict[Connection, _Worker] = {}
    try:
        while waiting or crew:
            while waiting and len(crew) < workers:
                worker = _Worker(site)
                crew[worker.connection] = worker
                worker.assign(waiting.popleft(), recorder)
            ready = [crew[connection] for connection in wait(list(crew))]  # type: ignore[index] # only connections were given
            messages = [(worker, worker.next_message(recorder.stored.runs)) for worker in ready]
            # Batches that arrive together share one transaction.
            recorder.record(
                [message for _, message in messages if isinstance(message, ObservationBatch)]
            )
            for worker, message in messages:
                if isinstance(message, ObservationBatch):
                    worker.send(Durable())
                    continue
                recorder.end(message)
                if waiting and worker.is_alive:
                    worker.assign(waiting.popleft(), recorder)
                else:
                    worker.stop()
                    del crew[worker.connection]
    finally:
        for worker in crew.values():
            worker.stop()
    recorder.finish()


class _Worker(WorkerProcess):
    """A process that does one run at a time."""

    def __init__(self, site: RunSite) -> None:
        super().__init__("codesign.search.campaign.campaign_worker")
        self.run = -1
        self.send(site)

    def assign(self, run: int, recorder: Recorder) -> None:
        """Give the worker a run."""
        self.run = run
        self.send(Assignment(run, recorder.stored.read(run)))

    def next_message(self, runs: Sequence[Run]) -> ObservationBatch | Ended:
        """The next message; the worker's death is the failure of its run."""
        try:
            message: ObservationBatch | Ended = self.receive()
        except EOFError:
            text = (
                f"the worker of run {runs[self.run]} {self.death()}; what it had finished is "
                "stored, run again to go on"
            )
            return Ended(self.run, Refusal(text, is_input=False))
        return message
