"""A working folder with a small space and a campaign over a stranger's plug-ins."""

from pathlib import Path

import pytest
import yaml

from codesign.base.records import drop_none

PLUGINS = Path(__file__).parent / "plugins"

SPACE = """\
parameters:
  x: {low: 0, high: 29}
  y: {low: 0, high: 29}
  kind: [plain, fancy]
derived:
  area: x * y
"""

CAMPAIGN = {
    "name": "toys",
    "space": "square",
    "evaluator": "toy",
    "objectives": ["maximize gain_tokens", "minimize power_watts"],
    "constraints": ["power_watts <= 300"],
    "fixed": {"kind": "plain"},
    "optimizers": ["toy-climb", "toy-random"],
    "initial": 10,
    "budget": 40,
    "seeds": 2,
    "reference_sample": 64,
    "execution": {"isolated": False},
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder; ``spaces/square.yaml`` is in it."""
    monkeypatch.syspath_prepend(str(PLUGINS))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spaces").mkdir()
    (tmp_path / "spaces" / "square.yaml").write_text(SPACE)
    (tmp_path / "runs").mkdir()
    return tmp_path


@pytest.fixture
def write(folder):
    """Write ``runs/NAME.yaml``: the standard campaign with some keys changed, None: without."""

    def write(**changes):
        said = drop_none({**CAMPAIGN, **changes})
        path = folder / "runs" / f"{Path(said.get('name', 'nameless')).name}.yaml"
        path.write_text(yaml.safe_dump(said, sort_keys=False))
        return path

    return write
