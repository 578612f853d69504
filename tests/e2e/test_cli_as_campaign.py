"""Results name the evaluator and its profile; a design is evaluated again as its campaign did."""

from pathlib import Path

import numpy as np
import pytest

import codesign
from codesign.cli import main
from tests.e2e.test_cli_enumerate import _json

_CAMPAIGN = """\
name: NAME
space: memexplorer
evaluator: EVALUATOR
workload: {model: qwen3-32b, trace: gsm8k, phase: decode}
objectives: [maximize throughput_tokens_per_s, minimize tdp_watts]
constraints: [tdp_watts <= 700, time_per_output_token_s <= 0.3]
fixed: {weight_format: mxint8, activation_format: mxint8, kv_format: mxint8,
        pe_array: [2048, 256], dataflow: ws, tier3_technology: none}
optimizers: [random]
initial: 4
budget: 16
reference_point: {throughput_tokens_per_s: 0, tdp_watts: 700}
workers: 1
"""
_EVALUATORS = {
    "usual": "npu",
    "altered": "{name: npu, profile: memexplorer, topology: parallel}",
    "simulated": "{name: simulation, most_steps: 16}",
}
_WORDS = {
    "usual": "npu, profile plain",
    "altered": "npu, profile memexplorer, topology parallel",
    "simulated": "simulation, profile plain, most steps 16",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A working folder with a campaign by evaluator, and one that has no results."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "runs").mkdir()
    for name, evaluator in {**_EVALUATORS, "begun": "npu"}.items():
        text = _CAMPAIGN.replace("NAME", name).replace("EVALUATOR", evaluator)
        (folder / "runs" / f"{name}.yaml").write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in _EVALUATORS:
            codesign.load_campaign(name).run()
    return folder


def _printed(capsys, *arguments):
    assert main(list(arguments)) == 0
    return " ".join(capsys.readouterr().out.split())


_HEADERS = {
    "status": ["status", "NAME"],
    "pareto": ["status", "front", "NAME"],
    "watch": ["status", "watch", "NAME", "--once"],
    "evaluate": ["evaluate", "--campaign", "NAME", "--design", "1"],
}


@pytest.mark.parametrize("name", _EVALUATORS)
@pytest.mark.parametrize("command", _HEADERS)
def test_every_header_names_evaluator_and_profile(command, name, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    arguments = [word.replace("NAME", name) for word in _HEADERS[command]]
    assert _WORDS[name] in _printed(capsys, *arguments)
    document = _json(capsys, *arguments)
    profile = _WORDS[name].split(", ")[1].removeprefix("profile ")
    if command == "evaluate":
        assert (document["campaign"], document["profile"]) == (name, profile)
    else:
        assert document["evaluator"]["profile"] == profile


@pytest.mark.parametrize(
    "command", ["run", "enumerate", pytest.param("explain", marks=pytest.mark.slow)]
)
def test_run_and_exact_front_name_them_too(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert "(npu, profile plain)" in _printed(capsys, command, "usual")
    assert _json(capsys, command, "usual")["evaluator"] == {"name": "npu", "profile": "plain"}


def test_a_comparison_names_them(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "200")
    text = "problems: [usual, altered]\noptimizers: [random, sobol]\ninitial: 4\nbudget: 8\n"
    text += "seeds: 2\nexact_up_to: 9\nworkers: 1\n"
    Path("runs/compare-both.yaml").write_text(text, encoding="utf-8")
    out = _printed(capsys, "compare", "compare-both")
    said = f"Evaluated by {_WORDS['usual']}; {_WORDS['altered']}."
    assert f"compare-both. {said}" in out
    assert said in Path("runs/compare-both/tables.md").read_text(encoding="utf-8")


_TABLES = {
    "x.json": '"evaluator":{"name":"npu","profile":"plain"}',
    "x.yaml": "evaluator:name:npuprofile:plain",
    "x.md": "-evaluator:npu,profileplain",
}


@pytest.mark.parametrize("file", _TABLES)
def test_exports_name_them(file, tmp_path):
    assert main(["export", "usual", "--output", str(tmp_path / file)]) == 0
    assert _TABLES[file] in "".join((tmp_path / file).read_text(encoding="utf-8").split())


def test_the_page_and_the_spec_sheet_name_them(capsys, tmp_path):
    assert main(["report", "altered", "--samples", "0", "--output", str(tmp_path / "x.html")]) == 0
    sources = (tmp_path / "x.html").read_text(encoding="utf-8").split('id="sources"')[1]
    assert sources.split("</main>")[0].count(_WORDS["altered"]) == 1
    arguments = ["--design", "1", "--format", "spec-sheet", "--output", str(tmp_path / "x.md")]
    assert main(["export", "usual", *arguments]) == 0
    text = (tmp_path / "x.md").read_text(encoding="utf-8")
    assert "\nEvaluated by npu, profile plain.\n" in text
    sources = (tmp_path / "x-sources.md").read_text(encoding="utf-8")
    assert '"profile": "plain"' in sources.split("## Provenance")[1]


@pytest.mark.parametrize("kind", ["convergence", "front", "roofline", "breakdown", "hierarchy"])
def test_figure_titles_name_them(kind, capsys, tmp_path):
    of_design = [] if kind in ("convergence", "front") else ["--design", "1"]
    arguments = ["report", "figure", kind, "usual", *of_design, "--output", str(tmp_path / "x.svg")]
    assert main(arguments) == 0
    assert ">npu, profile plain<" in (tmp_path / "x.svg").read_text(encoding="utf-8")


def test_the_timeline_names_them(capsys, tmp_path):
    command = (
        "evaluate timeline --design Base --model qwen3-32b --phase decode --option most_steps=16"
    )
    words = "simulation, profile plain, most steps 16"
    out = _printed(capsys, *command.split(), "--output", str(tmp_path))
    assert words in out


@pytest.mark.parametrize("name", _EVALUATORS)
def test_a_design_of_the_front_is_evaluated_again_bit_for_bit(name, capsys):
    results = codesign.load_campaign(name).front_results()
    front = results.front().tolist()
    assert len(front) > 1
    for number in sorted({1, (len(front) + 1) // 2, len(front)}):
        position = front[number - 1]
        shown = _json(capsys, "evaluate", "--campaign", name, "--design", str(number))
        stored = {metric: float(values[position]) for metric, values in results.metrics.items()}
        assert shown["metrics"] == {
            metric: value for metric, value in stored.items() if not np.isnan(value)
        }
        assert shown["design"] == results.design(position)
        limits = {limit: float(values[position]) for limit, values in results.violations.items()}
        assert limits.items() <= shown["violations"].items()
        assert "time_per_output_token_s <= 0.3" in limits
        assert shown["feasible"]


def test_the_campaign_decides_on_named_and_changed_designs_too(capsys):
    usual = _json(capsys, "evaluate", "--campaign", "begun", "--design", "P1")
    alone = ["--model", "qwen3-32b", "--workload", "gsm8k", "--phase", "decode"]
    given = _json(capsys, "evaluate", "--design", "P1", *alone)
    assert usual["metrics"] == given["metrics"]
    changed = ["--design", "1", "--set", "vector_length=1024"]
    shown = _json(capsys, "evaluate", "--campaign", "usual", *changed)
    assert shown["design"]["vector_length"] == 1024


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["usual", "--design", "1", "--space", "h100"], "expected no --space: the campaign usual"),
        (
            ["usual", "--design", "1", "--model", "qwen3-32b", "--option", "topology=parallel"],
            "expected no --model, --option: the campaign usual says all of it",
        ),
        (["usual", "--design", "1", "--request", "batch=1"], "expected no --request"),
        (["usual"], "expected a design: --design, --design-file or --set; memexplorer names"),
        (["usual", "--design", "999"], "no design '999'; by number: 1 to"),
        (["usual", "--design", "P11"], "Did you mean 'P1'?"),
        (["begun", "--design", "1"], "has no results yet; 'codesign run begun' starts it"),
        (["begun", "--design", "P11"], "Did you mean 'P1'?"),
        (["usual", "--design", "1", "--set", "pe_array=1024x64"], "pe_array"),
        (["usuall", "--design", "1"], "Did you mean 'usual'?"),
    ],
)
def test_what_contradicts_the_campaign_is_refused_in_one_line(arguments, message, capsys):
    assert main(["evaluate", "--campaign", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.startswith("error: ") and err.count("\n") == 1


def test_a_definition_that_is_not_that_of_the_results_is_refused(folder, capsys):
    path = folder / "runs" / "altered.yaml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("topology: parallel", "topology: staged"), encoding="utf-8")
    try:
        assert main(["evaluate", "--campaign", "altered", "--design", "1"]) == 2
        assert "topology: parallel -> staged" in capsys.readouterr().err
        assert main(["evaluate", "--campaign", "altered", "--design", "P1"]) == 0  # as of today
    finally:
        path.write_text(text, encoding="utf-8")


def test_a_folder_without_a_campaign_is_refused(capsys):
    assert main(["evaluate", "--design", "P1", "--folder", "runs"]) == 2
    assert "expected no --folder" in capsys.readouterr().err
