"""A forecast for people and as a document: both phases, operators, the generation, the machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from codesign.evaluators.forecast.plain import PlainCount, rules_of
from codesign.evaluators.forecast.variants import Variant
from codesign.report.labels import format_value
from codesign.report.question import context_words
from codesign.report.tables import pairs_table, plain_table, rows_table, text_line

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True)
class PhaseForecast:
    """One phase on one machine.

    Attributes:
        totals: Work over all operators, by quantity.
        compute_s: Time of the arithmetic and of the launches.
        memory_s: Time of the traffic and of the launches.
        operators: One row per operator, all layers together.
    """

    totals: Mapping[str, float]
    compute_s: float
    memory_s: float
    operators: Sequence[Mapping[str, Any]]

    @property
    def bound(self) -> str:
        """Which of both times is the longer."""
        return "compute" if self.compute_s > self.memory_s else "memory"


@dataclass(frozen=True)
class ForecastReport:
    """Everything that ``codesign forecast`` says.

    Attributes:
        model: Name of the language model.
        profile: How work was counted.
        variant: The software.
        request: Token counts and batch.
        machine: Rates in SI units, efficiencies, latency.
        metrics: By the names of ``metrics.py``.
        prefill: The first token.
        decode: The mean step.
        notes: The assumptions in force.
        lora_update: Operations and time of merging adapters once, if there are any.
        timeline: Steps of the generation, if asked for.
        ratios: Compute over memory time of the prefill by machine, if asked for.
    """

    model: str
    profile: str
    variant: Variant
    request: Mapping[str, Any]
    machine: Mapping[str, Any]
    metrics: Mapping[str, float]
    prefill: PhaseForecast
    decode: PhaseForecast
    notes: Sequence[str]
    lora_update: Mapping[str, float] = field(default_factory=dict)
    timeline: Sequence[Mapping[str, float]] = ()
    ratios: Mapping[str, Any] = field(default_factory=dict)
    files: Sequence[str] = ()


_COUNTS = {
    "operations": ("ops", "op"),
    "read": ("read_bytes", "B"),
    "written": ("written_bytes", "B"),
    "weights read": ("weight_bytes", "B"),
    "KV cache read": ("kv_read_bytes", "B"),
    "KV cache written": ("kv_written_bytes", "B"),
    "dispatches": ("dispatches", ""),
}
_HEADLINES = {
    "time to first token": ("time_to_first_token_s", "s"),
    "time per output token": ("time_per_output_token_s", "s"),
    "generated tokens per user": ("tokens_per_s_per_user", "token/s"),
    "generated tokens in all": ("throughput_tokens_per_s", "token/s"),
    "memory used": ("memory_used_bytes", "B"),
}
_OPERATOR_KEYS = ("name", "ops", "ops_share", "read_bytes", "written_bytes", "compute_s")


def to_document(report: ForecastReport) -> dict[str, Any]:
    """One document; what was not asked for is left out."""
    document: dict[str, Any] = {
        "model": report.model,
        "profile": report.profile,
        "variant": report.variant.model_dump(),
        "request": dict(report.request),
        "machine": dict(report.machine),
        "metrics": dict(report.metrics),
        "prefill": _phase_document(report.prefill),
        "decode": _phase_document(report.decode),
        "notes": list(report.notes),
    }
    more = {
        "lora_update": dict(report.lora_update),
        "timeline": [dict(row) for row in report.timeline],
        "ratios": dict(report.ratios),
        "files": list(report.files),
    }
    return document | {name: value for name, value in more.items() if value}


def _phase_document(phase: PhaseForecast) -> dict[str, Any]:
    return {
        "totals": dict(phase.totals),
        "compute_s": phase.compute_s,
        "memory_s": phase.memory_s,
        "bound": phase.bound,
        "operators": [dict(row) for row in phase.operators],
    }


def to_tables(report: ForecastReport, width: int) -> list[RenderableType]:
    """Headlines, the two phases side by side, their operators, and the requested extras."""
    headlines = {
        label: format_value(report.metrics[name], unit)
        for label, (name, unit) in _HEADLINES.items()
    }
    title = f"{report.model}, profile {report.profile}"
    question = _question(report)
    parts: list[RenderableType] = [pairs_table(title, question | headlines), text_line("")]
    parts.append(_phases_table(report))
    for name, phase in (("Prefill", report.prefill), ("Decode, mean step", report.decode)):
        parts += [text_line(""), rows_table(name, phase.operators, width, _OPERATOR_KEYS)]
    if report.lora_update:
        merged = {
            "operations": _count(report.lora_update["ops"], "op"),
            "time": format_value(report.lora_update["time_s"], "s"),
        }
        parts += [text_line(""), pairs_table("Merging the adapters once", merged)]
    if report.timeline:
        parts += [text_line(""), rows_table("Generation", report.timeline, width)]
    if report.ratios:
        parts += [text_line(""), _ratios_table(report.ratios, rules_of(report.profile))]
    parts += [text_line(f"wrote {path}") for path in report.files]
    return parts + [text_line(f"Note: {note}") for note in report.notes]


def _question(report: ForecastReport) -> dict[str, str]:
    """The request and the machine, in the profile's unit of bandwidth."""
    request, machine = report.request, report.machine
    rules = rules_of(report.profile)
    bandwidth = machine["bandwidth_bytes_per_s"] / rules.gigabyte
    chunk = request["chunk_tokens"]
    prompt = "whole prompt" if chunk is None else f"chunks of {chunk:,} tokens"
    batch = request["batch_size"]
    return {
        "context": context_words(request["prompt_tokens"], request["generated_tokens"]),
        "requests": f"{batch:,} decoded together, each prefilled alone, {prompt} at a time",
        "machine": f"{machine['peak_ops_per_s'] / 1e12:.4g} TOPS, "
        f"{bandwidth:.4g} {rules.gigabyte_name}/s",
    }


def _phases_table(report: ForecastReport) -> RenderableType:
    phases = {"prefill": report.prefill, "decode step": report.decode}
    table = plain_table("", ["", *phases], list(phases))
    for label, (name, unit) in _COUNTS.items():
        table.add_row(label, *(_count(phase.totals[name], unit) for phase in phases.values()))
    for label, name in (("compute time", "compute_s"), ("memory time", "memory_s")):
        table.add_row(label, *(format_value(getattr(item, name), "s") for item in phases.values()))
    table.add_row("longer", *(phase.bound for phase in phases.values()))
    return table


def _count(value: float, unit: str) -> str:
    # Operations are printed as FLOP are, with an SI prefix; integer ones are no FLOP.
    if unit == "op":
        return format_value(value, "FLOP").replace("FLOP", "op")
    return format_value(value, unit)


def _ratios_table(ratios: Mapping[str, Any], rules: type[PlainCount]) -> RenderableType:
    unit = rules.gigabyte_name
    bandwidths = [
        f"{value / rules.gigabyte:.3g} {unit}/s" for value in ratios["bandwidth_bytes_per_s"]
    ]
    table = plain_table(
        "Compute over memory time of the prefill; above 1 compute decides",
        ["TOPS", *bandwidths],
        ["TOPS", *bandwidths],
    )
    for peak, row in zip(ratios["peak_ops_per_s"], ratios["ratio"], strict=True):
        table.add_row(f"{peak / 1e12:.3g}", *(f"{value:.2f}" for value in row))
    return table
