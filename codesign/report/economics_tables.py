"""Price against speed for people: the frontier, its ends, and what they are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from codesign.base.units import format_engineering
from codesign.evaluators.economics.frontier import Points, split_of
from codesign.evaluators.economics.serving_offer import DeviceServing
from codesign.report.tables import pairs_table, plain_table, spaced, text_line

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True)
class EconomicsReport:
    """A finished study.

    Attributes:
        frontier: Points that no other beats in price and speed, slowest first.
        alpha: Exponent of speed in the value of a token.
        conventions: What the numbers rest on, in words, by name.
        points: Every point that keeps the limits.
        users: Users that are served at once; None: not asked for.
        notes: What a reader could take for more than it is.
        energy_range: Between what parts of the predicted energy that of 90 % of measured kernels
            lies; None: points have no energy.
    """

    serving: DeviceServing
    frontier: Points
    alpha: float
    conventions: Mapping[str, str]
    points: Points
    users: int | None = None
    notes: Sequence[str] = ()
    files: Sequence[Path] = ()
    energy_range: tuple[float, float] | None = None

    @property
    def marked(self) -> dict[str, Points]:
        """The points that matter, one each, by what they are."""
        front = self.frontier
        positions = {
            "cheapest": int(np.argmin(front.usd_per_million_tokens)),
            f"best token/s^{self.alpha:g}/USD": front.most_valued(self.alpha),
            "fastest": front.fastest(),
        }
        marked = {name: front.chosen(np.array([row])) for name, row in positions.items()}
        return marked if self.users is None else {"fewest devices": self.fewest()} | marked

    def fewest(self) -> Points:
        """The point that takes the fewest devices for all users; the fastest of several."""
        assert self.users is not None
        devices = self.points.devices_for(self.users)
        order = np.lexsort((self.points.token_time_s, devices))
        return self.points.chosen(order[:1])


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
            "rents": None if report.serving.rent is None else report.serving.rent.model_dump(),
        },
        "conventions": dict(report.conventions),
        "alpha": report.alpha,
        **{
            key: _row(report, point, split=True)
            for key, point in zip(reversed(_MARKS), reversed(report.marked.values()), strict=False)
        },
        "frontier": [
            _row(report, report.frontier.chosen(np.array([position])))
            for position in range(len(report.frontier))
        ],
        "notes": [*machine.notes, *report.notes],
        "files": [str(path) for path in report.files],
    }


def _row(report: EconomicsReport, point: Points, split: bool = False) -> dict[str, Any]:
    """One point, alone in its ``Points``."""
    row: dict[str, Any] = {
        "tokens_per_s": float(point.tokens_per_s[0]),
        "usd_per_million_tokens": float(point.usd_per_million_tokens[0]),
        "n_devices": float(point.n_devices[0]),
        "batch": float(point.batch[0]),
        "draft_length": int(point.draft_length[0]),
    }
    if not np.isnan(point.first_token_s[0]):
        row["first_token_s"] = float(point.first_token_s[0])
    if point.joules_per_token is not None and report.energy_range is not None:
        joules = float(point.joules_per_token[0])
        row["joules_per_token"] = joules
        row["joules_per_token_range"] = [joules * part for part in report.energy_range]
        row["tokens_per_joule"] = 1.0 / joules
    if report.users is not None:
        row["devices_for_users"] = float(point.devices_for(report.users)[0])
    if split:
        cut = split_of(report.serving.decoding, point, 0, report.serving.context_tokens)
        row["split"] = asdict(cut)
    return row


def to_tables(report: EconomicsReport, n_rows: int) -> list[RenderableType]:
    """Conventions, the points that matter, and ``n_rows`` points along the frontier."""
    shape, machine = report.serving.decoding.target.shape, report.serving.machine
    title = f"{shape.name} on {machine.name}"
    splits = {name: _split_words(report, point) for name, point in report.marked.items()}
    words = "" if report.energy_range is None else ", and its energy"
    points = report.frontier
    last: list[RenderableType] = []
    if len(points) > 1 and n_rows:
        last.append(_frontier_table(report, _spread(points, n_rows)))
    last += [text_line(f"Note: {note}") for note in (*machine.notes, *report.notes)]
    last += [text_line(f"wrote {path}") for path in report.files]
    return spaced(
        pairs_table(title, report.conventions),
        _marked_table(report),
        pairs_table(f"How each is split over devices{words}", splits),
        last,
    )


_MARKS = ("fewest_devices", "cheapest", "alpha_optimal", "fastest")
"""Keys of the points that matter, in the order in which they are printed."""


def _headers(report: EconomicsReport) -> list[str]:
    headers = ["token/s/user", "USD/Mtoken", "devices", "requests"]
    headers += [] if report.serving.decoding.speculation is None else ["drafted"]
    headers += [] if report.serving.decoding.tokens is None else ["first token"]
    return headers + ([] if report.users is None else ["devices in all"])


def _marked_table(report: EconomicsReport) -> RenderableType:
    headers = _headers(report)
    rows = ([name, *_cells(report, point)] for name, point in report.marked.items())
    return plain_table("", ["point", *headers], headers, rows)


def _split_words(report: EconomicsReport, point: Points) -> str:
    """How one point's passes are cut, and its energy."""
    row = _row(report, point, split=True)
    cut = row["split"]
    words = [f"tensor {cut['tensor']:.3g} ({cut['layout']})"]
    words.append(f"attention {cut['attention']:.3g}")
    if cut["experts"] > 1:
        words.append(f"experts {cut['experts']:.3g}")
    words.append(f"pipeline {cut['pipeline']:.3g}")
    if "joules_per_token" in row:
        words.append(f"{row['joules_per_token']:.3g} J/token")
    return ", ".join(words)


def _frontier_table(report: EconomicsReport, positions: Sequence[int]) -> RenderableType:
    headers = _headers(report)
    title = f"Frontier, {len(positions)} of {len(report.frontier)} points"
    points = (report.frontier.chosen(np.array([position])) for position in positions)
    return plain_table(title, headers, headers, (_cells(report, point) for point in points))


def _cells(report: EconomicsReport, point: Points) -> list[str]:
    row = _row(report, point)
    drafted = row["draft_length"]
    cells = [
        f"{row['tokens_per_s']:.1f}",
        f"{row['usd_per_million_tokens']:.3g}",
        _count(row["n_devices"]),
        _count(row["batch"]),
    ]
    if report.serving.decoding.speculation is not None:
        cells.append(str(drafted) if drafted else "–")
    if "first_token_s" in row:
        cells.append(format_engineering(row["first_token_s"], "s", 3))
    if "devices_for_users" in row:
        cells.append(_count(row["devices_for_users"]))
    return cells


def _count(value: float) -> str:
    """Whole numbers as such, others to a tenth."""
    return f"{value:,.0f}" if value == round(value) else f"{value:,.1f}"


def _spread(points: Points, n_rows: int) -> list[int]:
    """Positions at even steps of speed, both ends among them."""
    speed = points.tokens_per_s
    wanted = np.linspace(speed[0], speed[-1], max(n_rows, 2))
    return sorted({int(np.abs(speed - value).argmin()) for value in wanted})
