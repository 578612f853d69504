"""Optimizers in wall time: suggestions that take long pay off where evaluations do.

A run needs ``evaluations x cost + seconds of its suggestions`` of wall time, one design at a time.
The seconds are those that the campaigns measured; the cost of an evaluation is assumed, for the
problems of a comparison stand for evaluators that are slower. Optimizers are compared at the moment
at which the first of a problem and a seed has spent its budget, so nobody's curve is prolonged. The
measured seconds differ from run to run, so nothing here is the same twice.
"""

from __future__ import annotations

import numpy as np

from codesign.base.columns import FloatArray, FloatSequence
from codesign.base.records import frozen
from codesign.insight.comparison.kinds import kind_means
from codesign.insight.comparison.outcome import Outcome, ProblemOutcome, RunOutcome

SCANNED_COSTS_S = np.geomspace(1e-4, 1e4, 161)
"""Seconds per evaluation among which leaders are looked for: 20 per factor of ten. [ours]"""


@frozen
class Lead:
    """Evaluators for which one optimizer is best in equal wall time.

    Attributes:
        from_s: Seconds per evaluation from which on it is best, within a step of the scan.
        to_s: Seconds per evaluation up to which it is.
    """

    optimizer: str
    from_s: float
    to_s: float


@frozen
class RunCost:
    """Cost of the runs of one optimizer, on all problems and seeds.

    Attributes:
        n_runs: Problems times seeds.
        n_evaluated: Designs.
        suggestion_s: Time of the optimizer.
        evaluation_s: Time of the evaluators.
        process_s: Sum of the two: wall time of processes with one thread each.
    """

    optimizer: str
    n_runs: int
    n_evaluated: int
    suggestion_s: float
    evaluation_s: float
    process_s: float


def run_costs(outcome: Outcome) -> tuple[RunCost, ...]:
    """The cost of each optimizer."""
    costs = []
    for label in outcome.labels:
        runs = [run for problem in outcome.problems for run in problem.runs_of(label)]
        suggestion_s = float(sum(run.time.suggestion_seconds.sum() for run in runs))
        evaluation_s = float(sum(run.time.evaluation_seconds for run in runs))
        n_evaluated = sum(run.n_evaluated for run in runs)
        times = (suggestion_s, evaluation_s, suggestion_s + evaluation_s)
        costs.append(RunCost(label, len(runs), n_evaluated, *times))
    return tuple(costs)


def elapsed_seconds(run: RunOutcome, costs_s: FloatArray) -> FloatArray:
    """(costs, n) wall time after each evaluation of a run, by the cost of an evaluation."""
    # Drawing the initial sample is nobody's suggestion, and loads libraries in who comes first.
    suggestion = np.where(run.time.is_chosen, run.time.suggestion_seconds, 0.0)
    evaluations = np.arange(1, len(suggestion) + 1)
    return np.asarray(np.multiply.outer(costs_s, evaluations) + np.cumsum(suggestion))


def share_after(run: RunOutcome, costs_s: FloatArray, seconds: FloatArray) -> FloatArray:
    """(costs,) share of the best hypervolume after (costs,) seconds.

    An evaluation that is under way counts by the part of its time that has passed: else who thinks
    for a moment would always be one evaluation late.
    """
    n = len(run.time.suggestion_seconds)
    times = np.column_stack([np.zeros(len(costs_s)), elapsed_seconds(run, costs_s)])
    shares = np.append(0.0, run.share[:n])
    done = (times <= seconds[:, None]).sum(axis=1) - 1
    following = np.minimum(done + 1, n)
    rows = np.arange(len(costs_s))
    begin = times[rows, done]
    end = times[rows, following]
    fraction = np.where(
        end > begin, (seconds - begin) / np.where(end > begin, end - begin, 1.0), 0.0
    )
    return np.asarray(shares[done] + fraction * (shares[following] - shares[done]))


def equal_time_shares(outcome: Outcome, costs_s: FloatSequence | FloatArray) -> FloatArray:
    """(costs, optimizers) mean share in equal wall time over the kinds of ranked problems."""
    costs = np.asarray(costs_s, np.float64)

    def shares_on(problem: ProblemOutcome) -> FloatArray:
        """(costs, optimizers) mean over the seeds."""
        shares = []
        for runs in zip(*map(problem.runs_of, outcome.labels), strict=True):
            ends = np.min([elapsed_seconds(run, costs)[:, -1] for run in runs], axis=0)
            shares.append([share_after(run, costs, ends) for run in runs])
        return np.asarray(np.mean(shares, axis=0).T)

    return np.asarray(kind_means(outcome.ranked, shares_on).mean(axis=0))


def leads(outcome: Outcome) -> tuple[Lead, ...]:
    """Best optimizers by cost of an evaluation, cheapest first."""
    best = equal_time_shares(outcome, SCANNED_COSTS_S).argmax(axis=1)
    starts = np.flatnonzero(np.diff(best, prepend=-1))
    ends = np.append(starts[1:] - 1, len(best) - 1)
    return tuple(
        Lead(outcome.labels[best[a]], float(SCANNED_COSTS_S[a]), float(SCANNED_COSTS_S[b]))
        for a, b in zip(starts.tolist(), ends.tolist(), strict=True)
    )


def shares_over_time(
    outcome: Outcome, optimizer: str, cost_s: float, seconds: FloatArray
) -> FloatArray:
    """(times,) mean share over the kinds of ranked problems after each of (times,) seconds.

    A run that has spent its budget keeps its last share.
    """
    costs = np.full(len(seconds), cost_s)

    def shares_on(problem: ProblemOutcome) -> FloatArray:
        runs = problem.runs_of(optimizer)
        return np.asarray(np.mean([share_after(run, costs, seconds) for run in runs], axis=0))

    return np.asarray(kind_means(outcome.ranked, shares_on).mean(axis=0))
