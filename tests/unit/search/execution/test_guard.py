"""Behind a guard, a design that ends its process or never ends is recorded, and the rest go on."""

import os
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from codesign.base.errors import InputError, JobError
from codesign.base.failures import Failure
from codesign.search.execution import guard as guard_module
from codesign.search.execution import guard_log
from codesign.search.execution.guard import Guard, GuardLimits
from codesign.search.execution.guard_log import GuardLog


@pytest.fixture(scope="module")
def fragile():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parent / "plugins"))
        import fragile_plugin

        yield fragile_plugin


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The folder of the fragile evaluator's files."""
    return tmp_path_factory.mktemp("guard")


@pytest.fixture(scope="module")
def shared(fragile, place):
    """One guard for all tests: its process takes a second to start."""
    build = partial(fragile.build, place)
    with Guard(build(), build, log=place / "logs" / "evaluator.log") as guard:
        yield guard


@pytest.fixture
def guard(shared, place):
    """The shared guard, with limits."""

    def limited(**limits):
        shared._limits = GuardLimits(**{"pause_s": 0.0, **limits})
        return shared

    for name in ("attempts", "child"):
        (place / name).unlink(missing_ok=True)
    return limited


def rows_of(*x):
    return np.array([[value, 2] for value in x])


def is_same(left, right):
    return (
        left.objectives.tobytes() == right.objectives.tobytes()
        and left.violations.tobytes() == right.violations.tobytes()
        and left.violation_names == right.violation_names
        and left.failures == right.failures
        and all(left.metrics[name].tobytes() == right.metrics[name].tobytes()
                for name in right.metrics)
    )  # fmt: skip


def test_a_guarded_evaluation_is_the_direct_one_to_the_last_bit(guard, fragile, place):
    guarded = guard()
    rows = rows_of(*range(10), 15, 26, 29)
    assert is_same(guarded.evaluate(rows), fragile.build().evaluate(rows))
    assert is_same(guarded.evaluate(rows[:0]), fragile.build().evaluate(rows[:0]))
    guarded._end_process(0.0)
    assert "a line of the simulator" in (place / "logs" / "evaluator.log").read_text()


def test_of_a_batch_that_ends_the_process_only_the_guilty_are_lost(guard, fragile):
    seen = guard(retries=0).evaluate(rows_of(11, 4, 12))
    assert seen.failures == {
        0: Failure("lost", "the process of the evaluator was killed by signal 11 (SIGSEGV)"),
        2: Failure("lost", "the process of the evaluator ended with code 3"),
    }
    direct = fragile.build().evaluate(rows_of(4))
    assert seen.objectives[1:2].tobytes() == direct.objectives.tobytes()
    assert seen.violation_names == direct.violation_names


def test_what_may_be_transient_is_tried_again():
    usual, stated = GuardLimits(), GuardLimits(retries=5)
    assert [usual.retries_of(kind) for kind in ("lost", "failed")] == [2, 0]
    assert [stated.retries_of(kind) for kind in ("lost", "failed")] == [5, 5]
    assert [stated.retries_of(kind) for kind in ("timeout", "bad-output", "infeasible")] == [0] * 3


def test_a_design_that_hangs_is_ended_with_what_it_started(guard, place, await_ends):
    guarded = guard(retries=0)
    guarded.evaluate(rows_of(13))  # starts a program; nothing that can be slow is timed
    guarded = guard(timeout_s=0.5)
    seen = guarded.evaluate(rows_of(16))
    assert seen.failures == {0: Failure("timeout", "no result within 0.5 s")}
    child = int((place / "child").read_text())
    await_ends([child])
    assert not guard().evaluate(rows_of(3)).failures


def test_a_design_without_a_timeout_is_named_while_it_is_waited_for(guard, monkeypatch, caplog):
    monkeypatch.setattr("codesign.search.execution.guard.NOTICE_S", 0.01)
    guarded = guard()
    guarded.evaluate(rows_of(3))  # the process is up
    process, answers = guarded._process, iter([False, False, True])
    monkeypatch.setattr(process, "has_news", lambda timeout_s: next(answers))
    assert not guarded.evaluate(rows_of(4)).failures
    assert [record.getMessage().split(" without")[0] for record in caplog.records] == [
        "design x=4, y=2 has run for 0.01 s",
        "design x=4, y=2 has run for 0.02 s",
    ]
    assert "--timeout DURATION" in caplog.text


def test_with_a_timeout_nothing_is_named(guard, monkeypatch, caplog):
    monkeypatch.setattr("codesign.search.execution.guard.NOTICE_S", 0.0)
    assert not guard(timeout_s=600.0).evaluate(rows_of(3)).failures
    assert not caplog.records


def test_a_transient_failure_is_tried_again_as_often_as_is_set(guard, place):
    seen = guard(retries=2).evaluate(rows_of(14))
    assert not seen.failures
    assert (place / "attempts").read_text() == "xxx"


def test_a_design_that_used_up_its_retries_says_how_many_attempts_there_were(guard, place):
    seen = guard(retries=1).evaluate(rows_of(14))
    reason = (
        "ConnectionError: no license at the moment (fragile_plugin.py:67) (the last of 2 attempts)"
    )
    assert seen.failures == {0: Failure("failed", reason)}
    assert (place / "attempts").read_text() == "xx"


def test_without_retries_a_failure_is_final(guard, place):
    seen = guard().evaluate(rows_of(14))
    assert seen.failures == {
        0: Failure("failed", "ConnectionError: no license at the moment (fragile_plugin.py:67)")
    }
    assert (place / "attempts").read_text() == "x"


def test_a_process_that_does_not_start_is_told_as_that(fragile, monkeypatch):
    monkeypatch.setattr(guard_module, "_STARTS", 2)
    with (
        Guard(fragile.build(), fragile.build_nothing) as guarded,
        pytest.raises(JobError, match="'evaluator' ended with code 7 while it started, 2 times"),
    ):
        guarded.evaluate(rows_of(1))


def test_another_problem_in_the_process_is_refused(fragile):
    with (
        Guard(fragile.build(), fragile.build_other) as guarded,
        pytest.raises(InputError, match="the problem changed"),
    ):
        guarded.evaluate(rows_of(1))


def test_a_closed_guard_evaluates_nothing(fragile):
    guarded = Guard(fragile.build(), fragile.build)
    guarded.close()
    with pytest.raises(JobError, match="stopped"):
        guarded.evaluate(rows_of(1))


def test_a_log_has_a_bounded_size(tmp_path, monkeypatch):
    monkeypatch.setattr(guard_log, "MOST_BYTES", 1000)
    monkeypatch.setattr(guard_log, "_CHUNK_BYTES", 100)
    log = GuardLog(tmp_path / "logs" / "it.log")
    writer = os.dup(log.descriptor)
    log.follow()
    for i in range(100):
        os.write(writer, b"%099d\n" % i)
    os.close(writer)
    log.close(60.0)
    files = sorted((tmp_path / "logs").iterdir())
    assert [file.name for file in files][-1] == "it.log.1"
    assert all(file.stat().st_size < 1000 + 100 for file in files)
