"""A campaign from the command line: run, look, export, draw, evaluate again, stop, go on."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from codesign.cli import main
from tests.e2e.test_cli_enumerate import _json

_CAMPAIGN = """\
name: trial
space: memexplorer
evaluator: {{name: npu, profile: memexplorer}}
workload: {{model: llama-3.3-70b, trace: osworld, phase: prefill}}
objectives: [maximize throughput_tokens_per_s, minimize tdp_watts]
constraints: [tdp_watts <= 700]
fixed: {{weight_format: mxint8, activation_format: mxint8, kv_format: mxint8}}
optimizers: [random, {{name: random, label: again}}]
initial: 4
budget: {budget}
seeds: 2
reference_sample: 32
workers: 1
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A working folder in which the campaign ``trial`` was run."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "runs").mkdir()
    (folder / "runs" / "trial.yaml").write_text(_CAMPAIGN.format(budget=12), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["run", "trial", "--json"]) == 0
    return folder


def test_a_run_ends_with_the_front_the_hypervolumes_and_the_files(folder, capsys):
    assert main(["run", "trial"]) == 0
    out = capsys.readouterr().out
    for part in ("Pareto front", "hypervolume", "± std", "again", "random"):
        assert part in out
    for name in ("campaign.sqlite", "front.csv", "front.yaml", "convergence.png", "front.png"):
        assert f"runs/trial/{name}" in out
        assert (folder / "runs" / "trial" / name).is_file()


def test_a_finished_campaign_that_is_run_again_writes_the_same_bytes(folder, capsys):
    kept = folder / "runs" / "trial"
    names = ("front.csv", "front.yaml", "convergence.png", "front.png")
    before = [(kept / name).read_bytes() for name in names]
    assert main(["run", "trial", "--json"]) == 0
    assert [(kept / name).read_bytes() for name in names] == before
    capsys.readouterr()


def test_the_json_of_a_run_has_front_optimizers_and_files(capsys):
    document = _json(capsys, "run", "trial")
    assert [item["n_evaluated"] for item in document["optimizers"]] == [24, 24]
    assert document["front_size"] == len(document["observations"])
    assert all(Path(file).is_file() for file in document["files"])
    assert set(document["objectives"]) == {"throughput_tokens_per_s", "tdp_watts"}


def test_without_a_converter_of_figures_a_run_says_so_and_writes_the_rest(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    assert main(["run", "trial", "--json"]) == 0
    out, err = capsys.readouterr()
    assert [Path(file).suffix for file in json.loads(out)["files"]] == [".sqlite", ".csv", ".yaml"]
    assert (
        "no figures: a figure as PDF or PNG needs an optional part: pip install 'codesign[report]'"
        in err
    )


def test_the_problems_of_comparisons_are_listed_when_asked_for(capsys):
    assert main(["list", "runs"]) == 0
    assert "problem-zdt1" not in capsys.readouterr().out
    assert main(["list", "campaigns", "--all"]) == 0
    assert "problem-zdt1" in capsys.readouterr().out


@pytest.mark.parametrize("pick", ["frugal", "fastest"])
def test_a_recommended_design_can_be_picked(pick, capsys):
    assert main(["evaluate", "--campaign", "trial", "--pick", pick]) == 0
    assert f"trial, design {pick}" in capsys.readouterr().out
    assert main(["evaluate", "--campaign", "trial", "--pick", pick, "--design", "1"]) == 2
    assert "--pick: expected no --design 1" in capsys.readouterr().err


def test_a_line_end_in_the_name_of_a_file_ends_no_line(folder, capsys):
    path = folder / "runs" / "a\nb.yaml"
    path.write_text("{}", encoding="utf-8")
    assert main(["list", "campaigns"]) == 0
    assert "a\\nb " in capsys.readouterr().out
    assert main(["status", "unknown"]) == 2
    path.unlink()
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_status_and_runs_say_how_far_it_is(capsys):
    status = _json(capsys, "status", "trial")
    assert (status["state"], status["done"], status["total"]) == ("complete", 48, 48)
    assert [(run["optimizer"], run["seed"]) for run in status["runs"]] == [
        ("random", 0), ("random", 1), ("again", 0), ("again", 1),
    ]  # fmt: skip
    listed = {item["name"]: item for item in _json(capsys, "list", "campaigns")["campaigns"]}
    assert listed["trial"]["state"] == "complete"
    assert main(["status", "trial"]) == 0
    assert "48 of 48 (100 %)" in capsys.readouterr().out
    assert main(["list", "campaigns"]) == 0
    assert "trial" in capsys.readouterr().out


def test_the_front_is_limited_on_request(capsys):
    assert len(_json(capsys, "status", "front", "trial", "--limit", "1")["observations"]) == 1
    assert main(["status", "front", "trial", "--limit", "1"]) == 0
    assert "more" in capsys.readouterr().out


def test_the_table_folds_what_is_within_the_tolerance_of_a_cheaper_design(capsys):
    def shown(*arguments):
        assert main(["status", "front", "trial", *arguments]) == 0
        return capsys.readouterr().out.split("Optimizers")[0]

    n = _json(capsys, "status", "front", "trial")["front_size"]
    folded = _json(capsys, "status", "front", "trial", "--tolerance", "100")["observations"]
    hosts = {item["folded_under"] for item in folded if item["folded_under"]}
    assert len(folded) == n > 1 and hosts
    for number in hosts:
        assert folded[number - 1]["folded_under"] is None
        n_folded = sum(item["folded_under"] == number for item in folded)
        assert f" +{n_folded}\n" in shown("--tolerance", "100").replace(" \n", "\n")
    assert "folded" not in shown("--tolerance", "0")
    assert main(["status", "front", "trial", "--tolerance", "-1"]) == 2
    assert "--tolerance" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["csv", "json", "yaml", "parquet"])
