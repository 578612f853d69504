"""Summary of a campaign's results: per optimizer, and the way there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from codesign.base.columns import ArrayList, FloatArray, IntArray, IntegerList, StringList
from codesign.base.records import frozen

if TYPE_CHECKING:
    from codesign.search.campaign import Results


@frozen
class OptimizerSummary:
    """One optimizer over its seeds.

    Attributes:
        n_runs: Seeds with at least one observation.
        n_evaluated: Observations over all seeds.
        n_feasible: Of those, within every limit.
        n_failed: Of those, without a result, and not refused as infeasible.
        hypervolume_mean: Mean over the seeds of the hypervolume after their last observation.
        hypervolume_std: Sample standard deviation over the seeds; None with a single seed.
    """

    optimizer: str
    n_runs: int
    n_evaluated: int
    n_feasible: int
    n_failed: int
    hypervolume_mean: float
    hypervolume_std: float | None


@frozen
class Convergence:
    """Hypervolume against evaluations of one optimizer.

    Attributes:
        evaluations: (k,) how many designs were evaluated.
        mean: (k,) over the seeds.
        std: (k,) sample standard deviation over the seeds; 0 with a single seed.
        seeds: (r, k) of each seed.
    """

    evaluations: IntArray
    mean: FloatArray
    std: FloatArray
    seeds: FloatArray

    @property
    def n_runs(self) -> int:
        """Number of seeds."""
        return len(self.seeds)


def optimizer_names(results: Results) -> StringList:
    """The optimizers in the order of the definition; none where nothing was searched."""
    if results.is_enumerated:
        return []
    return list(dict.fromkeys(run.optimizer for run in results.runs))


def summarize(results: Results) -> list[OptimizerSummary]:
    """One record per optimizer, the largest mean hypervolume first."""
    records = [_summarize_one(results, name) for name in optimizer_names(results)]
    return sorted(records, key=lambda record: -record.hypervolume_mean)


def _summarize_one(results: Results, optimizer: str) -> OptimizerSummary:
    curves = _curves(results, optimizer)
    last = np.array([curve[-1] for curve in curves])
    ours = np.isin(results.run_index, _runs_of(results, optimizer))
    return OptimizerSummary(
        optimizer=optimizer,
        n_runs=len(curves),
        n_evaluated=int(ours.sum()),
        n_feasible=int((ours & results.feasible).sum()),
        n_failed=int((ours & results.broke).sum()),
        hypervolume_mean=float(last.mean()) if len(last) else 0.0,
        hypervolume_std=float(last.std(ddof=1)) if len(last) > 1 else None,
    )


def convergence(results: Results, optimizer: str, most_points: int = 1000) -> Convergence:
    """Hypervolume over the seeds, as far as every seed that began has come.

    Args:
        most_points: Longer curves are thinned, evenly; the first and last stay.
    """
    curves = _curves(results, optimizer)
    length = min(map(len, curves), default=0)
    positions = np.unique(np.linspace(0, max(length - 1, 0), most_points).round().astype(np.int64))
    positions = positions[:length]
    values = np.array([curve[positions] for curve in curves]).reshape(len(curves), len(positions))
    return Convergence(
        evaluations=positions + 1,
        mean=values.mean(axis=0) if len(curves) else np.empty(0),
        std=values.std(axis=0, ddof=1) if len(curves) > 1 else np.zeros(len(positions)),
        seeds=values,
    )


def _runs_of(results: Results, optimizer: str) -> IntegerList:
    return [index for index, run in enumerate(results.runs) if run.optimizer == optimizer]


def _curves(results: Results, optimizer: str) -> ArrayList:
    """Hypervolume by step of each run that has observations (results are in that order)."""
    curves = []
    for index in _runs_of(results, optimizer):
        positions = np.flatnonzero(results.run_index == index)
        if len(positions):
            curves.append(results.hypervolume[positions])
    return curves
