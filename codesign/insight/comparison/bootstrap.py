"""Intervals of differences between optimizers by a bootstrap that keeps what belongs together.

The hierarchical bootstrap of Davison and Hinkley (1997), "Bootstrap methods and their application",
section 3.8: kinds are drawn with replacement, then problems within each drawn kind, then seeds
within each drawn problem; all optimizers of a drawn seed are kept together, as they began with the
same designs. Drawing at every level makes the intervals rather too wide than too narrow, but with
few kinds any bootstrap sees too few of them: below about ten the interval says what these kinds
say. With one kind it is about other problems of this kind only.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from codesign.base.columns import FloatArray
from codesign.base.records import frozen
from codesign.insight.comparison.kinds import kind_groups
from codesign.insight.comparison.outcome import Outcome

LEVEL = 0.95
N_REPLICATES = 4000
"""The ends of a 95 % interval then vary by a tenth of its half width between seeds. [ours]"""
_SEED = 1997


@frozen
class PairInterval:
    """Lead of one optimizer over another, each kind weighed equally.

    Attributes:
        first: Label.
        second: Label.
        share: Mean difference of the final shares of the best hypervolume, first minus second.
        share_low: Lower end of its 95 % interval.
        share_high: Upper end.
        area: Mean difference of the areas under the curves of convergence.
        area_low: Lower end of its 95 % interval.
        area_high: Upper end.
    """

    first: str
    second: str
    share: float
    share_low: float
    share_high: float
    area: float
    area_low: float
    area_high: float


def pair_intervals(outcome: Outcome) -> tuple[PairInterval, ...]:
    """The 95 % percentile interval of every pair over the ranked problems; the same every time."""
    labels = outcome.labels
    values = [
        [
            np.array(
                [[problem.final_shares(label), problem.areas(label)] for label in labels]
            ).transpose(2, 0, 1)
            for problem in group
        ]
        for group in kind_groups(outcome.ranked).values()
    ]
    middle = np.mean(
        [
            np.mean([problem_values.mean(axis=0) for problem_values in group], axis=0)
            for group in values
        ],
        axis=0,
    )
    means = resampled_means(values, N_REPLICATES, np.random.default_rng(_SEED))
    tail = (1 - LEVEL) / 2
    intervals = []
    for i, j in combinations(range(len(labels)), 2):
        low, high = np.quantile(means[:, i] - means[:, j], [tail, 1 - tail], axis=0).tolist()
        share, area = (middle[i] - middle[j]).tolist()
        intervals.append(
            PairInterval(labels[i], labels[j], share, low[0], high[0], area, low[1], high[1])
        )
    return tuple(intervals)


def resampled_means(
    values: Sequence[Sequence[FloatArray]], n_replicates: int, rng: np.random.Generator
) -> FloatArray:
    """(n_replicates, ...) means over drawn kinds of means over drawn problems and seeds.

    Args:
        values: By kind and problem, (seeds, ...) what is averaged.
        n_replicates: How often all is drawn.
        rng: Source of the draws.
    """
    n_problems = np.array([len(group) for group in values])
    first_problem = np.cumsum(n_problems) - n_problems
    problems = [problem_values for group in values for problem_values in group]
    total = np.zeros((n_replicates, *problems[0].shape[1:]))
    for _ in values:
        kind = rng.integers(len(values), size=n_replicates)
        for draw in range(int(n_problems.max())):
            # A kind with fewer problems than this has all its draws.
            drawing = np.flatnonzero(n_problems[kind] > draw)
            of_kind = kind[drawing]
            drawn_problems = first_problem[of_kind] + rng.integers(n_problems[of_kind])
            weight = 1.0 / (n_problems[of_kind] * len(values))
            means = np.empty((len(drawn_problems), *problems[0].shape[1:]))
            for number in np.unique(drawn_problems).tolist():
                rows = np.flatnonzero(drawn_problems == number)
                n_seeds = len(problems[number])
                # How often each seed is drawn says as much as the draws.
                counts = rng.multinomial(n_seeds, np.full(n_seeds, 1 / n_seeds), size=len(rows))
                means[rows] = np.tensordot(counts / n_seeds, problems[number], axes=1)
            total[drawing] += means * weight.reshape(-1, *(1 for _ in means.shape[1:]))
    return total
