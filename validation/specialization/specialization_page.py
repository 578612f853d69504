"""The answers for the terminal, as a finding and as plain values."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from codesign.report.labels import format_value
from codesign.report.ratio_figure import RatioPoint, save_ratios
from codesign.report.text_table import TextTable
from validation.specialization.system_problems import KINDS, Kind
from validation.specialization.trace_answers import BestSystem, RolePart, TraceAnswer
from validation.study_report import StudyReport

_EDGE = "*"
_WITH_MACHINES: tuple[Kind, ...] = ("specialized", "one-machine")
"""Kinds whose machines are listed."""
_GAIN_COLUMNS = {
    "trace": "workload",
    "tokens": "prompt : generated",
    "throughput": "token/s, each its own",
    "one-machine": "gain over one machine",
    "one-design": "over one with one software",
    "turns": "over one in turns",
    "watts": "watts for the same rate / of one machine",
}
_RATIO_COLUMNS = {
    "trace": "workload",
    "kind": "system",
    "machines": "prefill + decode machines",
    "machine_ratio": "ratio",
    "balanced": "ratio by rates",
    "peak": "ratio by peaks",
    "watt_ratio": "ratio of watts",
}
_DESIGN_COLUMNS = {
    "trace": "workload",
    "kind": "system",
    "role": "role",
    "design": "machine",
    "watts": "W",
    "rate": "token/s",
    "batch": "batch",
}
_NUMBERS = {"tokens", "throughput", "one-machine", "one-design", "turns", "watts", "machine_ratio",
            "balanced", "peak", "watt_ratio", "rate", "batch"}  # fmt: skip


def study_report(answers: Sequence[TraceAnswer], figure: str | None) -> StudyReport:
    """The answers for people.

    Args:
        answers: One for each workload.
        figure: Path of the figure from the page, if there is one.
    """
    first = answers[0].setting
    gains, ratios, machines = _tables(answers)
    words, notes = reading(answers), _notes(answers)
    drawn = [f"![Ratio of prefill to decode machines]({figure})"] if figure else []
    return StudyReport(
        title="What a machine for each phase buys, and how many of each",
        introduction=(
            f"Systems of `{first.model}` within {first.limit_watts:,.0f} W of TDP, over the "
            "machines of space `memexplorer` and the numbers and links of `system-pd`. A "
            "prefill and a decode pool with a design for each stand beside systems of one "
            "design in both roles. Every answer is the point of highest throughput of an exact "
            "front; nothing is sampled."
        ),
        page=[
            "## Reading",
            *words,
            "## What specialising buys",
            gains,
            "## Ratios",
            *drawn,
            ratios,
            "## Machines",
            machines,
            "## What is counted",
            *notes,
        ],
        terminal=[gains, ratios, machines, *words, *notes],
    )


def save_figure(answers: Sequence[TraceAnswer], path: Path) -> Path:
    """Draw the ratios of machines and watts of each workload."""
    points = [
        RatioPoint(
            answer.setting.trace,
            answer.token_ratio,
            {
                "machines, a design for each phase": answer.systems["specialized"].machine_ratio,
                "watts, a design for each phase": answer.systems["specialized"].watt_ratio,
            }
            | _of_alike(answer, "machine_ratio"),
            {
                "machines, a design for each phase": answer.systems["specialized"].balanced_ratio,
            }
            | _of_alike(answer, "balanced_ratio"),
        )
        for answer in answers
    ]
    first = answers[0].setting
    title = f"{first.model}, systems of most throughput within {first.limit_watts:,.0f} W"
    return save_ratios(points, path, title)


def _of_alike(answer: TraceAnswer, name: str) -> dict[str, float]:
    alike = answer.systems.get("one-machine")
    return {"machines, all alike": getattr(alike, name)} if alike else {}


# --- words -----------------------------------------------------------------------------------


def reading(answers: Sequence[TraceAnswer]) -> list[str]:
    """Sentences that follow from the numbers."""
    return [
        line
        for line in (_gain_words(answers), _software_words(answers), _turns_words(answers),
                     _ratio_words(answers), _peak_words(answers), _memory_words(answers),
                     _edge_words(answers))
        if line
    ]  # fmt: skip


def _range_words(answers: Sequence[TraceAnswer], kind: Kind) -> str:
    gains = {answer.setting.trace: answer.gains[kind] for answer in answers if kind in answer.gains}
    if not gains:
        return ""
    low, high = min(gains, key=gains.__getitem__), max(gains, key=gains.__getitem__)
    if low == high:
        return f"{_percent(gains[low])} ({low})"
    return f"{_percent(gains[low])} ({low}) to {_percent(gains[high])} ({high})"


def _gain_words(answers: Sequence[TraceAnswer]) -> str:
    gains = _range_words(answers, "one-machine")
    shares = [
        answer.watt_shares["one-machine"] for answer in answers if "one-machine" in answer.gains
    ]
    if not gains:
        return "No single machine serves both phases within the limit."
    least, most = 1.0 - max(shares), 1.0 - min(shares)
    watts = f"{least:.0%}" if round(least, 2) == round(most, 2) else f"{least:.0%} to {most:.0%}"
    return (
        f"A design for each phase gives {gains} more tokens per second than the best single "
        f"machine in both roles within the same watts, or the same rate with {watts} fewer watts."
    )


def _software_words(answers: Sequence[TraceAnswer]) -> str:
    gains = _range_words(answers, "one-design")
    return gains and (
        f"Where the single machine runs both phases with the same software, the gain is {gains}; "
        "what this is more needs another compilation, not another machine."
    )


def _turns_words(answers: Sequence[TraceAnswer]) -> str:
    gains = _range_words(answers, "turns")
    return gains and (
        f"Over single machines that take turns at both phases at no cost, the gain is {gains}; "
        "what this is less is due to whole numbers of machines and to hand-overs."
    )


def _ratio_words(answers: Sequence[TraceAnswer]) -> str:
    if len(answers) < 2:
        return ""
    ordered = sorted(answers, key=lambda item: item.token_ratio)
    systems = [item.systems["specialized"] for item in ordered]
    tokens = np.log([item.token_ratio for item in ordered])
    watts = np.log([system.watt_ratio for system in systems])
    if np.ptp(tokens) == 0:
        return ""
    slope, _ = np.polyfit(tokens, watts, 1)
    first, last = ordered[0], ordered[-1]
    return (
        f"From {first.setting.trace} to {last.setting.trace} prompt tokens grow from "
        f"{first.token_ratio:.3g} to {last.token_ratio:.3g} for each generated one, and watts of "
        f"prefill from {systems[0].watt_ratio:.2g} to {systems[-1].watt_ratio:.2g} for each watt "
        f"of decode: a power of {slope:.2f} over all workloads, where 1 would be in proportion. "
        "The difference is in the joules of TDP of a token, of which caches of long prompts take "
        f"most: {_joules(answers, 'prefill')}, {_joules(answers, 'decode')}."
    )


def _joules(answers: Sequence[TraceAnswer], role: str) -> str:
    """TDP over rate of a role's machines, the least and the most."""
    parts = {
        answer.setting.trace: getattr(answer.systems["specialized"], role) for answer in answers
    }
    joules = {trace: part.tdp_watts / part.tokens_per_s for trace, part in parts.items()}
    low, high = min(joules, key=joules.__getitem__), max(joules, key=joules.__getitem__)
    least, most = (format_value(joules[trace], "J", digits=3) for trace in (low, high))
    return f"{role} {least} ({low}) to {most} ({high})"


