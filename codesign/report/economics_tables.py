"""Price against speed for people: the frontier, its ends, and what they are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from codesign.answers.economics import EconomicsReport, Mark, PricedPoint
from codesign.base.units import format_engineering
from codesign.evaluators.economics.frontier import Points
from codesign.report.tables import pairs_table, plain_table, spaced, text_line

if TYPE_CHECKING:
    from rich.console import RenderableType


def economics_tables(report: EconomicsReport, n_rows: int) -> list[RenderableType]:
    """Conventions, the points that matter, and ``n_rows`` points along the frontier."""
    shape, machine = report.serving.decoding.target.shape, report.serving.machine
    title = f"{shape.name} on {machine.name}"
    splits = {name: _split_words(report, point) for name, point in report.marked.items()}
    words = "" if report.energy_range is None else ", and its energy"
    points = report.frontier
    last: list[RenderableType] = []
    if len(points) > 1 and n_rows:
        speed = points.tokens_per_s
        speeds = np.linspace(speed[0], speed[-1], max(n_rows, 2))
        spread = sorted({int(np.abs(speed - value).argmin()) for value in speeds})
        last.append(_frontier_table(report, spread))
    last += [text_line(f"Note: {note}") for note in (*machine.notes, *report.notes)]
    last += [text_line(f"wrote {path}") for path in report.files]
    headers = _headers(report)
    rows = ([name, *_cells(report, point)] for name, point in report.marked.items())
    marked_table = plain_table("", ["point", *headers], headers, rows)
    return spaced(
        pairs_table(title, report.conventions),
        marked_table,
        pairs_table(f"How each is split over devices{words}", splits),
        last,
    )


def _headers(report: EconomicsReport) -> list[str]:
    headers = ["token/s/user", "USD/Mtoken", "devices", "requests"]
    headers += [] if report.serving.decoding.speculation is None else ["drafted"]
    headers += [] if report.serving.decoding.tokens is None else ["first token"]
    return headers + ([] if report.users is None else ["devices in all"])


def _split_words(report: EconomicsReport, point: Points) -> str:
    """Division of one point's passes over devices, and its energy."""
    mark = Mark.mark(report, point)
    split = mark.split
    words = [f"tensor {split.tensor:.3g} ({split.layout})", f"attention {split.attention:.3g}"]
    if split.experts > 1:
        words.append(f"experts {split.experts:.3g}")
    words.append(f"pipeline {split.pipeline:.3g}")
    if mark.joules_per_token is not None:
        words.append(f"{mark.joules_per_token:.3g} J/token")
    return ", ".join(words)


def _frontier_table(report: EconomicsReport, positions: Sequence[int]) -> RenderableType:
    headers = _headers(report)
    title = f"Frontier, {len(positions)} of {len(report.frontier)} points"
    points = (report.frontier.chosen(np.array([position])) for position in positions)
    return plain_table(title, headers, headers, (_cells(report, point) for point in points))


def _cells(report: EconomicsReport, point: Points) -> list[str]:
    priced = PricedPoint.describe(report, point)
    cells = [
        f"{priced.tokens_per_s:.1f}",
        f"{priced.usd_per_million_tokens:.3g}",
        _count(priced.n_devices),
        _count(priced.batch),
    ]
    if report.serving.decoding.speculation is not None:
        cells.append(str(priced.draft_length or "–"))
    if priced.first_token_s is not None:
        cells.append(format_engineering(priced.first_token_s, "s", 3))
    if priced.devices_for_users is not None:
        cells.append(_count(priced.devices_for_users))
    return cells


def _count(value: float) -> str:
    """Whole numbers as such, others to a tenth."""
    return f"{value:,.0f}" if value == round(value) else f"{value:,.1f}"
