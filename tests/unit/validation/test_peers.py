"""The study of the random phase of peers: its table, and a peer that does not learn."""

import pytest

from codesign.base.errors import InputError
from validation import peers


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """One method on one seed, a few designs."""
    folder = tmp_path_factory.mktemp("study")
    return peers.compare_on(["optuna-tpe"], "problem-zdt1", 1, 12, 20, folder)


def test_the_table_has_each_method_and_where_its_proposals_are_from(outcome):
    head, _, tpe, random = peers.table_of(outcome).splitlines()
    assert head.startswith("| method | median |")
    assert tpe.startswith("| optuna-tpe | ")
    assert tpe.endswith("| 3 of 3 parameters by the model |")
    assert random.startswith("| random | ")


def test_a_method_that_is_no_better_than_chance_is_named(outcome, monkeypatch):
    monkeypatch.setattr(peers, "_BASELINE", "optuna-tpe")
    assert peers.no_better(outcome) == ["optuna-tpe"]


def test_an_unknown_problem_or_method_ends_with_2_and_a_line(tmp_path, capsys):
    assert peers.main(["optuna-tpe", "--problem", "problem-zdt9", "--folder", str(tmp_path)]) == 2
    assert "problem-zdt9" in capsys.readouterr().err
    with pytest.raises(InputError, match="optuna-tpf"):
        peers.compare_on(["optuna-tpf"], "problem-zdt1", 1, 12, 20, tmp_path)