def _peak_words(answers: Sequence[TraceAnswer]) -> str:
    words = []
    for role, peak in (("prefill", "peak compute"), ("decode", "the bandwidth of all its tiers")):
        parts = [getattr(answer.systems["specialized"], role) for answer in answers]
        shares = [part.least_request_s / part.request_s for part in parts]
        words.append(f"{role} reaches {min(shares):.0%} to {max(shares):.0%} of {peak}")
    return (
        f"Peak rates on paper give another ratio: {', '.join(words)}. Bytes pass from tier to "
        "tier, so that their bandwidths do not add, and weights and cache have a share of each."
    )


def _families(part: RolePart) -> set[str]:
    """Kinds of off-chip memory of a machine."""
    return {
        re.split(r"[\d_]", str(value))[0].upper()
        for name, value in part.design.items()
        if name.endswith("_technology") and value is not None
    }


def _memory_words(answers: Sequence[TraceAnswer]) -> str:
    words = []
    for role in ("prefill", "decode"):
        families = Counter(
            family
            for answer in answers
            for family in sorted(_families(getattr(answer.systems["specialized"], role)))
        )
        listed = ", ".join(f"{name} in {n}" for name, n in sorted(families.items()))
        words.append(f"{role} machines have {listed} of {len(answers)}")
    return f"Off-chip memory, with a design for each phase: {'; '.join(words)}."


