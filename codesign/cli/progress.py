"""Progress of a command: bars on a terminal, a line every 30 s elsewhere.

The line is that of :mod:`codesign.cli.heartbeat`, in the words of the bars.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from codesign.base.loop_progress import FrontsProgress
from codesign.cli.heartbeat import describe_by, words_of
from codesign.cli.output import make_console

if TYPE_CHECKING:
    from codesign.search.campaign import Campaign, Run


def _bars(*columns: ProgressColumn) -> Progress:
    """Bars on stderr; if that is no terminal they only count, and the heartbeat says how far."""
    console = make_console(to_stderr=True)
    bars = Progress(
        *columns,
        _TimeLeftColumn(compact=True, elapsed_when_finished=True),
        console=console,
        # Prints of libraries stay where they belong.
        redirect_stdout=False,
        redirect_stderr=False,
        disable=not console.is_terminal,
    )
    describe_by(lambda: None if bars.live.is_started else _words(bars))
    return bars


def _words(bars: Progress) -> str:
    """Progress of the last bar, which counts all work, until it is finished."""
    task = bars.tasks[-1] if bars.tasks else None
    if task is None or task.finished or not task.total:
        return ""
    return words_of(task.description, task.completed, task.total, left_s(task))


def left_s(task: Task) -> float | None:
    """Seconds that the rest takes at the slower of the mean and the latest rate.

    None below a tenth of the time so far: the last designs of a space take longer than those that
    bounds excluded by the million.
    """
    latest = task.time_remaining
    if latest is None or not task.elapsed or not task.completed or task.remaining is None:
        return None
    seconds = max(latest, task.elapsed * task.remaining / task.completed)
    return seconds if seconds >= _CREDIBLE * task.elapsed else None


_SAMPLE = "reference sample"
_CREDIBLE = 0.1


class _TimeLeftColumn(TimeRemainingColumn):
    """Remaining time, where it is credible."""

    def render(self, task: Task) -> Text:
        is_credible = task.finished or left_s(task) is not None
        return super().render(task) if is_credible else Text("–:––", style="progress.remaining")


class _RateColumn(ProgressColumn):
    """Evaluations per second of late."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        if speed is None:
            return Text("–/s", style="progress.data.speed")
        digits = 1 if speed < 10 else 0
        return Text(f"{speed:,.{digits}f}/s", style="progress.data.speed")


class CampaignBars:
    """One bar per optimizer over all its seeds, and one for the whole.

    Args:
        campaign: Whose definition says how much there is to do.
    """

    def __init__(self, campaign: Campaign) -> None:
        self._campaign = campaign
        self._tasks: dict[str, TaskID] = {}
        self._total: TaskID | None = None
        self._bars = _bars(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), _RateColumn()
        )

    def sample(self, total: int, done: int) -> None:
        """Show a bar of the reference sample, or move it."""
        if _SAMPLE not in self._tasks:
            self._tasks[_SAMPLE] = self._bars.add_task(_SAMPLE, total=total)
            self._bars.start()
        self._bars.update(self._tasks[_SAMPLE], completed=done)

    def start(self, total: int, done: int) -> None:
        """Show the bars; what an earlier run of the campaign did counts as done."""
        status = self._campaign.status()
        counts: dict[str, list[int]] = {}
        for run in status.runs:
            budget_and_done = counts.setdefault(run.run.optimizer, [0, 0])
            budget_and_done[0] += status.budget
            budget_and_done[1] += run.done
        for name, (budget, finished) in counts.items():
            self._tasks[name] = self._bars.add_task(name, total=budget, completed=finished)
        if len(counts) > 1:
            self._total = self._bars.add_task("all", total=total, completed=done)
        self._bars.start()

    def advance(self, run: Run, n: int, hypervolume: float) -> None:
        """Move the bars of the run's optimizer and of the whole."""
        self._bars.advance(self._tasks[run.optimizer], n)
        if self._total is not None:
            self._bars.advance(self._total, n)

    def finish(self) -> None:
        """Leave the bars as they are."""
        self._bars.stop()


class _Bar:
    """One bar."""

    def __init__(self, description: str, *columns: ProgressColumn) -> None:
        self._description = description
        self._bars = _bars(TextColumn("{task.description}"), BarColumn(), *columns)

    def start(self, total: int, done: int) -> None:
        """Show the bar; what an earlier run settled counts as done."""
        self._task = self._bars.add_task(self._description, total=total, completed=done)
        self._bars.start()

    def advance(self, n: int = 1) -> None:
        """Move the bar."""
        self._bars.advance(self._task, n)

    def finish(self) -> None:
        """Leave the bar as it is."""
        self._bars.stop()


class EnumerationBar(_Bar):
    """One bar over the designs of a space, with the time that is left.

    Args:
        sought: What they are looked through for.
    """

    def __init__(self, sought: str = "") -> None:
        percent = TextColumn("{task.percentage:.1f} % of {task.total:,.0f}")
        super().__init__(f"designs {sought}".strip(), percent)


class SequenceBar(_Bar):
    """One bar over the sequences of a measurement."""

    def __init__(self) -> None:
        super().__init__("sequences", MofNCompleteColumn())

    def __enter__(self) -> SequenceBar:
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()


class FrontsBar(FrontsProgress):
    """One bar over a row of exact fronts, with what is being enumerated."""

    def __init__(self) -> None:
        self._bars = _bars(BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
        self._task = self._bars.add_task("exact fronts", total=0)

    def expect(self, n: int) -> None:
        """``n`` more fronts may come."""
        self._bars.update(self._task, total=(self._bars.tasks[0].total or 0) + n)
        self._bars.start()

    def begin(self, label: str, n_designs: int) -> None:
        """Say which one."""
        self._bars.update(self._task, description=f"{label} ({n_designs:,} designs)")

    def end(self) -> None:
        """Move the bar."""
        self._bars.advance(self._task)

    def finish(self) -> None:
        """Leave the bar as it is."""
        self._bars.update(self._task, description="")
        self._bars.stop()