@pytest.mark.parametrize("scope", ["front", "all"])
def test_each_export_holds_the_same_designs(form, scope, capsys):
    path = f"out.{form}"
    shown = _json(capsys, "export", "trial", "--output", path, "--scope", scope)
    counted = ["the designs of the front of 48 searched designs"] if scope == "front" else []
    assert shown["files"] == [path] and shown.get("notes", []) == counted
    n = 48 if scope == "all" else _json(capsys, "status", "front", "trial")["front_size"]
    assert len(_tdps(Path(path))) == n


def _tdps(path):
    text = None if path.suffix == ".parquet" else path.read_text(encoding="utf-8")
    if path.suffix == ".csv":
        return [float(line["tdp_watts"]) for line in csv.DictReader(text.splitlines())]
    if path.suffix == ".json":
        return [item["metrics"]["tdp_watts"] for item in json.loads(text)["observations"]]
    if path.suffix == ".yaml":
        results = yaml.safe_load(text)["results"]
        return [item["metrics"]["tdp_watts"] for item in results.values()]
    import pandas as pd

    return pd.read_parquet(path)["tdp_watts"].tolist()


def test_the_format_is_what_the_option_says(capsys):
    assert main(["export", "trial", "--output", "no-ending", "--format", "json"]) == 0
    assert json.loads(Path("no-ending").read_text(encoding="utf-8"))["scope"] == "front"
    assert "wrote no-ending" in capsys.readouterr().out


def test_evaluate_accepts_every_design_of_the_front_back_with_the_same_metrics(capsys):
    path = "runs/trial/front.yaml"
    stored = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    assert stored["designs"]
    for name in stored["designs"]:
        shown = _json(capsys, "evaluate", "--design-file", path, "--design", name)
        assert shown["metrics"] == stored["results"][name]["metrics"]
        assert shown["design"] == stored["designs"][name]["values"]


def test_the_command_line_overrides_the_workload_of_a_design_file(capsys):
    file = ["evaluate", "--design-file", "runs/trial/front.yaml", "--design", "front-1"]
    shown = _json(capsys, *file, "--phase", "decode", "--workload", "bfcl")
    assert shown["workload"]["trace"] == "bfcl"
    assert shown["metrics"]["time_per_output_token_s"] > 0
    shown = _json(capsys, *file, "--prompt-tokens", "100", "--generated-tokens", "10")
    assert "trace" not in shown["workload"]


@pytest.mark.parametrize("form", ["png", "svg"])
def test_figures_are_drawn_where_they_are_wanted(form, capsys, tmp_path):
    shown = _json(
        capsys, "report", "figure", "trial", "--format", form, "--output", str(tmp_path / "new")
    )
    assert [Path(file).name for file in shown["files"]] == [f"convergence.{form}", f"front.{form}"]
    assert all(Path(file).stat().st_size > 1000 for file in shown["files"])
    assert sorted(item.name for item in (tmp_path / "new").iterdir()) == [
        f"convergence.{form}",
        f"front.{form}",
    ]


