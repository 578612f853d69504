"""The figure of a system: its machines side by side, and the way of one request through them."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from codesign.base.errors import InputError
from codesign.report import palette
from codesign.report.chosen import ChosenDesign
from codesign.report.drawing import (
    MM_PER_INCH,
    USUAL_WIDTH_MM,
    drawing_style,
    is_column,
    new_figure,
    save_figure,
    scale_ticks,
)
from codesign.report.hierarchy_figure import (
    draw_machine,
    height_share,
    keep_names_that_fit,
    level_words,
)
from codesign.report.machine import Machine, machine_of
from codesign.report.system_picture import (
    EXCHANGE,
    HAND_OVER,
    PictureLink,
    PictureMachine,
    SystemPicture,
    TimelineBar,
    system_picture,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import SubFigure

_KIND_COLORS = palette.paper(palette.STAGES)
_KIND_HATCHES = {"prefill": "", "decode": "..", HAND_OVER: "//", EXCHANGE: "xx"}
"""Kinds are told apart without color too."""
_HIDDEN = "#F3C9AE"
"""A hand-over beside a prefill."""
_LINK_SHARE = 0.3
"""Width of what is between two machines over that of a machine."""
_ROW_MM = 8.0
_LETTER_POINTS = 5.4
"""Width that a small letter may take."""


def save_system(chosen: ChosenDesign, path: Path, width_mm: float | None = None) -> Path:
    """Draw one machine of every pool with the links between them, and a request's time line.

    Raises:
        InputError: The design is no system.
    """
    if not chosen.pools:
        raise InputError(
            "expected a design of a space with pools, got one machine; 'hierarchy' draws it",
            chosen.title,
        )
    picture = system_picture(chosen.evaluated)
    machines = [_machine(item) for item in picture.machines]
    with drawing_style(width_mm):
        width = USUAL_WIDTH_MM if width_mm is None else width_mm
        stacked = is_column(width_mm)
        n = 1 if stacked else len(machines)
        share = max([height_share(machine) for machine in machines if machine] or [0.3])
        high = width / (n + _LINK_SHARE * (n - 1)) * min(share, 1.1) + 38.0
        high *= len(machines) if stacked else 1
        way = (3 if stacked else 1) * (_ROW_MM * len(picture.bars) + 18.0)
        broken = " (breaks a limit)" if chosen.evaluated.broken else ""
        title = f"{chosen.title}: system{broken}"
        figure = new_figure(width_mm, high + way + 14.0, title, chosen.results)
        above, below = figure.subfigures(2, 1, height_ratios=(high, way), squeeze=False)[:, 0]
        _draw_machines(above, picture, machines, width, stacked)
        _draw_way(below, picture, stacked)
        keep_names_that_fit(figure)
        return save_figure(figure, path)


def _machine(item: PictureMachine) -> Machine | None:
    """What is drawn of a pool; None of devices, of which no memory is known by its place."""
    try:
        return machine_of(item.evaluated)
    except InputError:
        return None


def _draw_machines(
    figure: SubFigure,
    picture: SystemPicture,
    machines: list[Machine | None],
    width_mm: float,
    stacked: bool,
) -> None:
    n = 2 * len(machines) - 1
    shares = [1.0 if i % 2 == 0 else _LINK_SHARE for i in range(n)]
    if stacked:
        places = figure.subplots(n, 1, height_ratios=shares, squeeze=False)[:, 0]
    else:
        places = figure.subplots(1, n, width_ratios=shares, squeeze=False)[0]
    letters = int(width_mm / (1 if stacked else sum(shares)) / MM_PER_INCH * 72 / _LETTER_POINTS)
    for position, axes in enumerate(places):
        if position % 2:
            links = picture.links[position // 2 : position // 2 + 1]
            _draw_link(axes, links[0] if links else None, letters if stacked else 0)
        else:
            i = position // 2
            _draw_pool(axes, picture.machines[i], machines[i], letters)


def _draw_pool(axes: Axes, item: PictureMachine, machine: Machine | None, n_letters: int) -> None:
    title = "\n".join([item.title, *textwrap.wrap(item.words, n_letters)])
    axes.set_title(title, fontsize="small")
    if machine is None:
        axes.axis("off")
        words = [f"{row['name']}: {row.get('capacity_bytes', 0) / 1e9:,.4g} GB, "
                 f"{row.get('bandwidth_bytes_per_s', 0) / 1e9:,.4g} GB/s"
                 for row in item.evaluated.levels]  # fmt: skip
        axes.text(0.5, 0.5, "\n".join(["device", *words]), ha="center", va="center",
                  transform=axes.transAxes, fontsize="small",
                  bbox={"boxstyle": "square,pad=2", "fc": "#F2F2F2", "ec": "black"})  # fmt: skip
        return
    draw_machine(axes, machine, "x-small")
    levels = [
        line
        for level in machine.levels
        for line in textwrap.wrap(level_words(level), int(1.25 * n_letters))
    ]
    # Under the words of the scale, which stand below the machine.
    axes.annotate("\n".join(levels), (0.5, 0.0), xycoords="axes fraction", xytext=(0, -9),
                  textcoords="offset points", ha="center", va="top",
                  fontsize="x-small")  # fmt: skip


def _draw_link(axes: Axes, link: PictureLink | None, n_letters: int) -> None:
    """An arrow to the right; down, with words in the room beside it, if ``n_letters`` says it."""
    stacked = n_letters > 0
    axes.axis("off")
    if link is None:
        return
    ends = ((0.5, 1.0), (0.5, 0.0)) if stacked else ((0.0, 0.5), (1.0, 0.5))
    axes.annotate("", ends[1], ends[0], xycoords="axes fraction",
                  arrowprops={"arrowstyle": "-|>", "linewidth": 2,
                              "color": _KIND_COLORS[HAND_OVER]})  # fmt: skip
    lines = [link.name, *(part for words in link.words for part in words.split(", "))]
    x, y = (0.53, 0.5) if stacked else (0.5, 0.53)
    words = textwrap.fill(", ".join(lines), n_letters // 2) if stacked else "\n".join(lines)
    axes.text(x, y, words, fontsize="x-small",
              ha="left" if stacked else "center", va="center" if stacked else "bottom",
              transform=axes.transAxes)  # fmt: skip


def _draw_way(figure: SubFigure, picture: SystemPicture, stacked: bool) -> None:
    """To the second token, to the last, and how busy everything is."""
    if stacked:
        first, to_last, busy = figure.subplots(3, 1)
    else:
        first, to_last, busy = figure.subplots(1, 3, width_ratios=(4, 4, 2.2))
    end_s = picture.second_token_s or picture.bars[0].end_s
    _draw_bars(first, picture.bars, end_s, is_first=True)
    first.set_title("One request to its second token", fontsize="small")
    _draw_bars(to_last, picture.bars, picture.bars[-1].end_s, is_first=False)
    to_last.set_title("The whole request", fontsize="small")
    names = [bar.name for bar in picture.bars]
    for axes in (first, to_last, busy):
        axes.set_yticks(
            range(len(names)), names if stacked or axes is first else [], fontsize="small"
        )
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.grid(axis="y", visible=False)
        axes.tick_params(axis="x", labelsize="small")
    for i, bar in enumerate(picture.bars):
        busy.barh(i, 100 * bar.utilization, 0.5, color=_KIND_COLORS.get(bar.kind, "#9A9A9A"),
                  hatch=_KIND_HATCHES.get(bar.kind, ""), edgecolor="white")  # fmt: skip
        busy.annotate(f"{100 * bar.utilization:.3g} %", (100 * bar.utilization, i), xytext=(3, 0),
                      textcoords="offset points", va="center", fontsize="x-small")  # fmt: skip
    busy.set_xlim(0, 150)
    busy.set_xticks([0, 50, 100])
    busy.set_xlabel("Share of time busy (%)", fontsize="small")
    busy.set_title(picture.limit.replace(": ", ":\n"), fontsize="small")


def _draw_bars(axes: Axes, bars: tuple[TimelineBar, ...], end_s: float, is_first: bool) -> None:
    axes.set_xlim(0, 1.02 * end_s)
    for i, bar in enumerate(bars):
        stop = min(bar.first_step_end_s if is_first else bar.end_s, end_s)
        color = _KIND_COLORS.get(bar.kind, "#9A9A9A")
        hatch = _KIND_HATCHES.get(bar.kind, "")
        if bar.exposed_s > bar.start_s:
            axes.barh(i, bar.exposed_s - bar.start_s, 0.5, left=bar.start_s, color=_HIDDEN)
        axes.barh(i, stop - bar.exposed_s, 0.5, left=bar.exposed_s, color=color, hatch=hatch,
                  edgecolor="white", linewidth=0.4)  # fmt: skip
        axes.plot([stop, stop], [i - 0.25, i + 0.25], color=color, linewidth=1.2)
        if not is_first:
            _write_beside(axes, bar, i, end_s)
    axes.set_xlabel(f"Time ({scale_ticks(axes.xaxis, 's')})", fontsize="small")


def _write_beside(axes: Axes, bar: TimelineBar, row: int, end_s: float) -> None:
    """A bar's times after it, or on it if it leaves no room."""
    fits = bar.end_s < end_s / 2
    axes.annotate(bar.text, (bar.end_s, row), xytext=(4 if fits else -4, 0),
                  textcoords="offset points", ha="left" if fits else "right", va="center",
                  fontsize="x-small",
                  bbox={"boxstyle": "square,pad=0.15", "fc": "white", "ec": "none"})  # fmt: skip
