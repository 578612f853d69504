"""Trackers: listeners to the results of a campaign, such as clients of an experiment server."""

from __future__ import annotations

import logging
from collections.abc import Callable

from codesign.base.columns import Fields, values_at
from codesign.search.campaign.observations import ObservationBatch, Run
from codesign.search.campaign.results import Results
from codesign.search.problem import Problem

_logger = logging.getLogger(__name__)


class Tracker:
    """Listener to results as they become durable; it is called from the thread that runs them.

    Derive from it and register the class under ``codesign.trackers``. A result that was stored
    before a campaign was interrupted comes once, or not at all; :meth:`end` has all results. A
    tracker that raises an error gets no further calls, and the campaign goes on.

    Args:
        name: Name of the campaign.
        problem: Space, evaluator, objectives and constraints.
    """

    _has_failed = False

    def __init__(self, name: str, problem: Problem) -> None:
        self.name = name
        self.problem = problem

    def result(self, run: Run, step: int, design: Fields, metrics: Fields) -> None:
        """Log one result of a run; metrics of a failed design are NaN."""

    def end(self, results: Results) -> None:
        """Close the log, with all results; an incomplete campaign may be continued."""

    def send_results(self, run: Run, batch: ObservationBatch) -> None:
        """Call :meth:`result` for each result of a durable batch, until an error."""
        observed = batch.observations
        for k, design in enumerate(self.problem.space.decode(observed.rows)):
            metrics = values_at(observed.metrics, k)
            metrics["hypervolume"] = float(batch.hypervolume[k])
            self._call(self.result, run, batch.first_step + k, design, metrics)

    def send_end(self, results: Results) -> None:
        """Call :meth:`end` after a campaign has stopped, unless there was an error."""
        self._call(self.end, results)

    def _call(self, listener: Callable[..., None], *arguments: object) -> None:
        if self._has_failed:
            return
        try:
            listener(*arguments)
        except Exception as error:
            self._has_failed = True
            _logger.warning("%s gets no further results: %r", type(self).__name__, error)
