"""Several designs in flight: nothing is lost, nothing is done twice, a resume is exact."""

import itertools
import sqlite3
import time
from collections import deque
from concurrent.futures import Executor, Future, InvalidStateError
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from codesign.base.errors import JobError
from codesign.search.campaign import Campaign
from codesign.search.campaign.asynchronous import execute_in_flight
from codesign.search.campaign.campaign_definition import load_definition
from codesign.search.campaign.execution import Job
from codesign.search.campaign.execution_settings import Execution
from codesign.search.campaign.executor import Recorder
from codesign.search.campaign.farm import ExecutorGoneError, Farm
from codesign.search.campaign.loop import Plan, Search
from codesign.search.campaign.reference import minimized
from codesign.search.campaign.store_file import open_store
from codesign.search.campaign.tasks import Site, _Workplace
from validation.chaos.in_flight import VirtualExecutor

SMALL = {
    "initial": 4,
    "budget": 12,
    "seeds": 1,
    "reference_point": {"gain_tokens": 10, "power_watts": 400},
}


class InOrder(Executor):
    """Tasks that end in the order in which they came, when somebody waits."""

    def __init__(self):
        self.tasks = deque()
        self.rows = []

    def submit(self, fn, /, *args):
        self.tasks.append((Future(), fn, args))
        return self.tasks[-1][0]

    def wait(self, futures):
        future, fn, args = self.tasks.popleft()
        if future.cancelled():
            return
        self.rows += [row.tolist() for row in args[0]] if args else []
        future.set_result(fn(*args))


class Killed(BaseException):
    """What ends a process here."""


class Mortal(Recorder):
    """Dies before or after so many writes."""

    def __init__(self, store, budget, life):
        super().__init__(store, budget)
        self.life = life
        for name in ("propose", "append"):
            setattr(store, name, partial(self.write, getattr(store, name)))

    def write(self, method, items):
        self.life -= 1
        if self.life == 0:
            raise Killed
        method(items)
        self.life -= 1
        if self.life == 0:
            raise Killed


@pytest.fixture
def start(write, folder):
    """Begin a small campaign in its folder and do what is left of it on an executor."""

    loaded = {}

    def load(changes):
        if repr(changes) not in loaded:
            loaded[repr(changes)] = load_definition(write(**{**SMALL, **changes}))
        return loaded[repr(changes)]

    def start(name, executor, in_flight=3, life=0, runs=1, retries=1, **changes):
        resolved = load(changes)
        campaign = Campaign(resolved, folder / name / "toys", "toys")
        if not campaign.store_path.exists():
            campaign.folder.mkdir(parents=True)
            campaign._create(Job(resolved, campaign.folder, 1), False)
        with open_store(campaign.store_path, writing=True) as store:
            reference = minimized(campaign.problem, store.meta["reference_point"])
            plan = Plan(resolved, store.layout, reference, campaign.problem.evaluate)
            pending = [i for i, count in enumerate(store.counts()) if not count.has_ended]
            recorder = Mortal(store, resolved.definition.budget, life)
            farm = Farm(executor, campaign.problem.evaluate, in_flight, runs, retries)
            if hasattr(executor, "wait"):
                farm = replace(farm, wait=executor.wait)
            execute_in_flight(plan, pending, recorder, farm)
        return campaign

    return start


def stored(folder, name):
    connection = sqlite3.connect(folder / name / "toys" / "campaign.sqlite")
    tables = [
        connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall()
        for table in ("observations", "proposals", "runs")
    ]
    connection.close()
    return tables


def columns(folder, name, words):
    connection = sqlite3.connect(folder / name / "toys" / "campaign.sqlite")
    rows = connection.execute(
        f"SELECT {words} FROM observations WHERE run >= 0 ORDER BY run, step"
    ).fetchall()
    connection.close()
    return rows


