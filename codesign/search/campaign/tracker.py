"""Trackers: listeners to the results of a campaign, such as clients of an experiment server."""

from __future__ import annotations

from codesign.base.columns import Fields
from codesign.search.campaign.observations import ObservationBatch, Run
from codesign.search.campaign.results import Results
from codesign.search.problem import Problem


class Tracker:
    """Listener to results as they become durable; it is called from the thread that runs them.

    Derive from it and register the class under ``codesign.trackers``. A result that was stored
    before a campaign was interrupted comes once, or not at all; :meth:`end` has all results.

    Args:
        name: Name of the campaign.
        problem: Space, evaluator, objectives and constraints.
    """

    def __init__(self, name: str, problem: Problem) -> None:
        self.name, self.problem = name, problem

    def result(self, run: Run, step: int, design: Fields, metrics: Fields) -> None:
        """Note one result of a run; metrics of a failed design are NaN."""

    def end(self, results: Results) -> None:
        """Note all results; more follow if the campaign was not complete."""

    def record(self, run: Run, batch: ObservationBatch) -> None:
        """Note each result of a durable batch."""
        observed = batch.observations
        for k, design in enumerate(self.problem.space.decode(observed.rows)):
            metrics = {name: float(values[k]) for name, values in observed.metrics.items()}
            metrics["hypervolume"] = float(batch.hypervolume[k])
            self.result(run, batch.first_step + k, design, metrics)
