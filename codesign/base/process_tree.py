"""A process with all that it starts, wherever that goes: ended together. Linux only.

A program may leave its process group and its parent (``setsid``, a double fork). It stays a
descendant of the nearest process that collects orphans: ``PR_SET_CHILD_SUBREAPER`` of prctl(2).
If that one is killed itself, its descendants are found by a variable of their environment.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

CAN_SUPERVISE = Path("/proc/self/stat").exists()
"""True on Linux."""
TERMINATE = b"T"
"""Message that asks a supervised process and its descendants to end by themselves."""

_SET_PARENT_DEATH_SIGNAL, _SET_CHILD_SUBREAPER = 1, 36
"""Options of prctl(2), from <linux/prctl.h>."""
_PATIENCE_S, _PAUSE_S = 10.0, 0.01
"""Longest time for descendants to vanish after SIGKILL, and time between two looks [ours]."""


def supervise(connection: int) -> None:
    """Split this process in two: the caller goes on in a child, this process supervises it.

    The supervisor ends as the child did, after it has killed all descendants: when the child ends,
    and when standard input ends, because the process that started this one closed it or died.

    Args:
        connection: Descriptor that only the child uses.
    """
    _control(_SET_CHILD_SUBREAPER, 1)
    supervisor = os.getpid()
    child = os.fork()
    if child:
        os.close(connection)
        _watch(child)
    _control(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != supervisor:  # the supervisor died before the line above
        os._exit(1)


def descendants(pid: int) -> list[int]:
    """Processes that a process started, directly or not, and that have not ended."""
    children: dict[int, list[int]] = {}
    dead = set()
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with suppress(OSError):  # it has ended meanwhile
                fields = Path(entry.path, "stat").read_bytes().rpartition(b")")[2].split()
                children.setdefault(int(fields[1]), []).append(int(entry.name))
                if fields[0] in (b"Z", b"X"):
                    dead.add(int(entry.name))
    numbers = []
    waiting = [pid]
    while waiting:
        numbers += (more := children.get(waiting.pop(), []))
        waiting += more
    return [number for number in numbers if number not in dead]


def marked(mark: str) -> list[int]:
    """Processes of this user that inherited ``NAME=VALUE`` in their environment."""
    pids = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with suppress(OSError):  # it has ended meanwhile, or belongs to somebody else
                if mark.encode() in Path(entry.path, "environ").read_bytes().split(b"\0"):
                    pids.append(int(entry.name))
    return pids


def end_all(find: Callable[[], list[int]]) -> None:
    """Kill the processes that a function finds, and what they start meanwhile."""
    deadline = time.monotonic() + _PATIENCE_S
    while (pids := find()) and time.monotonic() < deadline:
        # Stopped first, so that none of them starts another one while the rest are killed.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            _send(pids, number)
        time.sleep(_PAUSE_S)


def _watch(child: int) -> NoReturn:
    """Wait for the end of a child or of standard input; then end with all descendants."""
    wakes, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    status = _collect().get(child)
    is_terminating = False
    while status is None or (is_terminating and descendants(os.getpid())):
        # Orphans are collected as they end. The pause is for those of a child that was terminated.
        ready, _, _ = select.select([0, wakes], [], [], None if status is None else _PAUSE_S)
        if wakes in ready:
            os.read(wakes, 4096)
        status = _collect().get(child, status)
        if 0 in ready:
            if not os.read(0, 1):
                break
            is_terminating = True
            _send(descendants(os.getpid()), signal.SIGTERM)
    end_all(lambda: descendants(os.getpid()))
    status = _collect().get(child, status)
    if status is not None and os.WIFSIGNALED(status):
        import resource  # not on Windows

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the child has left its own
        with suppress(OSError):  # SIGKILL has no handler
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(1 if status is None else os.waitstatus_to_exitcode(status))


def _collect() -> dict[int, int]:
    """Wait statuses of children that have ended."""
    statuses = {}
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            statuses[ended[0]] = ended[1]
    return statuses


def _send(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _control(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
