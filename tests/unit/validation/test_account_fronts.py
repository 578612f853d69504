"""What of the fronts of accounts holds over all ranges, against listing and drawing."""

from functools import cache

import pytest

from codesign.insight.uncertainty.uncertainty import front_spread
from codesign.search.enumeration import enumerate_front
from validation import account_fronts
from validation.account_fronts import LEVELS, QUESTIONS, AccountFront, AccountQuestion

FIXED = (
    ("pe_array", (2048, 64)), ("vector_length", 1024), ("sram_dies", 1), ("sram_3d_layers", 0),
    ("tier1_stacks", 2), ("dataflow", "ws"), ("tier3_technology", None),
    ("bandwidth_priority", "matrix"),
)  # fmt: skip
FREE, PRICE = (item for item in QUESTIONS if item.label in ("TDP, no account", "price of a unit"))
LIFE = AccountQuestion("a life of a year", FREE.objectives, ("lifetime_years >= 1",))


@cache
def fronts(question: AccountQuestion) -> tuple[AccountFront, ...]:
    return tuple(account_fronts.account_fronts(["decode"], [question], FIXED))


def typical(question: AccountQuestion) -> AccountFront:
    (front,) = (item for item in fronts(question) if item.question.level == "typical")
    return front


@pytest.mark.parametrize("question", [PRICE, LIFE], ids=str)
def test_a_point_stays_if_a_design_of_it_is_on_every_front(question: AccountQuestion) -> None:
    designs, points = {}, {}
    for level in LEVELS:
        problem = account_fronts._problem("decode", question.with_level(level), FIXED)
        front = enumerate_front(problem)
        assert len(front.rows) == front.counts.sum()  # all designs are listed
        designs[level] = list(map(tuple, front.rows.tolist()))
        points[level] = front.point.tolist()
    everywhere = set(designs["low"]) & set(designs["typical"]) & set(designs["high"])
    staying = {
        point
        for row, point in zip(designs["typical"], points["typical"], strict=True)
        if row in everywhere
    }
    assert typical(question).n_staying == len(staying)
    assert 0 < len(staying) < typical(question).n_points
    ends = [front for front in fronts(question) if front.question.level != "typical"]
    assert all(front.n_staying is None and front.n_keeping is None for front in ends)


@pytest.mark.parametrize("question", [PRICE, LIFE], ids=str)
def test_no_more_points_keep_their_limits_than_do_in_every_draw(question: AccountQuestion) -> None:
    problem = account_fronts._problem("decode", question, FIXED)
    front = enumerate_front(problem)
    feasible_share = front_spread(problem, front.rows, (), samples=60).feasible_share
    in_every_draw = set(front.point[feasible_share == 1].tolist())
    n_keeping = typical(question).n_keeping
    assert n_keeping is not None
    # The worst of all corners is worse than what so few draws come near.
    assert 0 < n_keeping <= len(in_every_draw)
    if question is LIFE:
        assert n_keeping < typical(question).n_points


def test_a_long_life_takes_flash_off_the_front() -> None:
    (life,) = (item for item in QUESTIONS if item.label == "TDP, life of 5 years")
    assert "hbf" in typical(FREE).memories and "hbf" not in typical(life).memories


def test_a_range_is_printed_only_where_the_ends_differ() -> None:
    same, different = {"low": 1, "typical": 1, "high": 1}, {"low": 3, "typical": 2, "high": 1}
    assert account_fronts._over_ends(same, ",d") == "1"
    assert account_fronts._over_ends(different, ",d") == "2 (1 to 3)"
