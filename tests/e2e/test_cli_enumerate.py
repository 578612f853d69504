"""The exact front from the command line: print, store, find again, export, use as 100 %."""

import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

import codesign
from codesign.cli import main
from codesign.search.campaign.exact_results import joined

_CAMPAIGN = """\
name: {name}
space: memexplorer
evaluator: {{name: npu, profile: memexplorer}}
workload: {{model: llama-3.3-70b, trace: osworld, phase: prefill}}
objectives: [maximize throughput_tokens_per_s, minimize tdp_watts]
constraints: [tdp_watts <= {watts}]
fixed: {{weight_format: mxint8, activation_format: mxint8, kv_format: mxint8{fixed}}}
optimizers: [random]
initial: 4
budget: 12
reference_sample: 32
workers: 1
"""
_SMALL = ", pe_array: [2048, 256], dataflow: ws, tier2_technology: hbf, tier2_stacks: 1, \
bandwidth_priority: equal"


def _write(name, fixed=_SMALL, watts=700):
    text = _CAMPAIGN.format(name=name, fixed=fixed, watts=watts)
    Path("runs", f"{name}.yaml").write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("work")
    (folder / "runs").mkdir()
    return folder


@pytest.fixture(autouse=True)
def _there(folder, monkeypatch):
    monkeypatch.chdir(folder)
    _write("trial")


