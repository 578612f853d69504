"""The example package of the plug-in guide brings evaluators, an optimizer and an export.

It is built and installed as its users would, and then takes part in a campaign.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from codesign.cli import main

PACKAGE = Path(__file__).parents[2] / "docs" / "example-plugin"


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The package as an installer leaves it."""
    folder = tmp_path_factory.mktemp("stranger")
    source = shutil.copytree(PACKAGE, folder / "source")  # a build leaves files beside it
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    offline = ["--no-deps", "--no-index", "--no-build-isolation", "--target", str(folder / "site")]
    subprocess.run([*pip, *offline, str(source)], check=True, capture_output=True, text=True)
    return folder / "site"


@pytest.fixture
def home(installed, tmp_path):
    """A working folder with what a user writes, and the installed package in ``site``."""
    for name in ("spaces", "runs"):
        shutil.copytree(PACKAGE / name, tmp_path / name)
    for path in PACKAGE.glob("test_*.py"):
        shutil.copy(path, tmp_path)
    shutil.copytree(installed, tmp_path / "site")
    return tmp_path


@pytest.fixture
def printed(home, monkeypatch, capsys):
    """What a command prints that finds the installed package, in the process of the test."""
    monkeypatch.syspath_prepend(str(home / "site"))
    monkeypatch.chdir(home)

    def printed(*arguments):
        assert main(list(arguments)) == 0
        return capsys.readouterr().out

    return printed


def test_a_strangers_plug_ins_take_part_in_a_campaign_like_ours(home, printed):
    for group, plug_in in {"evaluators": "beam", "optimizers": "spread"}.items():
        assert plug_in in printed("list", group, "--json")

    printed("run", "beams", "--json")
    front = json.loads(printed("status", "front", "beams", "--json"))

    # 14 upright sections exist, so every optimizer saw all of them: the front is known.
    sections = [(w, h) for w in range(1, 5) for h in range(1, 6) if w <= h]
    scores = {(w, h): (108 / (w * h**3), 6.0 * w * h) for w, h in sections if 6 * w * h <= 60}
    best = {
        section
        for section, score in scores.items()
        if not any(
            rival != score and rival[0] <= score[0] and rival[1] <= score[1]
            for rival in scores.values()
        )
    }
    front_sections = {
        (item["design"]["width"], item["design"]["height"]) for item in front["observations"]
    }
    assert front_sections == best

    printed("export", "beams", "--format", "latex", "--output", "front.tex")
    lines = (home / "front.tex").read_text("utf-8").splitlines()
    assert len(lines) == len(best) + 3
    assert r"deflection\_m" in lines[1]


_MLFLOW = """\
import json, types
from collections import defaultdict
calls = defaultdict(list)
def set_experiment(name):
    return types.SimpleNamespace(experiment_id=name)
class MlflowClient:
    def create_run(self, experiment, run_name):
        info = types.SimpleNamespace(run_id=experiment + ": " + run_name)
        return types.SimpleNamespace(info=info)
    def log_batch(self, run, metrics):
        calls[run].append([[metric.step, metric.key, metric.value] for metric in metrics])
    def log_dict(self, run, design, path):
        calls[run][-1].append([path, design])
    def set_terminated(self, run):
        with open("calls.json", "w") as file:
            json.dump(calls, file)
"""
_ENTITIES = """\
class Metric:
    def __init__(self, key, value, timestamp, step):
        self.key, self.value, self.step = key, value, step
"""


