"""A working folder with a comparison of three cheap optimizers on two closed-form problems."""

from functools import partial

import pytest
import yaml

from codesign.base.records import drop_none
from codesign.insight.comparison import Comparison

COMPARISON = {
    "name": "compare-toys",
    "problems": ["flat", "round"],
    "optimizers": ["nsga2", "sobol", "random"],
    "initial": 6,
    "budget": 16,
    "seeds": 3,
    "workers": 1,
}
SPACE = """\
parameters:
  x1: {low: 0, high: 8}
  x2: {low: 0, high: 8, step: 4}
  x3: {low: 0, high: 8, step: 4}
"""
CAMPAIGN = {
    "space": "grid",
    "objectives": ["minimize f1", "minimize f2"],
    "optimizers": ["random"],
    "budget": 20,
}
PROBLEMS = {
    "flat": {"function": "zdt1", "bound": {"f1": 1.1, "f2": 11}},
    "round": {"function": "dtlz2", "bound": {"f1": 2, "f2": 2}},
}


def _campaigns(folder):
    for name in ("spaces", "runs"):
        (folder / name).mkdir()
    (folder / "spaces" / "grid.yaml").write_text(SPACE)
    for name, said in PROBLEMS.items():
        evaluator = {"name": "benchmark-functions", "function": said["function"], "steps": 8}
        campaign = {**CAMPAIGN, "evaluator": evaluator, "reference_point": said["bound"]}
        (folder / "runs" / f"{name}.yaml").write_text(yaml.safe_dump(campaign))


def _comparison(folder, **changes):
    said = drop_none({**COMPARISON, **changes})
    path = folder / "runs" / f"{said.get('name', 'compare-toys')}.yaml"
    path.write_text(yaml.safe_dump(said, sort_keys=False))
    return path


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder with two campaigns."""
    monkeypatch.chdir(tmp_path)
    _campaigns(tmp_path)
    return tmp_path


@pytest.fixture
def write(folder):
    """Write ``runs/compare-toys.yaml`` with some keys changed; None leaves a key out."""
    return partial(_comparison, folder)


@pytest.fixture(scope="session")
def _run_once(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    _campaigns(folder)
    _comparison(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        Comparison.load("compare-toys").run()
    return folder


@pytest.fixture
def finished(_run_once, monkeypatch):
    """The comparison, run; tests read it."""
    monkeypatch.chdir(_run_once)
    return Comparison.load("compare-toys")