@pytest.mark.parametrize("optimizer", ["toy-climb", pytest.param("nsga2", marks=pytest.mark.slow)])
def test_a_run_killed_at_any_write_ends_as_the_uninterrupted_one(start, folder, optimizer):
    start = partial(start, optimizers=[optimizer], initial=3, budget=7, in_flight=2)
    start("whole", InOrder())
    expected = stored(folder, "whole")
    life, is_killed = 0, True
    while is_killed:
        life, name = life + 1, f"killed-{life}"
        is_killed = False
        try:
            start(name, InOrder(), life=life)
        except Killed:
            is_killed = True
            before = columns(folder, name, "design")
            start(name, InOrder())
            assert columns(folder, name, "design")[: len(before)] == before
        assert stored(folder, name) == expected
    assert life > 20, "every write was a moment to die"


def test_designs_that_end_in_any_order_are_told_in_that_order_and_none_twice(start, folder):
    start("virtual", VirtualExecutor(), optimizers=["toy-climb", "tpe"], runs=2)
    for life in (5, 12, 20, 33):
        with pytest.raises(Killed):
            start("killed", VirtualExecutor(), life=life, optimizers=["toy-climb", "tpe"], runs=2)
    start("killed", VirtualExecutor(), optimizers=["toy-climb", "tpe"], runs=2)
    for name in ("virtual", "killed"):
        designs = columns(folder, name, "run, design")
        assert len(designs) == len(set(designs)) == 24
        batches = [batch for (batch,) in columns(folder, name, "batch")]
        assert batches[:12] != sorted(batches[:12])
    proposals = stored(folder, "killed")[1]
    assert len(proposals) == 24, "what was pending was evaluated again and not replaced"


def test_with_one_in_flight_a_run_is_the_ordinary_one_stored_design_by_design(start, write, folder):
    executor = InOrder()
    start("one", executor, in_flight=1, optimizers=["nsga2"], seeds=2)
    path = write(**{**SMALL, "seeds": 2}, optimizers=["nsga2"])
    Campaign.load(path, folder / "ordinary").run(workers=1)
    assert columns(folder, "one", "*") == columns(folder, "ordinary", "*")
    assert len(executor.rows) == 24


def test_what_was_in_flight_is_done_first_when_a_campaign_goes_on_one_by_one(start, folder):
    with pytest.raises(Killed):
        start("narrow", VirtualExecutor(), life=15, optimizers=["nsga2"])
    observed = {design for (design,) in columns(folder, "narrow", "design")}
    pending = [row[4] for row in stored(folder, "narrow")[1] if row[4] not in observed]
    assert pending
    start("narrow", InOrder(), in_flight=1, optimizers=["nsga2"])
    designs = [design for (design,) in columns(folder, "narrow", "design")]
    assert designs[len(observed) : len(observed) + len(pending)] == pending
    assert len(set(designs)) == 12


class Lossy(InOrder):
    """Loses the task of its third design so many times."""

    def __init__(self, times):
        super().__init__()
        self.times, self.designs, self.late = times, [], []

    def submit(self, fn, /, *args):
        future = super().submit(fn, *args)
        if not args:
            self.tasks.pop()
            future.set_result(None)
        elif args[0].tolist() not in self.designs:
            self.designs.append(args[0].tolist())
        return future

    def wait(self, futures):
        future, _, args = self.tasks[0]
        if self.times > 0 and args[0].tolist() == self.designs[2]:
            self.times -= 1
            self.late.append(self.tasks.popleft())
            future.set_exception(OSError("the node\nis gone"))
            return
        super().wait(futures)


def test_a_lost_design_is_tried_again_and_is_recorded_once(start, folder):
    start("steady", InOrder(), optimizers=["toy-random"])
    start("lossy", Lossy(2), optimizers=["toy-random"], retries=2)
    found, expected = (set(columns(folder, name, "design")) for name in ("lossy", "steady"))
    assert found == expected
    assert {status for (status,) in columns(folder, "lossy", "status")} <= {0, 1}


def test_a_design_that_is_lost_again_and_again_is_recorded_and_skipped(start, folder):
    start("lossy", Lossy(2), optimizers=["toy-random"], retries=1)
    lost = [reason for status, reason in columns(folder, "lossy", "status, reason") if status == 5]
    assert lost == ["lost with its worker: the node is gone"]
    assert len(set(columns(folder, "lossy", "design"))) == 12


