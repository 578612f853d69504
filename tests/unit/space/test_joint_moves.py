"""Moves in spaces whose constraints let no parameter move alone."""

import numpy as np
import pytest

from codesign.space import parse_space

FIXED_SUM = """
parameters:
  a: {low: 0, high: 6}
  b: {low: 0, high: 6}
  c: {low: 0, high: 6}
  d: {low: 0, high: 6}
constraints:
  - a + b + c + d == 12
"""
ALL_DIFFERENT = """
parameters:
  a: [p, q, r, s]
  b: [p, q, r, s]
  c: [p, q, r, s]
  d: [p, q, r, s]
constraints:
  - a != b
  - a != c
  - a != d
  - b != c
  - b != d
  - c != d
"""
FIXED_PRODUCT = """
parameters:
  tensor: {values: [1, 2, 4, 8, 16], scale: log}
  pipeline: {values: [1, 2, 4, 8, 16], scale: log}
  data: {values: [1, 2, 4, 8, 16], scale: log}
constraints:
  - tensor * pipeline * data == 16
"""
TWO_SUMS = """
parameters:
  a: {low: 0, high: 4}
  b: {low: 0, high: 4}
  c: {low: 0, high: 4}
  d: {low: 0, high: 4}
constraints:
  - a + b + c + d == 8
  - a + 2 * b + 3 * c + 4 * d == 20
"""


@pytest.mark.parametrize("text", [FIXED_SUM, ALL_DIFFERENT, FIXED_PRODUCT])
def test_where_no_parameter_moves_alone_neighbors_are_all_designs_that_differ_in_two(text):
    space = parse_space(text)
    designs = space.rows(np.arange(space.size))
    for row in designs[:: max(space.size // 20, 1)]:
        expected = designs[(designs != row).sum(axis=1) == 2]
        assert np.array_equal(space.neighbors(row), np.unique(expected, axis=0))


def test_two_equations_are_kept_by_moves_of_three():
    space = parse_space(TWO_SUMS)
    designs = space.rows(np.arange(space.size))
    for row in designs:
        near, n_changed = space.neighbors(row), (designs != row).sum(axis=1)
        by_three = designs[n_changed == 3]
        assert space.contains(near).all()
        assert {*map(tuple, by_three.tolist())} <= {*map(tuple, near.tolist())}
        assert not (n_changed == 2).any() and len(near)


def test_what_moves_alone_has_no_joint_moves():
    space = parse_space(FIXED_SUM.replace("== 12", "<= 20"))
    row = space.encode({"a": 1, "b": 2, "c": 3, "d": 4})[0]
    assert ((space.neighbors(row) != row).sum(axis=1) == 1).all()
