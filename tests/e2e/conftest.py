"""What several tests of the command line need."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from codesign import api


class _StopsEarly:
    """A person who presses Ctrl-C after the first batch."""

    def start(self, total: int, done: int) -> None: ...

    def advance(self, *told: object) -> None:
        raise KeyboardInterrupt

    def finish(self) -> None: ...


@pytest.fixture(autouse=True)
def processes_hear_an_interrupt() -> Iterator[None]:
    """A gate in the background may ignore Ctrl-C, and all that it begins would do so too."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def break_off() -> Callable[[api.Campaign], Path]:
    """Run a campaign for one batch; its folder."""

    def run(campaign: api.Campaign) -> Path:
        with pytest.raises(KeyboardInterrupt):
            campaign.run(_StopsEarly())
        return campaign.folder

    return run
