"""Price against speed for people: the frontier, its ends, and what they are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from codesign.evaluators.economics.frontier import Points, split_of
from codesign.evaluators.economics.serving import DeviceServing
from codesign.report.tables import pairs_table, plain_table, text_line

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True)
class EconomicsReport:
    """A finished study.

    Attributes:
        serving: What was studied.
        frontier: Points that no other beats in price and speed, slowest first.
        alpha: Exponent of speed in the value of a token.
        conventions: What the numbers rest on, in words, by name.
        files: Figures that were drawn.
    """

    serving: DeviceServing
    frontier: Points
    alpha: float
    conventions: Mapping[str, str]
    files: Sequence[Path] = ()


def to_document(report: EconomicsReport) -> dict[str, Any]:
    """The whole frontier and its ends, as plain values."""
    machine = report.serving.machine
    return {
        "model": report.serving.decoding.target.shape.name,
        "device": {
            "name": machine.name,
            "sustained_flop_per_s": machine.flop_per_s,
            "sustained_bytes_per_s": machine.bytes_per_s,
            "capacity_bytes": machine.capacity_bytes,
            **asdict(machine.fabric),
            "usd_per_hour": report.serving.usd_per_hour,
        },
        "conventions": dict(report.conventions),
        "alpha": report.alpha,
        "fastest": _row(report, report.frontier.fastest(), split=True),
        "cheapest": _row(report, int(np.argmin(report.frontier.usd_per_million_tokens)), True),
        "alpha_optimal": _row(report, report.frontier.most_valued(report.alpha), split=True),
        "frontier": [_row(report, position) for position in range(len(report.frontier))],
        "notes": list(machine.notes),
        "files": [str(path) for path in report.files],
    }


def _row(report: EconomicsReport, position: int, split: bool = False) -> dict[str, Any]:
    points = report.frontier
    row: dict[str, Any] = {
        "tokens_per_s": float(points.tokens_per_s[position]),
        "usd_per_million_tokens": float(points.usd_per_million_tokens[position]),
        "n_devices": float(points.n_devices[position]),
        "batch": float(points.batch[position]),
        "draft_length": int(points.draft_length[position]),
    }
    if split:
        cut = split_of(report.serving.decoding, points, position, report.serving.context_tokens)
        row["split"] = asdict(cut)
    return row


def to_tables(report: EconomicsReport, n_rows: int) -> list[RenderableType]:
    """Conventions, the three points that matter, and ``n_rows`` points along the frontier."""
    shape, machine = report.serving.decoding.target.shape, report.serving.machine
    title = f"{shape.name} on {machine.name}"
    parts: list[RenderableType] = [pairs_table(title, report.conventions), text_line("")]
    points = report.frontier
    marked = {
        "cheapest": int(np.argmin(points.usd_per_million_tokens)),
        f"most token/s^{report.alpha:g} per dollar": points.most_valued(report.alpha),
        "fastest": points.fastest(),
    }
    parts += [_marked_table(points, marked), text_line("")]
    splits = {name: _split_words(report, position) for name, position in marked.items()}
    parts += [pairs_table("How each is split over devices", splits), text_line("")]
    if len(points) > 1 and n_rows:
        parts.append(_frontier_table(points, _spread(points, n_rows)))
    parts += [text_line(f"Note: {note}") for note in machine.notes]
    parts += [text_line(f"wrote {path}") for path in report.files]
    return parts


_NUMBERS = ("token/s", "USD/Mtoken", "devices", "requests", "drafted")


def _marked_table(points: Points, marked: Mapping[str, int]) -> RenderableType:
    table = plain_table("", ["point", *_NUMBERS], _NUMBERS)
    for name, position in marked.items():
        table.add_row(name, *_cells(points, position))
    return table


def _split_words(report: EconomicsReport, position: int) -> str:
    """How one point's passes are cut."""
    cut = _row(report, position, split=True)["split"]
    words = [f"tensor {cut['tensor']:.3g} ({cut['layout']})"]
    words.append(f"attention {cut['attention']:.3g}")
    if cut["experts"] > 1:
        words.append(f"experts {cut['experts']:.3g}")
    return ", ".join([*words, f"pipeline {cut['pipeline']:.3g}"])


def _frontier_table(points: Points, positions: Sequence[int]) -> RenderableType:
    table = plain_table(f"Frontier, {len(positions)} of {len(points)} points", _NUMBERS, _NUMBERS)
    for position in positions:
        table.add_row(*_cells(points, position))
    return table


def _cells(points: Points, position: int) -> list[str]:
    drafted = int(points.draft_length[position])
    return [
        f"{points.tokens_per_s[position]:.1f}",
        f"{points.usd_per_million_tokens[position]:.3g}",
        _count(points.n_devices[position]),
        _count(points.batch[position]),
        str(drafted) if drafted else "–",
    ]


def _count(value: float) -> str:
    """Whole numbers as such, others to a tenth."""
    return f"{value:,.0f}" if value == round(value) else f"{value:,.1f}"


def _spread(points: Points, n_rows: int) -> list[int]:
    """Positions at even steps of speed, both ends among them."""
    speed = points.tokens_per_s
    wanted = np.linspace(speed[0], speed[-1], max(n_rows, 2))
    return sorted({int(np.abs(speed - value).argmin()) for value in wanted})
