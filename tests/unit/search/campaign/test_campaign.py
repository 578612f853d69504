"""A campaign does every run, keeps what happens, and refuses what would spoil it."""

import itertools
import logging
import os
import sqlite3
import time

import numpy as np
import pytest

from codesign.base.errors import InputError, JobError, StoreError
from codesign.report.frames import observation_columns
from codesign.search.campaign import Campaign, Interrupted, current_inputs, list_campaigns
from codesign.search.pareto import hypervolume, non_dominated


def observations(campaign):
    """The stored table, byte for byte."""
    with sqlite3.connect(campaign.store_path) as connection:
        rows = connection.execute("SELECT * FROM observations ORDER BY run, step").fetchall()
        ended = connection.execute("SELECT * FROM runs ORDER BY run").fetchall()
    connection.close()
    return rows, ended


def finished(path, workers=1, folder=None):
    campaign = Campaign.load(path, folder)
    campaign.run(workers)
    return campaign


def test_each_run_has_its_budget_of_distinct_designs_and_begins_as_its_seed_decides(write):
    results = finished(write()).results()
    assert [str(run) for run in results.runs] == [
        "toy-climb, seed 0", "toy-climb, seed 1", "toy-random, seed 0", "toy-random, seed 1",
    ]  # fmt: skip
    assert len(results) == 160
    for index in range(4):
        ours = results.rows[results.run_index == index]
        assert len(np.unique(results.problem.space.keys(ours))) == 40
        assert results.problem.admits(ours).all()
        assert results.step[results.run_index == index].tolist() == list(range(40))
    first = {run: results.rows[results.run_index == i][:10].tolist()
             for i, run in enumerate(results.runs)}  # fmt: skip
    climb_0, climb_1, random_0, random_1 = first.values()
    assert climb_0 == random_0
    assert climb_1 == random_1
    assert climb_0 != climb_1


def test_the_hypervolume_is_that_of_the_feasible_designs_so_far_and_metrics_keep_their_sign(write):
    results = finished(write()).results()
    reference = np.array([-results.reference_point["gain_tokens"], 300.0])
    assert results.reference_point["power_watts"] == 300.0
    for index in range(4):
        ours = np.flatnonzero(results.run_index == index)
        for k in (1, 17, 40):
            kept = ours[:k][results.feasible[ours[:k]]]
            expected = hypervolume(results.objectives[kept], reference)
            assert results.hypervolume[ours[k - 1]] == pytest.approx(expected, rel=1e-12)
    assert results.hypervolume.max() > 0
    assert np.array_equal(results.objectives[:, 0], -results.metrics["gain_tokens"])
    assert np.array_equal(results.objectives[:, 1], results.metrics["power_watts"])
    assert set(results.violations) == {"heat", "power_watts <= 300"}
    over = results.metrics["power_watts"] > 300
    assert over.any()
    assert np.array_equal(results.feasible, ~over)


def test_the_front_is_the_distinct_feasible_designs_that_nothing_dominates(write):
    results = finished(write(budget=400, seeds=1)).results()
    front = results.front()
    found = np.isin(results.problem.space.keys(results.rows),
                    results.problem.space.keys(results.rows[front]))  # fmt: skip
    assert found.sum() > len(front), "both runs find designs of the front"
    assert results.feasible[front].all()
    assert len(np.unique(results.problem.space.keys(results.rows[front]))) == len(front)
    assert (np.diff(results.objectives[front, 0]) >= 0).all()
    feasible = results.objectives[results.feasible]
    best = np.unique(feasible[non_dominated(feasible)], axis=0)
    assert np.array_equal(np.unique(results.objectives[front], axis=0), best)
    design = results.design(int(front[0]))
    row = results.problem.space.encode(design)
    assert np.array_equal(row[0], results.rows[front[0]])