class Straggling(InOrder):
    """Loses each design once, and comes with its result after that of the second attempt."""

    def __init__(self):
        super().__init__()
        self.lost, self.late, self.n_refused = {}, [], 0

    def submit(self, fn, /, *args):
        future = super().submit(fn, *args)
        if not args:
            self.tasks.pop()
            future.set_result(None)
        return future

    def wait(self, futures):
        future, fn, args = self.tasks[0]
        design = bytes(args[0])
        if design not in self.lost:
            self.lost[design] = self.tasks.popleft()
            future.set_exception(OSError("no heartbeat"))
            return
        super().wait(futures)
        straggler, _, _ = self.lost[design]
        try:
            straggler.set_result(fn(*args))
        except InvalidStateError:
            self.n_refused += 1


def test_a_straggler_that_comes_after_its_second_attempt_is_not_stored(start, folder):
    straggling = Straggling()
    start("straggling", straggling, optimizers=["toy-random"])
    start("steady", InOrder(), optimizers=["toy-random"])
    assert straggling.n_refused == 12
    found, expected = (
        sorted(columns(folder, name, "design, numbers")) for name in ("straggling", "steady")
    )
    assert found == expected


class Repeating(InOrder):
    """Returns the result of each second task once more, in the place of the next one's."""

    def __init__(self):
        super().__init__()
        self.n, self.before = 0, None

    def wait(self, futures):
        self.n += 1
        if self.n % 2 or not self.tasks[0][2]:
            super().wait(futures)
            return
        future, fn, args = self.tasks.popleft()
        if self.before is not None:
            future.set_result(self.before)
            self.before = None
        else:
            self.before = fn(*args)
            future.set_result(self.before)


def test_a_result_that_is_delivered_twice_is_stored_once_and_for_its_own_design(start, folder):
    start("repeating", Repeating(), optimizers=["toy-random"], retries=5)
    start("steady", InOrder(), optimizers=["toy-random"])
    found, expected = (
        sorted(columns(folder, name, "design, numbers")) for name in ("repeating", "steady")
    )
    assert found == expected


class RepeatingSlices(Executor):
    """Does slices at once; each third future gets the result of the one before once more."""

    def __init__(self):
        self.n, self.before = 0, None

    def submit(self, fn, /, *args):
        self.n += 1
        future = Future()
        if self.n % 3 or self.before is None:
            self.before = fn(*args)
        future.set_result(self.before)
        return future


def test_a_slice_that_is_delivered_twice_is_stored_once(write, folder, monkeypatch):
    monkeypatch.setattr("codesign.search.campaign.slices.SLICE_S", 0.0)  # each has one batch
    path = write(**{**SMALL, "seeds": 2}, optimizers=["toy-random", "nsga2"])
    Campaign.load(path, folder / "ordinary").run(workers=1)
    executor = RepeatingSlices()
    monkeypatch.setattr("codesign.search.campaign.execution.open_executor", lambda *_: executor)
    slices = Execution(executor="local", isolated=False)
    Campaign.load(path, folder / "repeated").run(workers=2, execution=slices)
    assert executor.n > 12
    assert columns(folder, "repeated", "*") == columns(folder, "ordinary", "*")


class Dead(InOrder):
    """Does some tasks, then nothing."""

    def __init__(self, n):
        super().__init__()
        self.n = n

    def submit(self, fn, /, *args):
        future = super().submit(fn, *args)
        if self.n <= 0:
            self.tasks.pop()
            future.set_exception(ConnectionError("no more"))
        return future

    def wait(self, futures):
        if any(future.done() for future in futures):
            return
        super().wait(futures)
        self.n -= 1


def test_a_dead_executor_spoils_no_design(start, folder):
    with pytest.raises(ExecutorGoneError, match=r"no longer works .*no more.* run again to go on"):
        start("dead", Dead(5), optimizers=["toy-climb"])
    statuses = columns(folder, "dead", "status")
    assert 5 <= len(statuses) < 12
    assert max(statuses) <= (1,)
    start("dead", InOrder(), optimizers=["toy-climb"])
    assert len(set(columns(folder, "dead", "design"))) == 12