def _edge_words(answers: Sequence[TraceAnswer]) -> str:
    edges = [
        f"{answer.setting.trace} ({KINDS[kind]})"
        for answer in answers
        for kind, system in answer.systems.items()
        if system.is_at_edge
    ]
    most = max(item.systems["specialized"].most_machines for item in answers)
    return (
        f"A role has its largest number of machines, {most}, in {', '.join(edges)}: with more "
        f"allowed, they may be faster and the gains others ({_EDGE} in the tables)."
        if edges
        else ""
    )


def _notes(answers: Sequence[TraceAnswer]) -> list[str]:
    first = answers[0].setting
    formats = ", ".join(f"{name} {value}" for name, value in first.fixed)
    held = f"Formats are held ({formats})" if formats else "All formats are open"
    n_systems = sum(system.n_systems for answer in answers for system in answer.systems.values())
    return [
        f"{held}. Nothing here limits what a format costs in accuracy, so that of open formats "
        "the narrowest would win; formats for each phase under such a limit are what the campaign "
        "system-osworld-accuracy searches.",
        "Gain: throughput with a design for each phase over that of the other kind, both the best "
        "within the limit. The watts are the least with which a design for each phase has at least "
        "the rate of the best single machine. Software is storage priority, dataflow and bandwidth "
        "priority; each role has the batch size that is best for it.",
        "Ratio by rates: (prompt tokens / prefill rate) / (generated tokens / decode rate) of the "
        "machines chosen, at which both roles would always be busy. Ratio by peaks: the same on "
        "paper, a prefill at peak compute and a decode that reads weights, shared by the batch, "
        "and cache at peak bandwidth.",
        "In turns, a change of phase is free and each phase has all of the memory: a bound on what "
        "such machines reach.",
        f"The fronts prove about {n_systems:.2g} systems.",
    ]


# --- tables ----------------------------------------------------------------------------------


def _tables(answers: Sequence[TraceAnswer]) -> Iterator[TextTable]:
    rows = []
    for answer in answers:
        best = answer.systems["specialized"]
        row = {
            "trace": answer.setting.trace,
            "tokens": f"{answer.prompt_tokens:,}:{answer.generated_tokens:,}",
            "throughput": format_value(best.throughput_tokens_per_s) + _edge(best),
        }
        row |= {
            kind: f"{gain:.3f}×" + _edge(answer.systems[kind])
            for kind, gain in answer.gains.items()
        }
        if "one-machine" in answer.least_watts:
            alike = answer.systems["one-machine"]
            watts = answer.least_watts["one-machine"]
            row["watts"] = f"{watts:,.0f}/{alike.tdp_watts:,.0f}"
        rows.append(row)
    gains, ratios, designs = rows, _ratio_rows(answers), _design_rows(answers)
    first = answers[0].setting
    yield TextTable.keyed(
        (f"What a design for each phase buys: {first.model}, {first.limit_watts:,.0f} W"),
        _GAIN_COLUMNS,
        gains,
        _NUMBERS,
    )
    yield TextTable.keyed("Prefill to decode", _RATIO_COLUMNS, ratios, _NUMBERS)
    yield TextTable.keyed("Machines", _DESIGN_COLUMNS, designs, _NUMBERS)


def _percent(ratio: float) -> str:
    return f"{ratio - 1.0:.0%}"


def _edge(system: BestSystem) -> str:
    return _EDGE if system.is_at_edge else ""


def _ratio_rows(answers: Sequence[TraceAnswer]) -> list[dict[str, str]]:
    return [
        {
            "trace": answer.setting.trace,
            "kind": KINDS[kind],
            "machines": f"{system.prefill.machines:.3g} + {system.decode.machines:.3g}"
            + _edge(system),
            "machine_ratio": f"{system.machine_ratio:.3g}",
            "balanced": f"{system.balanced_ratio:.3g}",
            "peak": f"{system.peak_ratio:.3g}",
            "watt_ratio": f"{system.watt_ratio:.3g}",
        }
        for answer in answers
        for kind, system in answer.systems.items()
    ]


def _design_rows(answers: Sequence[TraceAnswer]) -> list[dict[str, str]]:
    return [
        {
            "trace": answer.setting.trace,
            "kind": KINDS[with_machine],
            "role": part.role,
            "design": f"{part.machines:.3g} × ({part.words})",
            "watts": f"{part.tdp_watts:.0f}",
            "rate": format_value(part.tokens_per_s),
            "batch": f"{part.batch_size:.0f}",
        }
        for answer in answers
        for with_machine in _WITH_MACHINES
        if with_machine in answer.systems
        for part in (answer.systems[with_machine].prefill, answer.systems[with_machine].decode)
    ]
