"""Comparisons from the command line: run, run again, look, and everything that can be wrong."""

import json
import shutil
from pathlib import Path

import pytest
import yaml

from codesign.cli import main

PLUGINS = Path(__file__).parents[1] / "unit" / "search" / "campaign" / "plugins"

_SPACE = """\
parameters:
  x1: {low: 0, high: 8}
  x2: {low: 0, high: 8, step: 4}
"""
_PROBLEM = {
    "space": "grid",
    "evaluator": {"name": "benchmark-functions", "function": "zdt1", "steps": 8},
    "objectives": ["minimize f1", "minimize f2"],
    "reference_point": {"f1": 1.1, "f2": 11},
    "optimizers": ["random"],
    "budget": 20,
}
_COMPARISON = {
    "problems": ["flat", "bent"],
    "optimizers": ["sobol", "random"],
    "initial": 4,
    "budget": 10,
    "seeds": 2,
    "workers": 1,
    "kinds": {"concave": ["bent"]},
}


def _write(folder, name, said):
    (folder / "runs" / f"{name}.yaml").write_text(yaml.safe_dump(said), encoding="utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A working folder in which ``compare-trial`` was run."""
    folder = tmp_path_factory.mktemp("work")
    for name in ("runs", "spaces"):
        (folder / name).mkdir()
    (folder / "spaces" / "grid.yaml").write_text(_SPACE, encoding="utf-8")
    _write(folder, "flat", _PROBLEM)
    bent = {"name": "benchmark-functions", "function": "zdt2", "steps": 8}
    _write(folder, "bent", {**_PROBLEM, "evaluator": bent})
    _write(folder, "compare-trial", _COMPARISON)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["compare", "compare-trial", "--json"]) == 0
    return folder


def test_a_comparison_prints_its_tables_and_names_its_files(folder, capsys):
    assert main(["compare", "compare-trial"]) == 0
    out, err = capsys.readouterr()
    for part in (
        "Hypervolume after 10 evaluations",
        "mean rank over 2 kinds",
        "concave",
        "Wilcoxon",
        "duplicates",
        "in equal wall time",
        "Cost of the runs",
        "Note: 2 kinds of problems: Wilcoxon's test cannot give a p below 0.5",
    ):
        assert part in " ".join(out.split())  # a narrow table breaks its title
    assert err == ""  # nothing to run, no front to enumerate
    for name in ("tables.md", "tables.tex", "runs.csv", "comparison.json", "attainment.png"):
        assert (folder / "runs" / "compare-trial" / name).is_file()


def test_a_comparison_that_is_run_again_writes_the_same_bytes(folder, capsys):
    place = folder / "runs" / "compare-trial"
    before = {path.name: path.read_bytes() for path in place.iterdir() if path.is_file()}
    assert len(before) > 12
    assert main(["compare", "runs/compare-trial.yaml", "--json"]) == 0
    after = {path.name: path.read_bytes() for path in place.iterdir() if path.is_file()}
    changed = {name for name in before if before[name] != after.get(name)}
    assert all(name.startswith("wall_time") for name in changed)
    capsys.readouterr()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Parsl's threads and pipes
def test_a_comparison_on_a_farm_writes_the_same_bytes(folder, capsys):
    pytest.importorskip("parsl")
    (folder / "farm.yaml").write_text("workers_per_node: 2\n")
    flags = ["--workers", "2", "--executor", "parsl:farm.yaml", "--folder", "farm"]
    assert main(["compare", "compare-trial", *flags]) == 0
    capsys.readouterr()
    for name in ("tables.md", "tables.tex", "runs.csv"):
        ours = folder / "runs" / "compare-trial" / name
        assert (folder / "farm" / "compare-trial" / name).read_bytes() == ours.read_bytes()


def test_json_is_one_document_with_everything(capsys):
    assert main(["compare", "compare-trial", "--no-run", "--json"]) == 0
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert err == ""
    assert [problem["front"] for problem in document["problems"]] == ["exact", "exact"]
    assert len(document["runs"]) == 8
    assert {item["optimizer"] for item in document["wall_time"]} == {"sobol", "random"}
    kinds = {item["kind"]: item["problems"] for item in document["kinds"]}
    assert kinds == {"benchmark-functions/grid": ["flat"], "concave": ["bent"]}
    assert document["ranking"]["n_blocks"] == 2
    assert [item["n_evaluated"] for item in document["costs"]] == [40, 40]
    assert all(Path(file).is_file() for file in document["files"])


def test_each_problem_can_be_looked_at_as_a_campaign(capsys):
    arguments = ["runs/compare-trial/flat.yaml", "--folder", "runs/compare-trial", "--json"]
    assert main(["status", "front", *arguments]) == 0
    assert json.loads(capsys.readouterr().out)["front_size"] > 0


