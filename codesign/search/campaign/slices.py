"""Whole runs on an executor: each is carried on elsewhere, slice after slice, and stored here.

For evaluators that are faster than the way to a worker: what takes the time is the optimizers.
Neither the number of workers nor the length of a slice changes a result.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait

from codesign.base.columns import FloatArray
from codesign.search.campaign.executor import Ended, Recorder
from codesign.search.campaign.farm import ExecutorGoneError
from codesign.search.campaign.observations import Layout
from codesign.search.campaign.tasks import RunSlice, Site, SliceResult, carry_on
from codesign.search.execution.executors import MisdeliveredError

_LOSSES = 2
"""Losses of one slice in a row after which the executor is given up."""
SLICE_S = 10.0
"""Time that may be lost when the worker of a slice dies."""


def execute_slices(
    site: Site,
    layout: Layout,
    reference: FloatArray,
    pending: Sequence[int],
    recorder: Recorder,
    executor: Executor,
    places: int,
) -> None:
    """Do the pending runs, so many at a time, in the order given.

    Raises:
        ExecutorGoneError: A slice was lost more than twice in a row.
        JobError: A run failed; the others were done.
    """
    waiting, losses = deque(pending), dict.fromkeys(pending, 0)
    slices: dict[Future[SliceResult], RunSlice] = {}
    while waiting or slices:
        while waiting and len(slices) < places:
            run = waiting.popleft()
            run_slice = RunSlice(run, recorder.stored.read(run), layout, reference, SLICE_S)
            try:
                future = executor.submit(carry_on, site, run_slice)
            except Exception as refusal:  # a stranger's executor may fail in any way
                raise ExecutorGoneError(refusal) from refusal
            slices[future] = run_slice
        for future in wait(slices, return_when=FIRST_COMPLETED).done:
            run_slice = slices.pop(future)
            run, error = run_slice.run, _loss(future, run_slice)
            if error is not None:
                losses[run] += 1
                if losses[run] > _LOSSES:
                    raise ExecutorGoneError(error)
                waiting.appendleft(run)
                continue
            losses[run] = 0
            result = future.result()
            recorder.record(result.batches)
            if not result.is_over:
                waiting.appendleft(run)
            else:
                recorder.end(Ended(run, result.error))
    recorder.finish()


def _loss(future: Future[SliceResult], run_slice: RunSlice) -> BaseException | None:
    """Reason for which a finished slice does not continue the stored observations of its run; None
    if it does."""
    error = future.exception()
    if error is None:
        result = future.result()
        if (result.run, result.n_before) == (run_slice.run, len(run_slice.history)):
            return None
        return MisdeliveredError("the executor returned the result of another task")
    return error
