"""A cheaper evaluator beside the campaign's own: asked first, stored, never counted as a result."""

import importlib
import sqlite3
from contextlib import closing
from functools import partial

import numpy as np
import pytest

from codesign.base.errors import InputError
from codesign.search.campaign import Campaign, load_definition
from codesign.search.campaign.asynchronous import execute_in_flight
from codesign.search.campaign.execution import Job
from codesign.search.campaign.executor import Recorder
from codesign.search.campaign.farm import Farm
from codesign.search.campaign.loop import Plan
from codesign.search.campaign.reference import minimized
from codesign.search.campaign.store_file import open_store
from codesign.search.pareto import hypervolume
from validation.chaos.in_flight import VirtualExecutor

SCREENING = {
    "name": "toy",
    "workload": {"scale": 0.5},
    "options": {"give_up_on": [3]},
    "cost": "100 ms",
    "target_cost": "2 s",
}
SMALL = {
    "screening": SCREENING,
    "optimizers": ["toy-climb"],
    "initial": 3,
    "budget": 6,
    "seeds": 1,
    "reference_point": {"gain_tokens": 10, "power_watts": 400},
}


@pytest.fixture
def climbs_screened(folder, monkeypatch):
    """``toy-climb`` asks for two designs before each proposal, and climbs what it heard of both."""
    module = importlib.import_module("toy_plugins")

    class Screening(module.ToyClimb):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            self.screened = []

        def ask_screened(self, pending):
            if len(self.screened) >= 2 * len(self.rows):
                return self.space.no_rows
            rng = np.random.default_rng([self.seed, len(self.rows), len(self.screened)])
            rows = self.space.space.sample(rng, 30)
            return self.ranked(rows[self.space.admits(rows) & (rows[:, 0] != rows[0, 0])])[:2]

        def tell_screened(self, rows, objectives, violations, failed):
            assert violations.shape == (len(rows), 1)
            self.screened += [np.nan_to_num(item).sum() for item in objectives]

        def ranked(self, rows):
            shift = int(abs(sum(self.screened))) % 7
            return super().ranked(rows)[shift:]

    monkeypatch.setattr(module, "ToyClimb", Screening)


class Killed(BaseException):
    """What ends a process here."""


class Mortal(Recorder):
    """Dies before or after so many writes."""

    def __init__(self, store, budget, life):
        super().__init__(store, budget)
        self.life = life
        for name in ("propose", "append", "append_screened"):
            setattr(store, name, partial(self.write, getattr(store, name)))

    def write(self, method, items):
        for step in (lambda: None, lambda: method(items)):
            self.life -= 1
            if self.life == 0:
                raise Killed
            step()


@pytest.fixture
def start(write, folder):
    """Begin a campaign in its folder, or go on with it, until it dies."""

    def start(name, life=0, in_flight=1, **changes):
        resolved = load_definition(write(**{**SMALL, **changes}))
        campaign = Campaign(resolved, folder / name / "toys", "toys")
        if not campaign.store_path.exists():
            campaign.folder.mkdir(parents=True)
            campaign._create(Job(resolved, campaign.folder, 1), False)
        with open_store(campaign.store_path, writing=True) as store:
            evaluate = campaign.problem.evaluate
            reference = minimized(campaign.problem, store.meta["reference_point"])
            plan = Plan(resolved, store.layout, reference, evaluate, resolved.screening.evaluate)
            pending = [i for i, count in enumerate(store.counts()) if not count.has_ended]
            executor = VirtualExecutor()
            farm = Farm(executor, evaluate, in_flight, 1, 0, executor.wait)
            execute_in_flight(plan, pending, Mortal(store, 6, life), farm)
        return campaign

    return start


def stored(campaign):
    words = {"screenings": "run, number, told, design, numbers, reason"}
    with closing(sqlite3.connect(campaign.store_path)) as connection:
        return {
            table: connection.execute(
                f"SELECT {words.get(table, '*')} FROM {table} ORDER BY 1, 2"
            ).fetchall()
            for table in ("observations", "proposals", "runs", "screenings")
        }


def killed_everywhere(start, folder, lives, **changes):
    """How many of the lives were too short; each campaign ended as the undisturbed one."""
    expected = stored(start("whole", **changes))
    assert expected["screenings"]
    n_killed = 0
    for life in lives:
        try:
            start(f"killed-{life}", life, **changes)
        except Killed:
            n_killed += 1
        assert stored(start(f"killed-{life}", **changes)) == expected
    return n_killed


@pytest.mark.usefixtures("climbs_screened")
def test_a_run_killed_at_any_write_screens_and_evaluates_the_same_designs(start, folder):
    assert killed_everywhere(start, folder, range(1, 30)) >= 20


@pytest.fixture
def hints(folder, monkeypatch):
    """The evaluator predicts itself, twice too much where x is even."""
    module = importlib.import_module("toy_plugins")

    class Hinting(module.ToyEvaluator):
        def predict(self, designs, names):
            factor = np.where(designs["x"].lookup(float) % 2, 1.0, 2.0)
            metrics = self.evaluate(designs).metrics
            return {name: np.nan_to_num(metrics[name] * factor) for name in names}

    monkeypatch.setattr(module, "ToyEvaluator", Hinting)