class EndsDuringAsk(InOrder):
    """A design ends whenever an optimizer is asked for one, and is awaited in the store."""

    def __init__(self, folder, name, asks=99):
        super().__init__()
        self.folder, self.name, self.asks = folder, name, asks

    def wait(self, futures):
        if not any(future.done() for future in futures):
            super().wait(futures)

    def end_one(self):
        before = len(columns(self.folder, self.name, "step"))
        super().wait(())
        for _ in range(6000):
            if len(columns(self.folder, self.name, "step")) > before:
                break
            time.sleep(0.01)
        else:
            pytest.fail("what ended is not stored before the ask ends")
        self.asks -= 1
        if self.asks == 0:
            raise Killed


@pytest.fixture
def slow_ask(monkeypatch):
    """Let a design of an executor end in each ask beside others."""
    ask = Search.propose_beside

    def slow(executor):
        def asked(search, pending):
            if executor.tasks:
                executor.end_one()
            return ask(search, pending)

        monkeypatch.setattr(Search, "propose_beside", asked)
        return executor

    return slow


def test_what_ends_while_an_optimizer_thinks_is_durable_before_it_answers(start, folder, slow_ask):
    slow = slow_ask(EndsDuringAsk(folder, "slow"))
    start("slow", slow, optimizers=["toy-climb", "nsga2"], runs=2)
    designs = columns(folder, "slow", "run, design")
    assert len(designs) == len(set(designs)) == 24
    assert slow.asks < 90


def test_a_run_killed_while_its_optimizer_thinks_keeps_what_ended(start, folder, slow_ask):
    for asks in range(1, 6):
        name = f"killed-{asks}"
        with pytest.raises(Killed):
            start(name, slow_ask(EndsDuringAsk(folder, name, asks)), optimizers=["nsga2"])
        before = columns(folder, name, "design, numbers, hypervolume")
        assert len(before) > asks
        late = slow_ask(EndsDuringAsk(folder, name))
        start(name, late, optimizers=["nsga2"])
        assert columns(folder, name, "design, numbers, hypervolume")[: len(before)] == before
        assert len(set(columns(folder, name, "design"))) == 12
        assert len(late.rows) == 12 - len(before), "no design was evaluated again that was stored"
        assert len(stored(folder, name)[1]) == 12


def test_an_optimizer_that_fails_stops_its_own_run_only(start, folder):
    with pytest.raises(JobError, match="the optimizer of run toy-raises, seed 0 failed: KeyError"):
        start("both", InOrder(), optimizers=["toy-raises", "toy-climb"], runs=2)
    assert len(columns(folder, "both", "step")) == 4 + 12


def test_a_space_that_runs_out_ends_the_run(start, folder):
    changes = {"fixed": {"kind": "plain", "x": 3, "y": 4}, "initial": 1}
    start("tiny", InOrder(), optimizers=["toy-random"], **changes)
    assert len(columns(folder, "tiny", "step")) == 1
    assert stored(folder, "tiny")[2][0][3] == "exhausted"


@pytest.mark.parametrize("executor", ["threads", "local"])
def test_a_campaign_runs_on_an_executor_by_name(write, folder, executor):
    path = write(**{**SMALL, "budget": 8}, optimizers=["toy-climb"])
    campaign = Campaign.load(path)
    campaign.run(
        execution=Execution(in_flight=2, executor=executor, isolated=executor == "local"), workers=1
    )
    assert np.array_equal(campaign.results().step, np.arange(8))


def test_flags_stand_in_the_place_of_what_the_file_says_also_in_workers(write, folder):
    path = write(**{**SMALL, "budget": 8}, optimizers=["toy-climb"])
    campaign = Campaign.load(path)
    site = Site.describe(
        campaign._resolved.replace_execution(Execution(timeout="1 min", retries=3)), campaign.folder
    )
    limits = _Workplace(site).resolved.definition.execution.guard_limits
    assert (limits.timeout_s, limits.retries) == (60.0, 3)


def test_on_other_machines_the_slowest_design_is_named(start, monkeypatch, caplog):
    monkeypatch.setitem(globals(), "Farm", partial(Farm, names_slow=True))
    clock = itertools.count(1e12, 40.0)
    monkeypatch.setattr(
        "codesign.search.campaign.asynchronous.time.perf_counter", lambda: next(clock)
    )
    start("named", InOrder(), in_flight=2, budget=5)
    assert "has run for 30 s without a result" in caplog.text
