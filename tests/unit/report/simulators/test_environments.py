"""Simulators are installed from the extras' requirements, and shipped campaigns run them."""

import json
import sys
import tomllib
from pathlib import Path

import pytest

from codesign.base.errors import InputError, UnknownNameError
from codesign.cli import main
from codesign.report.simulators import environments
from codesign.report.simulators.environments import (
    SIMULATORS,
    InstallableSimulator,
    install,
    interpreter_of,
)
from codesign.search.campaign.campaign_definition import load_problem

_ROOT = Path(__file__).parents[4]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("name", SIMULATORS)
def test_what_is_installed_is_what_the_extra_names(name):
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extra = project["optional-dependencies"][f"interop-{name}"]
    assert SIMULATORS[name].requirements == tuple(item.split(";")[0] for item in extra)


@pytest.mark.parametrize("name", SIMULATORS)
def test_its_campaign_is_searched_from_npu(name):
    problem = load_problem(SIMULATORS[name].campaign)
    assert problem.evaluator.offers("predict")
    import numpy as np

    rows = problem.space.sample(np.random.default_rng(0), 2000)
    rows = rows[problem.admits(rows)][:5]
    assert len(rows) == 5
    assert np.isfinite(problem.predictions(rows)).all()


def test_a_simulator_that_is_not_installed_says_how_to_install_it(capsys):
    with pytest.raises(
        InputError, match="'codesign list simulators scalesim --install' installs it"
    ):
        interpreter_of("scalesim")
    assert main(["list", "simulators", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["simulators"]
    assert [item["is_installed"] for item in listed] == [False, False]
    with pytest.raises(UnknownNameError, match="scalesim"):
        install("scalesin")


def test_no_python_that_is_new_enough_is_said_in_a_line(monkeypatch):
    monkeypatch.setitem(SIMULATORS, "future", InstallableSimulator("Future", (), (4, 0), "none"))
    monkeypatch.setattr(environments, "_candidates", lambda: iter([sys.executable, "/no/python"]))
    with pytest.raises(InputError, match=r"Future needs Python 4.0 or later: name one in CODESIGN"):
        install("future")