def test_a_comparison_is_not_among_the_campaigns(capsys):
    assert main(["list", "campaigns", "--json"]) == 0
    names = [item["name"] for item in json.loads(capsys.readouterr().out)["campaigns"]]
    assert "flat" in names
    assert "compare-trial" not in names


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"optimizers": ["sobl"]}, "unknown optimizer 'sobl'. Did you mean 'sobol'"),
        ({"problems": ["falt"]}, "unknown campaign 'falt'. Did you mean 'flat'"),
        ({"problems": "flat"}, "problems: "),
        ({"seeds": 0}, "seeds: "),
        ({"kinds": {"k": ["falt"]}}, "kinds.k.0: unknown problem 'falt'. Did you mean 'flat'"),
        ({"targets": [1.5]}, "targets: expected ascending shares between 0 and 1"),
    ],
)
def test_a_wrong_file_is_one_line_and_leaves_nothing_behind(folder, capsys, changes, message):
    _write(folder, "compare-wrong", {**_COMPARISON, "kinds": {}, **changes})
    assert main(["compare", "compare-wrong"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("error: runs/compare-wrong.yaml:")
    assert message in err
    assert not (folder / "runs" / "compare-wrong").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["compare", "compare-trail"],
            "unknown comparison 'compare-trail'. Did you mean 'compare-",
        ),
        (["compare", "flat"], "expected a comparison, whose file's name begins with 'compare-'"),
        (["run", "compare-trial"], "expected a campaign, got the comparison 'compare-trial'"),
        (["compare", "runs/none.yaml"], "no such file: runs/none.yaml"),
        (["compare", "compare-trial", "--format", "gif"], "unknown figure format 'gif'"),
        (
            ["compare", "compare-trial", "--width", "1 mm"],
            "--width: expected 60 to 400 mm, got 1 m",
        ),
        (["compare", "compare-trial", "--workers", "0"], "invalid value for '--workers'"),
        (["compare"], "missing argument 'name'"),
    ],
)
def test_a_wrong_word_is_one_line(capsys, arguments, message):
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert message in err


def test_a_comparison_that_was_not_run_says_how_to_start_it(folder, capsys):
    _write(folder, "compare-fresh", _COMPARISON)
    for option, message in (
        ("--no-run", "8 of 8 runs are not finished; 'codesign compare compare-fresh' starts it"),
        ("--partial", "no seed of any problem is finished"),
    ):
        assert main(["compare", "compare-fresh", option]) == 2
        assert message in capsys.readouterr().err


def test_one_seed_is_reported_without_statistics(folder, capsys):
    once = {**_COMPARISON, "seeds": 1, "problems": ["flat"], "kinds": {}}
    _write(folder, "compare-once", once)
    assert main(["compare", "compare-once"]) == 0
    out = capsys.readouterr().out
    assert "one seed: no spread and no test" in out
    assert "one problem: nothing can be said of other problems" in out
    shares = next(line for line in out.splitlines() if line.startswith("flat"))
    assert "±" not in shares


def test_failed_evaluations_are_counted_and_a_failed_run_is_an_exit_code(
    folder, capsys, monkeypatch
):
    monkeypatch.syspath_prepend(str(PLUGINS))
    toy = {
        "space": "square",
        "evaluator": {"name": "toy", "give_up_on": [1, 2, 3, 4]},
        "objectives": ["maximize gain_tokens", "minimize power_watts"],
        "reference_point": {"gain_tokens": 0, "power_watts": 500},
        "optimizers": ["random"],
        "budget": 20,
    }
    (folder / "spaces" / "square.yaml").write_text(
        "parameters:\n  x: {low: 0, high: 9}\n  y: {low: 0, high: 9}\n", encoding="utf-8"
    )
    _write(folder, "toy-failing", toy)
    said = {**_COMPARISON, "problems": ["flat", "toy-failing"], "kinds": {}}
    _write(folder, "compare-failing", said)
    assert main(["compare", "compare-failing", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    failed = [run["n_failed"] for run in document["runs"] if run["problem"] == "toy-failing"]
    assert min(failed) > 0

    _write(folder, "compare-broken", {**said, "optimizers": ["random", "toy-raises"]})
    assert main(["compare", "compare-broken"]) == 1
    err = capsys.readouterr().err
    assert "error: flat: the optimizer of run toy-raises, seed 0 failed: KeyError" in err
    assert "error: toy-failing: the optimizer of run toy-raises, seed 0" in err
    assert "with --partial it reports the others" in err


def test_a_comparison_and_all_its_campaigns_are_verified(folder, tmp_path, capsys):
    assert main(["status", "verify", "compare-trial", "--json"]) == 0
    files = {each["file"]: each["state"] for each in json.loads(capsys.readouterr().out)["files"]}
    assert set(files.values()) == {"intact"}
    assert {"comparison.json", "runs.csv", "flat.yaml", "bent/campaign.sqlite"} <= files.keys()
    copy = tmp_path / "copy"
    shutil.copytree(folder / "runs" / "compare-trial", copy)
    (copy / "runs.csv").write_text("run\n", encoding="utf-8")
    (copy / "bent" / "campaign.sqlite").unlink()
    assert main(["status", "verify", str(copy)]) == 2
    err = capsys.readouterr().err
    assert "runs.csv: changed" in err
    assert "bent/campaign.sqlite: missing" in err
