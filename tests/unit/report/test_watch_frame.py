"""The live view: what is shown where there is little room, and how long it still takes."""

from types import SimpleNamespace

import pytest
from rich.console import Console

from codesign.report.watch_frame import Frame, frame_tables, paces_of
from codesign.search.campaign import CampaignStatus
from codesign.search.campaign.observations import RunStatus
from codesign.search.campaign.store import BatchTiming


def _status(states, done=40):
    runs = tuple(
        RunStatus(
            SimpleNamespace(optimizer=f"method-{at}", seed=0), state, done, failures={"failed": 1}
        )
        for at, state in enumerate(states)
    )
    return CampaignStatus("watched", None, "running", 100, runs)


@pytest.fixture
def frame(results):
    states = ["complete"] * 6 + ["running"] * 2 + ["not started"] * 4
    status = _status(states)
    return Frame(status, results, {"name": "npu", "profile": "plain"}, paces_of(status, []), 5.0)


def _shown(frame, width, height):
    console = Console(width=width, height=height)
    with console.capture() as captured:
        for part in frame_tables(frame, console):
            console.print(part)
    return captured.get().splitlines()


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("height", [24, 30, 50])
def test_a_frame_fits_the_terminal(frame, width, height):
    lines = _shown(frame, width, height)
    assert len(lines) < height
    assert all(len(line) <= width for line in lines)
    text = " ".join(" ".join(lines).split())
    assert "watched (npu, profile plain): running, 480 of 1,200 evaluated" in text


def test_runs_that_have_ended_make_room_first(frame):
    text = "\n".join(_shown(frame, 80, 24))
    order = [f"method-{at} " for at in (6, 7, 8, 9, 10, 11, 0)]
    assert [text.index(name) for name in order] == sorted(text.index(name) for name in order)
    assert "and 5 complete" in text


def test_where_there_is_room_all_runs_and_the_front_are_shown(frame):
    text = "\n".join(_shown(frame, 120, 80))
    assert all(f"method-{at} " in text for at in range(12))
    assert "Pareto front" in text and "█" in text


def test_the_time_left_is_what_is_missing_at_the_pace_of_the_latest_batches():
    status = _status(["running", "complete", "running"])
    # Ten batches of 4 designs, each 1 s of asking and 1 s of evaluating: 2 designs a second.
    timings = [
        BatchTiming(run=0, batch=at, n_designs=4, ask_seconds=1.0, evaluate_seconds=1.0)
        for at in range(10)
    ]
    running, complete, silent = paces_of(status, timings)
    assert (running.designs_per_s, running.left_s) == (2.0, 30.0)
    assert complete.left_s == 0.0
    assert (silent.designs_per_s, silent.left_s) == (None, None)
