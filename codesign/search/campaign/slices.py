"""Whole runs on an executor: each is carried on elsewhere, slice after slice, and stored here.

For evaluators that are faster than the way to a worker: what takes the time is the optimizers.
Neither the number of workers nor the length of a slice changes a result.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Executor
from typing import Any

from codesign.base.columns import IntegerSequence
from codesign.search.campaign.executor import Ended, Recorder
from codesign.search.campaign.tasks import RunSite, SliceResult, carry_on
from codesign.search.execution.executors import carried_out

SLICE_S = 10.0
"""Time that may be lost when the worker of a slice dies."""


def execute_slices(
    site: RunSite,
    pending: IntegerSequence,
    recorder: Recorder,
    executor: Executor,
    places: int,
) -> None:
    """Do the pending runs, so many at a time, in the order given.

    Raises:
        ExecutorGoneError: A slice was lost more than twice in a row.
        JobError: A run failed; the others were done.
    """
    waiting = deque(pending)
    n_before = dict[int, int]()

    def arguments(run: int) -> tuple[Any, ...]:
        history = recorder.stored.read(run)
        n_before[run] = len(history)
        return site, run, history, SLICE_S

    def follows(run: int, result: SliceResult) -> bool:
        return (result.run, result.n_before) == (run, n_before[run])

    for run, result in carried_out(executor, carry_on, waiting, arguments, follows, places):
        recorder.record(result.batches)
        if not result.is_over:
            waiting.appendleft(run)
        else:
            recorder.end(Ended(run, result.error))
    recorder.finish()
