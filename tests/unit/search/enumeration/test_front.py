"""Archives of fronts against the definition of dominance, written out."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from codesign.search.enumeration.front import MOST_LISTED, Archive, dominated_by
from codesign.search.pareto import non_dominated

# Few distinct values, so that ties and equal points are frequent.
POINTS = st.integers(1, 4).flatmap(
    lambda m: hnp.arrays(
        np.float64, st.tuples(st.integers(1, 60), st.just(m)), elements=st.integers(0, 5).map(float)
    )
)


def dominates(first, second):
    return bool((first <= second).all() and (first < second).any())


def archived(points, numbers=None, weights=None):
    archive = Archive(points.shape[1])
    n = len(points)
    numbers = np.arange(n) if numbers is None else numbers
    archive.add(points, numbers, np.ones(n, dtype=np.int64) if weights is None else weights)
    return archive


def same(first, second):
    return (
        np.array_equal(first.points, second.points)
        and np.array_equal(first.counts, second.counts)
        and all(map(np.array_equal, first.members, second.members))
    )


@given(POINTS)
def test_an_archive_holds_each_non_dominated_point_once_with_all_its_designs(points):
    archive = archived(points)
    expected = {
        tuple(p) for p in points.tolist() if not any(dominates(q, np.array(p)) for q in points)
    }
    assert [tuple(p) for p in archive.points.tolist()] == sorted(expected)
    for point, count, members in zip(archive.points, archive.counts, archive.members, strict=True):
        holders = np.flatnonzero((points == point).all(axis=1))
        assert count == len(holders)
        assert members.tolist() == holders.tolist()


@given(POINTS, st.randoms(use_true_random=False))
def test_the_order_and_the_pieces_in_which_designs_come_do_not_matter(points, random):
    whole = archived(points)
    order = list(range(len(points)))
    random.shuffle(order)
    pieces = Archive(points.shape[1])
    for i in order:
        pieces.add(points[[i]], np.array([i]), np.array([1]))
    assert same(whole, pieces)
    half = len(points) // 2
    joined = Archive(points.shape[1])
    for part in (order[:half], order[half:]):
        joined.merge(archived(points[part], np.array(part, dtype=np.int64)))
    assert same(whole, joined)


@given(POINTS, POINTS)
def test_dominated_by_is_the_definition(front, points):
    m = min(front.shape[1], points.shape[1])
    front, points = np.unique(front[:, :m], axis=0), points[:, :m]
    front = front[non_dominated(front)]
    expected = [any(dominates(f, p) for f in front) for p in points]
    assert dominated_by(front, points).tolist() == expected


def test_a_bound_of_minus_infinity_is_dominated_by_nothing():
    front = np.array([[0.0, 0.0]])
    points = np.array([[-np.inf, 9.0], [9.0, -np.inf], [9.0, 9.0]])
    assert dominated_by(front, points).tolist() == [False, False, True]


def test_a_plateau_is_counted_in_full_and_listed_in_part():
    n = 3 * MOST_LISTED
    archive = archived(np.zeros((n, 2)), np.arange(n)[::-1], np.full(n, 2))
    assert archive.counts.tolist() == [2 * n]
    assert archive.members[0].tolist() == list(range(MOST_LISTED))
