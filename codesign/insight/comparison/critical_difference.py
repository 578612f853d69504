"""Optimizers whose mean ranks cannot be told apart.

After Demšar (2006), section 3.2.2: Nemenyi's test calls two optimizers different if their mean
ranks differ by the critical difference at least, ``q * sqrt(k * (k + 1) / (6 * n))`` for ``k``
optimizers on ``n`` blocks, where ``q`` is the quantile of the studentized range over the root of
2. It is a test after Friedman's: where that finds no difference, nothing is told apart. The
quantile is the limit for many blocks.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from codesign.base.columns import IntegerPair, StringTuple
from codesign.base.records import frozen
from codesign.insight.comparison.ranking import ALPHA, Ranking


@frozen
class CriticalDifference:
    """Optimizers that belong together.

    Attributes:
        difference: Of mean ranks, from which two optimizers are told apart.
        is_rejected: Whether Friedman's test finds any difference; of two optimizers, which are
            Nemenyi's own case, whether their ranks differ enough.
        groups: Largest groups of optimizers that are not told apart, best first; an optimizer that
            is told from all others is in none.
    """

    difference: float
    is_rejected: bool
    groups: tuple[StringTuple, ...]


def critical_difference(ranking: Ranking) -> CriticalDifference | None:
    """Nemenyi's test at 5 %; None with a single block or a single optimizer."""
    n, k = ranking.ranks.shape
    if n < 2 or k < 2:
        return None
    from scipy.stats import studentized_range

    quantile = float(studentized_range.ppf(1 - ALPHA, k, np.inf)) / sqrt(2)
    difference = quantile * sqrt(k * (k + 1) / (6 * n))
    if k == 2:
        is_rejected = float(np.ptp(ranking.mean_ranks)) >= difference
    else:
        is_rejected = ranking.friedman_p is not None and ranking.friedman_p < ALPHA
    order = np.argsort(ranking.mean_ranks, kind="stable").tolist()
    labels = tuple(ranking.labels[column] for column in order)
    if not is_rejected:
        return CriticalDifference(difference, False, (labels,))
    ranks = np.sort(ranking.mean_ranks).tolist()
    groups: list[IntegerPair] = []
    for start, low in enumerate(ranks):
        end = sum(rank - low < difference for rank in ranks)
        if end - start > 1 and (not groups or end > groups[-1][1]):
            groups.append((start, end))
    return CriticalDifference(difference, True, tuple(labels[a:b] for a, b in groups))
