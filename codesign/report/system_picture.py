"""A system as figures and pages draw it: its machines, what joins them, the way of one request.

One description for paper and page, so that both show the same numbers in the same words.
"""

from __future__ import annotations

from codesign.base.columns import FieldRows, Fields, StringTuple
from codesign.base.records import frozen
from codesign.insight.evaluated_design import EvaluatedDesign
from codesign.report.labels import counted, format_value, part_words, spaced_name

HAND_OVER, EXCHANGE = "hand-over", "exchange"
"""Kinds of the rows of a time line that are links: what follows a stage, and what runs beside its
layers."""


_ROUNDING = 1e-9


@frozen
class PictureMachine:
    """A pool as it is drawn.

    Attributes:
        name: Of the pool.
        title: Its name, its number of machines, how busy they are.
    """

    name: str
    title: str
    words: str
    evaluated: EvaluatedDesign


@frozen
class PictureLink:
    """Link between two pools that stand side by side.

    Attributes:
        words: What it is and what a request sends over it, line by line.
    """

    name: str
    words: StringTuple


@frozen
class TimelineBar:
    """The time of one request in a pool or on a link.

    Attributes:
        name: Of the pool or the link.
        kind: ``prefill``, ``decode``, ``hand-over`` or ``exchange``.
        exposed_s: From when on nothing else is done for the request: the start, of a pool.
        first_step_end_s: When its first step ends, as far as that is of the second token.
        utilization: Share of the time in which the pool or the link is busy.
        text: Its times in words.
    """

    name: str
    kind: str
    start_s: float
    exposed_s: float
    end_s: float
    first_step_end_s: float
    utilization: float
    text: str


@frozen
class SystemPicture:
    """A system, from left to right as a request passes it.

    Attributes:
        links: Between them.
        bars: The way of one request that waits for nobody.
        second_token_s: When it has its second token; None if the system lacks a phase.
        limit: What sets the rate, in words.
    """

    machines: tuple[PictureMachine, ...]
    links: tuple[PictureLink, ...]
    bars: tuple[TimelineBar, ...]
    second_token_s: float | None
    limit: str


def system_picture(evaluated: EvaluatedDesign) -> SystemPicture:
    """The picture of an evaluated system."""
    rows = evaluated.explanation.timeline
    words = part_words(evaluated.space, evaluated.design)
    machines = []
    links = []
    for row in rows:
        name = row["name"]
        n = row["machines"]
        busy = f"busy {100 * row['utilization']:.3g} %"
        if name in evaluated.pools:
            title = f"{spaced_name(name)}: {counted(n, 'machine')}, {busy}"
            machine = words[name].partition("[")[2].removesuffix("]") or words[name]
            machines.append(PictureMachine(name, title, machine, evaluated.pools[name]))
        if row["kind"] in (HAND_OVER, EXCHANGE):
            work = "request" if row["kind"] == HAND_OVER else "pass"
            sent = f"{format_value(row['bytes'], 'B', 3)} per {work}"
            links.append(PictureLink(spaced_name(name), (words.get(name, ""), sent, busy)))
    return SystemPicture(
        tuple(machines), tuple(links), tuple(map(_bar, rows)),
        evaluated.metrics.get("time_to_second_token_s"), limit_words(rows),
    )  # fmt: skip


def limit_words(rows: FieldRows) -> str:
    """Bottleneck of the system's rate: "decode sets the rate: 0.00513 requests/s"."""
    return ", ".join(
        f"{spaced_name(row['name'])} sets the rate: "
        f"{format_value(row['requests_per_s'], 'requests/s', 3)}"
        for row in rows
        if row["sets_rate"]
    )


def _bar(row: Fields) -> TimelineBar:
    is_link = row["kind"] == HAND_OVER
    start = row["start_s"]
    end = row["end_s"]
    step = row["step_s"]
    return TimelineBar(
        name=spaced_name(row["name"]),
        kind=row["kind"],
        start_s=start,
        exposed_s=end - step if is_link else start,
        end_s=end,
        first_step_end_s=end if is_link else min(start + step, end),
        utilization=row["utilization"],
        text=_bar_words(row),
    )


def _bar_words(row: Fields) -> str:
    length = row["end_s"] - row["start_s"]
    step = row["step_s"]
    if row["kind"] == HAND_OVER:
        return f"{format_value(step, 's', 3)} exposed"
    if row["kind"] == EXCHANGE:
        return f"{format_value(step, 's', 3)} a pass"
    steps = round(length / step)
    if abs(length / step - steps) > _ROUNDING * steps:  # its machines wait for others
        return f"{format_value(length, 's', 3)}, {format_value(step, 's', 3)} of work a step"
    each = f", {steps:,} steps of {format_value(step, 's', 3)}" if steps > 1 else ""
    return f"{format_value(length, 's', 3)}{each}"