@pytest.mark.parametrize("workers", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_the_number_of_workers_changes_nothing_and_a_failed_run_stops_alone(write, folder, workers):
    path, stored = write(optimizers=["toy-raises", "toy-climb"]), []
    for number in (1, workers):
        place = folder / f"by-{number}"
        with pytest.raises(JobError, match=r"(?s)toy-raises, seed .*toy-raises, seed .*"):
            finished(path, number, place)
        stored.append(observations(Campaign.load(path, place)))
    assert stored[0] == stored[1]


def test_progress_hears_of_every_observation_and_of_none_when_nothing_is_left_to_do(write, told):
    path = write()
    before = observations(finished(path))
    totals = {"all evaluations": 160, "toy-climb": 80, "toy-random": 80}
    for name, total in totals.items():
        begin, *steps = [step[1:] for step in told if step[0] == name]
        assert (begin, sum(n for (n,) in steps)) == ((total, 0), total)
    told.clear()
    assert observations(finished(path)) == before
    assert told == [(name, total, total) for name, total in totals.items()]


def test_a_reason_holds_no_control_characters(write):
    campaign = Campaign.load(write(budget=30, seeds=1))
    evaluate = campaign.problem.evaluator.evaluate

    def broken(designs, metrics=None):
        if 3 in designs["x"].decoded():
            raise RuntimeError("\x1b[31mred\nsecond line")
        return evaluate(designs, metrics)

    campaign.problem.evaluator.evaluate = broken
    campaign.run(workers=1)
    assert set(campaign.results().reasons.values()) == {"RuntimeError: \\x1b[31mred second line"}


def test_whatever_an_evaluator_does_is_recorded_and_the_campaign_goes_on(write):
    # An optimizer of the toys refuses to be told that a design without numbers has not failed.
    options = {"name": "toy", "raise_on": [3, 4], "nan_on": [7], "inf_on": [9], "give_up_on": [11],
               "refuse_on": [13]}  # fmt: skip
    results = finished(write(evaluator=options, budget=300, seeds=1)).results()
    x = np.array([design["x"] for design in results.problem.space.decode(results.rows)])
    reasons = {
        3: "ZeroDivisionError: the toy broke (toy_plugins.py:60)", 7: "metric gain_tokens is nan",
        9: "metric power_watts is inf", 11: "gave up on 11", 13: "no room for 13",
    }  # fmt: skip
    assert len(results) == 600
    assert np.array_equal(results.failed, np.isin(x, [4, *reasons]))
    for value, reason in reasons.items():
        assert np.isin(value, x)
        assert all(results.reasons[i] == reason for i in np.flatnonzero(x == value))
    kinds = {3: "failed", 4: "failed", 7: "bad-output", 9: "bad-output", 11: "failed",
             13: "infeasible"}  # fmt: skip
    for i in np.flatnonzero(results.failed).tolist():
        assert results.status_word(i) == kinds[int(x[i])]
    assert np.array_equal(results.broke, results.failed & (x != 13))
    assert not (results.feasible & results.failed).any()
    assert np.isnan(results.objectives[results.failed]).all()


def test_a_space_that_runs_out_ends_the_run_early(write):
    campaign = finished(write(fixed={"y": 20, "kind": "plain"}, optimizers=["toy-random"]))
    status = campaign.status()
    assert status.state == "exhausted"
    assert [(run.done, run.state) for run in status.runs] == [(30, "exhausted")] * 2
    finished("toys")
    assert campaign.status().done == 60


def test_without_a_feasible_design_the_campaign_completes_with_an_empty_front(write):
    campaign = finished(write(constraints=["power_watts <= 3"]))
    results = campaign.results()
    assert campaign.status().state == "complete"
    assert len(results.front()) == 0
    assert not results.feasible.any()
    assert results.hypervolume.max() == 0
    assert results.reference_point["power_watts"] == 3


def test_a_space_without_an_admissible_design_is_refused_with_the_limit_in_the_way(write):
    campaign = Campaign.load(write(constraints=["area >= 1000", "x > 1"]))
    with pytest.raises(InputError, match=r"no design .*'area >= 1000' excludes 100%"):
        campaign.run(workers=1)
    assert not campaign.store_path.exists()


def test_constraints_on_parameters_are_met_before_anything_is_evaluated(write):
    results = finished(write(constraints=["x >= 10", "area <= 200"], seeds=1)).results()
    designs = results.problem.space.decode(results.rows)
    assert all(design["x"] >= 10 and design["x"] * design["y"] <= 200 for design in designs)
    assert set(results.violations) == {"heat"}


def test_a_given_reference_point_is_taken(write):
    given = {"gain_tokens": 20.0, "power_watts": "0.4 kW"}
    results = finished(write(reference_point=given, budget=12, seeds=1)).results()
    assert results.reference_point == {"gain_tokens": 20.0, "power_watts": 400.0}


def test_the_reference_point_is_the_worst_of_the_feasible_sample(write):
    campaign = finished(write(constraints=[], budget=12, seeds=1))
    campaign_again = finished(write(constraints=[], name="again", budget=12, seeds=1))
    point = campaign.results().reference_point
    assert point == campaign_again.results().reference_point
    assert 10 <= point["gain_tokens"] < 30
    assert 200 < point["power_watts"] <= 100 + 55 * 55 / 4 / 3


def test_a_changed_definition_is_not_run_and_its_results_are_those_of_the_store(write, caplog):
    stored = finished(write()).results()
    path = write(budget=50, optimizers=["toy-climb", {"name": "toy-random", "population": 3}])
    before = path.parent.joinpath("toys", "campaign.sqlite").read_bytes()
    changes = ("budget: 40 -> 50", "optimizers.toy-random.population: 7 -> 3")
    with pytest.raises(StoreError, match="accept the changes by --accept-changes") as caught:
        Campaign.load(path).run(workers=1)
    assert caught.value.problems[1:] == tuple(f"  {line}" for line in changes)
    assert path.parent.joinpath("toys", "campaign.sqlite").read_bytes() == before
    campaign = Campaign.load(path)
    results = campaign.results()
    assert "read with its stored inputs; today's differ: budget: 40 -> 50 and 1 more" in caplog.text
    assert campaign.status().notices == changes
    assert results.definition.budget == 40
    assert results.objectives.tobytes() == stored.objectives.tobytes()
    assert results.front().tolist() == stored.front().tolist()


@pytest.mark.parametrize("change", ["scale", "space", "gone"])
def test_results_are_read_whatever_became_of_the_inputs(write, folder, change):
    stored = finished(write(budget=12)).results()
    space = folder / "spaces" / "square.yaml"
    if change == "space":
        space.write_text(space.read_text().replace("high: 29", "high: 28", 1))
    elif change == "gone":
        space.unlink()
    path = write(budget=12, workload={"scale": 2.0} if change == "scale" else {})
    campaign = Campaign.load(path)
    assert campaign.status().notices
    results = campaign.results()
    assert results.objectives.tobytes() == stored.objectives.tobytes()
    assert [results.design(i) for i in results.front()] == [
        stored.design(i) for i in stored.front()
    ]
    assert results.problem.metric_names == stored.problem.metric_names
    assert results.problem.objectives == stored.problem.objectives
    message = {
        "scale": r"problem\.evaluator\.scale: 1\.0 -> 2\.0",
        "space": r"parameters\.0\.values: \[29\] -> nothing \(30 -> 29 entries\)",
        "gone": "unknown",
    }[change]
    with pytest.raises(InputError, match=message):
        campaign.run(workers=1)
    if change != "scale":
        with pytest.raises(InputError, match=message):
            campaign.run(workers=1, accept_changes=True)


def test_accepted_changes_go_on_and_mark_what_follows(write):
    finished(write(optimizers=["toy-random"], seeds=1))
    changed = write(optimizers=["toy-random"], seeds=1, budget=50, workload={"scale": 2.0})
    Campaign.load(changed).run(workers=1, accept_changes=True)
    campaign = Campaign.load(changed)
    results = campaign.results()
    assert results.epoch.tolist() == [0] * 40 + [1] * 10
    assert campaign.status().state == "complete"
    assert campaign.status().notices == (
        "accepted: budget: 40 -> 50",
        "accepted: problem.evaluator.scale: 1.0 -> 2.0",
    )
    assert campaign.verify() == []
    assert observation_columns(results, np.array([39, 40]))["inputs"].tolist() == [0, 1]
    campaign.run(workers=1)


def test_what_only_people_read_may_change(write):
    finished(write())
    finished(write(description="another text", workers=2))


def test_other_library_versions_are_a_warning(write, monkeypatch, caplog):
    path = write(budget=12)
    finished(path)
    now = current_inputs.library_versions()
    monkeypatch.setattr(current_inputs, "library_versions", lambda: {**now, "numpy": "9.9"})
    with caplog.at_level(logging.WARNING):
        finished(path)
    assert f"numpy: {now['numpy']} -> 9.9" in caplog.text


def test_with_other_code_of_the_evaluator_a_campaign_goes_on_only_if_that_is_accepted(
    write, monkeypatch, caplog, ctrl_c
):
    path = write(budget=12)
    ctrl_c(after=4)
    with pytest.raises(Interrupted):
        finished(path)
    digest = current_inputs.code_digest
    monkeypatch.setattr(current_inputs, "code_digest", lambda modules: "0" * 64)
    campaign = Campaign.load(path)
    with pytest.raises(StoreError, match=r"code of the evaluator has changed.*--accept-changes"):
        campaign.run(workers=1)
    with caplog.at_level(logging.WARNING):
        n_read = len(campaign.results())
    assert 0 < n_read < 48
    assert "other code of its evaluator" in caplog.text
    campaign.run(workers=1, accept_changes=True)
    results = campaign.results()
    epochs = observation_columns(results, np.arange(48))["inputs"].tolist()
    assert epochs.count(1) == 48 - n_read
    assert any(line.endswith("-> 000000000000") for line in campaign.status().notices)
    monkeypatch.setattr(current_inputs, "code_digest", digest)
    campaign.run(workers=1)  # complete: nothing is left to do with other code


def test_a_clock_that_jumps_changes_nothing(write, folder, monkeypatch):
    path = write(budget=12, execution={"isolated": False, "cache": True, "cache_folder": "cache"})
    undisturbed = observations(finished(path))
    jumps = itertools.cycle([4e9, 0.0, 1e6, 2e9, -5.0])
    monkeypatch.setattr(time, "time", lambda: next(jumps))
    assert observations(finished(path, folder=folder / "again")) == undisturbed
    other = write(
        budget=12, execution={"isolated": False, "cache": True, "cache_folder": "elsewhere"}
    )
    assert observations(finished(other, folder=folder / "elsewhere")) == undisturbed


FAULTS = {
    "toy-twice": "a design twice",
    "toy-outside": "not admissible",
    "toy-raises": "KeyError: 'lost its way' .*toy_plugins.py:",
    "toy-misshapen": r"asked for up to 7 rows of 3 integers, it gave \[\[1, 2\]\]",
    "toy-greedy": "asked for up to 7 designs, it gave 8",
}


@pytest.mark.parametrize(("optimizer", "message"), FAULTS.items())
def test_an_optimizer_that_fails_stops_its_own_runs_only(write, optimizer, message):
    campaign = Campaign.load(write(optimizers=[optimizer, "toy-random"]))
    with pytest.raises(JobError, match=message) as caught:
        campaign.run(workers=1)
    assert str(caught.value).count(f"{optimizer}, seed ") == 2
    assert [run.done for run in campaign.status().runs] == [10, 10, 40, 40]
    assert campaign.status().state == "stopped"


def test_a_design_that_was_stored_before_a_restart_is_known_after_it(write):
    campaign = Campaign.load(write(optimizers=["toy-twice"], seeds=1))
    for _ in range(2):
        with pytest.raises(JobError, match="a design twice"):
            campaign.run(workers=1)
        assert campaign.status().done == 10


@pytest.mark.parametrize("workers", [1, 2])
def test_a_missing_library_stops_the_campaign_with_what_to_install(write, workers):
    campaign = Campaign.load(write(optimizers=["toy-absent-library", "toy-random"]))
    with pytest.raises(Exception, match=r"pip install 'codesign\[toys\]'") as caught:
        campaign.run(workers=workers)
    assert not isinstance(caught.value, JobError)


def test_a_worker_that_is_killed_fails_its_run_and_loses_nothing(write, folder):
    fatal = write(evaluator={"name": "toy", "kill_on": 13}, seeds=1, budget=80)
    campaign = Campaign.load(fatal)
    with pytest.raises(
        JobError, match=r"worker of run toy-random, seed 0 was killed by signal 9 \(SIGKILL\)"
    ):
        campaign.run(workers=2)
    results = campaign.results()
    status = campaign.status()
    assert status.state == "stopped"
    assert all(run.done < 80 for run in status.runs)
    assert len(results) == status.done
    whole = finished(write(name="whole", seeds=1, budget=80)).results()
    for index in range(2):
        stored = results.rows[results.run_index == index]
        assert np.array_equal(stored, whole.rows[whole.run_index == index][: len(stored)])


def test_ctrl_c_says_how_to_go_on(write, ctrl_c):
    path = write()
    expected = observations(finished(path, folder="reference"))

    campaign = Campaign.load("toys")
    ctrl_c(after=4)
    with pytest.raises(Interrupted, match="the same command goes on"):
        campaign.run(workers=1)
    assert campaign.status().state == "stopped"
    campaign.run(workers=1)
    assert observations(campaign) == expected


def test_status_tells_what_each_run_has_done(write):
    campaign = Campaign.load(write())
    status = campaign.status()
    assert (status.state, status.done, status.total) == ("not started", 0, 160)
    campaign.run(workers=1)
    status = campaign.status()
    assert (status.state, status.done, status.budget) == ("complete", 160, 40)
    results = campaign.results()
    for index, run in enumerate(status.runs):
        ours = results.run_index == index
        assert run.run == results.runs[index]
        assert run.feasible == results.feasible[ours].sum()
        assert run.hypervolume == results.hypervolume[ours][-1]
        assert run.seconds > 0


def test_campaigns_are_listed_with_their_state_and_what_is_wrong_with_them(write, folder):
    finished(write(name="done", budget=12))
    write(name="fresh")
    (folder / "runs" / "broken.yaml").write_text("name: [")
    (folder / "runs" / "damaged").mkdir()
    (folder / "runs" / "damaged" / "campaign.sqlite").write_bytes(b"no database at all" * 99)
    listed = {item.name: item for item in list_campaigns()}
    assert listed["done"].state == "complete"
    assert (listed["fresh"].state, listed["fresh"].total) == ("not started", 160)
    assert "not valid YAML" in listed["broken"].problem
    assert "damaged" in listed["damaged"].problem


def test_results_before_the_first_run_are_refused_with_what_to_do(write):
    path = write()
    with pytest.raises(InputError, match=f"'codesign run {path}' starts it"):
        Campaign.load(path).results()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_named(write, folder):
    closed = folder / "closed"
    closed.mkdir(mode=0o500)
    with pytest.raises(StoreError, match="closed/toys: the folder cannot be made"):
        Campaign.load(write(), closed).run(workers=1)


def test_a_file_in_the_place_of_the_folder_is_named(write, folder):
    (folder / "runs" / "toys").write_text("in the way")
    with pytest.raises(StoreError, match="runs/toys: the folder cannot be made: File exists"):
        Campaign.load(write()).run(workers=1)
