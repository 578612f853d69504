"""A campaign that is killed at any moment continues to the result of an uninterrupted one."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest
import yaml

from codesign.base.errors import CodesignError
from codesign.search.campaign import Campaign

PLUGINS = Path(__file__).parents[1] / "unit" / "search" / "campaign" / "plugins"

RUN = (
    "import sys; from codesign.search.campaign import Campaign; "
    "Campaign.load('toys', sys.argv[1]).run(workers=int(sys.argv[2]))"
)

SPACE = "parameters:\n  x: {low: 0, high: 29}\n  y: {low: 0, high: 29}\n"

CAMPAIGN = {
    "name": "toys",
    "space": "square",
    "evaluator": {"name": "toy", "delay_s": 0.01, "raise_on": [5], "nan_on": [6]},
    "metrics": {
        "gain_per_joule": {
            "value": "gain_tokens / (power_watts * 1 s)",
            "sense": "maximize",
            "unit": "token/J",
        },
    },
    "objectives": ["maximize gain_per_joule", "minimize power_watts"],
    "constraints": ["power_watts <= 300", "gain_per_joule >= 0.01"],
    "optimizers": ["toy-climb", "toy-random"],
    "initial": 10,
    "batch": 3,
    "budget": 40,
    "seeds": 2,
    "reference_sample": 64,
}


def starter(working_folder):
    """What starts the campaign in a process of its own, in a working folder that has its files."""
    (working_folder / "spaces").mkdir()
    (working_folder / "spaces" / "square.yaml").write_text(SPACE)
    (working_folder / "runs").mkdir()
    (working_folder / "runs" / "toys.yaml").write_text(yaml.safe_dump(CAMPAIGN, sort_keys=False))
    places = [str(PLUGINS), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places)}

    def start(folder, workers=1):
        return subprocess.Popen(
            [sys.executable, "-c", RUN, folder, str(workers)],
            cwd=working_folder, env=environment, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    return start


@pytest.fixture
def start(tmp_path):
    """Start the campaign in a process of its own."""
    return starter(tmp_path)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """The observations of a campaign that nothing interrupts."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    starter(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(PLUGINS))
        patch.chdir(folder)
        Campaign.load("toys", "whole").run(workers=1)
    return observations(folder / "whole" / "toys" / "campaign.sqlite")


@pytest.fixture
def go_on(tmp_path, monkeypatch):
    """Run the campaign in the process of the test."""
    monkeypatch.syspath_prepend(str(PLUGINS))
    monkeypatch.chdir(tmp_path)
    return lambda folder: Campaign.load("toys", folder).run(workers=1)


def finish(process):
    _, said = process.communicate()
    return process.returncode, said


def observations(path):
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return (
            connection.execute("SELECT * FROM observations ORDER BY run, step").fetchall(),
            connection.execute("SELECT * FROM runs ORDER BY run").fetchall(),
            connection.execute("SELECT * FROM meta ORDER BY key").fetchall(),
        )
    finally:
        connection.close()


def children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def count(path):
    if not path.exists():
        return 0
    for mode in ("ro", "rw"):  # a kill may leave a journal, which only a writer may undo
        connection = sqlite3.connect(f"file:{path}?mode={mode}", uri=True)
        with closing(connection), suppress(sqlite3.OperationalError):
            return connection.execute("SELECT count(*) FROM observations").fetchone()[0]
    raise AssertionError(f"{path} cannot be read")


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_a_campaign_killed_at_random_moments_equals_an_uninterrupted_one(
    tmp_path, start, go_on, uninterrupted, workers
):
    store = tmp_path / "killed" / "toys" / "campaign.sqlite"
    chance = random.Random(workers)
    for least in (0, chance.randrange(160)):
        process = start("killed", workers)
        while count(store) < least and process.poll() is None:
            time.sleep(0.01)
        time.sleep(chance.uniform(0.0, 0.03 if least else 0.5))
        process.kill()
        assert finish(process)[0] in (0, -signal.SIGKILL)
        assert least <= count(store)
    go_on("killed")
    assert observations(store) == uninterrupted


def test_workers_do_not_outlive_a_killed_parent(tmp_path, start, await_ends):
    slow = {
        **CAMPAIGN,
        "evaluator": {"name": "toy", "delay_s": 3600.0, "n_undelayed": 1},
        "reference_point": {"gain_per_joule": "0 token/J", "power_watts": 400},
    }
    (tmp_path / "runs" / "toys.yaml").write_text(yaml.safe_dump(slow))
    process = start("killed", workers=2)
    while len(workers := children(process.pid)) < 2:
        assert process.poll() is None
        time.sleep(0.01)
    time.sleep(1.5)  # now they are in the middle of an evaluation
    process.kill()
    process.wait()
    # The evaluation takes an hour: the workers end because they see that the parent is gone.
    await_ends(workers)
    process.stderr.close()


def test_a_second_process_is_refused_and_the_first_goes_on(tmp_path, start, go_on):
    first = start("shared")
    lock = tmp_path / "shared" / "toys" / "lock"
    while not lock.exists() or not lock.read_text():
        assert first.poll() is None
        time.sleep(0.01)
    first.send_signal(signal.SIGSTOP)  # or it may end before the second has begun
    with pytest.raises(CodesignError, match="is running this campaign") as refused:
        go_on("shared")
    first.send_signal(signal.SIGCONT)
    assert f"process {first.pid} on" in str(refused.value)
    assert finish(first)[0] == 0


def test_an_interrupt_stops_cleanly_and_says_how_to_go_on(
    tmp_path, start, go_on, uninterrupted, await_ends
):
    process = start("interrupted", workers=2)
    store = tmp_path / "interrupted" / "toys" / "campaign.sqlite"
    while not store.exists() or not observations(store)[0]:
        assert process.poll() is None
        time.sleep(0.01)
    workers = children(process.pid)
    process.send_signal(signal.SIGINT)
    code, said = finish(process)
    assert code != 0
    assert "the same command goes on from there" in said
    # A worker that was being started just then ends by itself, because the parent is gone.
    await_ends(workers)
    go_on("interrupted")
    assert observations(store) == uninterrupted
