"""Mistakes about keys that flags filled, worded with the flags."""

import math

import pytest

from codesign.base.errors import InputError, Mistake
from codesign.cli.flags import naming, number

FLAGS = {"power_watts": "--power", "capital_cost_usd": "--capital-cost"}


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        (Mistake("only with capital_cost_usd", ("power_watts",)), "--power: only with capital"),
        (
            Mistake("only with capital_cost_usd", ("power_watts",), named=("capital_cost_usd",)),
            "--power: only with --capital-cost",
        ),
        (Mistake("expected 700 W, got 'power_watts'", place="option"), "expected 700 W, got 'p"),
        (Mistake("not given", ("power_watts",), "option", is_missing=True), "expected --power"),
        (Mistake("not given", ("pue",), "option", is_missing=True), "option: pue: not given"),
    ],
)
def test_flags_stand_where_a_mistake_says_that_it_names_keys(mistake, words):
    with pytest.raises(InputError) as caught, naming(FLAGS):
        raise InputError(mistake)
    assert str(caught.value).startswith(words)


@pytest.mark.parametrize(
    ("value", "bounds", "words"),
    [
        (0.0, {"above": 0}, "a rate above 0, got 0"),
        (math.nan, {"above": 0}, "a rate above 0, got nan"),
        (math.inf, {"least": 0}, "a rate from 0, got inf"),
        (1.5, {"above": 0, "most": 1}, "a rate above 0 and at most 1, got 1.5"),
        (3_000_000, {"least": 2, "most": 2000}, "a rate from 2 to 2000, got 3000000"),
    ],
)
def test_a_number_out_of_its_range_is_refused_with_the_range(value, bounds, words):
    with pytest.raises(InputError) as caught:
        number("--rate", value, "a rate", **bounds)
    assert str(caught.value) == f"--rate: expected {words}"


@pytest.mark.parametrize(("value", "bounds"), [(1, {"above": 0, "most": 1}), (0, {"least": 0})])
def test_a_number_in_its_range_is_kept(value, bounds):
    assert number("--rate", value, **bounds) == value
