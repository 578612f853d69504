"""A running campaign in one picture for the terminal: front, hypervolume, rates, time left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import field

import numpy as np
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from codesign.answers.campaigns import WatchAnswer
from codesign.base.columns import Fields, FloatArray
from codesign.base.records import frozen
from codesign.base.text import duration_words
from codesign.insight.summary import convergence, optimizer_names
from codesign.report.front_lines import front_lines
from codesign.report.labels import evaluator_words, format_value
from codesign.report.tables import Tables, record_table
from codesign.search.campaign import CampaignStatus, Results
from codesign.search.campaign.store import BatchTiming

_RECENT = 20
"""Batches of a run from which its rate is taken."""
_WIDTH = 32
"""Characters of a sparkline."""
_BARS = "▁▂▃▄▅▆▇█"


@frozen
class Pace:
    """Recent speed of a run.

    Attributes:
        designs_per_s: Over its latest batches; None before the first, and where nothing is timed.
        left_s: Until its budget is spent at that rate; 0 if it has ended, None if unknown.
    """

    designs_per_s: float | None
    left_s: float | None


@frozen
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
    reading: Fields
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
    paces = []
    for index, run in enumerate(status.runs):
        recent = by_run.get(index, [])[-_RECENT:]
        seconds = sum(timing.ask_seconds + timing.evaluate_seconds for timing in recent)
        rate = sum(timing.n_designs for timing in recent) / seconds if seconds > 0 else None
        left_s = (status.budget - run.done) / rate if rate else None
        paces.append(Pace(rate, 0.0 if run.state in ("complete", "exhausted") else left_s))
    return paces


def sparkline(values: FloatArray, highest: float, width: int = _WIDTH) -> str:
    """Bars from 0 to ``highest``, evenly spaced over the values; "" without values."""
    if not len(values):
        return ""
    positions = np.linspace(0, len(values) - 1, min(width, len(values))).round().astype(int)
    share = (
        np.clip(values[positions] / highest, 0.0, 1.0) if highest > 0 else np.zeros(len(positions))
    )
    return "".join(_BARS[round(height * (len(_BARS) - 1))] for height in share.tolist())


def frame_tables(frame: Frame, console: Console | None = None) -> Tables:
    """The frame for the terminal.

    Args:
        console: Where it is shown; what does not fit its height is left out, of the runs first
            those that have ended. All runs and a few designs if None.
    """
    sections: Tables = [Text(facts_line(frame), "bold"), ""]
    is_narrow = console is not None and console.width < WHOLE_WIDTH
    if frame.results is not None and len(frame.results):
        sections += [_hypervolume_table(frame.results, is_narrow), ""]
    if console is None:
        return [
            *sections,
            _runs_table(frame),
            "",
            _front(frame, _FRONT_DESIGNS, _USUAL_WIDTH),
        ]
    # One line for the cursor, a blank one between runs and front, one of the front at least.
    room = console.height - 3 - _n_lines(console, sections)
    runs = _fitting(
        console, room, len(frame.status.runs), lambda n: _runs_table(frame, n, is_narrow)
    )
    sections += [runs, ""]
    room = console.height - 1 - _n_lines(console, sections)
    return [
        *sections,
        _fitting(console, room, _FRONT_DESIGNS, lambda n: _front(frame, n, console.width)),
    ]


_FRONT_DESIGNS = 8
_USUAL_WIDTH = 140
WHOLE_WIDTH = 76
"""Columns that the table of runs takes; with fewer, only what one waits for is shown."""


def _n_lines(console: Console, sections: Sequence[RenderableType]) -> int:
    return sum(len(console.render_lines(section)) for section in sections)


def _fitting(
    console: Console, height: int, most: int, table: Callable[[int], RenderableType]
) -> RenderableType:
    """The table with as many entries as fit; the one with none if no other does."""
    tables = map(table, range(most, 0, -1))
    return next(
        (candidate for candidate in tables if _n_lines(console, [candidate]) <= height), table(0)
    )


def _front(frame: Frame, most: int, width: int = _USUAL_WIDTH) -> RenderableType:
    """At most so many designs, or the number of them."""
    n_found = 0 if frame.results is None else len(frame.results.front())
    if n_found and most and frame.results is not None:
        return front_lines(frame.results, width, most)
    return f"{n_found:,} designs on the front" if n_found else "no feasible design yet"


def facts_line(frame: Frame) -> str:
    """State, counts, rate and time left in one line."""
    status = frame.status
    share = 100 * status.done / status.total if status.total else 0.0
    failed = sum(run.failed for run in status.runs)
    feasible = sum(run.feasible for run in status.runs)
    facts = [
        f"{status.name} ({evaluator_words(frame.reading)}): {status.state}",
        f"{status.done:,} of {status.total:,} evaluated ({share:.0f} %)",
        f"{feasible:,} feasible",
        f"{failed:,} failed",
    ]
    if frame.designs_per_s is not None and not frame.is_over:
        facts.append(f"{format_value(frame.designs_per_s, '', 3)} designs/s now")
        if frame.designs_per_s > 0:
            left_s = (status.total - status.done) / frame.designs_per_s
            facts.append(f"{duration_words(left_s)} left")
    return ", ".join(facts)


def _hypervolume_table(results: Results, is_narrow: bool) -> Table:
    curves = {name: convergence(results, name) for name in optimizer_names(results)}
    highest = max(
        (float(curve.mean[-1]) for curve in curves.values() if len(curve.mean)), default=0.0
    )
    exact = results.exact_hypervolume
    rows = []
    for name, curve in curves.items():
        last = float(curve.mean[-1]) if len(curve.mean) else None
        rows.append({
            "name": name, "now": last, "share": last / exact if last and exact else None,
            "bars": sparkline(curve.mean, highest, _WIDTH // 4 if is_narrow else _WIDTH),
            "evaluations": int(curve.evaluations[-1]) if len(curve.mean) else 0,
        })  # fmt: skip
    fields = f"name=optimizer bars=course now{' share=of_exact' * bool(exact)} evaluations"
    return record_table("Hypervolume, mean over the seeds so far", rows, fields)


def _runs_table(frame: Frame, most: int | None = None, is_narrow: bool = False) -> Table:
    """The runs, or so many of them, those first that have not ended; and how many are left out."""
    pairs = list(zip(frame.status.runs, frame.paces, strict=True))
    hidden = []
    if most is not None and most < len(pairs):
        pairs.sort(key=lambda pair: _INTEREST.index(pair[0].state))
        pairs, hidden = pairs[:most], [run for run, _ in pairs[most:]]
    rows = [
        vars(run)
        | {
            "rate": pace.designs_per_s,
            "time_left": "–" if pace.left_s is None else duration_words(pace.left_s),
        }
        for run, pace in pairs
    ]
    counts = "" if is_narrow else "feasible failed rate=designs/s "
    fields = f"run.optimizer=optimizer run.seed=seed done=evaluated {counts}time_left=left"
    table = record_table("Runs", rows, fields + ("" if is_narrow else " state"))
    if hidden:
        states = Counter(run.state for run in hidden)
        table.caption = "and " + ", ".join(f"{n} {state}" for state, n in states.items())
    return table


_INTEREST = ("running", "stopped", "not started", "exhausted", "complete")
"""States of runs, those first of which one wants to know."""


def watch_answer(frame: Frame) -> WatchAnswer:
    """The frame as an answer."""
    from codesign.answers.campaigns import Front, WatchAnswer, WatchedRun

    runs = [
        WatchedRun.describe(run, designs_per_s=pace.designs_per_s, left_s=pace.left_s)
        for run, pace in zip(frame.status.runs, frame.paces, strict=True)
    ]
    fields = {"runs": runs, "evaluator": frame.reading}
    if frame.results is not None:
        front = Front.describe_front(frame.results, frame.results)
        names = ("optimizers", "exact_hypervolume", "front_size", "observations")
        fields |= {name: getattr(front, name) for name in names}
    return WatchAnswer.describe(frame.status, **fields)
