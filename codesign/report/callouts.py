"""Names beside points of a figure, where nothing else is written yet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from codesign.columns import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LETTER_WIDTH, _LINE_HEIGHT = 0.56, 1.25
"""Of the font's size; wide enough for DejaVu Sans, the font of the figures."""


@dataclass(frozen=True)
class _Box:
    """A rectangle in points, from the lower left corner of the figure."""

    left: float
    bottom: float
    right: float
    top: float

    def meets(self, box: _Box) -> bool:
        return (
            self.left < box.right and box.left < self.right
            and self.bottom < box.top and box.bottom < self.top
        )  # fmt: skip

    def is_within(self, frame: _Box) -> bool:
        return (
            self.left >= frame.left and self.right <= frame.right
            and self.bottom >= frame.bottom and self.top <= frame.top
        )  # fmt: skip


def write_names(
    axes: Axes,
    points: FloatArray,
    names: Sequence[str],
    color: str,
    reach: float = 3.0,
    lines: FloatArray | None = None,
) -> None:
    """Write a name beside each point, off other points, names and lines where there is room.

    Points that fall together get one text with a line per name. The place is the nearest free
    one of some; where none is free, the name is written over a line or a point, and over another
    name only where nothing else is left.

    Args:
        axes: With all that decides limits and size already in it.
        points: (k, 2) in data coordinates; the first chooses its place first.
        names: Of the points.
        color: Of the text.
        reach: Half the size of a marker, in points.
        lines: (j, 2) points on lines that names keep clear of, in data coordinates; a leader then
            ties each name to its point.
    """
    figure = axes.figure
    figure.draw_without_rendering()  # type: ignore[union-attr]  # the layout decides the places
    to_points = 72.0 / figure.dpi
    size = _font_points()
    places = np.asarray(axes.transData.transform(points)) * to_points
    window = axes.get_window_extent()
    frame = _Box(*(float(edge) * to_points for edge in window.extents))
    groups = _together(places, reach / 2)
    written: list[_Box] = []
    taken = [_around(x, y, reach) for x, y in places.tolist()]
    if lines is not None:
        taken += [_around(x, y, 1.5) for x, y in (axes.transData.transform(lines) * to_points)]
    for group in groups:
        text = "\n".join(dict.fromkeys(names[index] for index in group))
        x, y = (float(value) for value in places[group[0]])
        box = _free(x, y, _extent(text, size), reach, frame, taken, written)
        written.append(box)
        axes.annotate(
            text, tuple(points[group[0]]),
            xytext=((box.left + box.right) / 2 - x, (box.bottom + box.top) / 2 - y),
            textcoords="offset points", ha="center", va="center", fontsize="small", color=color,
            linespacing=1.0, zorder=6, annotation_clip=False,
            bbox={"facecolor": "white", "alpha": 0.7, "linewidth": 0, "pad": 0.4},
            arrowprops=None if lines is None else _LEADER,
        ).set_in_layout(False)  # fmt: skip


_LEADER: dict[str, Any] = {
    "arrowstyle": "-", "color": "#8A8A8A", "linewidth": 0.5, "shrinkA": 0, "shrinkB": 0,
}  # fmt: skip


def _font_points() -> float:
    from matplotlib.font_manager import FontProperties

    return float(FontProperties(size="small").get_size_in_points())


def _extent(text: str, size: float) -> tuple[float, float]:
    lines = text.splitlines()
    wide = max(len(line) for line in lines) * _LETTER_WIDTH * size
    return wide, len(lines) * _LINE_HEIGHT * size


def _together(places: FloatArray, reach: float) -> list[list[int]]:
    """Points by the first that they fall together with."""
    groups: list[list[int]] = []
    for index, place in enumerate(places):
        for group in groups:
            if np.abs(place - places[group[0]]).max() < reach:
                group.append(index)
                break
        else:
            groups.append([index])
    return groups


def _around(x: float, y: float, reach: float) -> _Box:
    return _Box(x - reach, y - reach, x + reach, y + reach)


def _free(
    x: float,
    y: float,
    extent: tuple[float, float],
    reach: float,
    frame: _Box,
    taken: Sequence[_Box],
    written: Sequence[_Box],
) -> _Box:
    """The nearest box that meets nothing; if there is none, one that meets no name if any does."""
    boxes = [box for box in _candidates(x, y, extent, reach) if box.is_within(frame)]
    on_name = len(taken) + 1
    crowds = (
        sum(box.meets(item) for item in taken) + on_name * sum(box.meets(item) for item in written)
        for box in boxes
    )
    least_crowded, fewest = _around(x, y, reach), on_name * (len(written) + 1)
    for box, crowd in zip(boxes, crowds, strict=True):
        if crowd < fewest:
            least_crowded, fewest = box, crowd
        if not crowd:
            break
    return least_crowded


_AROUND = (
    (0, 1), (1, 0), (-1, 0), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1),
    (0.5, 1), (-0.5, 1), (0.5, -1), (-0.5, -1),
)  # fmt: skip
"""Above first, then right, left, below, the corners, and between."""
_TURNS = 14
_FARTHER = 7.0
"""Points by which each further round of places is away."""


def _candidates(x: float, y: float, extent: tuple[float, float], reach: float) -> Iterator[_Box]:
    wide, high = extent
    for turn in range(_TURNS):
        gap = reach + 1.0 + _FARTHER * turn
        for right, up in _AROUND:
            # A corner needs to be clear of the marker on one side only.
            middle_x = x + right * (wide / 2 + (gap if not up else gap - reach))
            middle_y = y + up * (high / 2 + gap)
            yield _Box(
                middle_x - wide / 2, middle_y - high / 2, middle_x + wide / 2, middle_y + high / 2
            )
