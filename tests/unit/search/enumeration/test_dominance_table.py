"""The bit sets of a front against the definition of dominance, written out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from codesign.search.enumeration import dominance_table
from codesign.search.enumeration.dominance_table import DominanceTable
from codesign.search.enumeration.front import dominated_by
from codesign.search.pareto import non_dominated

# Few distinct values, so that ties and equal points are frequent.
VALUES = st.sampled_from([0.0, 1.0, 2.0, 3.0, -np.inf, np.inf, np.nan])


def drawn_front(m, n, seed):
    """A front drawn by NumPy: Hypothesis would take ten times as long for so many numbers."""
    return np.random.default_rng(seed).integers(0, 5, (n, m)).astype(float)


PAIRS = st.integers(1, 5).flatmap(
    lambda m: st.tuples(
        st.builds(drawn_front, st.just(m), st.integers(1, 90), st.integers(0, 2**32)),
        hnp.arrays(np.float64, st.tuples(st.integers(0, 20), st.just(m)), elements=VALUES),
    )
)


def defined(front, points):
    as_good = (front[None] <= points[:, None]).all(axis=2)
    better = (front[None] < points[:, None]).any(axis=2)
    return (as_good & better).any(axis=1)


@given(PAIRS)
def test_a_table_dominates_by_the_definition(pair):
    front, points = pair
    front = np.unique(front, axis=0)[::-1]  # so that points come before those that dominate them
    points = np.concatenate([points, front])
    assert np.array_equal(DominanceTable(front).dominates(points), defined(front, points))


@pytest.mark.parametrize("piece", [7, 64, 65])
def test_a_front_of_several_pieces_is_all_looked_at(piece, monkeypatch):
    monkeypatch.setattr(dominance_table, "_PIECE", piece)
    monkeypatch.setattr(dominance_table, "_AT_ONCE", 50)
    rng = np.random.default_rng(piece)
    directions = np.abs(rng.normal(size=(400, 5)))
    front = np.round(1.0 - directions / np.linalg.norm(directions, axis=1, keepdims=True), 1)
    front = np.unique(front[non_dominated(front)], axis=0)
    points = np.concatenate([np.round(rng.uniform(0.3, 1.3, (3000, 5)), 1), front])
    expected = defined(front, points)
    assert 0.05 < expected.mean() < 0.95 and len(front) > piece
    table = DominanceTable(front)
    assert np.array_equal(table.dominates(points), expected)
    assert np.array_equal(dominated_by(front, points, table), expected)
    assert np.array_equal(dominated_by(front, points), expected)
