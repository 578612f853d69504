"""The optimizers of a campaign for its page: curves, regret, ranks and tests.

Ranks and tests are those of :mod:`codesign.insight.comparison.ranking` with the seeds as blocks,
on the hypervolume after as many evaluations as every run has come to.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from codesign.insight.comparison.ranking import Ranking, ranking, vargha_delaney
from codesign.insight.summary import convergence, optimizer_names, summarize

if TYPE_CHECKING:
    from codesign.search.campaign import Results

_MOST_POINTS = 400
"""[ours] Of a curve: more than a screen can tell apart."""


def optimizer_document(results: Results) -> dict[str, Any]:
    """Curves by optimizer, a table, and the tests between them."""
    names = optimizer_names(results)
    exact = results.exact_hypervolume
    return {
        "names": names,
        "exact": exact,
        "initial": results.definition.initial,
        "unit": _unit(results),
        "curves": [_curve(results, name, exact) for name in names],
        "table": _table(results, exact),
        "tests": _tests(results),
    }


def _unit(results: Results) -> str:
    units = [objective.metric.unit for objective in results.problem.objectives]
    return " · ".join(units) if all(units) else ""


def _curve(results: Results, name: str, exact: float | None) -> dict[str, Any]:
    curve = convergence(results, name, _MOST_POINTS)
    columns: dict[str, Any] = {
        "evaluations": curve.evaluations,
        "mean": curve.mean,
        "low": np.maximum(curve.mean - curve.std, 0.0),
        "high": curve.mean + curve.std,
        "n_runs": curve.n_runs,
    }
    if exact:
        # Shares of the most that can be reached; rounding may leave one a hair below zero. What
        # is best in hypervolume is least in regret.
        for name, of in (("regret", "mean"), ("regret_low", "high"), ("regret_high", "low")):
            columns[name] = np.maximum(1.0 - columns[of] / exact, 0.0)
    return columns


def _table(results: Results, exact: float | None) -> list[dict[str, Any]]:
    return [
        {
            "optimizer": record.optimizer,
            "n_runs": record.n_runs,
            "n_evaluated": record.n_evaluated,
            "n_feasible": record.n_feasible,
            "n_failed": record.n_failed,
            "mean": record.hypervolume_mean,
            "std": record.hypervolume_std,
            "share": record.hypervolume_mean / exact if exact else None,
        }
        for record in summarize(results)
    ]


def _tests(results: Results) -> dict[str, Any] | None:
    """Ranks over the seeds; None if there is nothing to compare."""
    labels = optimizer_names(results)
    if len(labels) < 2:
        return None
    scores, seeds, evaluations = _scores(results)
    if not len(seeds):
        return None
    effects = np.array([vargha_delaney(a, b) for a, b in combinations(scores.T, 2)])
    seed_ranking = ranking(labels, [str(seed) for seed in seeds], scores, effects)
    return {
        "evaluations": evaluations,
        "n_seeds": len(seeds),
        "ranks": dict(zip(labels, seed_ranking.mean_ranks.tolist(), strict=True)),
        "friedman_p": seed_ranking.friedman_p,
        "least_p": seed_ranking.least_p,
        "pairs": _pairs(seed_ranking),
    }


def _pairs(seed_ranking: Ranking) -> list[dict[str, Any]]:
    return [
        {"first": pair.first, "second": pair.second, "p": pair.p_holm, "a": pair.a}
        for pair in seed_ranking.pairs
    ]


def _scores(results: Results) -> tuple[Any, list[int], int]:
    """(seeds, optimizers) hypervolume of seeds that every optimizer began, at equal evaluations."""
    labels = optimizer_names(results)
    lengths = np.bincount(results.run_index, minlength=len(results.runs))
    starts = np.concatenate([[0], np.cumsum(lengths)])
    by_run = {(run.optimizer, run.seed): i for i, run in enumerate(results.runs)}
    seeds = [
        seed
        for seed in dict.fromkeys(run.seed for run in results.runs)
        if all((label, seed) in by_run and lengths[by_run[label, seed]] for label in labels)
    ]
    indices = np.array([[by_run[label, seed] for label in labels] for seed in seeds], dtype=int)
    if not len(seeds):
        return np.empty((0, len(labels))), [], 0
    n = int(lengths[indices].min())
    return results.hypervolume[starts[indices] + n - 1], seeds, n
