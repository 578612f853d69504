"""Names beside points and lines of a figure, where nothing else is drawn yet."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from codesign.base.columns import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

_STEP = 1.5
"""Points between two places on a line or leader that names keep clear of."""
_EDGE = 2.0
"""Points between a name and the edge of the axes."""
_MOST_DOTS = 200
"""Names keep clear of the dots of a series with no more; more are a cloud."""
_ON_LINE, _ON_DOT, _ACROSS_DOT = 40.0, 20.0, 4.0
"""[ours] What a name on a line or a dot and a leader across a dot weigh, beside a point for each
place of a line that is written over."""
_LEADER: dict[str, Any] = {
    "arrowstyle": "-", "color": "#8A8A8A", "linewidth": 0.5, "shrinkA": 0,
}  # fmt: skip


def write_names(
    axes: Axes,
    points: FloatArray,
    names: Sequence[str],
    color: str | Sequence[str],
    reach: float = 3.0,
) -> None:
    """Write a name beside each point, off points, lines and texts where there is room.

    Points that fall together get one text with a line per name. The place is the nearest free
    one of some; a leader ties what is not beside its point to it, and crosses no other name. Where
    no place is free, the name is written over a line or a point, and over a text only where
    nothing else is left.

    Args:
        axes: With all that decides limits and size already in it.
        points: (k, 2) in data coordinates; the first chooses its place first.
        names: Of the points.
        color: Of the texts, or of each.
        reach: Half the size of a marker, in points.
    """
    colors = [color] * len(names) if isinstance(color, str) else color
    scene = _Scene(axes)
    places = scene.place(points)
    scene.block(_around(places, reach), are_dots=True)
    groups = _together(places, reach / 2)
    labels = [
        ("\n".join(dict.fromkeys(names[index] for index in group)), group[0]) for group in groups
    ]
    for text, index, offset, has_leader in _planned(scene, labels, places, reach):
        axes.annotate(
            text, tuple(points[index]), xytext=tuple(offset), textcoords="offset points",
            ha="center", va="center", fontsize="small", color=colors[index], linespacing=1.0,
            zorder=6, annotation_clip=False,
            bbox={"facecolor": "white", "alpha": 0.7, "linewidth": 0, "pad": 0.4},
            arrowprops=_LEADER | {"shrinkB": reach} if has_leader else None,
        ).set_in_layout(False)  # fmt: skip


def _planned(
    scene: _Scene, labels: Sequence[tuple[str, int]], places: FloatArray, reach: float
) -> list[tuple[str, int, FloatArray, bool]]:
    """Text, point, offset and whether there is a leader: of some orders the best."""
    extents = {text: scene.extent(text) for text, _ in labels}
    around = {text: _offsets(*extent, reach) for text, extent in extents.items()}
    best: list[tuple[str, int, FloatArray, bool]] = []
    least = np.inf
    for turn in range(len(labels)):
        trial, plan, total = copy(scene), [], 0.0
        for text, index in [*labels[turn:], *labels[:turn]]:
            centers = places[index] + around[text]
            boxes = _boxes(centers, *extents[text])
            leaders = _Leaders(places[index], centers)
            chosen, crowd = trial.choose(boxes, leaders)
            leader = leaders.to(chosen)
            trial.write(boxes[chosen], leader)
            plan.append((text, index, around[text][chosen], leader is not None))
            total += crowd
        if total < least:
            best, least = plan, total
        if least < _ON_DOT:
            break
    return best


def name_line(
    axes: Axes, text: str, color: str, x: float | None = None, y: float | None = None
) -> None:
    """Write the name of a line at ``x`` or at ``y`` beside it, where nothing else is drawn.

    Args:
        axes: With all that decides limits and size already in it.
        x: Where a vertical line is, in data coordinates.
        y: Where a horizontal line is.
    """
    scene = _Scene(axes)
    extent = np.array(scene.extent(text))
    low, high = scene.frame.reshape(2, 2)
    along, across = (0, 1) if y is not None else (1, 0)
    half = extent[along] / 2
    places = np.linspace(low[along] + half, max(low[along] + half, high[along] - half), _N_ALONG)
    on_line = [axes.get_xlim()[0] if x is None else x, axes.get_ylim()[0] if y is None else y]
    line = scene.place(np.array([on_line]))[0, across]
    away = extent[across] / 2 + _EDGE
    sides = np.tile([away, -away] if y is not None else [-away, away], _N_ALONG)
    centers = np.empty((2 * _N_ALONG, 2))
    centers[:, along], centers[:, across] = np.repeat(places, 2), line + sides
    chosen, _ = scene.choose(_boxes(centers, *extent))
    share = (centers[chosen, along] - scene.window[along]) / np.ptp(scene.window[along::2])
    # Tied to the line, not to the axes' corner, which may move when the figure is saved.
    xy, offset, transform = (
        ((share, y), (0.0, sides[chosen]), axes.get_yaxis_transform())
        if y is not None
        else ((x, share), (sides[chosen], 0.0), axes.get_xaxis_transform())
    )
    axes.annotate(
        text, xy, xycoords=transform, xytext=offset, textcoords="offset points", ha="center",
        va="center", fontsize="small", color=color, zorder=6, annotation_clip=False,
    ).set_in_layout(False)  # fmt: skip


_N_ALONG = 24


class _Scene:
    """Boxes of everything drawn in some axes, (k, 4), in points: left, bottom, right, top."""

    def __init__(self, axes: Axes) -> None:
        from matplotlib.text import Text

        figure = axes.figure
        # The layout decides the places. Axes are of a whole figure here, which matplotlib's types
        # leave open: some are of a part of one, or of none.
        figure.draw_without_rendering()  # type: ignore[union-attr]
        self._axes, self._to_points = axes, 72.0 / figure.dpi
        window = np.array(axes.get_window_extent().extents) * self._to_points
        self.window: FloatArray = window
        self.frame: FloatArray = window + np.array([_EDGE, _EDGE, -_EDGE, -_EDGE])
        drawn = [text for text in axes.texts if text.get_text()]
        texts = [Text.get_window_extent(text).extents for text in drawn]
        legend = axes.get_legend()
        if legend is not None:
            texts.append(legend.get_window_extent().extents)
        self._texts = np.reshape(np.array(texts) * self._to_points, (-1, 4))
        every = (getattr(item, "arrow_patch", None) for item in drawn)
        arrows = [arrow for arrow in every if arrow is not None]
        leaders = [
            arrow.get_transform().transform(arrow.get_path().vertices) * self._to_points
            for arrow in arrows
        ]
        self._dots = np.concatenate([np.empty((0, 4)), *map(self._dots_of, axes.collections)])
        self._marks = np.concatenate(
            [
                self._dots,
                *(_around(self._line_places(line), _STEP) for line in axes.lines),
                *(_around(_segment(ends[0], ends[-1]), _STEP) for ends in leaders),
            ]
        )

    def place(self, points: FloatArray) -> FloatArray:
        """(k, 2) data coordinates in points of the figure."""
        places: FloatArray = self._axes.transData.transform(points) * self._to_points
        return places

    def extent(self, text: str) -> tuple[float, float]:
        """Width and height of a name."""
        probe = self._axes.text(0, 0, text, fontsize="small", linespacing=1.0)
        box = probe.get_window_extent()
        probe.remove()
        return (box.width * self._to_points + 2.0, box.height * self._to_points + 1.0)

    def block(self, boxes: FloatArray, are_dots: bool = False) -> None:
        """Keep names off these, and leaders off dots."""
        if are_dots:
            self._dots = np.concatenate([self._dots, boxes])
        self._marks = np.concatenate([self._marks, boxes])

    def write(self, box: FloatArray, leader: FloatArray | None) -> None:
        """Keep later names off a name and its leader."""
        self._texts = np.concatenate([self._texts, box[None]])
        if leader is not None:
            self.block(_around(leader, _STEP))

    def choose(self, boxes: FloatArray, leaders: _Leaders | None = None) -> tuple[int, float]:
        """The first box that meets nothing, or one that meets the least; and how much it meets.

        A leader is followed only where its box may still be the best.
        """
        low, high = self.frame[:2], self.frame[2:]
        is_outside = (boxes[:, :2] < low).any(axis=1) | (boxes[:, 2:] > high).any(axis=1)
        over_texts = _n_met(boxes, self._texts)
        on_marks = _n_met(boxes, self._marks)
        over_marks = on_marks + _ON_LINE * (on_marks > 0) + _ON_DOT * _n_met(boxes, self._dots)
        worst = _ON_LINE + len(self._marks) + (_ON_DOT + _ACROSS_DOT) * len(self._dots) + 1
        crowd = over_marks + worst * over_texts + 1e6 * worst * is_outside
        is_led = ~is_outside & (over_texts == 0) & (np.arange(len(boxes)) >= len(_AROUND))
        is_led &= leaders is not None
        # Its own point counts for every leader.
        least = crowd + _ACROSS_DOT * is_led
        best = (np.inf, -1)
        for index in np.argsort(least, kind="stable").tolist():
            if (least[index], index) > best:
                break
            leader = leaders.to(index) if leaders is not None and is_led[index] else None
            if leader is not None:
                places = _around(leader, 0.5)
                n_dots = int(_n_met(self._dots, places).astype(bool).sum())
                crowd[index] += _ACROSS_DOT * n_dots + worst * _n_met(places, self._texts).any()
            best = min(best, (float(crowd[index]), index))
        return best[1], best[0]

    def _line_places(self, line: Line2D) -> FloatArray:
        """(k, 2) places along a line as it is drawn, steps included."""
        from matplotlib.cbook import STEP_LOOKUP_MAP

        steps = STEP_LOOKUP_MAP[line.get_drawstyle()]
        corners = np.column_stack(steps(*np.asarray(line.get_xydata(), dtype=np.float64).T))
        corners = line.get_transform().transform(corners) * self._to_points
        corners = corners[np.isfinite(corners).all(axis=1)]
        if line.get_linestyle() == "None" or len(corners) < 2:
            return corners
        return np.concatenate([_segment(begin, end) for begin, end in pairwise(corners)])

    def _dots_of(self, collection: Any) -> FloatArray:
        offsets = np.asarray(collection.get_offsets(), dtype=np.float64)
        if not 0 < len(offsets) <= _MOST_DOTS:
            return np.empty((0, 4))
        half = np.sqrt(np.broadcast_to(collection.get_sizes(), len(offsets)))[:, None] / 2
        return _around(self.place(offsets), half)


@dataclass(frozen=True)
class _Leaders:
    """Lines from a point to the middles of boxes; the first boxes touch its marker and need none.

    Attributes:
        point: (2,) where they begin.
        centers: (k, 2) of the boxes.
    """

    point: FloatArray
    centers: FloatArray

    def to(self, index: int) -> FloatArray | None:
        """(n, 2) places on the line to a box."""
        return None if index < len(_AROUND) else _segment(self.point, self.centers[index])


def _around(places: FloatArray, reach: Any) -> FloatArray:
    return np.concatenate([places - reach, places + reach], axis=1)


def _boxes(centers: FloatArray, wide: float, high: float) -> FloatArray:
    return _around(centers, np.array([wide / 2, high / 2]))


def _segment(begin: FloatArray, end: FloatArray) -> FloatArray:
    n = min(2000, int(np.abs(end - begin).max() / _STEP) + 2)
    return np.linspace(begin, end, n)


def _n_met(boxes: FloatArray, drawn: FloatArray) -> FloatArray:
    """(k,) how many of what is drawn each box meets."""
    if not len(boxes) or not len(drawn):
        return np.zeros(len(boxes))
    # Most of what is drawn is far from all of the boxes, which are near one point.
    low, high = boxes[:, :2].min(axis=0), boxes[:, 2:].max(axis=0)
    is_near = ((drawn[:, 2:] > low) & (drawn[:, :2] < high)).all(axis=1)
    left, bottom, right, top = drawn[is_near].T.copy()
    meets = (boxes[:, [0]] < right) & (boxes[:, [1]] < top)
    meets &= (left < boxes[:, [2]]) & (bottom < boxes[:, [3]])
    return np.asarray(np.count_nonzero(meets, axis=1), dtype=np.float64)


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


_AROUND = (
    (0, 1), (1, 0), (-1, 0), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1),
    (0.5, 1), (-0.5, 1), (0.5, -1), (-0.5, -1),
)  # fmt: skip
"""Above first, then right, left, below, the corners, and between."""
_PITCH, _FARTHEST = 6.0, 120.0
"""Points between places that need a leader, and how far away they are at most."""


def _offsets(wide: float, high: float, reach: float) -> FloatArray:
    """(k, 2) middles of places for a text around its point, in points, nearer ones first."""
    # A corner needs to be clear of the marker on one side only.
    beside = [
        (right * (wide / 2 + (1.0 if up else 1.0 + reach)), up * (high / 2 + reach + 1.0))
        for right, up in _AROUND
    ]
    steps = np.arange(-_FARTHEST, _FARTHEST + 1.0, _PITCH)
    grid = np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2)
    gaps = np.maximum(np.abs(grid) - [wide / 2, high / 2], 0.0)
    away = np.hypot(*gaps.T)
    far = np.flatnonzero(away > reach + _PITCH)
    return np.concatenate([beside, grid[far[np.argsort(away[far], kind="stable")]]])
