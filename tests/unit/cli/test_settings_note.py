"""What `codesign evaluate --set` says of settings that the space moves."""

import pytest

from codesign.cli.evaluation import _say_what_moved


@pytest.mark.parametrize("text", ["[2048, 64]", "2048x64", "[2048,64]"])
def test_a_setting_that_stays_is_not_said_to_have_moved(text, capsys):
    _say_what_moved({"pe_array": text}, {"pe_array": (2048, 64)})
    assert capsys.readouterr().err == ""


def test_a_setting_that_moves_is_said(capsys):
    _say_what_moved({"tier1_technology": "hbf"}, {"tier1_technology": "hbm4_12h"})
    assert "tier1_technology is hbm4_12h" in capsys.readouterr().err
