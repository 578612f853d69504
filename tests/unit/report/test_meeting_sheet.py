"""The sheet says how sure a gain is."""

from types import SimpleNamespace

import pytest

from codesign.report.meeting_sheet import _worth


@pytest.mark.parametrize(("exact", "word"), [(True, "+"), (False, "at least +")])
def test_a_gain_that_is_a_lower_bound_is_said_to_be_one(exact, word):
    price = {
        "exact": exact, "metric": "tdp_watts", "of": [{"gain": 30.0, "best": 100.0}]
    }  # fmt: skip
    answer = {
        "picks": [{"is_recommended": True}], "prices": [price], "speed": "throughput_tokens_per_s"
    }  # fmt: skip
    results = SimpleNamespace(problem=SimpleNamespace(metrics=()))
    assert list(_worth(results, answer)) == [f"TDP: {word}30 token/s"]
