"""A campaign over a program that crashes, hangs and prints nonsense ends, and resumes."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from codesign.base.processes import WorkerProcess
from codesign.cli import main
from codesign.insight.summary import summarize
from codesign.search.campaign import Campaign

SIMULATOR = Path(__file__).parents[1] / "unit" / "evaluators" / "command" / "simulator.py"

SPACE = "parameters: {x: [2, 5, 20, 21, 23, 28, 29], y: [1]}\n"

CAMPAIGN = """\
space: xy
evaluator:
  name: command
  run: ["${python}", -S, -E, simulator.py, design.json]
  files: [simulator.py]
  write: {design.json: json}
  infeasible_exit_codes: [4]
  metrics:
    latency_s: {sense: minimize, unit: s, from: {json: result.json, key: time.latency}}
    power_watts: {sense: minimize, unit: W, from: {regex: 'power: (.*)'}}
workload: {scale: 3}
objectives: [minimize latency_s, minimize power_watts]
reference_point: {latency_s: 10 s, power_watts: 100 W}
execution: {timeout: 1 h, retries: 0}
optimizers: [random]
initial: 4
budget: 7
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "spaces").mkdir()
    (tmp_path / "spaces" / "xy.yaml").write_text(SPACE)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "sim.yaml").write_text(CAMPAIGN)
    shutil.copy(SIMULATOR, tmp_path)
    return tmp_path


def hanging(folder):
    """Folders in which the design that never ends is, or was, evaluated."""
    for path in (folder / "runs" / "sim" / "scratch").glob("*/design.json"):
        with suppress(ValueError, OSError):  # it is being written, or removed
            if json.loads(path.read_text())["design"]["x"] == 29:
                yield path


@pytest.fixture
def patience(folder, monkeypatch):
    """Time is over when the design that never ends has begun, however slow the machine is."""
    has_news, ended = WorkerProcess.has_news, set()

    def has_news_in_time(process, timeout_s):
        if timeout_s is None:
            return has_news(process, None)
        while not has_news(process, 0.02):
            if late := set(hanging(folder)) - ended:
                ended.update(late)
                return False
        return True

    monkeypatch.setattr(WorkerProcess, "has_news", has_news_in_time)


@pytest.mark.usefixtures("patience")
def test_every_way_to_fail_is_a_status_and_the_campaign_completes(folder, capsys):
    assert main(["run", "sim"]) == 0
    results = Campaign.load("sim").results()
    designs = results.problem.space.decode(results.rows)
    statuses = {(design["x"], results.status_word(i)) for i, design in enumerate(designs)}
    assert statuses == {
        (2, "ok"), (5, "ok"), (20, "failed"), (21, "failed"), (23, "bad-output"),
        (28, "infeasible"), (29, "timeout"),
    }  # fmt: skip
    assert results.failed.sum() == 5
    # As status counts them: a design that the program refuses did not fail.
    assert results.broke.sum() == summarize(results)[0].n_failed == 4
    log = (folder / "runs" / "sim" / "logs" / "evaluator.log").read_text()
    assert "the license server is away" in log
    # A program that was killed cannot clean up: its folder shows what it was doing.
    left = (folder / "runs" / "sim" / "scratch").glob("*/design.json")
    assert {json.loads(path.read_text())["design"]["x"] for path in left} == {29}
    capsys.readouterr()
    assert main(["status", "sim", "--json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert run["failures"] == {"failed": 2, "timeout": 1, "bad-output": 1}
    campaign = Campaign.load("sim")
    campaign.run()
    again = campaign.results()
    assert again.rows.tobytes() == results.rows.tobytes()
    assert again.reasons == results.reasons


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("simulator.py]", "absent.py]", 5, "evaluator.files.0: expected a file"),
        ("key: time.latency", "ky: time.latency", 9, "unknown key 'ky'. Did you mean 'key'?"),
        ("${python}", "${pythn}", 4, "evaluator.run: unknown placeholder 'pythn'. Did you mean"),
        ("unit: W", "unit: wat", 10, "evaluator.metrics.power_watts.unit: "),
        ("(.*)", ".*", 10, "expected a regular expression with one group"),
    ],
)
def test_a_mistake_is_told_with_file_line_and_key(folder, capsys, old, new, line, message):
    (folder / "runs" / "sim.yaml").write_text(CAMPAIGN.replace(old, new, 1))
    assert main(["run", "sim"]) == 2
    text = capsys.readouterr().err
    assert f"sim.yaml:{line}: evaluator" in text, text
    assert message in text, text
    assert not (folder / "runs" / "sim").exists()


HANGS = """\
import json, pathlib, time
while pathlib.Path({store!r}).exists():  # after the reference sample
    pathlib.Path({begun!r}).touch()
    time.sleep(0.05)
json.dump({{"time": {{"latency": 1.0}}}}, open("result.json", "w"))
print("power: 2.0")
"""


@pytest.mark.parametrize("in_flight", [1, 2])
def test_sigterm_stops_a_campaign_whose_program_never_ends(folder, in_flight):
    store, begun = folder / "runs" / "sim" / "campaign.sqlite", folder / "begun"
    (folder / "simulator.py").write_text(HANGS.format(store=str(store), begun=str(begun)))
    text = CAMPAIGN.replace("timeout: 1 h, retries: 0", f"in_flight: {in_flight}, retries: 9")
    (folder / "runs" / "sim.yaml").write_text(text.replace("initial: 4", "initial: 1"))
    code = "import sys; from codesign.cli import main; sys.exit(main())"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "run", "sim", "--workers", "1"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stderr=subprocess.PIPE,
        text=True,
    )
    while not begun.exists() and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    errors = process.communicate(timeout=300)[1]
    assert process.returncode == 143
    assert "the same command goes on from there" in errors
    assert "Traceback" not in errors
    assert Campaign.load("sim").status().done < 7
