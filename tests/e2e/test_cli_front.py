"""``codesign explain`` as a user calls it."""

import io
import json
import os
from contextlib import redirect_stdout
from functools import partial

import numpy as np
import pytest

from codesign.answers.front_explanation import ExplainFrontAnswer
from codesign.answers.json_values import plain_value
from codesign.base.errors import JobError
from codesign.cli import main
from codesign.insight.explanation import Fronts, Variation, explain_front, variation
from codesign.search.campaign import Campaign
from codesign.search.campaign.campaign_definition import load_problem
from codesign.search.campaign.reference import minimized

_CAMPAIGN = """\
space: memexplorer
evaluator: {name: npu, profile: memexplorer}
workload: {model: llama-3.3-70b, trace: osworld, phase: prefill}
objectives: [maximize throughput_tokens_per_s, minimize tdp_watts]
constraints: [tdp_watts <= 300]
fixed: {weight_format: mxint8, activation_format: mxint8, kv_format: mxint8, vector_length: 2048,
        tier2_technology: none, storage_priority: equal, dataflow: ws, bandwidth_priority: equal}
optimizers: [random]
budget: 20
reference_sample: 64
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A working folder with the campaign ``tiny`` and one in which nothing is feasible."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "runs").mkdir()
    (folder / "runs" / "tiny.yaml").write_text(_CAMPAIGN, encoding="utf-8")
    never = _CAMPAIGN.replace("tdp_watts <= 300", "tdp_watts <= 3")
    (folder / "runs" / "never.yaml").write_text(never, encoding="utf-8")
    return folder


def _json(capsys, *arguments):
    assert main(["explain", *arguments, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return json.loads(out)


@pytest.fixture(scope="module")
def explained(folder):
    """The document of ``tiny``, when nothing is kept yet."""
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out):
        patch.chdir(folder)
        assert main(["explain", "tiny", "--json"]) == 0
    return json.loads(out.getvalue())


def test_the_document_tells_choices_absences_prices_and_knees(explained):
    said = explained
    assert said["n_points"] > 0
    technology = next(item for item in said["choices"] if item["parameter"] == "tier technology")
    shares = {item["value"]: item["share"] for item in technology["values"]}
    absent = {(item["parameter"], str(item["value"])): item for item in said["absent"]}
    assert said["n_kept_points"] < said["n_points"] and said["tolerance"] == 0.02
    for value, share in shares.items():
        assert (("tier technology", value) in absent) == (share == 0)
    miss = absent["tier technology", "hbf"]["nearest_miss"]
    assert miss["design"]["tier1_technology"] == "hbf"
    assert miss["regret"] == max(miss["lacks_alone"].values()) > 1
    better, worse = miss["dominated_by"]["objectives"], miss["objectives"]
    assert better["throughput_tokens_per_s"] >= worse["throughput_tokens_per_s"]
    assert better["tdp_watts"] <= worse["tdp_watts"]
    limits = {item["limit"]: item for item in said["limits"]}
    assert set(limits) == {"tdp_watts <= 300", "shoreline <= 66 mm", "capacity"}
    assert limits["shoreline <= 66 mm"]["moved_with"] == ["shoreline"]
    assert limits["tdp_watts <= 300"]["looser"]["limit"] == 315
    assert set(said["unpriced"]) == {"sram_dies + sram_3d_layers >= 1", "levels"}
    assert said["knees"][0]["distance"] > 0


def test_a_second_look_says_the_same_from_what_is_kept(folder, explained, capsys):
    first, second = dict(explained), _json(capsys, "runs/tiny.yaml")
    assert len(list((folder / "runs" / "tiny" / "variations").glob("exact-*.npz"))) > 10
    for said in (first, second):
        del said["seconds"]
    assert first == second


def test_the_terminal_and_the_page_tell_the_same(folder, capsys):
    assert main(["explain", "tiny", "--output", "tiny.md"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    page = " ".join((folder / "tiny.md").read_text(encoding="utf-8").split())
    assert "wrote tiny.md" in out
    for part in (
        "What the designs of the 29 points that are not folded share",
        "tier technology = hbf: regret",
        "Regret of a design: the largest factor",
        "capacity: loosening it by the step changes nothing",
        "shoreline <= 66 mm (with the evaluator's limit shoreline): does not bind",
        "Knees",
    ):
        assert part in out, part
        assert part in page, part


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["tinny"], "Did you mean 'tiny'?"),
        (["tiny", "--step", "0"], "--step: expected a percentage above 0 and below 100, got 0"),
        (["tiny", "--step", "100"], "--step: expected a percentage above 0 and below 100, got 100"),
        (["tiny", "--output", "a.txt"], "--output: expected a file that ends in .md, got 'a.txt'"),
        (["tiny", "--workers", "0"], "--workers"),
    ],
)
def test_what_cannot_be_used_is_said_in_one_line(arguments, said, capsys):
    assert main(["explain", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err and err.count("\n") == 1


def test_a_limit_that_no_design_keeps_is_blamed(capsys):
    assert main(["explain", "never"]) == 1
    assert "break 'tdp_watts <= 3', nearest over by " in capsys.readouterr().err


def test_processes_find_the_same_front_of_a_variation(folder, monkeypatch):
    monkeypatch.setattr(variation, "_WORTH_PROCESSES", 0)
    path = folder / "runs" / "tiny.yaml"
    problem = load_problem(path)
    moved = Variation(slack=(("capacity", 0.05),), constraints=(("tdp_watts <= 300", None),))
    alone = Fronts(problem).find(moved)
    together = Fronts(problem, workers=2, rebuild=partial(load_problem, path)).find(moved)
    np.testing.assert_array_equal(alone.objectives, together.objectives)
    np.testing.assert_array_equal(alone.rows, together.rows)


def test_fronts_found_side_by_side_explain_the_same(folder, monkeypatch):
    path = folder / "runs" / "less.yaml"
    less = _CAMPAIGN.replace("fixed: {", "fixed: {pe_array: [1024, 64], tier3_technology: none, ")
    path.write_text(less, encoding="utf-8")
    campaign = Campaign.load("less")
    front = campaign.exact_front()
    reference = minimized(campaign.problem, campaign.exact_results(front).reference_point)

    def explained(fronts):
        explained = explain_front(fronts, front, reference)
        answer = ExplainFrontAnswer.describe(explained, "tiny", evaluator={})
        return plain_value(answer) | {"seconds": 0.0}

    alone = explained(Fronts(campaign.problem))
    monkeypatch.setattr(variation, "_WORTH_PROCESSES", 0)
    rebuild = partial(load_problem, path)
    together = explained(Fronts(campaign.problem, workers=2, rebuild=rebuild))
    assert json.dumps(together, default=str) == json.dumps(alone, default=str)
    assert alone["n_enumerated"] > 2


def test_a_process_that_is_lost_is_said(folder, monkeypatch):
    monkeypatch.setattr(variation, "_WORTH_PROCESSES", 0)
    problem = load_problem(folder / "runs" / "tiny.yaml")
    fronts = Fronts(problem, workers=2, rebuild=partial(os._exit, 3))
    with fronts.side_by_side(), pytest.raises(JobError, match=r"ended with code 3.*run again"):
        fronts.each(fronts.find, [Variation(), Variation()], "fronts")
