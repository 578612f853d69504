"""The real consumers load and run our exports, each in an environment of its own.

Slow: the environments are made on first use, in ``XDG_CACHE_HOME`` or ``~/.cache``, with what the
extras ``interop-*`` of pyproject.toml name; ``make interop`` makes them anew. AccelForge needs a
Python 3.12 or later, taken from ``CODESIGN_PYTHON312``, the path, or pyenv.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import tomllib
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import codesign
from codesign.cli import main

pytestmark = pytest.mark.slow

_RUNNERS = Path(__file__).parent / "interop_runners.py"
_EXTRAS = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))[
    "project"
]["optional-dependencies"]
_CAMPAIGN = """\
name: trial
space: memexplorer
evaluator: {name: npu}
workload: {model: llama-3-8b, prompt_tokens: 64, generated_tokens: 8, phase: prefill, batch: 2}
objectives: [maximize throughput_tokens_per_s, minimize tdp_watts]
fixed: {weight_format: mxint8, activation_format: mxint8, kv_format: mxint8}
constraints: [tdp_watts <= 700]
optimizers: [random, {name: random, label: again}]
initial: 4
budget: 24
reference_point: {throughput_tokens_per_s: 0, tdp_watts: 5000}
workers: 1
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("work")
    (folder / "runs").mkdir()
    (folder / "runs" / "trial.yaml").write_text(_CAMPAIGN, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["run", "trial", "--json"]) == 0
    return folder


def _environment(name, python=sys.executable):
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = home / "codesign" / "interop" / name
    interpreter = folder / "bin" / "python"
    if not (folder / "ready").exists():
        subprocess.run([python, "-m", "venv", "--clear", folder], check=True)
        install = [interpreter, "-m", "pip", "install", "--quiet", *_EXTRAS[f"interop-{name}"]]
        subprocess.run(install, check=True)
        (folder / "ready").touch()
    return interpreter


@pytest.fixture
def consume(folder, tmp_path, monkeypatch):
    """Export a design, then let the consumer's runner loose on the files."""
    monkeypatch.chdir(folder)

    def run(form, design, file, *more, python=sys.executable):
        output = str(tmp_path / file)
        assert main(["export", "trial", "--format", form, "--design", design,
                     "--output", output]) == 0  # fmt: skip
        interpreter = _environment(form, python)
        done = subprocess.run(
            [interpreter, "-W", "ignore", _RUNNERS, form, output, *more], cwd=tmp_path,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout.strip().splitlines()[-1])

    return run


def _newer_python():
    """An interpreter that AccelForge takes."""
    named = os.environ.get("CODESIGN_PYTHON312")
    on_path = [shutil.which(f"python3.{minor}") for minor in (12, 13)]
    of_pyenv = sorted(Path.home().glob(".pyenv/versions/3.1[23].*/bin/python"))
    for python in [named] if named else [*on_path, *map(str, of_pyenv)]:
        # What is on the path may be a stand-in that only says that nothing is chosen.
        ask = [python, "-c", "import sys, venv; sys.exit(sys.version_info < (3, 12))"]
        if python and subprocess.run(ask, capture_output=True, check=False).returncode == 0:
            return python
    return None


def test_scalesim_runs_the_configuration_at_the_cycles_of_the_closed_form(consume, tmp_path):
    # SCALE-Sim steps through every cycle, so a small product stands in for the layers; the
    # layout's line is as the export writes it.
    gemm, layout = tmp_path / "small.csv", tmp_path / "p1_layout.csv"
    gemm.write_text("Layer, M, N, K,\nqkv_projection_x32, 8, 300, 2100,\n", encoding="utf-8")
    first = tmp_path / "first_layout.csv"
    first.write_text(f"Layer{',x' * 20},\nqkv_projection_x32{',1' * 20},\n", encoding="utf-8")
    answer = consume("scalesim", "P1", "p1.cfg", str(gemm), str(first))
    assert layout.read_text("utf-8").splitlines()[1] == first.read_text("utf-8").splitlines()[1]
    # Weight stationary on 2048 x 256 (Samajdar et al., arXiv:1811.02883): each of 2 x 2 folds
    # takes 2 R + C + T - 2 cycles; the report numbers the last cycle, from 0.
    assert answer["Total Cycles"] == 4 * (2 * 2048 + 256 + 8 - 2) - 1
    assert answer["Stall Cycles"] == 0


def test_genz_understands_the_machine_that_was_meant(consume):
    answer = consume("genz", "P1", "p1.json")
    # P1: 2048 x 256 MACs at 1 GHz, 2 x HBM4 and one HBF (MemExplorer Tables 1 and 6).
    assert answer["flop_per_s"] == pytest.approx(2 * 2048 * 256 * 1e9, rel=1e-12)
    assert answer["bytes_per_s"] == pytest.approx(5e12, rel=1e-12)
    assert answer["bytes"] == pytest.approx(456e9, rel=1e-12)
    # 4,096 tokens through 6.98e9 weights of the layers alone take 54.5 ms at the peak; attention
    # and the LM head come on top.
    least_ms = 2 * 4096 * 6.98e9 / (2 * 2048 * 256 * 1e9) * 1e3
    assert least_ms < answer["latency_ms"] < 1.5 * least_ms