def _json(capsys, *arguments):
    assert main([*arguments, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return json.loads(out)


def test_the_front_is_the_same_with_one_process_and_with_two(capsys):
    one = _json(capsys, "enumerate", "trial", "--workers", "1", "--folder", "one")
    two = _json(capsys, "enumerate", "trial", "--workers", "2", "--folder", "two")
    assert one.pop("seconds") > 0
    assert two.pop("seconds") > 0
    assert one == two
    settled = one["n_evaluated"] + one["n_repeated"] + one["n_excluded"]
    assert settled == one["n_designs"]
    assert one["n_points"] == len(one["points"])
    assert sum(point["n_designs"] for point in one["points"]) == one["n_front_designs"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Parsl's threads and pipes
def test_the_front_of_a_farm_has_the_same_bytes(folder, capsys):
    pytest.importorskip("parsl")
    (folder / "farm.yaml").write_text("workers_per_node: 2\n")
    flags = ["--workers", "2", "--executor", "parsl:farm.yaml", "--folder", "farm"]
    assert main(["enumerate", "trial", *flags]) == 0
    assert main(["enumerate", "trial", "--workers", "1", "--folder", "here"]) == 0
    capsys.readouterr()
    (ours,), (theirs,) = (
        list((folder / place / "trial").glob("exact-*.npz")) for place in ("here", "farm")
    )
    assert theirs.name == ours.name
    assert theirs.read_bytes() == ours.read_bytes()


def test_its_points_are_what_evaluate_says_of_their_designs(capsys):
    front = _json(capsys, "enumerate", "trial", "--limit", "1", "--output", "front.yaml")
    assert front["files"] == ["front.yaml"]
    assert len(front["points"]) == 1
    again = _json(capsys, "evaluate", "--design-file", "front.yaml", "--design", "front-1")
    for name in ("throughput_tokens_per_s", "tdp_watts"):
        assert again["metrics"][name] == front["points"][0]["metrics"][name]


def test_the_campaign_then_shows_each_optimizers_share_of_it(capsys):
    whole = _json(capsys, "enumerate", "trial")["hypervolume"]
    found = _json(capsys, "run", "trial")
    assert found["exact_hypervolume"] == pytest.approx(whole, rel=1e-12)
    assert 0 < found["optimizers"][0]["hypervolume_mean"] < whole
    assert main(["status", "front", "trial"]) == 0
    shown = capsys.readouterr().out
    assert f"{100 * found['optimizers'][0]['hypervolume_mean'] / whole:.1f} %" in shown


def test_a_table_for_people_and_the_designs_for_the_next_tool(capsys):
    assert main(["enumerate", "trial", "--limit", "2", "--output", "front.csv"]) == 0
    out = capsys.readouterr().out
    assert "Exact front of trial" in out
    assert "not evaluated: same numbers as one that was" in out
    assert "wrote front.csv" in out
    pattern = r"s, TDP ([0-9.]+) W; .*TDP ([0-9.]+) W \(at most 700 W\)\."
    watts, again = re.search(pattern, out, re.DOTALL).groups()
    assert watts == again
    with Path("front.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    front = _json(capsys, "enumerate", "trial")
    assert len(rows) == front["n_front_designs"]
    assert front["evaluated"] == "the exact front, by enumeration"


def test_the_file_has_every_design_that_ties_with_a_point(capsys):
    text = Path("runs/trial.yaml").read_text(encoding="utf-8")
    # The accuracy is no objective, so formats of equal width have equal numbers.
    text = text.replace("weight_format: mxint8, ", "").replace(
        _SMALL, ", tier2_technology: none, vector_length: 2048, pe_array: [2048, 256], dataflow: ws"
    )
    Path("runs/tied.yaml").write_text(text.replace("name: trial", "name: tied"), encoding="utf-8")
    front = _json(capsys, "enumerate", "tied", "--output", "tied.csv")
    with Path("tied.csv").open(encoding="utf-8") as file:
        designs = {tuple(row.items()) for row in csv.DictReader(file)}
    assert len(designs) == front["n_front_designs"] > front["n_points"] == len(front["points"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trail"], "unknown campaign 'trail'. Did you mean 'trial'?"),
        (["trial", "--output", "front.xyz"], "'xyz'"),
        (["trial", "--keep", "area"], "--keep: unknown metric 'area'. Did you mean 'area_mm2'?"),
        (["hot"], "no design of space 'memexplorer' is feasible"),
        (["hot"], "break 'tdp_watts <= 1', nearest over by "),
    ],
)
def test_what_cannot_be_done_is_one_line_and_leaves_nothing(capsys, arguments, message):
    _write("hot", watts=1)
    assert main(["enumerate", *arguments]) == (1 if arguments == ["hot"] else 2)
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert len(err.strip().splitlines()) == 1
    assert not Path("front.xyz").exists()
    assert not list(Path("runs").glob("hot/*"))


def test_what_tighter_limits_may_bring_to_the_front_is_kept_and_told(capsys):
    before = _json(capsys, "enumerate", "trial")
    front = _json(capsys, "enumerate", "trial", "--keep", "area_mm2, unit_cost_usd")
    kept = front.pop("kept")
    assert kept["metrics"] == ["area_mm2", "unit_cost_usd"]
    assert kept["limitable"] == ["throughput_tokens_per_s", "tdp_watts", *kept["metrics"]]
    assert kept["n_points"] > front["n_points"]
    assert {**before, "seconds": 0} == {**front, "seconds": 0}
    assert main(["enumerate", "trial", "--keep", "usual"]) == 0
    assert "points for tighter limits" in capsys.readouterr().out


def test_interrupted_it_says_how_to_go_on_and_goes_on(capsys, monkeypatch, told, ctrl_c):
    _write("long")
    whole = _json(capsys, "enumerate", "long", "--folder", "undisturbed")
    monkeypatch.setattr("codesign.search.enumeration.enumerate._LEAST_ROOTS", 1)
    ctrl_c(3, "designs")
    assert main(["enumerate", "long", "--workers", "1", "--json"]) == 130
    out, err = capsys.readouterr()
    assert out == ""
    assert "'codesign enumerate long', goes on from there" in err
    assert [path.suffix for path in Path("runs/long").iterdir()] == [".part"]
    told.clear()
    front = _json(capsys, "enumerate", "long", "--workers", "2")
    subject, total, done_before = told[0]
    assert (subject, total) == ("designs", front["n_designs"])
    assert done_before > 0
    for name in ("points", "hypervolume", "n_front_designs"):
        assert front[name] == whole[name]
    assert front["n_evaluated"] + front["n_repeated"] + front["n_excluded"] == front["n_designs"]
    names = sorted(path.name for path in Path("runs/long").iterdir())
    assert [name[:5] for name in names] == ["exact", "manif"]


def test_interrupted_with_metrics_to_keep_it_names_them(capsys, monkeypatch, ctrl_c):
    _write("long")
    _json(capsys, "enumerate", "long")
    monkeypatch.setattr("codesign.search.enumeration.enumerate._LEAST_ROOTS", 1)
    ctrl_c(3, "designs")
    assert main(["enumerate", "long", "--workers", "1", "--keep", "area_mm2, unit_cost_usd"]) == 130
    err = " ".join(capsys.readouterr().err.split())
    assert "'codesign enumerate long --keep area_mm2,unit_cost_usd', goes on from there" in err


def test_every_command_numbers_along_the_exact_front(capsys):
    points = _json(capsys, "enumerate", "trial", "--folder", "numbered")["points"]
    folder = ("--folder", "numbered")
    # Never run: the exact front is all there is.
    assert main(["report", "trial", "--samples", "0", *folder]) == 0
    assert main(["report", "figure", "front", "trial", *folder]) == 0
    capsys.readouterr()
    assert main(["report", "figure", "convergence", "trial", *folder]) == 2
    assert "only the exact front of 'trial' is here" in capsys.readouterr().err
    for is_run in (False, True):
        if is_run:
            _json(capsys, "run", "trial", *folder)
        front = _json(capsys, "status", "front", "trial", *folder)
        assert front["front_is_exact"]
        assert [item["design"] for item in front["observations"]] == [x["design"] for x in points]
        evaluated = _json(capsys, "evaluate", "--campaign", "trial", "--design", "2", *folder)
        assert evaluated["metrics"]["tdp_watts"] == points[1]["metrics"]["tdp_watts"]
        sheet = ("--format", "spec-sheet", "--design", "2", "--output", "sheet.md")
        assert main(["export", "trial", *sheet, *folder]) == 0
        assert f"front 2 of the exact front, {len(points)} points" in capsys.readouterr().out


def test_the_page_lists_designs_that_tie_with_a_point_once():
    campaign = codesign.load_campaign("trial", "numbered")
    exact = campaign.exact_front()
    every_design = replace(campaign.exact_results(exact, listed=True), front_run=None)
    assert len(every_design.front()) >= len(exact)
    both = joined(every_design, campaign.exact_results(exact))
    assert len(both.front()) == len(exact)
