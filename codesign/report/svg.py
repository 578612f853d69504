"""Draw a chart as SVG: inside a page, or as a file of its own.

The same text serves both. A page resolves the hues through its style sheet; a file has them
written in. Letters have the widths of Helvetica, which Arial and Liberation Sans share, so that
the space a text takes is known before it is drawn.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape

import numpy as np

from codesign.base.columns import FloatArray
from codesign.base.units import SI_PREFIXES
from codesign.report.chart import Axis, Bars, Box, Chart, Label, Line, Mark, Panel, Points
from codesign.report.labels import takes_prefix, unit_text

FONT = "Arial, Helvetica, 'Liberation Sans', sans-serif"
_SMALL, _USUAL, _TITLE = 10.0, 11.0, 12.0
_WIDTHS = (
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556,
    556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667,
    611, 778, 722, 278, 500, 667, 556, 833, 722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667,
    667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500,
    222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584,
)  # fmt: skip
"""Thousandths of the font size, of the characters from space to tilde [Helvetica's metrics]."""
_GAP = 3.0
_HATCHES = {"/": "M0 6L6 0", "x": "M0 6L6 0M0 0L6 6", ".": "M2 3h2", "-": "M0 3h6", "|": "M3 0v6"}
_DASHES = {"dash": "6 4", "dot": "1.5 3", "dashdot": "6 3 1.5 3", "long": "10 4"}


def text_width(text: str, size: float = _USUAL) -> float:
    """Width of the longest line of a text in pixels.

    >>> round(text_width("TDP", 10.0), 2)
    20.0
    """
    lines = text.split("\n")
    return max(size / 1000 * sum(_letter_width(letter) for letter in line) for line in lines)


def _letter_width(letter: str) -> int:
    place = ord(letter) - 32
    return _WIDTHS[place] if 0 <= place < len(_WIDTHS) else 600


def wrap(text: str, width: float, size: float = _USUAL) -> str:
    """Break a text into lines of at most a width; a word is never broken."""
    lines: list[str] = []
    for paragraph in text.split("\n"):
        line = ""
        for word in paragraph.split(" "):
            longer = f"{line} {word}" if line else word
            if line and text_width(longer, size) > width:
                lines.append(line)
                line = word
            else:
                line = longer
        lines.append(line)
    return "\n".join(lines)


@dataclass
class _Scale:
    """The map from the values of an axis to pixels."""

    axis: Axis
    begin: float
    end: float

    def __post_init__(self) -> None:
        low, high = self.axis.ends
        self.low, self.high = (
            (math.log10(low), math.log10(high)) if self.axis.is_log else (low, high)
        )
        if self.high == self.low:
            self.high = self.low + 1.0

    def __call__(self, values: object) -> FloatArray:
        numbers = np.asarray(values, dtype=np.float64)
        if self.axis.is_log:
            with np.errstate(divide="ignore", invalid="ignore"):
                numbers = np.log10(numbers)
        shares = (numbers - self.low) / (self.high - self.low)
        return np.asarray(self.begin + shares * (self.end - self.begin))


@dataclass
class _Frame:
    """A panel on the sheet: its plotting area, and what already takes room in it."""

    panel: Panel
    left: float
    top: float
    width: float
    height: float
    taken: list[tuple[float, float, float, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.x = _Scale(self.panel.x, self.left, self.left + self.width)
        bottom = self.top + self.height
        # Categories count from the top.
        ends = (self.top, bottom) if self.panel.y.names else (bottom, self.top)
        self.y = _Scale(self.panel.y, *ends)

    def is_inside(self, box: tuple[float, float, float, float]) -> bool:
        x0, x1, y0, y1 = box
        return (
            x0 >= self.left and x1 <= self.left + self.width
            and y0 >= self.top and y1 <= self.top + self.height
        )  # fmt: skip


def draw(chart: Chart, width: float) -> str:
    """The chart as one ``svg`` element, that many pixels wide."""
    legend, frames, bottom = _laid_out(chart, width)
    pieces = [legend, *(piece for frame in frames for piece in _panel(frame))]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" '
        f'viewBox="0 0 {_n(width)} {_n(bottom)}" '
        f'role="img" aria-label="{escape(chart.alt)}" font-family="{FONT}" '
        f'font-size="{_n(_USUAL)}">{"".join(pieces)}</svg>'
    )


def _laid_out(chart: Chart, width: float) -> tuple[str, list[_Frame], float]:
    """The legend, the frames of all panels, and the height of the sheet."""
    legend, top = _legend(chart, width, 4.0) if chart.has_legend else ("", 4.0)
    n = min(chart.columns, len(chart.panels)) or 1
    gap = 14.0
    cell = (width - gap * (n - 1)) / n
    frames: list[_Frame] = []
    for row in range(0, len(chart.panels), n):
        panels = chart.panels[row : row + n]
        line = [_framed(panel, k * (cell + gap), top, cell) for k, panel in enumerate(panels)]
        top = max(frame.top + frame.height + _foot(frame) for frame in line)
        frames += line
    return legend, frames, top


def place_on(chart: Chart, width: float, x: float, y: float) -> tuple[float, float]:
    """Pixels of a point on the first panel of a drawn chart, moved to its border if outside."""
    _, (frame, *_), _ = _laid_out(chart, width)
    px, py = float(frame.x(x)), float(frame.y(y))
    return (
        min(max(px, frame.left), frame.left + frame.width),
        min(max(py, frame.top), frame.top + frame.height),
    )


def hatch_patterns() -> str:
    """The patterns of bars and boxes, once per page or file."""
    return (
        "<defs>"
        + "".join(
            f'<pattern id="hatch{number}" width="6" height="6" patternUnits="userSpaceOnUse">'
            f'<path d="{path}" stroke="var(--paper)" stroke-width="1.3" fill="none"/></pattern>'
            for number, path in enumerate(_HATCHES.values())
        )
        + "</defs>"
    )


def _n(value: float) -> str:
    """A coordinate with one decimal, without what says nothing.

    >>> _n(3.0), _n(2.25)
    ('3', '2.2')
    """
    return f"{value:.1f}".removesuffix(".0")


def _text(
    x: float, y: float, text: str, anchor: str = "start", hue: str = "ink", size: float = _USUAL,
    more: str = "",
) -> str:  # fmt: skip
    """A text of one or more lines; ``y`` is the baseline of the first one."""
    lines = text.split("\n")
    place = f'x="{_n(x)}" y="{_n(y)}"'
    style = f'fill="var(--{hue})"' + (f' font-size="{_n(size)}"' if size != _USUAL else "")
    style += f' text-anchor="{anchor}"' if anchor != "start" else ""
    if len(lines) == 1:
        return f"<text {place} {style}{more}>{escape(text)}</text>"
    spans = "".join(
        f'<tspan x="{_n(x)}" dy="{_n(1.2 * size) if i else 0}">{escape(line)}</tspan>'
        for i, line in enumerate(lines)
    )
    return f"<text {place} {style}{more}>{spans}</text>"


def _legend(chart: Chart, width: float, top: float) -> tuple[str, float]:
    """Named series above the panels; returns the text and where the panels may begin."""
    entries: dict[str, Mark] = {}
    for panel in chart.panels:
        for mark in panel.marks:
            name = getattr(mark, "name", "")
            if name:
                entries.setdefault(name, mark)
    pieces: list[str] = []
    x, y = 4.0, top + 9.0
    for name, mark in entries.items():
        wide = 22.0 + text_width(name, _SMALL) + 12.0
        if x + wide > width and x > 4.0:
            x, y = 4.0, y + 15.0
        group = getattr(mark, "group", "")
        hide = f' class="g-{group}"' if group else ""
        pieces.append(
            f"<g{hide}>{_key(mark, x + 8.0, y - 3.5)}{_text(x + 20.0, y, name, size=_SMALL)}</g>"
        )
        x += wide
    return "".join(pieces), y + 8.0 if entries else top


def _key(mark: Mark, x: float, y: float) -> str:
    """A small example of a series."""
    if isinstance(mark, Points):
        hue = mark.hue if isinstance(mark.hue, str) else mark.hue[0]
        return _symbol(mark.shape, x, y, 8.0, hue, mark.is_open, "")
    if isinstance(mark, Line):
        return _path([x - 8.0, x + 8.0], [y, y], mark)
    hue, hatch = str(getattr(mark, "hue", "ink")), str(getattr(mark, "hatch", ""))
    opacity = float(getattr(mark, "opacity", 1.0))
    return _rectangle(
        x - 7.0, y - 4.0, 14.0, 8.0, f'fill="var(--{hue})" opacity="{opacity:g}"', hatch
    )


def _framed(panel: Panel, left_px: float, top: float, width: float) -> _Frame:
    """The plotting area of a panel, with room for the texts of its axes."""
    head = 4.0 + (16.0 if panel.title else 0.0)
    texts = [text for _, text in _ticks(panel.y, panel.height, is_upright=True)]
    room = max((text_width(text, _SMALL) for text in texts), default=0.0) + 8.0
    if panel.y.title:
        room += 16.0
    if panel.x.is_hidden and panel.y.is_hidden:
        room = 2.0
    behind = 12.0
    inside = width - room - behind
    height = panel.height
    if panel.is_to_scale:
        spans = [abs(axis.ends[1] - axis.ends[0]) for axis in (panel.x, panel.y)]
        height = min(panel.height, inside * spans[1] / spans[0])
        exact = height * spans[0] / spans[1]
        left_px += (inside - exact) / 2
        inside = exact
    return _Frame(panel, left_px + room, top + head, inside, height)


def _foot(frame: _Frame) -> float:
    """Height that the texts of the lower axis take."""
    axis = frame.panel.x
    if axis.is_hidden:
        return 8.0
    lines = len(wrap(axis.title, frame.width + 40.0).split("\n")) if axis.title else 0
    return 22.0 + 14.0 * lines


def _panel(frame: _Frame) -> Iterable[str]:
    """Grid, marks and texts of a panel, from the lowest to the highest."""
    panel = frame.panel
    if panel.title:
        yield _text(frame.left, frame.top - 8.0, panel.title, more=' font-weight="600"')
    yield from _axes(frame)
    texts: list[str] = []
    for mark in panel.marks:
        match mark:
            case Points():
                yield from _points(frame, mark)
            case Line():
                yield from _line(frame, mark)
            case Bars():
                yield from _bars(frame, mark, texts)
            case Box():
                yield from _box(frame, mark, texts)
    yield from texts
    for mark in panel.marks:
        if isinstance(mark, Label):
            yield _label(frame, mark)


def _axes(frame: _Frame) -> Iterable[str]:
    panel, bottom = frame.panel, frame.top + frame.height
    if not panel.x.is_hidden:
        for value, text in _ticks(panel.x, frame.width, is_upright=False):
            x = float(frame.x(value))
            yield (
                f'<path d="M{_n(x)} {_n(frame.top)}V{_n(bottom)}" stroke="var(--grid)"/>'
                + _text(x, bottom + 14.0, text, "middle", "quiet", _SMALL)
            )
        if panel.x.title:
            title = wrap(panel.x.title, frame.width + 40.0)
            yield _text(frame.left + frame.width / 2 - 6.0, bottom + 29.0, title, "middle")
    if not panel.y.is_hidden:
        for value, text in _ticks(panel.y, frame.height, is_upright=True):
            y = float(frame.y(value))
            ends = f"M{_n(frame.left)} {_n(y)}H{_n(frame.left + frame.width)}"
            line = f'<path d="{ends}" stroke="var(--grid)"/>'
            hue = "ink" if panel.y.names else "quiet"
            yield ("" if panel.y.names else line) + _text(
                frame.left - 5.0, y + 3.5, text, "end", hue, _SMALL
            )
        if panel.y.title:
            widest = max(
                (text_width(text, _SMALL) for _, text in _ticks(panel.y, frame.height, True)),
                default=0.0,
            )
            x, y = frame.left - widest - 12.0, frame.top + frame.height / 2
            turn = f' transform="rotate(-90 {_n(x)} {_n(y)})"'
            yield _text(x, y, panel.y.title, "middle", more=turn)


def _ticks(axis: Axis, length: float, is_upright: bool) -> list[tuple[float, str]]:
    """Positions and texts along an axis."""
    if axis.ticks is not None:
        return list(axis.ticks)
    if axis.names:
        return list(enumerate(axis.names))
    if axis.is_hidden:
        return []
    low, high = min(axis.ends), max(axis.ends)
    if axis.is_log:
        return [(value, _tick_text(value, axis)) for value in _log_ticks(low, high, length)]
    least = (high - low) / max(1.0, length / (36.0 if is_upright else 74.0))
    power = 10.0 ** math.floor(math.log10(least)) if least > 0 else 1.0
    step = next(k * power for k in (1.0, 2.0, 5.0, 10.0) if k * power >= least * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    values = [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]
    factor, prefix = _prefix(max(abs(low), abs(high)), axis.unit)
    unit = prefix + unit_text(axis.unit) if axis.unit and not axis.title else ""
    return [(value, f"{value / factor:,.6g} {unit}".strip()) for value in values]


def axis_unit(axis_ends: tuple[float, float], unit: str) -> str:
    """The multiple of a unit in which the ticks of a linear axis are numbered."""
    return _prefix(max(map(abs, axis_ends)), unit)[1] + unit_text(unit)


def _prefix(largest: float, unit: str) -> tuple[float, str]:
    """The SI prefix that leaves 1 to 999 of the largest value; seconds take none above 1."""
    if not takes_prefix(unit):
        return 1.0, ""
    for factor, prefix in SI_PREFIXES:
        if largest >= factor and (unit != "s" or factor <= 1.0):
            return factor, prefix
    return 1.0, ""


def _log_ticks(low: float, high: float, length: float) -> list[float]:
    decades = range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9) + 1)
    every = max(1, math.ceil(len(decades) * 44.0 / length))
    ticks = [10.0**k for k in decades if k % every == 0]
    if len(ticks) >= 3:
        return ticks
    first = math.floor(math.log10(low))
    finer = [k * 10.0**p for p in range(first, first + 5) for k in (1, 2, 5)]
    return [value for value in finer if low <= value <= high]


def _tick_text(value: float, axis: Axis) -> str:
    """A tick of a logarithmic axis, with its own prefix."""
    for factor, prefix in SI_PREFIXES:
        if value >= factor * (1 - 1e-9):
            unit = unit_text(axis.unit) if takes_prefix(axis.unit) else ""
            return f"{value / factor:.6g}{prefix}{unit}"
    return f"{value:g}"


def _stroke(mark: Line) -> str:
    dash = f' stroke-dasharray="{_DASHES[mark.dash]}"' if mark.dash else ""
    faint = f' opacity="{mark.opacity:g}"' if mark.opacity != 1 else ""
    return f'fill="none" stroke="var(--{mark.hue})" stroke-width="{mark.width:g}"{dash}{faint}'


def _path(x: Sequence[float], y: Sequence[float], mark: Line) -> str:
    points = list(zip(x, y, strict=True))
    words = [f"M{_n(points[0][0])} {_n(points[0][1])}"]
    for px, py in points[1:]:
        turn = {"hv": f"H{_n(px)}V{_n(py)}", "vh": f"V{_n(py)}H{_n(px)}"}
        words.append(turn.get(mark.step, f"L{_n(px)} {_n(py)}"))
    about = f' data-t="{escape(mark.text)}"' if mark.text else ""
    group = f' class="g-{mark.group}"' if mark.group else ""
    return f'<path d="{"".join(words)}" {_stroke(mark)}{about}{group}/>'


def _line(frame: _Frame, mark: Line) -> Iterable[str]:
    x, y = frame.x(mark.x), frame.y(mark.y)
    fine = np.isfinite(x) & np.isfinite(y)
    if fine.sum() < 2:
        return
    low, high = frame.top, frame.top + frame.height
    x = np.clip(x[fine], frame.left, frame.left + frame.width)
    y = np.clip(y[fine], low, high)
    corners = [(x[0], y[0])]
    for px, py in zip(x[1:], y[1:], strict=True):
        before = corners[-1]
        if mark.step:
            corners.append((px, before[1]) if mark.step == "hv" else (before[0], py))
        corners.append((px, py))
    for (x0, y0), (x1, y1) in itertools.pairwise(corners):
        steps = max(1, min(200, int((abs(x1 - x0) + abs(y1 - y0)) / 8)))
        for i in range(steps + 1):
            px, py = x0 + (x1 - x0) * i / steps, y0 + (y1 - y0) * i / steps
            frame.taken.append((px - 1, px + 1, py - 1, py + 1))
    yield _path(x.tolist(), y.tolist(), mark)


def _points(frame: _Frame, mark: Points) -> Iterable[str]:
    x, y = frame.x(mark.x), frame.y(mark.y)
    n = len(x)
    sizes, faint = np.broadcast_to(mark.size, n), np.broadcast_to(mark.opacity, n)
    hues = [mark.hue] * n if isinstance(mark.hue, str) else mark.hue
    group = f' class="g-{mark.group}"' if mark.group else ""
    for i in np.flatnonzero(np.isfinite(x) & np.isfinite(y)).tolist():
        half = float(sizes[i]) / 2
        if not frame.is_inside((x[i], x[i], y[i], y[i])):
            continue
        more = f' data-t="{escape(mark.texts[i])}"' if mark.texts else ""
        more += f' data-id="{mark.ids[i]}"' if len(mark.ids) else ""
        more += f' opacity="{faint[i]:g}"' if faint[i] != 1 else ""
        yield _symbol(
            mark.shape, float(x[i]), float(y[i]), 2 * half, hues[i], mark.is_open, more + group
        )
        if n <= 400:
            half += 1.0
            frame.taken.append((x[i] - half, x[i] + half, y[i] - half, y[i] + half))


def _symbol(shape: str, x: float, y: float, size: float, hue: str, is_open: bool, more: str) -> str:
    r = size / 2
    look = (
        f'fill="none" stroke="var(--{hue})" stroke-width="2"' if is_open
        else f'fill="var(--{hue})" stroke="var(--paper)" stroke-width="0.8"'
    )  # fmt: skip
    if shape == "circle":
        return f'<circle cx="{_n(x)}" cy="{_n(y)}" r="{_n(r)}" {look}{more}/>'
    corners = {
        "square": [(-r, -r), (r, -r), (r, r), (-r, r)],
        "diamond": [(0, -1.2 * r), (1.2 * r, 0), (0, 1.2 * r), (-1.2 * r, 0)],
        "triangle": [(0, -1.2 * r), (1.1 * r, r), (-1.1 * r, r)],
        "cross": [(-r, -r / 3), (-r / 3, -r / 3), (-r / 3, -r), (r / 3, -r), (r / 3, -r / 3),
                  (r, -r / 3), (r, r / 3), (r / 3, r / 3), (r / 3, r), (-r / 3, r),
                  (-r / 3, r / 3), (-r, r / 3)],
    }[shape]  # fmt: skip
    path = "L".join(f"{_n(x + dx)} {_n(y + dy)}" for dx, dy in corners)
    return f'<path d="M{path}Z" {look}{more}/>'


def _rectangle(x: float, y: float, w: float, h: float, look: str, hatch: str = "") -> str:
    place = f'x="{_n(x)}" y="{_n(y)}" width="{_n(max(w, 0.0))}" height="{_n(max(h, 0.0))}"'
    plain = f"<rect {place} {look}/>"
    if not hatch:
        return plain
    number = list(_HATCHES).index(hatch)
    return plain + f'<rect {place} fill="url(#hatch{number})" pointer-events="none"/>'


def _bars(frame: _Frame, mark: Bars, texts: list[str]) -> Iterable[str]:
    rows = np.asarray(mark.rows, dtype=np.float64)
    start = np.broadcast_to(np.asarray(mark.start, dtype=np.float64), rows.shape)
    begin, end = frame.x(start), frame.x(start + np.asarray(mark.length, dtype=np.float64))
    if frame.panel.x.is_log:
        begin = np.full(rows.shape, frame.left)
    top, bottom = frame.y(rows - mark.height / 2), frame.y(rows + mark.height / 2)
    for i in np.flatnonzero(np.isfinite(end)).tolist():
        left_px, right = sorted((float(begin[i]), float(end[i])))
        look = f'fill="var(--{mark.hue})" opacity="{mark.opacity:g}"'
        look += f' data-t="{escape(mark.texts[i])}"' if mark.texts else ""
        high = float(bottom[i] - top[i])
        yield _rectangle(left_px, float(top[i]), max(right - left_px, 0.8), high, look, mark.hatch)
        if mark.labels and mark.labels[i]:
            texts.append(_bar_label(frame, mark.labels[i], right, float(top[i]) + high / 2 + 3.5))


def _bar_label(frame: _Frame, text: str, x: float, y: float) -> str:
    """A text behind a bar, or before its end where there is no room behind."""
    limit = frame.left + frame.width + 12.0
    if x + 4.0 + text_width(text, _SMALL) <= limit:
        return _text(x + 4.0, y, text, size=_SMALL)
    back = text_width(text, _SMALL) + 4.0
    plate = _rectangle(
        x - back - 3.0, y - 9.0, back + 1.0, 12.0, 'fill="var(--paper)" opacity="0.85"'
    )
    return plate + _text(x - 4.0, y, text, "end", size=_SMALL)


def _box(frame: _Frame, mark: Box, texts: list[str]) -> Iterable[str]:
    x = sorted(frame.x(mark.x).tolist())
    y = sorted(frame.y(mark.y).tolist())
    dash = f' stroke-dasharray="{_DASHES[mark.dash]}"' if mark.dash else ""
    edge = f' stroke="var(--{mark.edge})" stroke-width="0.9"{dash}' if mark.edge else ""
    look = f'fill="var(--{mark.hue})" fill-opacity="{mark.opacity:g}"{edge}'
    look += f' data-t="{escape(mark.text)}"' if mark.text else ""
    look += f' data-id="{mark.id}"' if mark.id is not None else ""
    yield _rectangle(x[0], y[0], x[1] - x[0], y[1] - y[0], look, mark.hatch)
    if not mark.label:
        return
    room = x[1] - x[0] - 4.0
    label = wrap(mark.label, room, _SMALL)
    lines = label.count("\n") + 1
    if text_width(label, _SMALL) <= room and lines * 12.0 <= y[1] - y[0]:
        middle = (y[0] + y[1]) / 2 - 6.0 * (lines - 1) + 3.5
        more = ' pointer-events="none"'
        texts.append(_text((x[0] + x[1]) / 2, middle, label, "middle", size=_SMALL, more=more))


def _label(frame: _Frame, mark: Label) -> str:
    x, y = float(frame.x(mark.x)), float(frame.y(mark.y))
    more = ' font-weight="600"' if mark.is_bold else ""
    more += f' class="g-{mark.group}"' if mark.group else ""
    if mark.anchor:
        return _text(x, y + 3.5, mark.text, mark.anchor, mark.hue, mark.size, more)
    lines = mark.text.count("\n") + 1
    wide, high = text_width(mark.text, mark.size) + 4.0, 1.2 * mark.size * lines + 2.0
    for dx, dy in _offsets(frame, mark):
        px = x + dx + (wide / 2 if dx > 0 else -wide / 2 if dx < 0 else 0.0)
        py = y + dy + (0.0 if dx else high / 2 if dy > 0 else -high / 2)
        box = (px - wide / 2, px + wide / 2, py - high / 2, py + high / 2)
        if frame.is_inside(box) and not any(
            (
                box[0] < obstacle[1] + _GAP / 2
                and obstacle[0] < box[1] + _GAP / 2
                and box[2] < obstacle[3] + _GAP / 2
                and obstacle[2] < box[3] + _GAP / 2
            )
            for obstacle in frame.taken
        ):
            frame.taken.append(box)
            leader = ""
            if math.hypot(dx, dy) > 24.0 and not mark.is_line:
                near = (min(max(x, box[0]), box[1]), min(max(y, box[2]), box[3]))
                leader = (
                    f'<path d="M{_n(x)} {_n(y)}L{_n(near[0])} {_n(near[1])}" '
                    f'stroke="var(--quiet)" stroke-width="0.8"/>'
                )
            baseline = box[2] + 0.95 * mark.size + 1.0
            return leader + _text(px, baseline, mark.text, "middle", mark.hue, mark.size, more)
    return ""  # no room: the reader finds it by hovering


def _offsets(frame: _Frame, mark: Label) -> list[tuple[float, float]]:
    """Places of a text around its point, the best first."""
    around: list[tuple[float, float]] = [
        (1, -0.35),
        (-1, -0.35),
        (0, -1),
        (0, 1),
        (1, -1),
        (-1, -1),
        (1, 1),
        (-1, 1),
    ]
    rings = [(dx * r, dy * r) for r in (12, 28, 48, 74, 106, 144) for dx, dy in around]
    if not mark.is_line:
        return rings
    along = [share * frame.width for share in (0.06, 0.25, 0.5, 0.75)]
    upright = [share * frame.height for share in (-0.06, -0.25, -0.5, -0.75)]
    beside = [(x, dy) for x in along for dy in (-9.0, 9.0)]
    return [*beside, *[(dx, y) for y in upright for dx in (5.0, -5.0)], *rings]
