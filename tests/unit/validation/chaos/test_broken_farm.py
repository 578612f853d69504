"""Campaigns on farms that are broken while they run end as those that nobody disturbed."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from codesign.search.execution.parsl_farm import _give_up_unreached
from validation.chaos import broken_farm
from validation.chaos.broken_farm import Relay


@pytest.fixture
def interchange(tmp_path):
    """A server in the place of an interchange, with a relay before it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        (tmp_path / "port").write_text(str(server.getsockname()[1]))
        relay = Relay(tmp_path / "port")
        server.settimeout(10)
        yield server, relay
        relay.close()


def connected(server, relay):
    node = socket.create_connection(("127.0.0.1", relay.port), timeout=10)
    end, _ = server.accept()
    end.settimeout(10)
    return node, end


def test_a_relay_passes_on_repeats_swallows_and_cuts(interchange):
    server, relay = interchange
    node, end = connected(server, relay)
    node.sendall(b"once")
    assert end.recv(9) == b"once"
    end.sendall(b"back")
    assert node.recv(9) == b"back"
    relay.mode = "repeat"
    node.sendall(b"ab")
    assert end.recv(4, socket.MSG_WAITALL) == b"abab"
    relay.mode = "swallow"
    node.sendall(b"lost")
    time.sleep(0.1)
    relay.cut()
    assert end.recv(9) == node.recv(9) == b""
    relay.mode = "closed"
    refused = socket.create_connection(("127.0.0.1", relay.port), timeout=10)
    assert refused.recv(9) == b""
    for connection in (node, end, refused):
        connection.close()


@pytest.fixture
def resending():
    """An interchange without its sockets, with two tasks at a node and one at another."""
    sortedcontainers = pytest.importorskip("sortedcontainers")
    from codesign.search.execution.parsl_interchange import ResendingInterchange

    resending = object.__new__(ResendingInterchange)
    resending._ready_managers = {
        name: {"active": True, "tasks": list(tasks)}
        for name, tasks in {b"a": (1, 2), b"b": (3,)}.items()
    }
    resending._sent = {i: {"task_id": i, "context": {}} for i in (1, 2, 3)}
    resending._silent, resending._heard = set(), {b"a", b"b"}
    resending.pending_task_queue = sortedcontainers.SortedList(key=lambda tup: (tup[0], tup[1]))
    return resending


def test_the_tasks_of_a_broken_connection_go_back_into_the_queue(resending):
    resending._take_back(b"a")
    assert [task["task_id"] for task in resending.get_tasks(9)] == [1, 2]
    assert not resending._ready_managers[b"a"]["active"]
    assert resending._ready_managers[b"b"] == {"active": True, "tasks": [3]}
    assert (resending._silent, resending._heard) == ({b"a"}, {b"b"})
    resending._take_back(b"unknown")


@pytest.mark.parametrize(
    ("states", "words"),
    [
        (["COMPLETED", "MISSING", "MISSING", "MISSING"], "3 blocks in a row could not reach"),
        (["RUNNING", "MISSING", "MISSING"], None),
        (["COMPLETED", "MISSING", "MISSING", "RUNNING"], None),
        (["COMPLETED", "FAILED", "FAILED", "FAILED"], None),
        (["MISSING"], "Error"),
    ],
)
def test_a_farm_is_given_up_when_its_blocks_do_not_connect(states, words):
    pytest.importorskip("parsl")
    from parsl.jobs.states import JobState, JobStatus

    failures = []
    executor = SimpleNamespace(
        provider=SimpleNamespace(init_blocks=1), set_bad_state_and_fail_all=failures.append
    )
    jobs = {str(i): JobStatus(JobState[state]) for i, state in enumerate(states)}
    _give_up_unreached(executor, jobs)
    assert [words in str(failure) for failure in failures] == ([] if words is None else [True])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["slices", "in flight"])
@pytest.mark.parametrize(
    "disturbance", ["messages lost, then the connections", "the network cut for good"]
)
def test_a_campaign_on_a_broken_farm_ends_as_one_that_nobody_disturbed(kind, disturbance, capsys):
    pytest.importorskip("parsl")
    assert broken_farm.main(["--kind", kind, "--disturbance", disturbance]) == 0
    codes = "1, 0" if "for good" in disturbance else "0"
    assert f"| {kind} | {disturbance} | {codes} | " in capsys.readouterr().out


@pytest.mark.slow
def test_the_interchange_ends_when_the_main_process_is_killed(tmp_path):
    pytest.importorskip("parsl")
    (tmp_path / "farm.yaml").write_text("workers_per_node: 1\nheartbeat: 2\n")
    code = (
        "import os; from codesign.search.execution.parsl_farm import parsl_farm;"
        "farm = parsl_farm('farm.yaml', 1); farm.submit(os.getpid).result();"
        "print(farm._executor.interchange_proc.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        text=True,
        timeout=300,
    )
    status = Path("/proc", done.stdout.split()[-1], "status")
    deadline = time.monotonic() + 60
    while status.exists() and "\tZ" not in status.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.2)
