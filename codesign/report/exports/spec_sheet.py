"""One design as a page of Markdown: what to build, in numbers with units, and what it achieves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codesign.report.edge import edge_words
from codesign.report.exports.designs import Written, path_of_pool, write_texts
from codesign.report.exports.tables import markdown_line
from codesign.report.labels import (
    evaluator_words,
    format_metric,
    format_setting,
    format_value,
    metric_of,
    metric_title,
    part_words,
)
from codesign.report.plain import to_json_text
from codesign.report.tables import format_cell, unit_and_title

if TYPE_CHECKING:
    from codesign.report.chosen import ChosenDesign
    from codesign.report.machine import Bank, Machine

_OPERATOR_KEYS = ("name", "count", "bound", "time_s", "time_share", "energy_joules")
_WAY_KEYS = (
    "name", "machines", "start_s", "end_s", "step_s", "batch_size", "requests_per_s", "utilization",
    "joules_per_request", "bytes",
)  # fmt: skip
_COST_KEYS = ("part", "area_mm2", "usd")
_POWER_KEYS = ("component", "tdp_watts", "average_watts")


def to_spec_sheet(chosen: ChosenDesign, path: Path) -> Written:
    """What to build, what it achieves, where time and power go, and where the numbers are from.

    A design of an evaluator without an array gets its parameters instead of parts. A system gets a
    sheet of its own, and one for a machine of each pool.
    """
    texts = {path: _sheet(chosen)}
    texts |= {path_of_pool(path, name): _sheet(item) for name, item in chosen.pools.items()}
    return Written(write_texts(texts))


def _sheet(chosen: ChosenDesign) -> str:
    evaluated = chosen.evaluated
    metrics = [
        (metric_title(metric), format_metric(value, metric), metric.meaning)
        for name, value in evaluated.metrics.items()
        for metric in [metric_of(name, evaluated.evaluator.metrics)]
    ]
    limits = [
        (name, "kept" if value <= 0 else f"BROKEN by {value:.1%}")
        for name, value in evaluated.violations.items()
    ]
    return "\n".join(
        [
            f"# {chosen.title}\n\n{chosen.words}\n",
            *([f"{chosen.standing}.\n"] if chosen.standing else []),
            f"Evaluated by {evaluator_words(evaluated.reading)}.\n",
            *(_system(chosen) if chosen.pools else _parts(chosen)),
            *([] if chosen.pools else [_settings(evaluated.design)]),
            _table("What it achieves", ("metric", "value", "meaning"), metrics),
            _rows("One request that waits for nobody", evaluated.explanation.timeline, _WAY_KEYS),
            _table("Limits", ("limit", "state"), limits),
            *([] if chosen.pools else _breakdowns(chosen)),
            _rows("Area and price of one device", evaluated.costs, _COST_KEYS),
            _list("Assumptions", evaluated.notes),
            f"## Provenance\n\n```json\n{to_json_text(chosen.provenance())}\n```\n",
        ]
    )


def _system(chosen: ChosenDesign) -> list[str]:
    """Pools and links; each pool's machine has a sheet of its own."""
    words = part_words(chosen.evaluated.space, chosen.evaluated.design)
    return [_table("What to build", ("part", "specification"), words.items())]


def _settings(design: Mapping[str, Any]) -> str:
    settings = [
        (name, format_setting(value)) for name, value in design.items() if value is not None
    ]
    return _table("Design parameters", ("parameter", "value"), settings)


def _breakdowns(chosen: ChosenDesign) -> list[str]:
    return [
        _rows("Time by operator", chosen.evaluated.operators, _OPERATOR_KEYS),
        _rows("Power", chosen.evaluated.power, _POWER_KEYS),
    ]


def _parts(chosen: ChosenDesign) -> list[str]:
    """The bill of materials, where the design is a machine."""
    from codesign.errors import InputError

    try:
        machine = chosen.machine
    except InputError:
        return []
    banks = [bank for level in machine.levels for bank in level.banks]
    return [
        _table(
            "What to build",
            ("part", "specification"),
            [*_build(machine), ("die edge for memory", edge_words(chosen.evaluated) or "–")],
        ),
        _table(
            "Memories",
            ("level", "parts", "capacity", "bandwidth", "first byte", "read / write", "die edge"),
            [
                (
                    level.title,
                    level.words,
                    format_value(level.capacity_bytes, "B"),
                    format_value(level.bandwidth_bytes_per_s, "B/s"),
                    format_value(level.latency_s, "s"),
                    f"{level.read_energy_joules_per_byte / 8e-12:.3g} / "
                    f"{level.write_energy_joules_per_byte / 8e-12:.3g} pJ/bit",
                    level.edge_words or "none",
                )
                for level in machine.levels
            ],
        ),
        _list("Where the memories' numbers are from", dict.fromkeys(map(_sources, banks))),
    ]


def _build(machine: Machine) -> list[tuple[str, str]]:
    formats = ", ".join(f"{kind} {name}" for kind, name in machine.formats.items())
    return [
        (
            "matrix array",
            f"{machine.array_rows} x {machine.array_columns} multiply-accumulate units at "
            f"{machine.clock_hz / 1e9:.4g} GHz: "
            f"{format_value(machine.peak_flop_per_s, 'FLOP/s')} peak",
        ),
        ("multiplier", " x ".join(f"{bits} bit" for bits in machine.operand_bits)),
        ("vector unit", f"{machine.vector_lanes} lanes"),
        ("number formats", formats or "–"),
        ("dataflow", machine.dataflow or "–"),
        *((level.title, level.words) for level in machine.levels),
    ]


def _sources(bank: Bank) -> str:
    sources = bank.technology.sources
    listed = "; ".join(f"{name}: {source}" for name, source in sources.items())
    return f"{bank.technology.name} (`{bank.technology.key}`): {listed}"


def _table(title: str, headers: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    listed = list(lines)
    if not listed:
        return ""
    head = markdown_line(headers) + markdown_line(["---"] * len(headers))
    return f"## {title}\n\n{head}{''.join(markdown_line(line) for line in listed)}"


def _rows(title: str, rows: Sequence[Mapping[str, Any]], wanted: Sequence[str]) -> str:
    """The wanted columns of an explanation, as far as it has them."""
    keys = [key for key in wanted if any(key in row for row in rows)]
    headers = [unit_and_title(key)[1] for key in keys]
    return _table(
        title, headers, ([format_cell(key, row.get(key)) for key in keys] for row in rows)
    )


def _list(title: str, lines: Iterable[str]) -> str:
    listed = list(lines)
    return f"## {title}\n\n" + "".join(f"- {line}\n" for line in listed) if listed else ""