@pytest.mark.usefixtures("climbs_screened", "hints")
def test_a_start_from_hints_is_the_best_of_those_that_were_screened(start, folder):
    changes = {"optimizers": [{"name": "toy-climb", "start": "hints"}]}
    campaign = start("hinted", **changes)
    with open_store(campaign.store_path) as store:
        batch, observed = store.screened(0), store.read(0).observations
    first, screened = batch.n_told == 0, batch.observations
    # A fifth of the time of three evaluations of 2 s, at 0.1 s each.
    assert first.sum() == 12
    keys = campaign.problem.space.keys
    at = np.flatnonzero(np.isin(keys(screened.rows), keys(observed.rows[:3])) & first)
    assert len(at) == 3, "the initial designs are among those"
    # Its hints alone would begin with other designs.
    assert sorted(at) != [0, 1, 2]
    values, bound = screened.objectives[first], np.array([-10.0, 400.0])
    assert hypervolume(values[at], bound) >= hypervolume(values[:3], bound)
    assert killed_everywhere(start, folder, range(1, 7), **changes) == 6


@pytest.mark.slow
@pytest.mark.usefixtures("climbs_screened")
def test_so_does_gp_ehvi(start, folder):
    assert killed_everywhere(start, folder, range(7, 22, 3), optimizers=["gp-ehvi"]) == 5


def test_a_derived_metric_is_computed_from_the_cheaper_evaluators_metrics(write):
    value = "gain_tokens / (power_watts * 1 s)"
    resolved = load_definition(
        write(
            **SMALL
            | {
                "metrics": {"own": {"value": value, "sense": "maximize", "unit": "token/J"}},
                "objectives": ["maximize own", "minimize power_watts"],
                "reference_point": {"own": "0 token/J", "power_watts": 400},
            }
        )
    )
    rows = resolved.problem.space.rows(np.arange(0, 60, 7))
    dear, cheap = (item.evaluate(rows) for item in (resolved.problem, resolved.screening))
    compared = ~cheap.failed
    assert compared.sum() > 3
    np.testing.assert_allclose(
        cheap.metrics["own"][compared], 0.5 * dear.metrics["own"][compared], rtol=1e-12
    )


def test_only_the_dear_evaluator_gives_results(write, folder):
    quick = {"name": "gp-ehvi", "candidates": 32, "mutants": 16, "iterations": 3, "local_search": 1}
    campaign = Campaign.load(write(**{**SMALL, "optimizers": [quick]}), folder / "results")
    campaign.run(workers=1)
    results = campaign.results()
    assert len(results.rows) == 6
    alone = campaign.problem.evaluate(results.rows)
    assert results.metrics["gain_tokens"] == pytest.approx(alone.metrics["gain_tokens"])
    with open_store(campaign.store_path) as store:
        screened = store.screened(0).observations
        assert not store.verify()
    keys = campaign.problem.space.keys
    assert np.isin(keys(results.rows[:-1]), keys(screened.rows)).all(), "nested, as is learned"
    assert len(np.unique(keys(screened.rows))) == len(screened.rows)
    # A fifth of the time of seven evaluations of 2 s, at 0.1 s each; and what was told already.
    assert 6 <= len(screened.rows) <= 28 + 3
    (notice,) = campaign.status().notices
    assert notice.startswith(f"toy screened {len(screened.rows)} designs in ")
    assert notice.endswith(" for these and 12 s for the 6 evaluated")


def test_an_optimizer_that_cannot_choose_does_without(write, folder):
    observed = []
    for screening in (SCREENING, None):
        path = write(**{**SMALL, "screening": screening})
        campaign = Campaign.load(path, folder / f"results-{screening is None}")
        campaign.run(workers=1)
        observed.append(campaign.results().rows.tolist())
    assert observed[0] == observed[1]


@pytest.mark.usefixtures("climbs_screened")
def test_a_changed_bit_of_what_was_screened_is_noticed(start):
    campaign = start("damaged")
    with closing(sqlite3.connect(campaign.store_path)) as connection:
        connection.execute("UPDATE screenings SET seconds = seconds + 1 WHERE number = 2")
        connection.commit()
    assert campaign.verify() == ["screenings: 1 rows are not what was written"]
    with (
        open_store(campaign.store_path) as store,
        pytest.raises(Exception, match="a screened design is not what was written"),
    ):
        store.screened(0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cost": "2 s"}, r"expected a cost below target_cost, 2 s, got 2 s"),
        ({"cost": "0 s"}, r"screening\.cost: expected a time above 0, got '0 s'"),
        ({"share": 0}, r"screening\.share"),
        ({"name": "toi"}, r"Did you mean 'toy'\?"),
        ({"options": {"rais_on": [1]}}, r"Did you mean 'raise_on'\?"),
        ({"metrics": {"gain": "gain_tokens"}}, r"Did you mean 'gain_tokens'\?"),
        ({"metrics": {"gain_tokens": "gain_token"}}, r"Did you mean 'gain_tokens'\?"),
        (
            {"metrics": {"gain_tokens": "power_watts"}},
            r"expected a metric in token for gain_tokens",
        ),
    ],
)
def test_what_cannot_be_screened_is_refused_with_its_place(write, change, message):
    path = write(**{**SMALL, "screening": {**SCREENING, **change}})
    with pytest.raises(InputError, match=message) as refusal:
        load_definition(path)
    assert all("toys.yaml:" in problem for problem in refusal.value.problems)
