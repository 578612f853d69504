"""A campaign whose evaluator ends its process records the design and goes on."""

import json

import numpy as np

from codesign.base.failures import Status
from codesign.cli import main
from codesign.search.campaign import Campaign
from codesign.search.campaign.store_file import open_store
from codesign.search.execution.result_store import ResultStore


def test_a_design_that_kills_its_process_is_lost_once_and_the_campaign_completes(write, capsys):
    write(
        evaluator={"name": "toy", "kill_on": 13},
        optimizers=["toy-random"],
        seeds=1,
        budget=40,
        reference_point={"gain_tokens": 0, "power_watts": 400},
        reference_sample=None,
        execution={"retries": 0},
    )
    # The trial of the reference point is made in this process, where the toy does not kill.
    assert main(["run", "toys"]) == 0
    results = Campaign.load("toys").results()
    x = np.array([design["x"] for design in results.problem.space.decode(results.rows)])
    assert (x == 13).any()
    assert np.array_equal(results.failed, x == 13)
    assert {results.status_word(int(i)) for i in np.flatnonzero(x == 13)} == {"lost"}
    assert "killed by signal 9 (SIGKILL)" in next(iter(results.reasons.values()))
    with open_store(Campaign.load("toys").store_path) as store:
        before = store.read()
    assert (before.observations.status[x == 13] == Status.LOST).all()
    capsys.readouterr()
    assert main(["run", "toys"]) == 0
    with open_store(Campaign.load("toys").store_path) as store:
        numbers = store.layout.numbers_of(store.read().observations)
        assert numbers.tobytes() == store.layout.numbers_of(before.observations).tobytes()
    capsys.readouterr()
    assert main(["status", "toys", "--json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert run["failures"] == {"lost": int((x == 13).sum())}
    assert main(["status", "toys"]) == 0
    assert f"{(x == 13).sum()} lost" in capsys.readouterr().out


GAIN_PER_JOULE = {
    "value": "gain_tokens / (power_watts * 1 s)", "sense": "maximize", "unit": "token/J"
}  # fmt: skip


def test_where_designs_are_evaluated_changes_nothing(write):
    changes = {
        "metrics": {"gain_per_joule": GAIN_PER_JOULE},
        "objectives": ["maximize gain_per_joule", "minimize power_watts"],
        "constraints": ["gain_per_joule >= 0.05"],
    }

    def observations(**execution):
        write(seeds=1, budget=20, optimizers=["toy-climb"], execution=execution, **changes)
        campaign = Campaign.load("toys", f"folder-{len(execution)}")
        campaign.run(workers=1)
        with open_store(campaign.store_path) as store:
            stored = store.read().observations
            numbers = store.layout.numbers_of(stored)
        return stored.rows.tobytes(), numbers.tobytes(), stored.failures

    assert observations() == observations(isolated=False)


def test_a_timeout_without_a_unit_is_told_with_its_place(write, capsys):
    write(execution={"timeout": 30})
    assert main(["run", "toys"]) == 2
    assert "toys.yaml" in capsys.readouterr().err
    write(execution={"timeout": "-3 s", "retries": -1})
    assert main(["run", "toys"]) == 2
    text = capsys.readouterr().err
    assert "execution.timeout: expected a time above 0, got '-3 s'" in text
    assert "execution.retries: " in text


def test_what_an_enumeration_evaluated_is_in_the_cache(write, monkeypatch, tmp_path):
    write(execution={"cache_folder": "kept"})
    front = Campaign.load("toys", "first").exact_front(workers=1)
    (holding,) = ResultStore(tmp_path / "kept").holdings()
    assert holding.results == sum(x + y <= 55 for x in range(30) for y in range(30))

    def refuse(self, designs, metrics=None):
        raise RuntimeError("evaluated again")

    evaluator = type(Campaign.load("toys").problem.evaluator)
    monkeypatch.setattr(evaluator, "evaluate", refuse)
    campaign = Campaign.load("toys", "second")
    again = campaign.exact_front(workers=1)
    assert campaign.exact_results(again).objectives.tobytes() == front.objectives.tobytes()
    assert again.objectives.tobytes() == front.objectives.tobytes()
    assert again.rows.tobytes() == front.rows.tobytes()


def test_an_enumeration_without_a_cache_keeps_none(write, tmp_path):
    write(execution={"cache": False, "cache_folder": "kept"})
    Campaign.load("toys", "first").exact_front(workers=1)
    assert not (tmp_path / "kept").exists()