def test_an_export_to_a_place_that_cannot_be_written_leaves_nothing(capsys, tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert main(["export", "trial", "--output", str(tmp_path / "file" / "out.csv")]) == 2
    assert "cannot be written" in capsys.readouterr().err
    assert [item.name for item in tmp_path.iterdir()] == ["file"]


def test_a_changed_definition_is_refused_with_the_difference(folder, capsys):
    path = folder / "runs" / "trial.yaml"
    path.write_text(_CAMPAIGN.format(budget=13), encoding="utf-8")
    try:
        assert main(["run", "trial"]) == 2
        assert "budget: 12 -> 13" in capsys.readouterr().err
    finally:
        path.write_text(_CAMPAIGN.format(budget=12), encoding="utf-8")


def test_a_corrupt_store_is_refused_and_kept(tmp_path, monkeypatch, capsys):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "trial.yaml").write_text(_CAMPAIGN.format(budget=8), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert main(["run", "trial", "--json"]) == 0
    store = tmp_path / "runs" / "trial" / "campaign.sqlite"
    store.write_bytes(store.read_bytes()[:5000])
    damaged = store.read_bytes()
    capsys.readouterr()
    for command in ("run", "status front", "status"):
        assert main([command, "trial"]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert "campaign.sqlite" in err
        assert len(err.splitlines()) == 1
    assert store.read_bytes() == damaged


def _interrupted(folder, budget):
    (folder / "runs").mkdir(exist_ok=True)
    (folder / "runs" / "trial.yaml").write_text(_CAMPAIGN.format(budget=budget), encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-m", "codesign", "run", "trial"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder,
    )  # fmt: skip
    store = folder / "runs" / "trial" / "campaign.sqlite"
    while not (store.exists() and store.stat().st_size):
        assert process.poll() is None
        time.sleep(0.02)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def test_ctrl_c_exits_130_and_says_how_to_go_on(tmp_path):
    done = _interrupted(tmp_path, 1_000_000)
    assert (done.returncode, done.stdout) == (130, "")
    assert "the same command goes on from there" in done.stderr
    assert len(done.stderr.splitlines()) == 1


_SLOW = """
import sys, time
from codesign.base.loop_progress import LoopProgress
from codesign.cli import main
sys.modules["vl_convert"] = None
advance = LoopProgress.advance
LoopProgress.advance = lambda *words: (advance(*words), time.sleep(0.05))
main()
"""
"""A command without figures whose loops last until their bars are drawn."""


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo-terminal")
def test_progress_bars_are_shown_on_a_terminal_only(tmp_path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "trial.yaml").write_text(_CAMPAIGN.format(budget=8), encoding="utf-8")
    parent, child = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", _SLOW, "run", "trial", "--json"],
        stdout=subprocess.PIPE, stderr=child, cwd=tmp_path,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    )  # fmt: skip
    os.close(child)
    bars = _read_all(parent).decode()
    out, _ = process.communicate()
    assert process.returncode == 0
    assert json.loads(out)["front_size"] > 0
    for part in ("all evaluations", " of 32"):
        assert part in bars


def _read_all(terminal):
    """What is written to a terminal until the last writer closes it."""
    parts = []
    while True:
        try:
            part = os.read(terminal, 4096)
        except OSError:  # how Linux reports the end
            part = b""
        if not part:
            os.close(terminal)
            return b"".join(parts)
        parts.append(part)


def test_settings_are_stored_and_equal_a_file_that_states_them(folder, capsys):
    text = _CAMPAIGN.format(budget=8).replace("700", "690")
    (folder / "stated").mkdir()
    (folder / "stated" / "trial.yaml").write_text(text, encoding="utf-8")
    settings = ["--set", "constraints.0=tdp_watts <= 690", "--set", "budget=8"]
    files = []
    for name, words in (("trial", settings), ("trial", []), ("stated/trial.yaml", [])):
        place = "by-file" if "/" in name else "by-flag"
        workers = "2" if words else "1"  # processes are told of the settings
        _json(capsys, "run", name, *words, "--folder", place, "--workers", workers)
        files.append((folder / place / "trial" / "front.csv").read_bytes())
    assert files[0] == files[1] == files[2]
    assert "budget=8" in _json(capsys, "status", "trial", "--folder", "by-flag")["notices"][0]
    assert main(["run", "trial", "--folder", "by-flag", "--set", "budgt=9"]) == 2
    assert "--set budgt: unknown key 'budgt'. Did you mean 'budget'" in capsys.readouterr().err
    assert main(["run", "trial", "--folder", "by-flag", "--set", "budget=9"]) == 2
    begun = "by-flag/trial: begun with --set 'constraints.0=tdp_watts <= 690' --set budget=8"
    assert f"{begun}, got --set budget=9; give the same" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (["constraints.0=tdp_wats <= 4"], "--set constraints.0: column 1: unknown name 'tdp_wats'"),
        (["constraints.5=a <= 1"], "--set constraints.5: unknown position '5'. Known: 0, 1"),
        (["constrants.0=a"], "--set constrants.0: unknown key 'constrants'. Did you mean"),
        (["evaluator.name.x=3"], "--set evaluator.name.x: 'x' is below 'npu', which has no keys"),
        (["budget"], "--set: expected KEY=VALUE, such as budget=200, got 'budget'"),
        (["budget=8", "budget=9"], "--set: 'budget' is given twice"),
    ],
)
def test_a_wrong_setting_is_one_line_and_leaves_no_folder(folder, capsys, pairs, message):
    words = [word for pair in pairs for word in ("--set", pair)]
    assert main(["run", "trial", "--folder", "refused", *words]) == 2
    assert capsys.readouterr().err.startswith(f"error: {message}")
    assert not (folder / "refused").exists()
