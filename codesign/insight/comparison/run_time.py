"""Cost of a run in time, from the wall times that its campaign stored; never the same twice."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from codesign.base.columns import BoolArray, FloatArray
from codesign.base.records import frozen
from codesign.search.campaign import Results
from codesign.search.campaign.store import BatchTiming


@frozen
class RunTime:
    """Wall time of one run, in the single thread of the process that computed it.

    Attributes:
        suggestion_seconds: (n,) the optimizer's for each evaluated design, in their order; the
            designs of one batch have equal parts.
        is_chosen: (n,) whether the optimizer chose the design; it did not choose the initial ones.
        evaluation_seconds: The evaluator's, over all designs.
    """

    suggestion_seconds: FloatArray
    is_chosen: BoolArray
    evaluation_seconds: float

    @property
    def chosen_seconds(self) -> FloatArray:
        """(suggestions,) seconds of each suggestion after the initial designs."""
        return self.suggestion_seconds[self.is_chosen]


def run_time(results: Results, index: int, timings: Sequence[BatchTiming]) -> RunTime:
    """The time of one run.

    Args:
        timings: Of all batches of the campaign.
    """
    batch = results.batch[results.run_index == index]
    of_run = [timing for timing in timings if timing.run == index]
    each = np.zeros(int(batch.max(initial=-1)) + 1)
    for timing in of_run:
        each[timing.batch] = timing.ask_seconds / timing.n_designs
    return RunTime(
        suggestion_seconds=each[batch],
        is_chosen=batch > 0,
        evaluation_seconds=float(sum(timing.evaluate_seconds for timing in of_run)),
    )
