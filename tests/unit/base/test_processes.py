"""A worker ends with its parent, whatever it is doing."""

import fcntl
import os
import subprocess
import sys

import pytest

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


@pytest.mark.skipif(not hasattr(fcntl, "F_SETSIG"), reason="a service of Linux")
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
