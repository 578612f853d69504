"""Nobody waits in silence: a line at intervals says how far a command has come."""

import queue
import re
import sys
from io import StringIO

import pytest

from codesign.base.loop_progress import LoopProgress
from codesign.cli import heartbeat, main


@pytest.fixture
def lines():
    """What a heartbeat says."""
    return queue.Queue()


@pytest.fixture
def beat(lines):
    own = heartbeat.Heartbeat("enumerate", lines.put, every_s=0.001)
    yield own
    own.stop()


def test_a_heartbeat_is_silent_where_the_user_sees_it_otherwise(beat, lines):
    beat.is_silent = True
    beat.start()
    with pytest.raises(queue.Empty):
        lines.get(timeout=0.05)
    beat.is_silent = False
    assert re.fullmatch(r"enumerate, \d+ s", lines.get(timeout=60))


@pytest.mark.parametrize(
    ("total", "words"), [(8, r": draws 2 of 8 \(25.0 %\), about 12 s left"), (0, "")]
)
def test_a_heartbeat_says_the_command_the_time_and_how_far_the_loop_is(
    beat, lines, total, words, monkeypatch
):
    monkeypatch.setattr(LoopProgress, "left_s", 12.0)
    with LoopProgress("draws", total) as loop:
        loop.advance(total // 4)
        beat.start()
        assert re.fullmatch(r"enumerate, \d+ s" + words, lines.get(timeout=60))


def test_every_command_has_a_heartbeat(monkeypatch, capsys):
    monkeypatch.setattr(heartbeat, "EVERY_S", 0.0001)
    assert main(["list", "spaces"]) == 0
    assert re.match(r"list, \d+ s\n", capsys.readouterr().err)


def test_on_a_terminal_each_loop_has_a_bar_until_something_is_printed(monkeypatch, lines):
    stream = StringIO()
    stream.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(LoopProgress, "left_s", 12.0)
    with LoopProgress("draws", 8) as loop, LoopProgress("designs", 1000):
        loop.advance(2)
        with heartbeat.heartbeat("explain", lines.put):
            heartbeat._heartbeat.get()._show()
            heartbeat.hide_bars()
    drawn = stream.getvalue()
    assert re.search(r"draws .* 2 of 8 +about 12 s left", drawn)
    assert re.search(r"designs .* 0 of 1,000", drawn)
    assert drawn.endswith("\x1b[2K")  # nothing is left of them
    assert lines.empty()


def test_decisions_without_any_time_are_refused_in_one_line(capsys, tmp_path):
    folder = str(tmp_path)
    assert main(["explain", "decide", "smoke", "--minutes", "0", "--folder", folder]) == 1
    *_, line = capsys.readouterr().err.splitlines()
    assert line == "error: the time limit is reached; run the same command to continue"
