"""Campaigns whose processes are killed at random moments end as those that nobody disturbed."""

import random

import pytest

from validation.chaos import kills


@pytest.mark.parametrize("campaign", kills.TARGETS)
def test_no_design_loses_more_processes_than_it_outlives_before_the_next_start(campaign):
    target, chance = kills.TARGETS[campaign], random.Random(0)
    early = {target.victim(chance, target.retries - 1) for _ in range(99)}
    assert early == set(target.victims)
    assert {target.victim(chance, target.retries) for _ in range(99)} == {"main"}


def test_a_campaign_that_fails_without_kills_is_one_line(capsys, monkeypatch):
    text = kills.TARGETS["workers"].text.replace("benchmark-functions", "nothing")
    monkeypatch.setattr(kills, "TARGETS", {"bad": kills.KilledCampaign(text, ("main",), 0)})
    assert kills.main(["--kills", "1"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("failed without a kill, see ")
    assert "nothing" in line


@pytest.mark.slow
@pytest.mark.parametrize("campaign", kills.TARGETS)
def test_a_campaign_whose_processes_are_killed_ends_as_one_that_nobody_disturbed(campaign, capsys):
    assert kills.main(["--kills", "5", "--campaign", campaign]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if campaign in line]
    assert line.endswith("| 0 |")
