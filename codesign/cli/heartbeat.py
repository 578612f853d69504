"""A line on stderr every 30 seconds that says how far a command has come.

Every command has one, so that none is silent for long, also into a file or a pipe. Where a bar on a
terminal shows the same, nothing is said; where there is no bar, the loop that runs is.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from codesign.base.loop_progress import running_loop

EVERY_S = 30.0
"""Seconds between two lines."""


class Heartbeat:
    """Says at intervals how far a command has come.

    Args:
        command: What it is called.
        every_s: Seconds between two lines.
    """

    def __init__(self, command: str, say: Callable[[str], None], every_s: float = EVERY_S) -> None:
        self._command, self._say, self._every_s = command, say, every_s
        self._begin = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self.describe: Callable[[], str | None] = str
        """How far the command has come, in words; empty if it does not know, and None if the
        user sees it without them."""

    def start(self) -> None:
        """Begin to say it."""
        self._thread.start()

    def stop(self) -> None:
        """Say no more."""
        self._over.set()
        self._thread.join()

    def _beat(self) -> None:
        while not self._over.wait(self._every_s):
            words = self.describe()
            if words is not None:
                elapsed = duration_words(time.monotonic() - self._begin)
                loop = running_loop()
                if not words and loop is not None and loop.total:
                    words = words_of(loop.subject, loop.done, loop.total, loop.left_s)
                self._say(": ".join(filter(None, [f"{self._command}, {elapsed}", words])))


def words_of(subject: str, done: float, total: float, left_s: float | None) -> str:
    """Progress in words, with the remaining time if it is known.

    >>> words_of("draws", 50, 200, 125.0)
    'draws 50 of 200 (25.0 %), about 2 min 5 s left'
    """
    words = f"{subject} {done:,.0f} of {total:,.0f} ({done / total:.1%})".replace("%", " %")
    return words.strip() + (f", about {duration_words(left_s)} left" if left_s is not None else "")


def duration_words(seconds: float) -> str:
    """A duration in two parts at most.

    >>> duration_words(3725)
    '1 h 2 min'
    """
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 1:
        return f"{rest} s"
    hours, minutes_of_hour = divmod(minutes, 60)
    return f"{hours} h {minutes_of_hour} min" if hours else f"{minutes} min {rest} s"


_heartbeat: ContextVar[Heartbeat | None] = ContextVar("heartbeat", default=None)


@contextmanager
def heartbeat(command: str, say: Callable[[str], None]) -> Iterator[None]:
    """Say at intervals, while the block runs, how far the command has come."""
    heartbeat_now = Heartbeat(command, say, EVERY_S)
    token = _heartbeat.set(heartbeat_now)
    heartbeat_now.start()
    try:
        yield
    finally:
        heartbeat_now.stop()
        _heartbeat.reset(token)


def describe_by(describe: Callable[[], str | None]) -> None:
    """Let ``describe`` say from now on how far the running command has come."""
    heartbeat_now = _heartbeat.get()
    if heartbeat_now is not None:
        heartbeat_now.describe = describe
