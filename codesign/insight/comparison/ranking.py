"""Ranks of optimizers, and tests of whether they are chance.

Ranks and tests follow Demšar (2006), "Statistical comparisons of classifiers over multiple data
sets", JMLR 7. The blocks are the kinds of problems, each with the mean over its problems and their
seeds, because neither seeds nor problems of one kind are independent evidence on other kinds.
Within one problem the seeds are the blocks; all optimizers of a seed start from the same designs.
Friedman's test asks whether any differ; the pairs are tested by Wilcoxon's signed ranks, corrected
by Holm (1979). How much better is told by the A of Vargha and Delaney (2000): the probability that
a run of the first beats one of the second.
"""

from __future__ import annotations

from itertools import combinations
from math import ceil, comb, log2

import numpy as np

from codesign.base.columns import FloatArray, FloatList, FloatSequence, Strings, StringTuple
from codesign.base.records import frozen
from codesign.insight.comparison.kinds import kind_groups, kind_means, kind_shares
from codesign.insight.comparison.outcome import Outcome, ProblemOutcome

ALPHA = 0.05
"""Level of the tests."""
_LEAST_FRIEDMAN = 3
"""Friedman's test is of three treatments or more; two are Wilcoxon's case."""


@frozen
class PairTest:
    """Two optimizers over the same blocks.

    Attributes:
        first: Label.
        second: Label.
        n_blocks: Kinds of problems, or seeds.
        p: Of Wilcoxon's signed-rank test, two-sided; 1 if no block tells them apart.
        p_holm: Corrected for the number of pairs.
        a: Probability that a run of ``first`` ends higher than one of ``second``, ties halved;
            the mean over the problems of a kind, then over the kinds.
    """

    first: str
    second: str
    n_blocks: int
    p: float
    p_holm: float
    a: float


@frozen
class Ranking:
    """Optimizers over blocks.

    Attributes:
        labels: The optimizers.
        blocks: Kinds of problems, or seeds.
        scores: (blocks, optimizers) what is ranked; more is better.
        ranks: (blocks, optimizers) 1 for the best, ties shared.
        friedman: Statistic; None with fewer than 3 optimizers or 2 blocks, or if all tie.
        friedman_p: From the chi-squared distribution, good for about 10 blocks and more.
        pairs: Every pair; empty with a single block.
    """

    labels: StringTuple
    blocks: StringTuple
    scores: FloatArray
    ranks: FloatArray
    friedman: float | None
    friedman_p: float | None
    pairs: tuple[PairTest, ...]

    @property
    def mean_ranks(self) -> FloatArray:
        """(optimizers,) rank averaged over the blocks."""
        mean: FloatArray = self.ranks.mean(axis=0)
        return mean

    @property
    def least_p(self) -> float:
        """The smallest p that Wilcoxon's test of so many pairs can give."""
        return min(1.0, 2.0 ** (1 - len(self.blocks)))

    @property
    def least_holm_p(self) -> float:
        """The smallest p that is left for a pair after Holm's correction."""
        return min(1.0, self._n_pairs * self.least_p)

    @property
    def fewest_blocks(self) -> int:
        """Blocks from which on a pair can be told apart at 5 % after Holm's correction."""
        return ceil(1 + log2(max(self._n_pairs, 1) / ALPHA))

    @property
    def _n_pairs(self) -> int:
        return comb(len(self.labels), 2)


def rank_optimizers(outcome: Outcome) -> Ranking:
    """The optimizers over the kinds of problems, by the mean share of the best hypervolume."""
    problems = outcome.ranked
    labels = outcome.labels
    scores = kind_shares(problems, labels)
    effects = kind_means(problems, lambda problem: np.array(_effects(problem, labels)))
    return ranking(labels, list(kind_groups(problems)), scores, effects.mean(axis=0))


def rank_on(problem: ProblemOutcome, labels: Strings) -> Ranking:
    """The optimizers over the seeds of one problem."""
    scores = np.array([problem.final_shares(label) for label in labels]).T
    return ranking(
        labels, [str(seed) for seed in problem.seeds], scores, np.array(_effects(problem, labels))
    )


def ranking(labels: Strings, blocks: Strings, scores: FloatArray, effects: FloatArray) -> Ranking:
    """Ranks and tests of (blocks, optimizers) scores, more is better.

    Args:
        labels: The optimizers.
        effects: The A of each pair, in the order of ``combinations``.
    """
    from scipy.stats import rankdata

    ranks = rankdata(-scores, axis=1)
    pairs = list(combinations(range(len(labels)), 2)) if len(scores) > 1 else []
    p_values = [signed_rank_p(scores[:, i], scores[:, j]) for i, j in pairs]
    tests = tuple(
        PairTest(labels[i], labels[j], len(scores), p, float(corrected), float(effect))
        for (i, j), p, corrected, effect in zip(
            pairs, p_values, holm(p_values), effects[: len(pairs)], strict=True
        )
    )
    return Ranking(tuple(labels), tuple(blocks), scores, ranks, *friedman(ranks), tests)


def friedman(ranks: FloatArray) -> tuple[float | None, float | None]:
    """Friedman's statistic of (blocks, treatments) ranks and its p, corrected for ties."""
    n, k = ranks.shape
    is_tied = bool((ranks == ranks[:, :1]).all())
    if k < _LEAST_FRIEDMAN or n < 2 or is_tied:
        return None, None
    from scipy.stats import friedmanchisquare

    result = friedmanchisquare(*ranks.T)
    return float(result.statistic), float(result.pvalue)


def signed_rank_p(first: FloatArray, second: FloatArray) -> float:
    """Two-sided p of Wilcoxon's signed-rank test of matched values; 1 if all are equal."""
    difference = first - second
    if not difference.any():
        return 1.0
    from scipy.stats import wilcoxon

    # Exact for few pairs without ties; equal pairs are dropped, as Wilcoxon did.
    return float(wilcoxon(difference, zero_method="wilcox").pvalue)


def holm(p_values: FloatSequence) -> FloatArray:
    """Holm's step-down correction: p times what is left, never below an earlier one, at most 1."""
    p = np.asarray(p_values, np.float64)
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(steps, 1.0)
    return corrected


def vargha_delaney(first: FloatArray, second: FloatArray) -> float:
    """A: probability that a value of ``first`` exceeds one of ``second``, ties counted half."""
    difference = np.subtract.outer(first, second)
    return float((difference > 0).mean() + (difference == 0).mean() / 2)


def _effects(problem: ProblemOutcome, labels: Strings) -> FloatList:
    return [
        vargha_delaney(problem.final_shares(first), problem.final_shares(second))
        for first, second in combinations(labels, 2)
    ]
