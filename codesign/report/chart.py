"""The description of a figure: panels with axes and marks.

A figure is described once, as a ``Chart``, and ``svg.py`` draws it for paper and page. Hues are
names of ``palette.py``, so that a page can follow its reader's light or dark look.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codesign.base.columns import FloatPair, FloatSequence, IntegerSequence, Strings
from codesign.base.records import frozen

Numbers = FloatSequence | NDArray[Any]


@frozen
class Axis:
    """One axis of a panel.

    Attributes:
        ends: Values at both ends; the first one is left or below.
        unit: Unit of the ticks, printed with an SI prefix where it takes one.
        names: Categories at 0, 1, 2, ..., in place of numbers; the first one is on top.
        ticks: Positions and texts, in place of those that follow from the ends.
        is_hidden: Neither ticks nor grid are drawn.
    """

    ends: FloatPair = (0.0, 1.0)
    title: str = ""
    unit: str = ""
    is_log: bool = False
    names: Strings = ()
    ticks: Sequence[tuple[float, str]] | None = None
    is_hidden: bool = False


@frozen
class Points:
    """Symbols of one series.

    Attributes:
        size: Diameter in pixels, of all or of each.
        texts: Descriptions that a reader gets on the page, one per point.
        ids: Numbers by which the page refers to the points.
        group: Name by which the page shows or hides the series.
    """

    x: Numbers
    y: Numbers
    hue: str | Strings = "ink"
    shape: str = "circle"
    size: float | Numbers = 8.0
    is_open: bool = False
    opacity: float | Numbers = 1.0
    name: str = ""
    texts: Strings = ()
    ids: IntegerSequence = ()
    group: str = ""


@frozen
class Line:
    """A line through points; ``step`` is ``hv``, ``vh`` or empty."""

    x: Numbers
    y: Numbers
    hue: str = "ink"
    width: float = 1.5
    dash: str = ""
    step: str = ""
    opacity: float = 1.0
    name: str = ""
    text: str = ""
    group: str = ""


@frozen
class Bars:
    """Horizontal bars, one per row of a panel with category names.

    Attributes:
        rows: Positions on the category axis.
        start: Where each bar begins.
        length: How long each bar is, negative to the left.
        height: Share of a row that a bar takes.
        labels: Texts behind the ends of the bars.
    """

    rows: Numbers
    length: Numbers
    start: Numbers | float = 0.0
    height: float = 0.62
    hue: str = "blue"
    hatch: str = ""
    opacity: float = 1.0
    name: str = ""
    texts: Strings = ()
    labels: Strings = ()


@frozen
class Box:
    """A rectangle; its label stands in it where it fits, else the reader finds it in ``text``."""

    x: FloatPair
    y: FloatPair
    hue: str = "blue"
    opacity: float = 0.45
    hatch: str = ""
    dash: str = ""
    label: str = ""
    text: str = ""
    edge: str = "ink"
    id: int | None = None
    name: str = ""


@frozen
class Label:
    """A text in a panel.

    Attributes:
        anchor: ``start``, ``middle`` or ``end`` for a text that stays where it is; empty for one
            that takes the nearest free place around its point.
        is_line: The text names a line, so it may stand anywhere along it.
        size: Height of the letters in pixels.
        group: Name by which the page shows or hides the text.
    """

    x: float
    y: float
    text: str
    hue: str = "ink"
    anchor: str = ""
    is_line: bool = False
    is_bold: bool = False
    size: float = 11.0
    group: str = ""


Mark = Points | Line | Bars | Box | Label


@frozen
class Panel:
    """One pair of axes with what is drawn on it, the first mark below the others.

    Attributes:
        height: Height of the plotting area in pixels; of a true-to-scale panel it follows.
        is_to_scale: Both axes have the same scale.
    """

    x: Axis
    y: Axis
    marks: Sequence[Mark]
    title: str = ""
    height: float = 260.0
    is_to_scale: bool = False


@frozen
class Chart:
    """A figure.

    Attributes:
        panels: In reading order.
        alt: The sentence that stands for the figure where it is not seen.
        title: Lines above a figure on paper; a page has headings of its own.
        columns: Most panels side by side.
        has_legend: Named series are listed above the panels.
    """

    panels: Sequence[Panel]
    alt: str
    title: str = ""
    columns: int = 1
    has_legend: bool = True


def row_axis(names: Strings) -> Axis:
    """An upright axis with a row for each name."""
    return Axis((-0.5, max(len(names), 1) - 0.5), names=names)


def padded(values: Numbers, low: float = 0.06, high: float = 0.1) -> FloatPair:
    """Ends of an axis around values, with a margin as a share of their span."""
    finite = np.asarray(values, np.float64)
    finite = finite[np.isfinite(finite)]
    if not len(finite):
        return (0.0, 1.0)
    least = float(finite.min())
    most = float(finite.max())
    span = most - least or abs(most) or 1.0
    return (least - low * span, most + high * span)


def log_padded(values: Numbers, factor: float) -> FloatPair:
    """Ends of a logarithmic axis around positive values."""
    positive = np.asarray(values, np.float64)
    positive = positive[np.isfinite(positive) & (positive > 0)]
    if not len(positive):
        return (1.0, 10.0)
    return (float(positive.min()) / factor, float(positive.max()) * factor)
