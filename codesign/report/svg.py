"""Draw a chart as SVG: inside a page, or as a file of its own.

Letters have a rim of the color of the paper, so that lines below them do not cross them.

The same text serves both. A page resolves the hues through its style sheet; a file has them
written in. Letters have the widths of Helvetica, which Arial and Liberation Sans share, so that
the space a text takes is known before it is drawn.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np

from codesign.base.columns import FloatArray, FloatPair, JsonObject, StringDict, StringList
from codesign.base.text import glued
from codesign.base.units import SI_PREFIXES, round_step
from codesign.report.chart import Axis, Bars, Box, Chart, Label, Line, Panel, Points
from codesign.report.labels import takes_prefix, unit_text

FONT = "Arial, Helvetica, 'Liberation Sans', sans-serif"
_SMALL = 10.0
_USUAL = 11.0
_TITLE = 12.0
_METRICS = """\
278 278 355 556 556 889 667 191 333 333 389 584 278 333 278 278 556 556 556 556 556 556 556 556
556 556 278 278 584 584 584 556 1015 667 667 722 722 667 611 778 722 278 500 667 556 833 722
778 667 778 722 667 611 722 667 944 667 667 611 278 278 278 469 556 333 556 556 500 556 556 278
556 556 222 222 500 222 833 556 556 556 556 333 500 278 556 500 722 500 500 500 334 260 334 584
"""
_WIDTHS = tuple(map(int, _METRICS.split()))
"""Thousandths of the font size, of the characters from space to tilde [Helvetica's metrics]."""
_GAP = 3.0
_HATCHES = {"/": "M0 6L6 0", "x": "M0 6L6 0M0 0L6 6", ".": "M2 3h2", "-": "M0 3h6", "|": "M3 0v6"}
_HIDDEN = ("tighter", "moved")
"""Groups that a page hides until a limit is moved: they take no room."""
_DASHES = {"dash": "6 4", "dot": "1.5 3", "dashdot": "6 3 1.5 3", "long": "10 4"}


def text_width(text: str, size: float = _USUAL) -> float:
    """Width of the longest line of a text in pixels.

    >>> round(text_width("TDP", 10.0), 2)
    20.0
    """
    letters = ([ord(letter) - 32 for letter in line] for line in text.split("\n"))
    return (
        size
        / 1000
        * max(sum(_WIDTHS[x] if 0 <= x < len(_WIDTHS) else 600 for x in line) for line in letters)
    )


def wrap(text: str, width: float, size: float = _USUAL) -> str:
    """Break a text into lines of at most a width; neither in words nor before units.

    >>> wrap("81 % less", 10.0)
    '81 %\\nless'
    """
    lines = []
    for paragraph in text.split("\n"):
        line = ""
        for word in glued(paragraph).split(" "):
            longer = f"{line} {word}" if line else word
            if line and text_width(longer, size) > width:
                lines.append(line)
                line = word
            else:
                line = longer
        lines.append(line)
    return "\n".join(lines).replace("\u00a0", " ")


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
        numbers = np.asarray(values, np.float64)
        if self.axis.is_log:
            with np.errstate(divide="ignore", invalid="ignore"):
                numbers = np.log10(numbers)
        shares = (numbers - self.low) / (self.high - self.low)
        return self.begin + shares * (self.end - self.begin)


@dataclass
class _Frame:
    """A panel on the sheet: its plotting area, and what already takes room in it."""

    panel: Panel
    left: float
    top: float
    width: float
    height: float
    middle: float
    caption: str
    taken_boxes: list[tuple[float, float, float, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.right = self.left + self.width
        self.bottom = self.top + self.height
        self.x = _Scale(self.panel.x, self.left, self.right)
        # Categories count from the top.
        ends = (self.top, self.bottom) if self.panel.y.names else (self.bottom, self.top)
        self.y = _Scale(self.panel.y, *ends)

    def is_inside(self, box: tuple[float, float, float, float]) -> bool:
        x0, x1, y0, y1 = box
        return x0 >= self.left and x1 <= self.right and y0 >= self.top and y1 <= self.bottom


def _tag(name: str, inside: str = "", **attributes: Any) -> str:
    """An element without its empty attributes; a coordinate has one decimal.

    >>> _tag("rect", x=3.0, y=2.25, stroke_width="1", class_="")
    '<rect x="3" y="2.2" stroke-width="1"/>'
    """
    words = "".join(
        f' {key.rstrip("_").replace("_", "-")}="'
        f'{_n(x) if isinstance(x, float) else escape(str(x))}"'
        for key, x in attributes.items()
        if x not in ("", None)
    )
    return f"<{name}{words}>{inside}</{name}>" if inside else f"<{name}{words}/>"


def _n(value: float) -> str:
    """A coordinate with one decimal, without a zero behind the point."""
    return f"{value:.1f}".removesuffix(".0")


def _share(value: float) -> str:
    """An opacity; empty if it is 1."""
    return "" if value == 1 else f"{value:g}"


def _class(mark: Any) -> str:
    """The class by which a page shows or hides a mark."""
    return f"g-{mark.group}" if mark.group else ""


def draw(chart: Chart, width: float) -> str:
    """The chart as one ``svg`` element, that many pixels wide."""
    legend, frames, bottom = _laid_out(chart, width)
    return _tag(
        "svg", "".join([legend, *(piece for frame in frames for piece in _panel(frame))]),
        xmlns="http://www.w3.org/2000/svg", class_="chart",
        viewBox=f"0 0 {_n(width)} {_n(bottom)}", role="img", aria_label=chart.alt,
        font_family=FONT, font_size=_USUAL,
    )  # fmt: skip


def _laid_out(chart: Chart, width: float) -> tuple[str, list[_Frame], float]:
    """The legend, the frames of all panels, and the height of the sheet."""
    legend, top = _legend(chart, width, 4.0) if chart.has_legend else ("", 4.0)
    n = min(chart.columns, len(chart.panels)) or 1
    gap = 14.0
    cell = (width - gap * (n - 1)) / n
    frames = []
    for row in range(0, len(chart.panels), n):
        panels = chart.panels[row : row + n]
        line = [_framed(panel, k * (cell + gap), top, cell) for k, panel in enumerate(panels)]
        top = 0.0
        for frame in line:
            n_lines = len(frame.caption.splitlines())
            foot = (8.0 if frame.panel.x.is_hidden else 22.0) + 14.0 * n_lines
            top = max(top, frame.bottom + foot)
        frames += line
    return legend, frames, top


def place_on(chart: Chart, width: float, x: float, y: float) -> FloatPair:
    """Pixels of a point on the first panel of a drawn chart, moved to its border if outside."""
    _, (frame, *_), _ = _laid_out(chart, width)
    px = float(np.clip(frame.x(x), frame.left, frame.right))
    return px, float(np.clip(frame.y(y), frame.top, frame.bottom))


def hatch_patterns() -> str:
    """The patterns of bars and boxes, once per page or file."""
    patterns = (
        _tag(
            "pattern", _tag("path", d=path, stroke="var(--paper)", stroke_width=1.3, fill="none"),
            id=f"hatch{number}", width=6, height=6, patternUnits="userSpaceOnUse",
        )
        for number, path in enumerate(_HATCHES.values())
    )  # fmt: skip
    return _tag("defs", "".join(patterns))


def text_element(
    x: float, y: float, text: str, anchor: str = "start", hue: str = "ink", size: float = _USUAL,
    **more: Any,
) -> str:  # fmt: skip
    """A text of one or more lines; ``y`` is the baseline of the first one."""
    lines = text.split("\n")
    inside = escape(text) if len(lines) == 1 else "".join(
        _tag("tspan", escape(line), x=x, dy=_n(1.2 * size) if i else "0")
        for i, line in enumerate(lines)
    )  # fmt: skip
    return _tag(
        "text", inside, x=x, y=y, fill=f"var(--{hue})",
        font_size=size if size != _USUAL else "", text_anchor=anchor if anchor != "start" else "",
        **more,
    )  # fmt: skip


def _legend(chart: Chart, width: float, top: float) -> tuple[str, float]:
    """Named series above the panels; returns the text and where the panels may begin."""
    entries: JsonObject = {}
    for mark in (mark for panel in chart.panels for mark in panel.marks):
        if not isinstance(mark, Label) and mark.name:
            entries.setdefault(mark.name, mark)
    pieces = []
    x = 4.0
    y = top + 9.0
    for name, mark in entries.items():
        wide = 22.0 + text_width(name, _SMALL) + 12.0
        if x + wide > width and x > 4.0:
            x = 4.0
            y = y + 15.0
        if isinstance(mark, Points):
            hue = mark.hue if isinstance(mark.hue, str) else mark.hue[0]
            key = _symbol(mark.shape, x + 8.0, y - 3.5, 8.0, **_look(hue, mark.is_open))
        elif isinstance(mark, Line):
            key = _path([(x, y - 3.5), (x + 16.0, y - 3.5)], mark)
        else:
            key = _rectangle(
                x + 1.0, y - 7.5, 14.0, 8.0, mark.hatch, fill=f"var(--{mark.hue})",
                opacity=f"{mark.opacity:g}",
            )  # fmt: skip
        group = "" if isinstance(mark, Bars | Box) else _class(mark)
        pieces.append(_tag("g", key + text_element(x + 20.0, y, name, size=_SMALL), class_=group))
        x += wide
    return "".join(pieces), y + 8.0 if entries else top


def _framed(panel: Panel, left_px: float, top: float, width: float) -> _Frame:
    """The plotting area of a panel, with room for the texts of its axes."""
    head = 4.0 + (16.0 if panel.title else 0.0)
    room = _widest_tick(panel.y, panel.height) + (24.0 if panel.y.title else 8.0)
    if panel.x.is_hidden:
        room = 2.0
    inside = width - room - 12.0
    height = panel.height
    middle = left_px + width / 2 if panel.x.is_hidden else left_px + room + inside / 2 - 6.0
    caption = wrap(panel.x.title, width if panel.x.is_hidden else inside + 40.0)
    if panel.is_to_scale:
        wide, high = (abs(axis.ends[1] - axis.ends[0]) for axis in (panel.x, panel.y))
        height = min(panel.height, inside * high / wide)
        exact = height * wide / high
        left_px += (inside - exact) / 2
        inside = exact
    return _Frame(panel, left_px + room, top + head, inside, height, middle, caption)


def _widest_tick(axis: Axis, height: float) -> float:
    ticks = _ticks(axis, height, is_upright=True)
    return max((text_width(text, _SMALL) for _, text in ticks), default=0.0)


def _panel(frame: _Frame) -> Iterable[str]:
    """Grid, marks and texts of a panel, from the lowest to the highest."""
    panel = frame.panel
    if panel.title:
        yield text_element(frame.left, frame.top - 8.0, panel.title, font_weight=600)
    yield from _axes(frame)
    texts: StringList = []
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
    yield from (_label(frame, mark) for mark in panel.marks if isinstance(mark, Label))


def _axes(frame: _Frame) -> Iterable[str]:
    panel = frame.panel
    bottom = frame.bottom
    if not panel.x.is_hidden:
        for value, text in _ticks(panel.x, frame.width, is_upright=False):
            x = float(frame.x(value))
            yield _tag("path", d=_route([(x, frame.top), (x, bottom)]), stroke="var(--grid)")
            yield text_element(x, bottom + 14.0, text, "middle", "quiet", _SMALL)
    if frame.caption:
        below, hue = (14.0, "quiet") if panel.x.is_hidden else (29.0, "ink")
        yield text_element(frame.middle, bottom + below, frame.caption, "middle", hue)
    if not panel.y.is_hidden:
        for value, text in _ticks(panel.y, frame.height, is_upright=True):
            y = float(frame.y(value))
            if not panel.y.names:
                route = _route([(frame.left, y), (frame.right, y)])
                yield _tag("path", d=route, stroke="var(--grid)")
            hue = "ink" if panel.y.names else "quiet"
            top = y + 3.5 - 6.0 * text.count("\n")
            yield text_element(frame.left - 5.0, top, text, "end", hue, _SMALL)
        if panel.y.title:
            x = frame.left - _widest_tick(panel.y, frame.height) - 12.0
            y = frame.top + frame.height / 2
            turn = f"rotate(-90 {_n(x)} {_n(y)})"
            yield text_element(x, y, panel.y.title, "middle", transform=turn)


def _ticks(axis: Axis, length: float, is_upright: bool) -> list[tuple[float, str]]:
    """Positions and texts along an axis.

    >>> axis = Axis((0.28, 0.33), "Regret (%)", "%")
    >>> [text for _, text in _ticks(axis, 100.0, is_upright=False)]
    ['28', '30', '32']
    """
    if axis.ticks is not None:
        return list(axis.ticks)
    if axis.names:
        return list(enumerate(axis.names))
    if axis.is_hidden:
        return []
    low = min(axis.ends)
    high = max(axis.ends)
    if axis.is_log:
        return list(_log_ticks(low, high, length, axis.unit))
    least = (high - low) / max(
        1.0, length / (36.0 if is_upright or axis.unit == "%" else min(74.0, length / 2.5))
    )
    step = round_step(least) if least > 0 else 1.0
    first = math.ceil(low / step - 1e-9)
    values = [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]
    factor, prefix = _prefix(max(abs(low), abs(high)), axis.unit)
    unit = prefix + unit_text(axis.unit) if axis.unit and not axis.title else ""
    return [(value, f"{value / factor:,.6g} {unit}".strip()) for value in values]


def axis_unit(axis_ends: FloatPair, unit: str) -> str:
    """The multiple of a unit in which the ticks of a linear axis are numbered."""
    return _prefix(max(map(abs, axis_ends)), unit)[1] + unit_text(unit)


def _prefix(largest: float, unit: str) -> tuple[float, str]:
    """The SI prefix that leaves 1 to 999 of the largest value; seconds take none above 1."""
    if not takes_prefix(unit):
        return 0.01 if unit == "%" else 1.0, ""
    for factor, prefix in SI_PREFIXES:
        if largest >= factor and (unit != "s" or factor <= 1.0):
            return factor, prefix
    return 1.0, ""


def _log_ticks(low: float, high: float, length: float, unit: str) -> Iterable[tuple[float, str]]:
    """Decades, or finer steps if there are few, each with a prefix of its own."""
    decades = range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9) + 1)
    every = max(1, math.ceil(len(decades) * 44.0 / length))
    ticks = [10.0**k for k in decades if k % every == 0]
    if len(ticks) < 3:
        first = math.floor(math.log10(low))
        finer = [k * 10.0**p for p in range(first, first + 5) for k in (1, 2, 5)]
        ticks = [value for value in finer if low <= value <= high]
    shown_unit = unit_text(unit) if takes_prefix(unit) else ""
    for value in ticks:
        prefixes = (x for x in SI_PREFIXES if value >= x[0] * (1 - 1e-9))
        factor, prefix = next(prefixes, (0.0, ""))
        yield value, f"{value / factor:.6g}{prefix}{shown_unit}" if factor else f"{value:g}"


def _route(points: Iterable[FloatPair]) -> str:
    """The path through some points."""
    return "M" + "L".join(f"{_n(x)} {_n(y)}" for x, y in points)


def _path(points: Iterable[FloatPair], mark: Line) -> str:
    return _tag(
        "path", d=_route(points), fill="none", stroke=f"var(--{mark.hue})",
        stroke_width=f"{mark.width:g}", stroke_dasharray=_DASHES.get(mark.dash, ""),
        opacity=_share(mark.opacity), data_t=mark.text, class_=_class(mark),
    )  # fmt: skip


def _line(frame: _Frame, mark: Line) -> Iterable[str]:
    x = frame.x(mark.x)
    y = frame.y(mark.y)
    fine = np.isfinite(x) & np.isfinite(y)
    if fine.sum() < 2:
        return
    x = np.clip(x[fine], frame.left, frame.right)
    y = np.clip(y[fine], frame.top, frame.bottom)
    corners = [(x[0], y[0])]
    for px, py in zip(x[1:], y[1:], strict=True):
        if mark.step:
            corners.append((px, corners[-1][1]) if mark.step == "hv" else (corners[-1][0], py))
        corners.append((px, py))
    for (x0, y0), (x1, y1) in itertools.pairwise(corners if mark.group not in _HIDDEN else ()):
        steps = max(1, min(200, int((abs(x1 - x0) + abs(y1 - y0)) / 8)))
        for px, py in np.linspace((x0, y0), (x1, y1), steps + 1).tolist():
            frame.taken_boxes.append((px - 1, px + 1, py - 1, py + 1))
    yield _path(corners, mark)


def _points(frame: _Frame, mark: Points) -> Iterable[str]:
    x = frame.x(mark.x)
    y = frame.y(mark.y)
    n = len(x)
    sizes = np.broadcast_to(mark.size, n).tolist()
    faint = np.broadcast_to(mark.opacity, n)
    group = _look(mark.hue, mark.is_open) if isinstance(mark.hue, str) else {}
    symbols = []
    for i in np.flatnonzero(np.isfinite(x) & np.isfinite(y)).tolist():
        if not frame.is_inside((x[i], x[i], y[i], y[i])):
            continue
        symbols.append(_symbol(
            mark.shape, float(x[i]), float(y[i]), sizes[i],
            data_t=mark.texts[i] if mark.texts else "", data_id=mark.ids[i] if mark.ids else "",
            opacity=_share(faint[i]), class_=_class(mark),
            **({} if group else _look(mark.hue[i], mark.is_open)),
        ))  # fmt: skip
        if n <= 400 and mark.group not in _HIDDEN and mark.hue != "dim":
            half = sizes[i] / 2 + 1.0
            frame.taken_boxes.append((x[i] - half, x[i] + half, y[i] - half, y[i] + half))
    if symbols:
        yield _tag("g", "".join(symbols), **group)


def _look(hue: str, is_open: bool) -> StringDict:
    fill, stroke, width = ("none", hue, "2") if is_open else (f"var(--{hue})", "paper", "0.8")
    return {"fill": fill, "stroke": f"var(--{stroke})", "stroke_width": width}


def _symbol(shape: str, x: float, y: float, size: float, **look: Any) -> str:
    r = size / 2
    if shape == "circle":
        return _tag("circle", cx=x, cy=y, r=r, **look)
    t = r / 3
    corners = {
        "square": [(-r, -r), (r, -r), (r, r), (-r, r)],
        "diamond": [(0, -1.2 * r), (1.2 * r, 0), (0, 1.2 * r), (-1.2 * r, 0)],
        "triangle": [(0, -1.2 * r), (1.1 * r, r), (-1.1 * r, r)],
        "cross": [(-r, -t), (-t, -t), (-t, -r), (t, -r), (t, -t), (r, -t),
                  (r, t), (t, t), (t, r), (-t, r), (-t, t), (-r, t)],
    }[shape]  # fmt: skip
    route = _route((x + dx, y + dy) for dx, dy in corners)
    return _tag("path", d=f"{route}Z", **look)


def _rectangle(x: float, y: float, wide: float, high: float, hatch: str = "", **look: Any) -> str:
    place: JsonObject = {"x": x, "y": y, "width": max(wide, 0.0), "height": max(high, 0.0)}
    plain = _tag("rect", **place, **look)
    if not hatch:
        return plain
    pattern = f"url(#hatch{list(_HATCHES).index(hatch)})"
    return plain + _tag("rect", **place, fill=pattern, pointer_events="none")


def _bars(frame: _Frame, mark: Bars, texts: StringList) -> Iterable[str]:
    rows = np.asarray(mark.rows, np.float64)
    start = np.broadcast_to(np.asarray(mark.start, np.float64), rows.shape)
    begin = frame.x(start)
    end = frame.x(start + np.asarray(mark.length, np.float64))
    if frame.panel.x.is_log:
        begin = np.full(rows.shape, frame.left)
    top = frame.y(rows - mark.height / 2)
    bottom = frame.y(rows + mark.height / 2)
    for i in np.flatnonzero(np.isfinite(end)).tolist():
        left_px, right = sorted((float(begin[i]), float(end[i])))
        high = float(bottom[i] - top[i])
        yield _rectangle(
            left_px, float(top[i]), max(right - left_px, 0.8), high, mark.hatch,
            fill=f"var(--{mark.hue})", opacity=f"{mark.opacity:g}",
            data_t=mark.texts[i] if mark.texts else "",
        )  # fmt: skip
        label = mark.labels[i] if mark.labels else ""
        y = float(top[i]) + high / 2 + 3.5
        wide = text_width(label, _SMALL) + 4.0
        # The label stands behind the bar, or before its end where there is no room behind.
        if label and right + wide <= frame.right + 12.0:
            texts.append(text_element(right + 4.0, y, label, size=_SMALL))
        elif label:
            texts.append(text_element(right - 4.0, y, label, "end", size=_SMALL))


def _box(frame: _Frame, mark: Box, texts: StringList) -> Iterable[str]:
    x0, x1 = sorted(frame.x(mark.x).tolist())
    y0, y1 = sorted(frame.y(mark.y).tolist())
    edge = {
        "stroke": f"var(--{mark.edge})", "stroke_width": "0.9",
        "stroke_dasharray": _DASHES.get(mark.dash, ""),
    } if mark.edge else {}  # fmt: skip
    yield _rectangle(
        x0, y0, x1 - x0, y1 - y0, mark.hatch, fill=f"var(--{mark.hue})",
        fill_opacity=f"{mark.opacity:g}", **edge, data_t=mark.text, data_id=mark.id,
    )  # fmt: skip
    room = x1 - x0 - 7.0
    label = wrap(mark.label, room, _SMALL)
    lines = label.count("\n") + 1
    if mark.label and text_width(label, _SMALL) <= room and lines * 12.0 <= y1 - y0:
        middle = (y0 + y1) / 2 - 6.0 * (lines - 1) + 3.5
        texts.append(
            text_element((x0 + x1) / 2, middle, label, "middle", size=_SMALL, pointer_events="none")
        )


def _label(frame: _Frame, mark: Label) -> str:
    x = float(frame.x(mark.x))
    y = float(frame.y(mark.y))
    more = {"font_weight": 600 if mark.is_bold else "", "class_": _class(mark)}
    if mark.anchor:
        return text_element(x, y + 3.5, mark.text, mark.anchor, mark.hue, mark.size, **more)
    lines = mark.text.count("\n") + 1
    wide = text_width(mark.text, mark.size) + 4.0
    high = 1.2 * mark.size * lines + 2.0
    for dx, dy in _offsets(frame, mark):
        px = x + dx + (wide / 2 if dx > 0 else -wide / 2 if dx < 0 else 0.0)
        py = y + dy + (0.0 if dx else high / 2 if dy > 0 else -high / 2)
        x0, x1, y0, y1 = box = (px - wide / 2, px + wide / 2, py - high / 2, py + high / 2)
        near = _GAP / 2
        if not frame.is_inside(box) or any(
            x0 < right + near and left_px < x1 + near
            and y0 < bottom + near and top < y1 + near
            for left_px, right, top, bottom in frame.taken_boxes
        ):  # fmt: skip
            continue
        frame.taken_boxes.append(box)
        leader = ""
        if math.hypot(dx, dy) > 24.0 and not mark.is_line:
            route = _route([(x, y), (min(max(x, x0), x1), min(max(y, y0), y1))])
            leader = _tag("path", d=route, stroke="var(--quiet)", stroke_width="0.8")
        baseline = y0 + 0.95 * mark.size + 1.0
        return leader + text_element(px, baseline, mark.text, "middle", mark.hue, mark.size, **more)
    return ""  # no room: the reader finds it by hovering


def _offsets(frame: _Frame, mark: Label) -> list[FloatPair]:
    """Places of a text around its point, the best first."""
    around: list[FloatPair] = [(1, -0.35), (-1, -0.35), (0, -1), (0, 1)]
    around += ((dx, dy) for dy in (-1, 1) for dx in (1, -1))
    rings = [(dx * r, dy * r) for r in (12, 28, 48, 74, 106, 144, 190) for dx, dy in around]
    if not mark.is_line:
        return rings
    along = [share * frame.width for share in (0.06, 0.25, 0.5, 0.75)]
    upright = [share * frame.height for share in (-0.06, -0.25, -0.5, -0.75)]
    beside = [(x, dy) for x in along for dy in (-9.0, 9.0)]
    return [*beside, *[(dx, y) for y in upright for dx in (5.0, -5.0)], *rings]
