"""Campaigns whose processes are killed at random moments end as those that nobody disturbed."""

import pytest

from codesign.studies import kills


@pytest.mark.slow
@pytest.mark.parametrize("campaign", kills.TARGETS)
def test_a_campaign_whose_processes_are_killed_ends_as_one_that_nobody_disturbed(campaign, capsys):
    assert kills.main(["--kills", "5", "--campaign", campaign]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if campaign in line]
    assert line.endswith("| 0 |")
