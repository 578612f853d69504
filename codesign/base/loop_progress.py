"""Progress of the longest loop of this process, for messages meanwhile.

Loops that may take minutes tell it; nothing that they compute depends on it.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from typing import TypeVar

Item = TypeVar("Item")

_running: list[LoopProgress] = []


class LoopProgress:
    """A loop over known amounts, while the block runs.

    Args:
        subject: What is worked on, such as "draws over the ranges".
        total: How many there are.
        done: How many of them an earlier run has done.
    """

    def __init__(self, subject: str, total: int, done: int = 0) -> None:
        self.subject, self.total, self.done = subject, total, done
        self._earlier, self._began_s = done, time.monotonic()

    def __enter__(self) -> LoopProgress:
        _running.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _running.remove(self)

    @property
    def left_s(self) -> float | None:
        """Seconds that the rest will take at the mean rate so far; None before the first."""
        n, elapsed_s = self.done - self._earlier, time.monotonic() - self._began_s
        return elapsed_s / n * (self.total - self.done) if n else None


def running_loop() -> LoopProgress | None:
    """The outermost loop that runs now."""
    return next(iter(_running), None)


def counted(items: Collection[Item], subject: str) -> Iterator[Item]:
    """The items one after the other, each done when the next is asked for."""
    with LoopProgress(subject, len(items)) as loop:
        for element in items:
            yield element
            loop.done += 1


class FrontsProgress:
    """Progress of a row of enumerations; this one tells nobody."""

    def expect(self, n: int) -> None:
        """``n`` more enumerations may come."""

    def begin(self, label: str, n_designs: int) -> None:
        """One begins."""

    def end(self) -> None:
        """One is done, or turned out not to be needed."""

    def finish(self) -> None:
        """No further call comes."""
