"""SIGTERM, as a batch system or a container sends it, stops a command as Ctrl-C does."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType

_SEND_AGAIN_S = 0.02
"""Until a signal comes again that arrived where Python drops what it raises."""
_MOST_SENT_AGAIN = 500
"""An import that takes longer than ten seconds is ended by a signal."""


class Termination(KeyboardInterrupt):
    """SIGTERM has come."""


@contextmanager
def stopped_by_sigterm() -> Iterator[None]:
    """SIGTERM raises, so that a campaign can close its store and say how to go on."""
    hooks = sys.unraisablehook, sys.excepthook
    handler = _Handler()
    try:
        before = signal.signal(signal.SIGTERM, handler.stop)
    except ValueError:  # not in the main thread: whoever calls us handles signals
        yield
        return
    sys.unraisablehook = handler.drop
    sys.excepthook = handler.show
    try:
        yield
    finally:
        handler.cancel()
        sys.unraisablehook, sys.excepthook = hooks
        signal.signal(signal.SIGTERM, before)


def is_termination(error: BaseException | None) -> bool:
    """Whether SIGTERM is what an error comes from."""
    while error is not None and not isinstance(error, Termination):
        error = error.__context__
    return error is not None


class _Handler:
    """Raises where the exception arrives.

    Extension modules drop what is raised while they are imported, so the signal waits for imports.
    What is raised in a callback is dropped with a word to ``unraisablehook``, and of Cython's
    functions to ``excepthook`` before: it comes again.
    """

    def __init__(self) -> None:
        self._unraisable = sys.unraisablehook
        self._uncaught = sys.excepthook
        self._timers: list[threading.Timer] = []

    def stop(self, _: int, frame: FrameType | None) -> None:
        """Handle the signal."""
        while frame is not None and "importlib._bootstrap" not in frame.f_code.co_filename:
            frame = frame.f_back
        # No frame is left if nothing is being imported.
        if len(self._timers) >= _MOST_SENT_AGAIN or frame is None:
            raise Termination
        self._send_again()

    def drop(self, dropped: sys.UnraisableHookArgs) -> None:
        """Takes what Python drops."""
        if is_termination(dropped.exc_value):
            self._send_again()
        else:
            self._unraisable(dropped)

    def show(
        self, error_class: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        """Takes what nobody caught."""
        if not is_termination(error):
            self._uncaught(error_class, error, trace)

    def cancel(self) -> None:
        """No signal comes again."""
        for timer in self._timers[-1:]:
            timer.cancel()

    def _send_again(self) -> None:
        if self._timers and self._timers[-1].is_alive():
            return
        timer = threading.Timer(_SEND_AGAIN_S, os.kill, (os.getpid(), signal.SIGTERM))
        timer.daemon = True
        timer.start()
        self._timers.append(timer)
