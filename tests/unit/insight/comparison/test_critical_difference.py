"""Nemenyi's test against Demšar's tables, and groups worked by hand."""

import numpy as np
import pytest

from codesign.insight.comparison.critical_difference import critical_difference
from codesign.insight.comparison.ranking import ranking
from tests.unit.insight.comparison.test_ranking import DEMSAR_RANKS


def _ranked(scores):
    k = scores.shape[1]
    labels = [chr(ord("a") + i) for i in range(k)]
    blocks = [str(i) for i in range(len(scores))]
    return ranking(labels, blocks, scores, np.zeros(k * (k - 1) // 2))


@pytest.mark.parametrize(
    ("k", "q"), [(2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (8, 3.031), (10, 3.164)]
)
def test_the_quantiles_are_those_of_demsar(k, q):
    # His table 5 (a), alpha 0.05, printed with three decimals.
    nemenyi = critical_difference(_ranked(np.random.default_rng(0).normal(size=(14, k))))
    assert nemenyi.difference / np.sqrt(k * (k + 1) / (6 * 14)) == pytest.approx(q, abs=1.1e-3)


def test_the_example_of_demsar_tells_nobody_apart():
    # He computes 1.25, while the best and the worst differ by 1.179 (section 3.2.4).
    nemenyi = critical_difference(_ranked(-DEMSAR_RANKS))
    assert nemenyi.difference == pytest.approx(1.25, abs=5e-3)
    assert nemenyi.is_rejected
    assert nemenyi.groups == (("d", "b", "c", "a"),)


def test_groups_are_the_largest_and_may_overlap():
    # Ranks 1, 2, 3 and 4 on each of 14 blocks: the difference is 1.25.
    nemenyi = critical_difference(_ranked(np.tile([0.4, 0.3, 0.2, 0.1], (14, 1))))
    assert nemenyi.difference == pytest.approx(1.254, abs=1e-3)
    assert nemenyi.groups == (("a", "b"), ("b", "c"), ("c", "d"))
    # On 30 blocks it is 0.86, and each stands alone.
    alone = critical_difference(_ranked(np.tile([0.4, 0.3, 0.2, 0.1], (30, 1))))
    assert (alone.is_rejected, alone.groups) == (True, ())


def test_without_a_difference_by_friedman_all_are_one_group():
    nemenyi = critical_difference(_ranked(np.array([[0.3, 0.2, 0.1], [0.1, 0.2, 0.3]])))
    assert (nemenyi.is_rejected, nemenyi.groups) == (False, (("a", "b", "c"),))


def test_two_optimizers_need_no_friedman_and_one_block_gives_nothing():
    assert critical_difference(_ranked(np.tile([0.2, 0.1], (10, 1)))).groups == ()
    assert critical_difference(_ranked(np.tile([0.2, 0.1], (3, 1)))).groups == (("a", "b"),)
    assert critical_difference(_ranked(np.array([[0.2, 0.1]]))) is None