def test_a_tracker_gets_every_result_once_with_its_design(home, monkeypatch, printed, capsys):
    (home / "site/mlflow").mkdir()
    (home / "site/mlflow/__init__.py").write_text(_MLFLOW, encoding="utf-8")
    (home / "site/mlflow/entities.py").write_text(_ENTITIES, encoding="utf-8")
    for name in ("mlflow", "mlflow.entities"):
        monkeypatch.setitem(sys.modules, name, None)
        del sys.modules[name]
    printed("run", "beams", "--track", "mlflow")
    calls = json.loads((home / "calls.json").read_text("utf-8"))
    assert calls and all(name.startswith("beams: ") for name in calls)
    for steps in calls.values():
        assert [step[-1][0] for step in steps] == [f"designs/{k}.json" for k in range(len(steps))]
        for *metrics, (_, design) in steps:
            values = {name: value for _, name, value in metrics}
            assert values["mass_kg"] == 6.0 * design["width"] * design["height"]
            assert values["hypervolume"] >= 0
    assert main(["run", "beams", "--track", "mflow", "--folder", "again"]) == 2
    assert "--track: unknown tracker 'mflow'. Did you mean 'mlflow'" in capsys.readouterr().err


def test_the_comparison_of_the_how_to_page_runs_as_it_is_printed(home, printed):
    page = (PACKAGE.parent / "how-to" / "your-optimizer.md").read_text("utf-8")
    (definition,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert "`runs/compare-mine.yaml`" in page
    # Fewer evaluations, seeds and processes, for the time that they take.
    short = re.sub(
        r"(budget|seeds): \d+",
        lambda key: f"{key[1]}: {22 if key[1] == 'budget' else 1}",
        definition,
    )
    (home / "runs" / "compare-mine.yaml").write_text(f"{short}workers: 1\n", encoding="utf-8")
    (command,) = re.findall(r"```console\ncodesign (.*)\n```", page)
    compared = printed(*command.split())
    for problem in ("zdt1", "decode-qwen3-32b-tdp"):
        (row,) = [line.split() for line in compared.splitlines() if line.startswith(problem)]
        assert len(row) == 5  # shares of the page's three optimizers and of what is picked
    assert "spread" in compared


def test_the_examples_own_tests_pass(home):
    folders = [str(home / "site"), *filter(None, [os.environ.get("PYTHONPATH")])]
    variables = {"PYTHONPATH": os.pathsep.join(folders), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    tested = subprocess.run(
        command, cwd=home, env=os.environ | variables, capture_output=True, text=True
    )
    assert tested.returncode == 0, tested.stdout
    assert "4 passed" in tested.stdout


def test_a_strangers_machine_serves_in_a_pool_and_requests_that_arrive(printed, check_document):
    words = ("evaluate", "--campaign", "roofline-pools", "--design", "mixed", "--json")
    account = json.loads(printed(*words))
    check_document(account)
    flop = 2 * (6.979e9 * 1400 + 0.525e9 + 32 * 4096 * 1400**2)  # Llama 3 8B, GSM8K's prompt
    seconds = flop / 1000e12 / 0.5
    assert account["metrics"]["time_to_first_token_s"] == pytest.approx(seconds, rel=1e-3)
    assert account["metrics"]["throughput_tokens_per_s"] > 0
    assert "tdp_watts" not in account["metrics"]
    stream = "--requests-per-s 5 --requests 20 --prompt-tokens 500 --generated-tokens 20"
    words = ("serve-model", "llama-3-8b", "--on", "roofline#large", *stream.split())
    served = json.loads(printed(*words, "--option", "max_sequences=8", "--json"))
    check_document(served)
    assert (served["convention"], served["requests"]) == ("roofline", 20)
    decode_s = (2 * 8.030e9 + 131_072 * 510) / 4000e9 / 0.5
    assert served["times"]["time_per_output_token_s"]["p50"] == pytest.approx(decode_s, rel=0.05)
    assert printed("run", "roofline-pools")


@pytest.mark.usefixtures("printed")
def test_a_plug_in_that_cannot_be_imported_is_named_in_one_line(home, monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, "codesign_beams", raising=False)
    (home / "site" / "codesign_beams.py").write_text("import nothing_of_that_name\n")
    assert main(["run", "beams"]) == 2
    err = capsys.readouterr().err
    assert "beam" in err and "nothing_of_that_name" in err and "Traceback" not in err
