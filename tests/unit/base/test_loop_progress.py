"""Whoever asks hears of the outermost loop that runs, and of none after its end."""

import pytest

from codesign.base.loop_progress import LoopProgress, counted, running_loop


def test_items_are_done_when_the_next_is_asked_for():
    counts = []
    for _ in counted("abc", "letters"):
        for _ in counted("de", "inner letters"):
            loop = running_loop()
        counts.append((loop.subject, loop.done, loop.total))
    assert counts == [("letters", done, 3) for done in range(3)]
    assert running_loop() is None


def test_a_loop_that_fails_runs_no_more():
    with pytest.raises(ValueError, match="b"), LoopProgress("letters", 3):
        raise ValueError("b")
    assert running_loop() is None


def test_the_rest_takes_as_long_as_what_this_run_has_done(monkeypatch):
    clock = iter([10.0, 16.0, 16.0])
    monkeypatch.setattr("codesign.base.loop_progress.time.monotonic", lambda: next(clock))
    loop = LoopProgress("designs", 100, done=40)
    assert loop.left_s is None
    loop.done = 60
    assert loop.left_s == pytest.approx(12.0)
