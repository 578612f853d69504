"""Nobody waits in silence: a line at intervals says how far a command has come."""

import queue
import re
from types import SimpleNamespace

import pytest

from codesign.base.loop_progress import LoopProgress
from codesign.cli import heartbeat, main, progress


@pytest.fixture
def lines():
    """What a heartbeat says."""
    return queue.Queue()


@pytest.fixture
def beat(lines):
    own = heartbeat.Heartbeat("enumerate", lines.put, every_s=0.001)
    yield own
    own.stop()


def test_a_heartbeat_says_the_command_the_time_and_how_far_it_is(beat, lines):
    beat.describe = lambda: "designs 3 of 4"
    beat.start()
    assert re.fullmatch(r"enumerate, \d+ s: designs 3 of 4", lines.get(timeout=60))


def test_a_heartbeat_is_silent_where_the_user_sees_it_otherwise(beat, lines):
    answers = iter([None, None, None])
    beat.describe = lambda: next(answers, "now")
    beat.start()
    assert lines.get(timeout=60).endswith(": now")


@pytest.mark.parametrize(
    ("total", "words"), [(8, r": draws 2 of 8 \(25.0 %\), about \d+ s left"), (0, "")]
)
def test_where_no_bar_says_it_a_heartbeat_has_the_loop_that_runs(beat, lines, total, words):
    with LoopProgress("draws", total) as loop:
        loop.done = total // 4
        beat.start()
        assert re.fullmatch(r"enumerate, \d+ s" + words, lines.get(timeout=60))


def test_every_command_has_a_heartbeat(monkeypatch, capsys):
    monkeypatch.setattr(heartbeat, "EVERY_S", 0.0001)
    assert main(["list", "spaces"]) == 0
    assert re.match(r"list, \d+ s\n", capsys.readouterr().err)


def test_without_a_terminal_the_heartbeat_has_the_words_of_the_bar(capsys):
    said = []
    with heartbeat.heartbeat("enumerate", said.append):
        bar = progress.EnumerationBar()
        describe = heartbeat._heartbeat.get().describe
        bar.start(1000, 0)
        bar.advance(250)
        words = describe()
        bar.advance(750)
        bar.finish()
        assert describe() == ""
    assert words.startswith("designs 250 of 1,000 (25.0 %)")
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("latest", "done", "left"), [(40, 25, 300), (400, 25, 400), (1, 99, None)])
def test_the_time_left_is_that_of_the_slower_rate_unless_little_is_left(latest, done, left):
    task = SimpleNamespace(
        time_remaining=latest, elapsed=100.0, completed=done, remaining=100 - done
    )
    assert progress.left_s(task) == left
