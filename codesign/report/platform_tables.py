"""Platforms for people and for programs: one in full, many ranked, requirements, scaling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from codesign.answers.serving import PlatformAnswer, PlatformQuestion
from codesign.base.metrics import PLATFORM_METRICS
from codesign.base.units import format_engineering
from codesign.evaluators.platform.requirements import Requirements
from codesign.evaluators.platform.scaling import Scaling
from codesign.models.deployments.parallelism import SEARCHED_DEGREES
from codesign.models.machines.device.expected_error import is_measured
from codesign.report.labels import format_metric, metric_title
from codesign.report.tables import (
    format_cell,
    pairs_table,
    plain_table,
    rows_table,
    spaced,
    text_line,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

_FIRST = ("phase", "name", "time_s", "time_share", "bound")
_CHOICE_METRICS = (
    "time_to_first_token_s",
    "time_per_output_token_s",
    "throughput_tokens_per_s",
    "memory_used_per_device_bytes",
)


def platform_tables(platform: PlatformAnswer, width: int) -> list[RenderableType]:
    """One platform for the terminal, ``width`` columns wide."""
    names = PlatformQuestion.model_fields
    input_words = {name: format_cell("", getattr(platform, name)) for name in names}
    rows = (
        (metric_title(PLATFORM_METRICS[name]), _value_and_range(platform, name))
        for name in platform.metrics
    )
    metrics = plain_table("Metrics", ["metric", "value"], ["value"], rows)
    return spaced(
        pairs_table("Platform", input_words),
        metrics,
        [rows_table("Limits of the use case", list(map(dict, platform.limits)), width)]
        if platform.limits
        else [],
        rows_table("Operators and messages", platform.operators, width, _FIRST),
        rows_table("Memories of one device", platform.levels, width),
        [text_line(f"Note: {note}") for note in platform.notes],
    )


def _value_and_range(platform: PlatformAnswer, name: str) -> str:
    metric = PLATFORM_METRICS[name]
    words = format_metric(platform.metrics[name], metric)
    if name in platform.ranges:
        ends = platform.ranges[name]
        words += f" ({format_metric(ends.low, metric)} to {format_metric(ends.high, metric)})"
    return words


def choices_table(
    title: str, rows: Sequence[Mapping[str, Any]], n_rows: int, width: int
) -> list[RenderableType]:
    """Ways to spread the work, the best first."""
    listed_rows = [
        {**{key: row[key] for key in row if key not in PLATFORM_METRICS},
         **{name: row[name] for name in _CHOICE_METRICS if name in row}}
        for row in rows[:n_rows]
    ]  # fmt: skip
    table = rows_table(title, listed_rows, width)
    n_hidden = len(rows) - len(listed_rows)
    if n_hidden > 0:
        table.caption = f"{n_hidden} more with --json"
    return [table]


def requirements_tables(
    question: Mapping[str, str],
    needed: Requirements,
    rows: Sequence[Mapping[str, Any]],
    is_steady: bool,
    is_simulated: bool = False,
) -> list[RenderableType]:
    """The same for the terminal.

    Args:
        question: What was asked, in words, by name.
        rows: One for each device.
        is_steady: Whether users in a steady state are served, not requests that arrive together.
        is_simulated: Whether the devices are fleets that were simulated.
    """
    prefill = "of a prompt, with the decode steps" if is_steady else "of the prefill alone"
    sizes = {
        "arithmetic": f"{format_engineering(needed.flop_per_s, 'FLOP/s')} "
        f"({format_engineering(needed.flop, 'FLOP')} {prefill})",
        "memory bandwidth": f"{format_engineering(needed.bandwidth_bytes_per_s, 'B/s')} "
        f"({format_engineering(needed.step_bytes, 'B')} a decode step)",
        "memory": f"{format_engineering(needed.capacity_bytes, 'B')} "
        f"({format_engineering(needed.weight_bytes, 'B')} weights, "
        f"{format_engineering(needed.kv_bytes, 'B')} KV cache)",
    }
    able = [row for row in rows if row["devices"] is not None]
    unable = [row for row in rows if row["devices"] is None]
    served = _STEADY if is_steady else _TOGETHER
    return spaced(
        pairs_table("Question", question),
        pairs_table("A platform needs, each alone", sizes),
        [_devices_table(able)] if able else [],
        [_unable_table(unable)] if unable else [],
        [_fleet_table(able)] if able else [],
        text_line(_LEGEND + (_SIMULATED if is_simulated else served)),
    )


_LEGEND = (
    "compute, bandwidth, memory: devices that each alone asks for, at the rates of the datasheet "
    "or the sustained shares of them. "
    "devices: the fewest that keep both limits with the messages between them, split as tensor x "
    "pipeline x expert x data parallel. The figures of devices with * are announced ones; no "
    "kernel of those with ~ was measured (codesign platform says which error to expect). "
)
_STEADY = (
    "The time per output token has the prefill of the others' next prompts in it; the first token "
    "waits for one step and its own prefill."
)
_SIMULATED = (
    "Fleets are simulated request by request; the times are of the 90th percentile, the sizes "
    "above those of as many users as the limits allow at that rate (Little's law)."
)
_TOGETHER = (
    "All prompts are prefilled within the first token's limit; no prefill is in the time per "
    "output token. --users has requests that arrive one by one."
)


_BOUNDS = {"for_compute": "compute", "for_bandwidth": "band- width", "for_capacity": "memory"}


def _starred(row: Mapping[str, Any]) -> str:
    marks = (" *" if row["announced"] else "") + ("" if is_measured(row["device"]) else " ~")
    return f"{row['device']}{marks}"


def _devices_table(rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    columns = ["device", *_BOUNDS.values(), "devices", "split", "first token", "output token"]
    table = plain_table("The smallest number of each known device", columns, columns[1:])
    for row in rows:
        bounds = [f"{row[name]:,}" for name in _BOUNDS]
        split = "x".join(str(row[degree]) for degree in SEARCHED_DEGREES)
        times = (row["time_to_first_token_s"], row["time_per_output_token_s"])
        words = ["–" if time is None else format_engineering(time, "s", 3) for time in times]
        table.add_row(_starred(row), *bounds, f"{row['devices']:,}", split, *words)
    return table


def _fleet_table(rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    columns = ["device", "machines", "devices each", "board power", "rent"]
    table = plain_table("Machines, watts and dollars", columns, columns[1:])
    for row in rows:
        watts, rent = row["board_power_watts"], row["rent_usd_per_hour"]
        table.add_row(
            _starred(row),
            f"{row['machines']:,}",
            f"{row['devices'] // row['machines']:,}",
            "–" if watts is None else format_engineering(watts, "W", 3),
            "–" if rent is None else f"{rent:,.2f} USD/h",
        )
    return table


def _unable_table(rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    columns = ["device", *_BOUNDS.values(), "why not"]
    cells = ([_starred(row), *(f"{row[name]:,}" for name in _BOUNDS), row["note"]] for row in rows)
    return plain_table("Devices that cannot serve it", columns, columns[1:4], cells)


def scaling_tables(title: str, question: Mapping[str, str], study: Scaling) -> list[RenderableType]:
    """One study, a table for each phase: times, their parts, the gain over the first value."""
    phases = {"prefill": ("first token", "time_to_first_token_s"),
              "decode": ("output token", "time_per_output_token_s")}  # fmt: skip
    sections: list[RenderableType] = [pairs_table(title, question)]
    for phase, (words, total) in phases.items():
        columns = [study.axis.words, words, "gain", "linear", "atten- tion", "messages"]
        columns += ["offloaded", "fits"]
        table = plain_table(phase.capitalize(), columns, columns[:-1])
        for row in study.rows():
            times = [row[f"{phase}_{work}_s"] for work in ("linear", "attention", "collective")]
            table.add_row(
                format_engineering(row["value"], study.axis.unit, 3),
                format_engineering(row[total], "s", 3),
                f"{row[f'{phase}_gain']:.2f}",
                *(format_engineering(time, "s", 3) for time in times),
                f"{row['offloaded_share']:.0%}",
                "yes" if row["fits"] else "no",
            )
        sections.append(table)
    return spaced(*sections)
