"""A running campaign in one picture for the terminal: front, hypervolume, rates, time left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table

from codesign.columns import FloatArray
from codesign.report.labels import describe_time, format_value
from codesign.report.results import front_table
from codesign.report.summary import convergence, optimizer_names
from codesign.report.tables import plain_table, text_line

if TYPE_CHECKING:
    from rich.console import RenderableType

    from codesign.campaign import CampaignStatus, Results
    from codesign.campaign.campaign import RunStatus
    from codesign.campaign.store import BatchTiming

_RECENT = 20
"""Batches of a run from which its rate is taken."""
_WIDTH = 32
"""Characters of a sparkline."""
_BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Pace:
    """How fast a run is of late.

    Attributes:
        designs_per_s: Over its latest batches; None before the first, and where nothing is timed.
        left_s: Until its budget is spent at that rate; 0 if it has ended, None if unknown.
    """

    designs_per_s: float | None
    left_s: float | None


@dataclass(frozen=True)
class Frame:
    """One moment of a campaign.

    Attributes:
        status: How far each run has come.
        results: Everything that is stored; None before the first batch.
        paces: By run, in the order of ``status.runs``.
        designs_per_s: Of the whole campaign between two frames; None in the first.
    """

    status: CampaignStatus
    results: Results | None
    paces: Sequence[Pace] = field(default_factory=tuple)
    designs_per_s: float | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come by itself."""
        return self.status.state in ("complete", "exhausted", "stopped")


def paces_of(status: CampaignStatus, timings: Sequence[BatchTiming]) -> list[Pace]:
    """The pace of each run, from the times of its latest batches."""
    by_run: dict[int, list[BatchTiming]] = {}
    for timing in timings:
        by_run.setdefault(timing.run, []).append(timing)
    return [
        _pace(run, status.budget, by_run.get(index, [])[-_RECENT:])
        for index, run in enumerate(status.runs)
    ]


def _pace(run: RunStatus, budget: int, recent: Sequence[BatchTiming]) -> Pace:
    seconds = sum(timing.ask_seconds + timing.evaluate_seconds for timing in recent)
    n_designs = sum(timing.n_designs for timing in recent)
    rate = n_designs / seconds if seconds > 0 else None
    if run.state in ("complete", "exhausted"):
        return Pace(rate, 0.0)
    return Pace(rate, (budget - run.done) / rate if rate else None)


def sparkline(values: FloatArray, highest: float, width: int = _WIDTH) -> str:
    """Bars from 0 to ``highest``, evenly spaced over the values; "" without values."""
    if not len(values):
        return ""
    at = np.linspace(0, len(values) - 1, min(width, len(values))).round().astype(int)
    share = np.clip(values[at] / highest, 0.0, 1.0) if highest > 0 else np.zeros(len(at))
    return "".join(_BARS[round(one * (len(_BARS) - 1))] for one in share.tolist())


def frame_tables(frame: Frame, height: int | None = None) -> list[RenderableType]:
    """The frame for the terminal.

    Args:
        frame: The frame.
        height: Lines of the terminal, which the front is cut to; a few designs if None.
    """
    parts: list[RenderableType] = [text_line(_facts(frame), "bold"), text_line("")]
    n_front, n_optimizers = _FRONT_DESIGNS, 0
    if frame.results is not None and len(frame.results):
        n_optimizers = len(optimizer_names(frame.results))
        parts += [_hypervolume_table(frame.results), text_line("")]
    parts += [_runs_table(frame), text_line("")]
    if height is not None:
        left = height - _OTHER_LINES - n_optimizers - len(frame.status.runs)
        n_front = max(0, min(_FRONT_DESIGNS, left // _LINES_OF_A_DESIGN))
    n_found = 0 if frame.results is None else len(frame.results.front())
    if n_found and n_front and frame.results is not None:
        parts.append(front_table(frame.results, n_front))
    else:
        said = f"{n_found:,} designs on the front" if n_found else "no feasible design yet"
        parts.append(text_line(said))
    return parts


_FRONT_DESIGNS = 8
_LINES_OF_A_DESIGN = 2
"""On 80 columns."""
_OTHER_LINES = 21
"""Titles, headers, blanks, and the line below the front."""


def _facts(frame: Frame) -> str:
    status = frame.status
    share = 100 * status.done / status.total if status.total else 0.0
    failed = sum(run.failed for run in status.runs)
    feasible = sum(run.feasible for run in status.runs)
    facts = [
        f"{status.name}: {status.state}",
        f"{status.done:,} of {status.total:,} evaluated ({share:.0f} %)",
        f"{feasible:,} feasible",
        f"{failed:,} failed",
    ]
    if frame.designs_per_s is not None and not frame.is_over:
        facts.append(f"{format_value(frame.designs_per_s, '', 3)} designs/s now")
        if frame.designs_per_s > 0:
            left = (status.total - status.done) / frame.designs_per_s
            facts.append(f"{describe_time(left)} left")
    return ", ".join(facts)


def _hypervolume_table(results: Results) -> Table:
    curves = {name: convergence(results, name) for name in optimizer_names(results)}
    highest = max((curve.mean[-1] for curve in curves.values() if len(curve.mean)), default=0.0)
    whole = results.exact_hypervolume
    more = ["of exact"] if whole else []
    title = "Hypervolume, mean over the seeds so far"
    table = plain_table(
        title, ["optimizer", "course", "now", *more, "evaluations"], ["now", *more, "evaluations"]
    )
    for name, curve in curves.items():
        if not len(curve.mean):
            table.add_row(name, "", "–", *(["–"] if whole else []), "0")
            continue
        last = float(curve.mean[-1])
        share = [f"{100 * last / whole:.1f} %"] if whole else []
        bars = sparkline(curve.mean, float(highest))
        table.add_row(name, bars, f"{last:.4g}", *share, f"{int(curve.evaluations[-1]):,}")
    return table


def _runs_table(frame: Frame) -> Table:
    numbers = ["seed", "evaluated", "feasible", "failed", "designs/s", "time left"]
    table = plain_table("Runs", ["optimizer", *numbers, "state"], numbers)
    for run, pace in zip(frame.status.runs, frame.paces, strict=True):
        table.add_row(
            run.run.optimizer,
            str(run.run.seed),
            f"{run.done:,}",
            f"{run.feasible:,}",
            f"{run.failed:,}",
            "–" if pace.designs_per_s is None else format_value(pace.designs_per_s, "", 3),
            "–" if pace.left_s is None else describe_time(pace.left_s),
            run.state,
        )
    return table


def frame_document(frame: Frame) -> dict[str, Any]:
    """The same as one document."""
    from codesign.report import progress
    from codesign.report.results import front_document

    document: dict[str, Any] = progress.document(frame.status)
    for item, pace in zip(document["runs"], frame.paces, strict=True):
        item |= {"designs_per_s": pace.designs_per_s, "left_s": pace.left_s}
    front: Mapping[str, Any] = front_document(frame.results) if frame.results is not None else {}
    kept = ("optimizers", "exact_hypervolume", "front_size", "observations")
    return document | {key: front[key] for key in kept if key in front}
