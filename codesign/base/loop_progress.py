"""Progress of the loops that run in this process, for bars and messages.

Loops that may take minutes report to it; no result depends on it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TypeVar

from codesign.base.errors import JobError

Item = TypeVar("Item")

_LATE_S = 30.0
"""Period of the latest rate [ours]."""
_CREDIBLE = 0.1
"""Remaining times below this share of the time so far are not shown [ours]."""
_running: list[LoopProgress] = []
_deadlines: list[float] = []


class OutOfTimeError(JobError):
    """The time limit of a command is reached."""


@contextmanager
def limited_time(minutes: float | None) -> Iterator[None]:
    """Raise OutOfTimeError once, when a loop advances after this time."""
    if minutes is not None:
        _deadlines.append(time.monotonic() + 60.0 * minutes)
    try:
        yield
    finally:
        _deadlines.clear()


class LoopProgress:
    """A loop over known amounts, while the block runs.

    Args:
        subject: Elements in words, such as "draws over the ranges".
        total: Number of elements.
        done: Number of elements that an earlier run has done.
    """

    def __init__(self, subject: str, total: int, done: int = 0) -> None:
        self.subject = subject
        self.total = total
        self.done = done
        self._begin = time.monotonic(), done
        self._latest = deque([self._begin])

    def __enter__(self) -> LoopProgress:
        _running.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _running.remove(self)

    def advance(self, n: int = 1) -> None:
        """Count ``n`` more as done."""
        self.done += n
        now = time.monotonic()
        self._latest.append((now, self.done))
        while self._latest[0][0] < now - _LATE_S:
            self._latest.popleft()
        if _deadlines and now > _deadlines[-1]:
            _deadlines.pop()
            raise OutOfTimeError("the time limit is reached; run the same command to continue")

    @property
    def left_s(self) -> float | None:
        """Seconds that the rest will take at the slower of the mean and the latest rate.

        None before the first, below half a second, and below a tenth of the time so far: the last
        designs of a space take longer than those that bounds excluded by the million.
        """
        now = time.monotonic()
        starts = (self._begin, self._latest[0])
        paces = [(now - since) / (self.done - done) for since, done in starts if done < self.done]
        seconds = max(paces, default=0.0) * (self.total - self.done)
        return seconds if seconds >= max(_CREDIBLE * (now - self._begin[0]), 0.5) else None


def running_loops() -> list[LoopProgress]:
    """The loops that run now, the outermost first."""
    return list(_running)


def counted(elements: Collection[Item], subject: str) -> Iterator[Item]:
    """The elements in order; each counts as done when the next is requested."""
    with LoopProgress(subject, len(elements)) as loop:
        for element in elements:
            yield element
            loop.advance()
