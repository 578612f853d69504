"""Progress of a command: bars on a terminal, a line on stderr every 30 seconds elsewhere.

Every command has them, so that none is silent for long, also into a file or a pipe.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from codesign.base.loop_progress import running_loops
from codesign.base.text import duration_words

if TYPE_CHECKING:
    from rich.live import Live

EVERY_S = 30.0
"""Seconds between two lines."""
_LOOK_S = 0.5
"""Time after which a loop gets a bar: shorter ones need none [ours]."""


class Heartbeat:
    """Reports the progress of a command.

    Args:
        command: Name of the command.
        every_s: Seconds between two lines.

    Attributes:
        is_silent: True if the command shows its progress without bars and lines.
    """

    def __init__(self, command: str, say: Callable[[str], None], every_s: float = EVERY_S) -> None:
        self._command = command
        self._say = say
        self._every_s = every_s
        self._begin = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self._bars: Live | None = None
        self._drawing = threading.Lock()
        self.is_silent = False

    def start(self) -> None:
        """Start to report."""
        self._thread.start()

    def stop(self) -> None:
        """Stop reporting."""
        self._over.set()
        self._thread.join()
        self.hide()

    def hide(self) -> None:
        """Remove the bars before something else is printed."""
        with self._drawing:
            if self._bars is not None:
                self._bars.stop()
            self._bars = None

    def _show(self) -> None:
        from codesign.cli.progress import loop_bars

        with self._drawing:
            if self._bars is None:
                self._bars = loop_bars()
                self._bars.start()

    def _beat(self) -> None:
        last_s = self._begin
        while not self._over.wait(min(self._every_s, _LOOK_S)):
            loops = running_loops()
            now_s = time.monotonic()
            if self.is_silent:
                continue
            if loops and sys.stderr.isatty():
                self._show()
            elif now_s - last_s >= self._every_s:
                last_s = now_s
                words = [f"{self._command}, {duration_words(now_s - self._begin)}"]
                words += [
                    words_of(loop.subject, loop.done, loop.total, loop.left_s)
                    for loop in loops[:1]
                    if loop.total
                ]
                self._say(": ".join(words))


def words_of(subject: str, done: float, total: float, left_s: float | None) -> str:
    """Progress in words, with the remaining time if it is known.

    >>> words_of("draws", 50, 200, 125.0)
    'draws 50 of 200 (25.0 %), about 2 min 05 s left'
    """
    words = f"{subject} {done:,.0f} of {total:,.0f} ({done / total:.1%})".replace("%", " %")
    return words.strip() + (f", about {duration_words(left_s)} left" if left_s is not None else "")


_heartbeat: ContextVar[Heartbeat | None] = ContextVar("heartbeat", default=None)


@contextmanager
def heartbeat(command: str, say: Callable[[str], None]) -> Iterator[None]:
    """Report the progress of the command while the block runs."""
    heartbeat_now = Heartbeat(command, say, EVERY_S)
    token = _heartbeat.set(heartbeat_now)
    heartbeat_now.start()
    try:
        yield
    finally:
        heartbeat_now.stop()
        _heartbeat.reset(token)


def silence() -> None:
    """Stop the reports of a command that shows its progress by itself."""
    heartbeat_now = _heartbeat.get()
    if heartbeat_now is not None:
        heartbeat_now.is_silent = True


def hide_bars() -> None:
    """Remove the bars of the running command before something else is printed."""
    heartbeat_now = _heartbeat.get()
    if heartbeat_now is not None:
        heartbeat_now.hide()
