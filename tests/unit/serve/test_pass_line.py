"""The time line of one pass ends when the pass does, as the evaluator counts it."""

import itertools

import pytest

import codesign
from codesign.serve.pass_line import pass_line


@pytest.fixture(scope="module", params=["overlapped", "serial"])
def evaluated(request):
    prepared = codesign.prepare(
        model="llama-3.3-70b", workload="osworld", phase="decode", options={"vector": request.param}
    )
    return prepared.explain("D1")


def test_the_last_bar_ends_with_the_pass(evaluated):
    ends = [bar["end_s"] for bar in pass_line(evaluated)]
    assert max(ends) == pytest.approx(evaluated.metrics["time_per_output_token_s"], rel=1e-9)


def test_the_bars_of_a_unit_follow_one_another_and_say_what_bounds_them(evaluated):
    bars = pass_line(evaluated)
    for unit, bounds in (
        ("array and memories", {"compute", "on-chip port", "off-chip"}),
        ("vector unit", {"vector"}),
    ):
        own = [bar for bar in bars if bar["unit"] == unit]
        assert {bar["bound"] for bar in own} <= bounds
        for before, after in itertools.pairwise(own):
            assert after["start_s"] == before["end_s"]


def test_devices_have_one_line_of_all_their_operators():
    prepared = codesign.prepare(
        space="platform-llm", evaluator="platform", model="llama-3.1-405b",
        workload={"prompt_tokens": 1000, "generated_tokens": 10},
    )  # fmt: skip
    evaluated = prepared.explain(next(iter(prepared.problem.space.designs)))
    bars = pass_line(evaluated)
    assert {bar["unit"] for bar in bars} == {"device"}
    assert bars[-1]["end_s"] == pytest.approx(sum(row["time_s"] for row in evaluated.operators))
