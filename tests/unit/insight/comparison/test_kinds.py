"""Kinds of problems as blocks, and intervals that draw kinds, problems and seeds anew."""

from types import SimpleNamespace

import numpy as np
import pytest

from codesign.insight.comparison.bootstrap import pair_intervals, resampled_means
from codesign.insight.comparison.kinds import kind_groups, kind_shares
from codesign.insight.comparison.ranking import rank_optimizers

RNG = 7


def _problem(name, kind, **finals):
    return SimpleNamespace(
        name=name,
        kind=kind,
        final_shares=lambda label: np.array(finals[label]),
        areas=lambda label: np.array(finals[label]) / 2,
    )


@pytest.fixture
def outcome():
    """Three problems of one kind, on which "a" wins, and one each of two others, where "b" does."""
    problems = [_problem(f"p{i}", "many", a=[0.9, 0.8], b=[0.1, 0.2]) for i in range(3)]
    problems += [_problem(f"q{i}", f"single{i}", a=[0.4, 0.4], b=[0.6, 0.6]) for i in range(2)]
    return SimpleNamespace(ranked=tuple(problems), labels=("a", "b"))


def test_a_kind_counts_once_however_many_problems_it_has(outcome):
    assert [len(group) for group in kind_groups(outcome.ranked).values()] == [3, 1, 1]
    means = kind_shares(outcome.ranked, outcome.labels)
    assert means == pytest.approx(np.array([[0.85, 0.15], [0.4, 0.6], [0.4, 0.6]]))
    ranking = rank_optimizers(outcome)
    assert ranking.blocks == ("many", "single0", "single1")
    # By problems "a" would win three of five; by kinds "b" wins two of three.
    assert ranking.mean_ranks == pytest.approx([5 / 3, 4 / 3])
    assert ranking.pairs[0].n_blocks == 3
    assert ranking.pairs[0].a == pytest.approx((1 + 0 + 0) / 3)


def test_what_so_few_kinds_can_prove_is_known_before(outcome):
    ranking = rank_optimizers(outcome)
    assert (ranking.least_p, ranking.least_holm_p) == (0.25, 0.25)
    # Five kinds give 1/16 at least, six give 1/32.
    assert ranking.fewest_blocks == 6


def test_the_difference_of_a_pair_weighs_kinds_equally_and_lies_in_its_interval(outcome):
    (pair,) = pair_intervals(outcome)
    assert pair.share == pytest.approx((0.7 - 0.2 - 0.2) / 3)
    assert pair.area == pytest.approx(pair.share / 2)
    # A draw may have any of the three kinds three times; within "many" only seeds differ.
    assert pair.share_low == pytest.approx(-0.2)
    assert 0.4 < pair.share_high <= 0.8
    assert pair == pair_intervals(outcome)[0]


def test_draws_of_seeds_alone_are_the_ordinary_bootstrap():
    from scipy.stats import bootstrap

    values = np.random.default_rng(RNG).normal(size=40)
    means = resampled_means([[values[:, None]]], 4000, np.random.default_rng(0))[:, 0]
    theirs = bootstrap((values,), np.mean, n_resamples=4000, method="percentile", rng=1)
    assert np.quantile(means, [0.025, 0.975]) == pytest.approx(
        [theirs.confidence_interval.low, theirs.confidence_interval.high], abs=0.03
    )


def test_each_level_adds_its_variance():
    rng = np.random.default_rng(RNG)
    kinds = rng.normal(size=8)
    of_kinds = resampled_means([[np.full((5, 1), kind)] * 3 for kind in kinds], 4000, rng)
    assert of_kinds.std() == pytest.approx(kinds.std() / np.sqrt(8), rel=0.05)
    problems = rng.normal(size=8)
    of_problems = resampled_means([[np.full((5, 1), item) for item in problems]], 4000, rng)
    assert of_problems.std() == pytest.approx(problems.std() / np.sqrt(8), rel=0.05)


def test_a_draw_of_kinds_weighs_them_equally():
    groups = [[np.zeros((2, 1))] * 9, [np.ones((3, 1))]]
    means = resampled_means(groups, 4000, np.random.default_rng(RNG))
    assert np.unique(means.round(12)).tolist() == [0.0, 0.5, 1.0]
    assert means.mean() == pytest.approx(0.5, abs=0.03)
