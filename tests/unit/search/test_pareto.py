"""What of a front is folded under a cheaper design, and what a few of its points dominate."""

import numpy as np
import pytest

from codesign.search.pareto import fold, greedy_subset, hypervolume, non_dominated


def _points(*pairs):
    """Throughput to maximize against watts to minimize, both to be minimized."""
    return np.array([[-throughput, watts] for throughput, watts in pairs])


def test_what_buys_less_than_the_tolerance_is_folded_under_the_cheaper_one():
    # 101 and 102 are within 2 % of 100; 103 is not, and 105 is within 2 % of that.
    front = _points((105, 50), (103, 40), (102, 30), (101, 20), (100, 10))
    assert fold(front, cost=1).tolist() == [1, 1, 4, 4, 4]
    assert fold(front, cost=1, tolerance=0.005).tolist() == [0, 1, 2, 3, 4]
    assert fold(front, cost=1, tolerance=0.1).tolist() == [4, 4, 4, 4, 4]


def test_folding_never_chains():
    # Each is 1.5 % better than the one before; only neighbors are within 2 %.
    front = _points(*((100 * 1.015**k, 10 + k) for k in range(6)))
    assert fold(front, cost=1).tolist() == [0, 0, 2, 2, 4, 4]


def test_a_design_that_is_hardly_cheaper_and_much_worse_is_not_folded():
    assert fold(_points((2000, 100.1), (1000, 100)), cost=1).tolist() == [0, 1]


def test_every_objective_must_be_nearly_as_good():
    # Throughput, watts, joules: the second is within 2 % in throughput and 5 % better in joules.
    front = np.array([[-100.0, 10.0, 1.0], [-101.0, 11.0, 0.95], [-102.0, 12.0, 0.99]])
    assert fold(front, cost=1).tolist() == [0, 1, 0]


def test_of_several_cheaper_ones_it_is_the_cheapest():
    front = np.array([[-100.0, 10.0, 1.0], [-101.0, 11.0, 0.97], [-101.5, 12.0, 0.985]])
    assert fold(front, cost=1).tolist() == [0, 1, 0]


def test_of_equal_designs_the_first_is_kept_and_with_no_tolerance_all_are():
    front = _points((100, 10), (100, 10), (90, 5), (100, 10))
    assert fold(front, cost=1).tolist() == [0, 0, 2, 0]
    assert fold(front, cost=1, tolerance=0).tolist() == [0, 1, 2, 3]


def test_a_share_of_nothing_is_nothing():
    front = np.array([[0.0, 2.0], [-0.001, 3.0], [1.0, 1.0]])
    assert fold(front, cost=1).tolist() == [0, 1, 2]
    assert fold(np.empty((0, 2)), cost=1).tolist() == []


@pytest.mark.parametrize("m", [1, 2, 3, 4])
@pytest.mark.parametrize("tolerance", [0.001, 0.02, 0.3])
def test_the_laws_of_folding_hold_on_random_fronts(m, tolerance):
    rng = np.random.default_rng(m)
    signs = np.where(np.arange(m) % 2, 1.0, -1.0)
    cost = m - 1
    for _ in range(20):
        natural = np.exp(rng.normal(0.0, 0.1, (300, m)))
        points = (natural * signs)[non_dominated(natural * signs)]
        under = fold(points, cost, tolerance)
        kept = np.flatnonzero(under == np.arange(len(points)))
        assert (under[under] == under).all()
        assert points[:, cost].argmin() in kept
        values, hosts = np.abs(points), np.abs(points[under])
        worse = np.where(signs > 0, hosts / values, values / hosts)  # as a factor, above 1
        assert worse.max() <= (1 + tolerance) * (1 + 1e-12)
        assert (points[under, cost] <= points[:, cost]).all()
        for one in kept:
            for other in kept:
                if points[one, cost] < points[other, cost]:
                    ratio = np.abs(points[one] / points[other])
                    assert np.where(signs > 0, ratio, 1 / ratio).max() > 1 + tolerance


def test_the_order_of_the_designs_decides_nothing():
    rng = np.random.default_rng(5)
    points = np.exp(rng.normal(0.0, 0.05, (400, 3)))
    points = points[non_dominated(points)]
    under = fold(points, 2)
    assert len(np.unique(under)) < len(points)
    for _ in range(5):
        order = rng.permutation(len(points))
        assert (order[fold(points[order], 2)] == under[order]).all()


def test_points_are_picked_in_the_order_of_what_each_adds():
    front = np.array([[0.0, 3.0], [1.0, 1.0], [3.0, 0.0]])
    reference = np.array([4.0, 4.0])
    # By hand: 9 for the middle one, then 1 for either end.
    volumes = [hypervolume(front[greedy_subset(front, reference, n)], reference) for n in range(5)]
    assert volumes == [0, 9, 10, 11, 11]
    assert not len(greedy_subset(front, np.array([0.5, 0.5]), 3))


@pytest.mark.parametrize("m", [2, 3, 4])
def test_what_is_picked_is_what_a_greedy_choice_without_shortcuts_picks(m):
    points = np.random.default_rng(m).random((60, m))
    front, reference = points[non_dominated(points)], np.full(m, 1.1)
    chosen = np.empty((0, m))
    for n in range(6):
        subset = front[greedy_subset(front, reference, n)]
        assert hypervolume(subset, reference) == pytest.approx(
            hypervolume(chosen, reference), abs=1e-12
        )
        volumes = [hypervolume(np.vstack([chosen, point]), reference) for point in front]
        chosen = np.vstack([chosen, front[int(np.argmax(volumes))]])
