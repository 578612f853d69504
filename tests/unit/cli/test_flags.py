"""Mistakes about keys that flags filled, worded with the flags."""

from __future__ import annotations

import pytest

from codesign.cli.flags import naming
from codesign.errors import InputError, Mistake

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
