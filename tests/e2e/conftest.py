"""What several tests of the command line need."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codesign import api

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="module")
def browser():
    """A Chromium on the machine; where there is none, tests that ask for it are skipped."""
    api_of_playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: it drives the browser"
    )
    found = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if found is None:
        # The rest of the gate must run where nobody installed a browser.
        pytest.skip(f"none of {', '.join(_BROWSERS)} is installed")
    with api_of_playwright.sync_playwright() as playwright:
        # As root, which containers are, Chromium starts only without its sandbox.
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        opened = playwright.chromium.launch(executable_path=found, args=options)
        yield opened
        opened.close()


class _StopsEarly:
    """A person who presses Ctrl-C after the first batch."""

    def sample(self, total: int, done: int) -> None: ...

    def start(self, total: int, done: int) -> None: ...

    def advance(self, *told: object) -> None:
        raise KeyboardInterrupt

    def finish(self) -> None: ...


@pytest.fixture(scope="session", autouse=True)
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


def _texts(figure) -> list[tuple[Any, Any]]:
    """Every text that is drawn, with its box in pixels."""
    from matplotlib.axis import Axis
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    renderer = FigureCanvasAgg(figure).get_renderer()
    ticks = set()
    for axis in figure.findobj(Axis):
        drawn = axis._update_ticks() if axis.get_visible() and axis.axes.axison else []
        inside = {label for tick in drawn for label in (tick.label1, tick.label2)}
        every = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
        ticks |= {x for tick in every for x in (tick.label1, tick.label2)} - inside
    hidden = {x for axes in figure.axes if not axes.axison for x in axes.xaxis.findobj(Text)}
    hidden |= {x for axes in figure.axes if not axes.axison for x in axes.yaxis.findobj(Text)}
    texts = [
        item
        for item in figure.findobj(Text)
        if item.get_visible() and item.get_text().strip() and item not in ticks | hidden
    ]
    # Of an annotation without its leader.
    return [(item, Text.get_window_extent(item, renderer)) for item in texts]


def _lines(figure) -> list[tuple[Any, str, np.ndarray]]:
    """Every leader with its text and every line of data: what it is, and places along it."""
    from matplotlib.cbook import STEP_LOOKUP_MAP

    lines = []
    for axes in figure.axes:
        window = axes.get_window_extent()
        for line in axes.lines:
            if line.get_linestyle() == "None":
                continue
            x, y = line.get_xydata().T
            corners = np.column_stack(STEP_LOOKUP_MAP[line.get_drawstyle()](x, y))
            places = _along(line.get_transform().transform(corners))
            inside = (places >= window.min).all(axis=1) & (places <= window.max).all(axis=1)
            lines.append((None, f"line {line.get_label()!r}", places[inside]))
        for text in axes.texts:
            arrow = getattr(text, "arrow_patch", None)
            if arrow is not None and text.get_text():  # without, it is an arrow between boxes
                ends = arrow.get_transform().transform(arrow.get_path().vertices)
                lines.append((text, f"leader of {text.get_text()!r}", _along(ends)))
    return lines


def _along(corners: np.ndarray) -> np.ndarray:
    """Places a pixel apart."""
    corners = corners[np.isfinite(corners).all(axis=1)]
    pieces = [
        np.linspace(begin, end, min(5000, int(np.abs(end - begin).max()) + 2))
        for begin, end in pairwise(corners)
    ]
    return np.concatenate(pieces) if pieces else corners


def _overprints(figure) -> list[str]:
    """Texts that meet a text, a leader or a line by more than a pixel."""
    figure.draw_without_rendering()
    listed, pairs = _texts(figure), []
    for i, (first, a) in enumerate(listed):
        for second, b in listed[i + 1 :]:
            wide = min(a.x1, b.x1) - max(a.x0, b.x0)
            high = min(a.y1, b.y1) - max(a.y0, b.y0)
            if wide > 1.0 and high > 1.0:
                pairs.append(f"{first.get_text()!r} on {second.get_text()!r}")
    for owner, name, places in _lines(figure):
        for text, box in listed:
            is_in = (places > box.min + 1.0).all(axis=1) & (places < box.max - 1.0).all(axis=1)
            if text is not owner and is_in.any():
                pairs.append(f"{name} across {text.get_text()!r}")
    return pairs


@pytest.fixture
def overprints(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Of every figure that the test draws, what lies on each other: texts, leaders and lines."""
    from matplotlib.figure import Figure

    found: dict[str, list[str]] = {}
    save = Figure.savefig

    def looked_at(figure: Figure, path: Any, **settings: Any) -> None:
        save(figure, path, **settings)  # first: to look at a figure may move its parts a little
        found[f"{Path(path).name} {len(found)}"] = _overprints(figure)

    monkeypatch.setattr(Figure, "savefig", looked_at)
    return found
