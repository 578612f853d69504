"""Evaluations until a share of the exact hypervolume is reached, in the manner of COCO.

Hansen et al. (2021), "COCO: a platform for comparing continuous optimizers in a black-box
setting": a runtime is the number of evaluations until a target is reached, over all problems,
runs and targets; its empirical distribution shows at each budget the share of them that an
optimizer has solved. Unlike there, runs are not restarted, so a distribution ends at the share of
targets that were reached within the budget.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from codesign.base.columns import FloatArray, FloatSequence
from codesign.base.records import frozen
from codesign.insight.comparison.kinds import kind_means
from codesign.insight.comparison.outcome import ProblemOutcome, RunOutcome


@frozen
class TargetRecord:
    """One optimizer and one target over problems and seeds.

    Attributes:
        target: Share of the best hypervolume.
        n_runs: Problems times seeds.
        n_reached: Runs that reached it.
        median: Evaluations that half of the runs needed; None if fewer than half reached it.
        expected: Expected evaluations if a run that fails is started anew (COCO's ERT): all
            evaluations spent before the target over the runs that reached it; None if none did.
    """

    optimizer: str
    target: float
    n_runs: int
    n_reached: int
    median: float | None
    expected: float | None


def runtimes(runs: Sequence[RunOutcome], target: float) -> FloatArray:
    """(runs,) evaluations until the target; infinite where it was not reached."""
    evaluations = [run.evaluations_to[target] for run in runs]
    return np.array([np.inf if value is None else float(value) for value in evaluations])


def solved_share(
    problems: Sequence[ProblemOutcome], optimizer: str, targets: FloatSequence, budget: int
) -> FloatArray:
    """(budget,) share of (problem, seed, target) that are reached after 1, 2, ... evaluations.

    Each kind of problems counts the same, and in it each problem.
    """
    evaluations = np.arange(1, budget + 1)

    def share_on(problem: ProblemOutcome) -> FloatArray:
        times = np.concatenate([runtimes(problem.runs_of(optimizer), target) for target in targets])
        reached = np.searchsorted(np.sort(times), evaluations, side="right")
        return np.asarray(reached / len(times), np.float64)

    return np.asarray(kind_means(problems, share_on).mean(axis=0))


def target_record(
    problems: Sequence[ProblemOutcome], optimizer: str, target: float
) -> TargetRecord:
    """Speed and share with which an optimizer reached one target."""
    runs = [run for problem in problems for run in problem.runs_of(optimizer)]
    times = runtimes(runs, target)
    reached = np.isfinite(times)
    spent = np.where(reached, times, [float(len(run.share)) for run in runs])
    median = float(np.median(times))
    return TargetRecord(
        optimizer=optimizer,
        target=target,
        n_runs=len(runs),
        n_reached=int(reached.sum()),
        median=median if np.isfinite(median) else None,
        expected=float(spent.sum() / reached.sum()) if reached.any() else None,
    )
