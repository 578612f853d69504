"""Named files: campaigns and comparisons share a folder and are told apart by name."""

import re

import pytest

from codesign.base import resources
from codesign.base.errors import InputError, UnknownNameError


@pytest.fixture(autouse=True)
def _two_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    for name in ("mine", "compare-mine"):
        (tmp_path / "runs" / f"{name}.yaml").write_text("x: 1\n")


def test_a_comparison_is_not_listed_among_the_campaigns():
    assert "mine" in resources.listed("runs")
    assert "compare-mine" not in resources.listed("runs")
    assert "compare-mine" in resources.listed("comparisons")
    assert "mine" not in resources.listed("comparisons")


@pytest.mark.parametrize("name", ["compare-mine", "runs/compare-mine.yaml"])
def test_a_comparison_given_as_a_campaign_is_refused_with_the_command_to_use(name):
    with pytest.raises(InputError, match="expected a campaign, got the comparison 'compare-mine'"):
        resources.find("runs", name)
    assert resources.find("comparisons", name).stem == "compare-mine"


@pytest.mark.parametrize("name", ["mine", "runs/mine.yaml"])
def test_a_campaign_given_as_a_comparison_is_refused_with_the_command_to_use(name):
    with pytest.raises(InputError, match=re.escape("got 'mine'; if it is a campaign")):
        resources.find("comparisons", name)


def test_the_nearest_comparison_is_offered():
    with pytest.raises(UnknownNameError, match="Did you mean 'compare-mine'"):
        resources.find("comparisons", "compre-mine")
