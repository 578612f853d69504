"""Whoever asks hears of the outermost loop that runs, and of none after its end."""

import pytest

from codesign.base.loop_progress import (
    LoopProgress,
    OutOfTimeError,
    counted,
    limited_time,
    running_loops,
)


def test_items_are_done_when_the_next_is_asked_for():
    counts = []
    for _ in counted("abc", "letters"):
        for _ in counted("de", "inner letters"):
            loop, inner = running_loops()
        counts.append((loop.subject, loop.done, loop.total, inner.subject, inner.done))
    assert counts == [("letters", done, 3, "inner letters", 2) for done in range(3)]
    assert not running_loops()


def test_a_loop_that_fails_runs_no_more():
    with pytest.raises(ValueError, match="b"), LoopProgress("letters", 3):
        raise ValueError("b")
    assert not running_loops()


def test_the_rest_takes_the_slower_of_two_rates_unless_little_is_left(monkeypatch):
    times = [10.0]
    monkeypatch.setattr("codesign.base.loop_progress.time.monotonic", lambda: times[-1])
    loop = LoopProgress("designs", 100, done=40)
    assert loop.left_s is None
    for now_s, n, left_s in [(16.0, 20, 12.0), (46.0, 10, 90.0), (47.0, 29, None)]:
        times.append(now_s)
        loop.advance(n)
        assert loop.left_s == (left_s and pytest.approx(left_s))


def test_no_rest_of_less_than_half_a_second_is_told(monkeypatch):
    times = iter([10.0, 10.5, 10.5, 10.9, 10.9])
    monkeypatch.setattr("codesign.base.loop_progress.time.monotonic", lambda: next(times))
    loop = LoopProgress("designs", 20)
    loop.advance(10)
    assert loop.left_s == pytest.approx(0.5)
    loop.advance(5)
    assert loop.left_s is None


def test_a_loop_stops_once_when_the_time_is_up():
    with limited_time(0.0):
        with pytest.raises(OutOfTimeError, match="run the same command to continue"):
            list(counted("ab", "letters"))
        assert list(counted("ab", "letters")) == ["a", "b"]
    with limited_time(None), limited_time(60.0):
        assert list(counted("ab", "letters")) == ["a", "b"]
    assert not running_loops()