def test_accelforge_maps_a_product_onto_the_machine(consume, tmp_path):
    python = _newer_python()
    if python is None:
        pytest.skip("AccelForge needs Python 3.12: name one in CODESIGN_PYTHON312")
    workload = tmp_path / "product.yaml"
    workload.write_text(_PRODUCT, encoding="utf-8")
    answer = consume("accelforge", "Base", "base.yaml", str(workload), python=python)
    assert answer["nodes"] == ["Tier1", "OnChip", "VectorUnit", "ProcessingElement", "Register",
                               "MAC"]  # fmt: skip
    # At least: every MAC once, and every byte of A, W and C once from or to Base's HBM3E, which
    # takes 3 pJ/bit to read, 3.6 to write and has 4 TB/s (MemExplorer Tables 1 and 5).
    macs, read, written = 16 * 32 * 64, 16 * 64 + 64 * 32, 16 * 32
    least = macs * 0.722e-12 + read * 8 * 3e-12 + written * 8 * 3.6e-12
    assert answer["latency_s"] >= (read + written) / 4e12
    # Background: 96 GB of HBM3E at 75 mW/GB, and what the export says of the on-chip memory.
    text = (tmp_path / "base.yaml").read_text(encoding="utf-8")
    background = sum(float(watts) for watts in re.findall(r"leak_power: ([0-9.e+-]+)", text))
    assert background > 96 * 0.075
    least += background * answer["latency_s"]
    assert least <= answer["energy_joules"] < 1.2 * least


_PRODUCT = """\
workload:
  iteration_space_shape:
    m: 0 <= m < 16
    n: 0 <= n < 32
    k: 0 <= k < 64
  bits_per_value: {All: 8}
  einsums:
  - name: Matmul
    tensor_accesses:
    - {name: A, projection: [m, k]}
    - {name: W, projection: [k, n]}
    - {name: C, projection: [m, n], output: True}
    renames: {weight: W, input: A, output: C}
"""


@contextmanager
def _dashboard(journal):
    """optuna-dashboard serves the file; gives what its JSON interface answers."""
    pytest.importorskip("optuna_dashboard")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [Path(sys.executable).with_name("optuna-dashboard"), "--host", "127.0.0.1"]
    server = subprocess.Popen(
        [*command, "--port", str(port), journal],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip

    def ask(path):
        # An opener without proxies: the server is on this machine.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://127.0.0.1:{port}/{path}", timeout=30) as answer:
            return json.load(answer)

    try:
        for _ in range(120):
            try:
                ask("api/studies")
            except OSError:
                assert server.poll() is None, "the dashboard ended"
                time.sleep(0.5)
            else:
                break
        ask.port = port
        yield ask
    finally:
        server.terminate()
        server.wait()


@pytest.fixture
def journal(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(folder)
    path = tmp_path / "all.journal"
    assert main(["export", "trial", "--scope", "all", "--output", str(path)]) == 0
    return path


def test_optuna_dashboard_serves_every_study_with_its_values_and_limits(journal):
    results = codesign.load_campaign("trial").results()
    with _dashboard(journal) as ask:
        studies = ask("api/studies")["study_summaries"]
        assert [item["study_name"] for item in studies] == [
            "trial, random, seed 0", "trial, again, seed 0",
        ]  # fmt: skip
        study = ask(f"api/studies/{studies[1]['study_id']}")
    assert study["directions"] == ["maximize", "minimize"]
    assert study["objective_names"] == ["throughput_tokens_per_s", "tdp_watts"]
    ours = np.flatnonzero(results.run_index == 1)
    assert len(study["trials"]) == len(ours) == 24
    assert {trial["state"] for trial in study["trials"]} == {"Complete"}
    for trial, position in zip(study["trials"], ours, strict=True):
        assert trial["values"] == [
            results.metrics[name][position] for name in study["objective_names"]
        ]
        # It marks as infeasible what has a positive number here.
        assert (max(trial["constraints"]) <= 0) == results.feasible[position]
    assert 0 < results.feasible[ours].sum() < 24


def test_optuna_dashboard_draws_the_study_without_a_javascript_error(journal):
    sync = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no Chromium on the path")
    errors = []
    with _dashboard(journal) as ask, sync.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1400, "height": 1500})
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"http://127.0.0.1:{ask.port}/dashboard/studies/0")
        page.get_by_text("Pareto Front").wait_for()
        page.get_by_text("Infeasible").first.wait_for()  # in the legend of its time line
        page.locator(".scatterlayer .point").first.wait_for()
        shown = page.inner_text("body")
        browser.close()
    assert errors == []
    assert "throughput_tokens_per_s" in shown and "tdp_watts" in shown
