"""Ranks and tests against published examples, closed forms and other programs."""

import numpy as np
import pytest

from codesign.insight.comparison.ranking import (
    friedman,
    holm,
    ranking,
    signed_rank_p,
    vargha_delaney,
)

# Demšar 2006, Table 6: ranks of four variants of C4.5 on 14 data sets.
DEMSAR_RANKS = np.array(
    [
        [4, 3, 2, 1], [1, 2, 3, 4], [4, 1, 2, 3], [4, 1, 3, 2], [4, 2, 3, 1], [1, 2.5, 4, 2.5],
        [3, 2, 4, 1], [2.5, 2.5, 4, 1], [4, 3, 2, 1], [2.5, 2.5, 2.5, 2.5], [4, 2.5, 1, 2.5],
        [3, 2, 4, 1], [4, 1, 2, 3], [3, 1, 4, 2],
    ]
)  # fmt: skip


def test_mean_ranks_and_friedman_are_those_of_demsar():
    labels = ["C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf"]
    found = ranking(labels, [str(i) for i in range(14)], -DEMSAR_RANKS, np.full(6, 0.5))
    # Printed with three decimals.
    assert found.mean_ranks == pytest.approx([3.143, 2.000, 2.893, 1.964], abs=5e-4)
    # He prints 9.28 without the correction for ties: three pairs of equals and one four.
    ties = (3 * (2**3 - 2) + (4**3 - 4)) / (14 * (4**3 - 4))
    assert found.friedman * (1 - ties) == pytest.approx(9.28, abs=0.005)


def test_friedman_is_that_of_r():
    # friedman.test of these two rows of ranks prints 11.733, df = 8, p-value = 0.1635.
    ranks = np.array([[1, 8, 6, 4, 7, 2, 5, 3, 9], [1, 6, 3, 9, 7, 2, 8, 4, 5]], dtype=float)
    statistic, p = friedman(ranks)
    assert statistic == pytest.approx(11.733, abs=5e-4)
    assert p == pytest.approx(0.1635, abs=5e-5)


def test_friedman_says_nothing_of_two_optimizers_of_one_block_or_of_equals():
    assert friedman(np.array([[1.0, 2.0], [1.0, 2.0]])) == (None, None)
    assert friedman(np.array([[1.0, 2.0, 3.0]])) == (None, None)
    assert friedman(np.full((5, 3), 2.0)) == (None, None)


def test_holm_is_that_of_r():
    # p.adjust(c(0.01, 0.02, 0.03, 0.04, 0.05), "holm")
    assert holm([0.01, 0.02, 0.03, 0.04, 0.05]) == pytest.approx([0.05, 0.08, 0.09, 0.09, 0.09])
    # The order of the input does not matter, and nothing exceeds 1.
    assert holm([0.9, 0.01, 0.6]) == pytest.approx([1.0, 0.03, 1.0])


@pytest.mark.parametrize("n", [2, 5, 10])
def test_the_signed_rank_test_of_values_that_all_rise_has_its_least_p(n):
    first = np.arange(n) + np.linspace(0.1, 0.2, n)
    assert signed_rank_p(first, np.arange(n)) == pytest.approx(2.0 ** (1 - n))


def test_equal_values_are_no_evidence():
    assert signed_rank_p(np.ones(6), np.ones(6)) == 1.0
    assert vargha_delaney(np.ones(3), np.ones(4)) == 0.5


def test_vargha_and_delaney_s_a_is_mann_and_whitney_s_u_over_the_pairs():
    from scipy.stats import mannwhitneyu

    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 9, 12).astype(float), rng.integers(2, 11, 9).astype(float)
    expected = mannwhitneyu(first, second).statistic / (12 * 9)
    assert vargha_delaney(first, second) == pytest.approx(expected)
    assert vargha_delaney(np.array([2.0, 3.0]), np.array([0.0, 1.0])) == 1.0


def test_more_is_better_and_ties_share_a_rank():
    found = ranking(
        ["a", "b", "c"], ["x", "y"], np.array([[0.9, 0.5, 0.5], [0.8, 0.7, 0.1]]), np.zeros(3)
    )
    assert found.ranks.tolist() == [[1.0, 2.5, 2.5], [1.0, 2.0, 3.0]]
    assert [(pair.first, pair.second) for pair in found.pairs] == [
        ("a", "b"), ("a", "c"), ("b", "c"),
    ]  # fmt: skip


def test_a_single_block_is_ranked_and_not_tested():
    found = ranking(["a", "b"], ["x"], np.array([[0.9, 0.5]]), np.ones(1))
    assert (found.pairs, found.friedman) == ((), None)
    assert found.mean_ranks.tolist() == [1.0, 2.0]
