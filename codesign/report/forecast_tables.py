"""A forecast for people and as a document: both phases, operators, the generation, the machines."""

from __future__ import annotations

from codesign.answers.serving import ForecastAnswer
from codesign.evaluators.forecast.plain import rules_of
from codesign.report.labels import format_value
from codesign.report.question import context_words
from codesign.report.tables import Tables, pairs_table, plain_table, rows_table, spaced

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


def forecast_tables(report: ForecastAnswer, width: int) -> Tables:
    """Headlines, the two phases side by side, their operators, and the requested extras."""
    headlines = {
        label: format_value(report.metrics[name], unit)
        for label, (name, unit) in _HEADLINES.items()
    }
    title = f"{report.model}, convention {report.convention}"
    request = report.request
    machine = report.machine
    rules = rules_of(report.convention)
    bandwidth = machine.bandwidth_bytes_per_s / rules.gigabyte
    chunk = request.chunk_tokens
    prompt = "whole prompt" if chunk is None else f"chunks of {chunk:,} tokens"
    batch = request.batch_size
    question = {
        "context": context_words(request.prompt_tokens, request.generated_tokens),
        "requests": f"{batch:,} decoded together, each prefilled alone, {prompt} at a time",
        "machine": f"{machine.peak_ops_per_s / 1e12:.4g} TOPS, "
        f"{bandwidth:.4g} {rules.gigabyte_name}/s",
    }
    phases = [report.prefill, report.decode]
    rows = [
        *((label, *(_count(getattr(x.totals, name), unit) for x in phases))
          for label, (name, unit) in _COUNTS.items()),
        *((f"{side} time", *(format_value(getattr(x, f"{side}_s"), "s") for x in phases))
          for side in ("compute", "memory")),
        ("longer", *(x.bound for x in phases)),
    ]  # fmt: skip
    columns = ["prefill", "decode step"]
    sections = [
        pairs_table(title, question | headlines),
        plain_table("", ["", *columns], columns, rows),
        rows_table("Prefill", list(map(dict, report.prefill.operators)), width, _OPERATOR_KEYS),
        rows_table(
            "Decode, mean step", list(map(dict, report.decode.operators)), width, _OPERATOR_KEYS
        ),
    ]
    if report.lora_update:
        merged = {
            "operations": _count(report.lora_update.ops, "op"),
            "time": format_value(report.lora_update.time_s, "s"),
        }
        sections.append(pairs_table("Merging the adapters once", merged))
    if report.timeline:
        sections.append(rows_table("Generation", list(map(dict, report.timeline)), width))
    if ratios := report.ratios:
        rates = (x / rules.gigabyte for x in ratios.bandwidth_bytes_per_s)
        columns = ["TOPS", *(f"{x:.3g} {rules.gigabyte_name}/s" for x in rates)]
        cells = (
            (f"{peak / 1e12:.3g}", *map("{:.2f}".format, row))
            for peak, row in zip(ratios.peak_ops_per_s, ratios.ratio, strict=True)
        )
        words = "Compute over memory time of the prefill; above 1 compute decides"
        sections.append(plain_table(words, columns, columns, cells))
    return spaced(*sections, [f"Note: {note}" for note in report.notes])


def _count(value: float | None, unit: str) -> str:
    # Operations are printed as FLOP are, with an SI prefix; integer ones are no FLOP.
    if unit == "op":
        return format_value(value, "FLOP").replace("FLOP", "op")
    return format_value(value, unit)
