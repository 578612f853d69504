"""A worker ends with its parent, whatever it is doing."""

import os
import signal
import subprocess
import sys

import pytest

from codesign.base.process_tree import CAN_SUPERVISE
from codesign.base.processes import WorkerProcess

WORKER = """\
import ctypes, subprocess, sys

def main(connection):
    program = subprocess.Popen(["sleep", "600"])
    connection.send(program.pid)
    ctypes.PyDLL(None).sleep(600)  # compiled code that keeps the interpreter's lock
    Path(__file__).with_name("woke").touch()
"""
PARENT = """\
from codesign.base.processes import WorkerProcess
worker = WorkerProcess("worker_that_sleeps")
print(worker._process.pid, worker.receive(), flush=True)
input()
"""


pytestmark = pytest.mark.skipif(not CAN_SUPERVISE, reason="Linux only")


def test_a_worker_in_compiled_code_ends_with_its_parent_and_so_does_what_it_started(
    tmp_path, await_ends
):
    (tmp_path / "worker_that_sleeps.py").write_text(WORKER)
    path = os.pathsep.join([str(tmp_path), *sys.path])
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as parent:  # fmt: skip
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert len(pids) == 2
        parent.kill()
    await_ends(pids)
    assert not (tmp_path / "woke").exists()


DETACHING = """\
import os, sys, time

def main(connection):
    reads, writes = os.pipe()
    if os.fork() == 0:
        for _ in range(2):  # as daemons do: a session of its own, no parent, no environment
            os.setsid() if os.getpid() != os.getsid(0) else None
            if os.fork():
                os._exit(0)
        os.write(writes, str(os.getpid()).encode())
        os.closerange(3, 256)
        environment = dict(os.environ) if "KEEP" in os.environ else {}
        os.execve("/bin/sleep", ["sleep", "600"], environment)
    connection.send(int(os.read(reads, 100)))
    if connection.recv() == "crash":
        os.abort()
    time.sleep(600)
"""


@pytest.fixture
def detaching(tmp_path, monkeypatch):
    """A worker, and the number of a process that it has started and lost sight of."""
    (tmp_path / "worker_that_detaches.py").write_text(DETACHING)
    monkeypatch.syspath_prepend(str(tmp_path))
    worker = WorkerProcess("worker_that_detaches")
    yield worker, worker.receive()
    worker.stop()


def test_a_program_that_detached_itself_ends_with_its_worker(detaching, await_ends):
    worker, pid = detaching
    assert os.getsid(pid) != os.getsid(worker._process.pid)
    worker.stop(grace_s=0.1)
    await_ends([pid])


def test_a_program_that_detached_itself_ends_when_its_worker_crashes(detaching, await_ends):
    worker, pid = detaching
    worker.send("crash")
    with pytest.raises(EOFError):
        worker.receive()
    assert worker.death() == "was killed by signal 6 (SIGABRT)"
    await_ends([pid])


def test_a_program_that_detached_itself_ends_when_the_supervisor_is_killed(
    tmp_path, monkeypatch, await_ends
):
    (tmp_path / "worker_that_detaches.py").write_text(DETACHING)
    monkeypatch.syspath_prepend(str(tmp_path))
    worker = WorkerProcess("worker_that_detaches", environment={"KEEP": ""})
    pid = worker.receive()
    os.kill(worker._process.pid, signal.SIGKILL)
    assert worker.death() == "was killed by signal 9 (SIGKILL)"
    worker.stop()
    await_ends([pid])


def test_a_program_that_detached_itself_ends_with_the_main_process(tmp_path, await_ends):
    (tmp_path / "worker_that_sleeps.py").write_text(DETACHING)
    path = os.pathsep.join([str(tmp_path), *sys.path])
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as parent:  # fmt: skip
        pids = [int(word) for word in parent.stdout.readline().split()]
        parent.kill()
    await_ends(pids)
