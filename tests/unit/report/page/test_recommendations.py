"""The recommended designs of a page: which they are, how sure, and what is around them."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from codesign import api
from codesign.base.errors import InputError
from codesign.insight.explanation.neighborhood import Reading
from codesign.insight.plateaus import folded_front
from codesign.insight.uncertainty.limits_over_ranges import worst_excess
from codesign.report.chosen import find_chosen
from codesign.report.page.facts import _plain, question_text
from codesign.report.page.recommendations import (
    BANDWIDTH,
    RESIDUAL,
    Judge,
    recommendation_document,
)
from codesign.report.picks import picks_of
from codesign.search.problem_builder import read_constraint


@pytest.fixture(scope="module")
def judged(results):
    plain = api.build_evaluator("npu", results.definition.workload, {"profile": "plain"})
    reading = Reading("plain", "profile plain", replace(results.problem, evaluator=plain))
    slow = api.build_evaluator(
        "npu", results.definition.workload, {"profile": "memexplorer", "offchip_efficiency": 0.4}
    )
    bandwidth = Reading(BANDWIDTH, "less", replace(results.problem, evaluator=slow))
    return recommendation_document(
        results, folded_front(results), Judge([reading, bandwidth], samples=3)
    )


def test_the_ends_are_the_best_of_what_one_chooses_from(results):
    folded = folded_front(results)
    frugal, knee, fastest = picks_of(results, folded)
    kept = folded.positions[folded.kept]
    values = {name: results.metrics[name] for name in ("tdp_watts", "throughput_tokens_per_s")}
    assert values["tdp_watts"][folded.positions[frugal.place]] == values["tdp_watts"][kept].min()
    best = values["throughput_tokens_per_s"][kept].max()
    assert values["throughput_tokens_per_s"][folded.positions[fastest.place]] == best
    assert knee.key == "knee" and knee.place in folded.kept
    assert len({frugal.place, knee.place, fastest.place}) == 3


def test_a_front_of_two_designs_has_no_knee_and_one_of_them_is_recommended(
    results, with_observations
):
    ends = results.front()[[0, -1]]
    only = with_observations(results, feasible=np.isin(np.arange(len(results)), ends))
    picks = picks_of(only, folded_front(only))
    assert [pick.key for pick in picks] == ["frugal", "fastest"]
    assert sum(pick.is_recommended for pick in picks) == 1
    with pytest.raises(InputError, match="a front of 2 designs has no knee"):
        find_chosen(only, "knee")
    place = next(pick.place for pick in picks if pick.is_recommended)
    assert find_chosen(only, "recommended")[0] == f"front {place + 1}"


def test_one_design_is_the_best_and_none_is_none(results, with_observations):
    only = with_observations(results, feasible=np.arange(len(results)) == results.front()[0])
    (best,) = picks_of(only, folded_front(only))
    assert (best.key, best.place) == ("best", 0)
    none = with_observations(results, feasible=np.zeros(len(results), dtype=bool))
    assert picks_of(none, folded_front(none)) == []
    assert recommendation_document(none, folded_front(none), Judge())["picks"] == []


def test_intervals_hold_the_typical_value_and_other_readings_are_told_in_ratios(results, judged):
    folded = folded_front(results)
    for item in judged["picks"]:
        position = folded.positions[item["id"]]
        low, high = item["ranges"]["intervals"]["throughput_tokens_per_s"]
        assert low == high == pytest.approx(results.metrics["throughput_tokens_per_s"][position])
        assert item["ranges"]["samples"] == 3 and 0 <= item["ranges"]["kept"] <= 1
        assert item["ranges"]["beyond"] > 0 or item["ranges"]["kept"] == 1
        verdict, slower = item["verdicts"]
        ratio = slower["ratios"]["throughput_tokens_per_s"]
        assert 0.4 <= ratio <= 1
        ends = [ratio / (1 + RESIDUAL), 1 + RESIDUAL]
        assert item["speeds"] == {"throughput_tokens_per_s": pytest.approx(ends)}
        assert verdict["assumes"].startswith("operands are tiled for the on-chip memory")
        assert verdict["ratios"]["tdp_watts"] == pytest.approx(1.0)
        assert verdict["ratios"]["throughput_tokens_per_s"] > 1  # the other profile is harsher


def _refuse(*_):
    raise InputError("expected one number format")


def test_a_card_says_which_limit_breaks_at_the_worst_ends(results):
    space, npu = results.problem.space, results.problem.evaluator
    folded = folded_front(results)
    rows = results.rows[folded.positions]
    most = float(results.metrics["tdp_watts"][folded.positions].max())
    limit = read_constraint(f"tdp_watts <= {most!r}", space, npu.metrics)  # kept just so, typically
    tight = replace(results.problem, constraints=(limit,))
    other = Reading("other", "other model", SimpleNamespace(deciding_metrics=(), evaluate=_refuse))
    judge = Judge([other], samples=2)
    document = recommendation_document(replace(results, problem=tight), folded, judge)
    assert document["omitted"] == ["other model: expected one number format"]
    ranges = {item["id"]: item["ranges"] for item in document["picks"]}
    worst = worst_excess(tight, rows)
    for place, item in ranges.items():
        assert item["beyond"] == pytest.approx(worst.excess[place])
        assert item["beyond"] <= 0 or item["limit"].startswith("TDP at most ")
    assert any(item["beyond"] > 0 for item in ranges.values())
    assert any(item["beyond"] <= 0 for item in ranges.values())


def test_a_change_is_what_its_evaluation_says(results, judged):
    item = judged["picks"][1]
    position = int(folded_front(results).positions[item["id"]])
    design = results.problem.space.decode(results.rows[[position]])[0]
    change = next(one for one in item["changes"] if one["subject"] == "dataflow")
    spoken = {"weight-stationary": "ws", "output-stationary": "os", "input-stationary": "is"}
    new = spoken[change["words"].split(" → ")[1]]
    row = results.problem.space.encode(
        {k: new if k == "dataflow" else v for k, v in design.items() if v is not None}
    )
    observed = results.problem.evaluate(row)
    for name, share in change["change"].items():
        expected = observed.metrics[name][0] / results.metrics[name][position] - 1
        assert share == pytest.approx(expected, abs=1e-12)
    assert change["feasible"] == bool(observed.feasible[0])


def test_the_question_is_one_sentence(results):
    assert question_text(results) == (
        "Which designs trade throughput against TDP best for Llama-3.3-70B prefill (OSWorld), "
        "TDP at most 700 W?"
    )
    chat = {"share": "70 %", "model": "llama-3-8b", "session": "chat", "batch": 64}
    rag = {"share": 0.3, "model": "qwen3-32b", "session": "rag"}
    assert _plain([chat, rag]) == "of 70 % chat on Llama-3-8B and 30 % RAG on Qwen3-32B"
