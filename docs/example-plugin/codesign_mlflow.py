"""Results in MLflow: ``pip install mlflow-skinny``, then ``codesign run NAME --track mlflow``."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

from codesign.search.campaign import Results, Run, Tracker
from codesign.search.problem import Problem


class MlflowTracker(Tracker):
    """An experiment for the campaign, with an MLflow run for each optimizer and seed.

    A step has the metrics of one design; the design itself is the file ``designs/STEP.json``.
    """

    def __init__(self, name: str, problem: Problem) -> None:
        import mlflow

        super().__init__(name, problem)
        self._experiment = mlflow.set_experiment(name).experiment_id
        self._client = mlflow.MlflowClient()
        self._runs: dict[Run, str] = {}

    def result(
        self, run: Run, step: int, design: Mapping[str, Any], metrics: Mapping[str, Any]
    ) -> None:
        """Log the metrics and the design of one step."""
        from mlflow.entities import Metric

        if run not in self._runs:
            created = self._client.create_run(self._experiment, run_name=str(run))
            self._runs[run] = created.info.run_id
        now = int(1000 * time.time())
        logged = [
            Metric(name, value, now, step)
            for name, value in metrics.items()
            if math.isfinite(value)
        ]
        self._client.log_batch(self._runs[run], metrics=logged)
        self._client.log_dict(self._runs[run], dict(design), f"designs/{step}.json")

    def end(self, results: Results) -> None:
        """Close the runs."""
        for name in self._runs.values():
            self._client.set_terminated(name)
