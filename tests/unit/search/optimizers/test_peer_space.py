"""Rules of a space in the forms that peers' libraries take."""

import numpy as np
import pytest

from codesign.search.optimizers.base import SearchSpace
from codesign.search.optimizers.peer_space import PeerSpace
from codesign.space import parse_space

SPACE = """
parameters:
  family: [solid, hollow, open]
  height: {low: 2, high: 9}
  wall: {low: 1, high: 6, when: family != solid}
  flange: {low: 1, high: 6, when: family == open}
  length: {low: 1, high: 8}
constraints:
  - 2 * wall <= height
  - height + 2 * length <= 20
  - family != open or length != height
  - length * height >= 3
"""


@pytest.fixture
def search():
    space = parse_space(SPACE, {}, "beams.yaml")
    return SearchSpace(space, space.contains)


def test_conditions_name_the_parameter_and_its_levels(search):
    assert PeerSpace.read(search).conditions == [None, None, (0, [1, 2]), (0, [2]), None]


def test_linear_constraints_and_forbidden_combinations_are_those_of_the_space(search):
    space = search.space
    box = PeerSpace.read(search)
    ((coefficients, bound),) = box.linear
    designs = space.rows_near(np.random.default_rng(0).random((400, 5)))
    limits = space.violations(designs)
    assert np.array_equal(designs @ coefficients <= bound, limits["height + 2 * length <= 20"] <= 0)
    is_forbidden = np.array(
        [
            any(all(design[i] == level for i, level in rule) for rule in box.forbidden)
            for design in designs
        ]
    )
    assert np.array_equal(~is_forbidden, np.max([*limits.values()], axis=0) <= 0)
    assert 0.1 < is_forbidden.mean() < 0.9


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("smac-parego", []),
        ("ax", ["existence of wall", "2 * wall <= height", "family != open or length != height",
                "length * height >= 3"]),
        ("optuna-tpe", ["2 * wall <= height", "height + 2 * length <= 20",
                        "family != open or length != height", "length * height >= 3"]),
    ],
)  # fmt: skip
def test_rules_that_a_library_cannot_be_told_are_listed(search, method, expected):
    assert PeerSpace.read(search).unexpressed(method) == expected


def test_a_library_is_told_no_rule_that_it_does_not_take(search):
    told = PeerSpace.read(search).expressed("ax")
    assert told["conditions"] == [None, None, None, (0, [2]), None]
    assert len(told["linear"]) == 1 and not told["forbidden"]
    told = PeerSpace.read(search).expressed("pymoo-nsga3")
    assert not any(told["conditions"]) and not told["linear"] and not told["forbidden"]


def test_limits_that_are_known_before_evaluation_are_a_rule_of_their_own(search):
    space = search.space
    limited = SearchSpace(space, lambda rows: space.contains(rows) & (rows[:, 4] < 4))
    assert "limits before evaluation" in PeerSpace.read(limited).unexpressed("smac-parego")
