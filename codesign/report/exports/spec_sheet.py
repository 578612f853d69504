"""One design on two or three printed pages of Markdown: what to build and what it achieves.

What one looks up stands in a second file: meanings of all metrics, constants, sources, provenance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from codesign.answers.json_values import json_text
from codesign.base.errors import InputError
from codesign.base.text import markdown_table, markdown_text
from codesign.report.accuracy_tables import FORMAT_COLUMNS, format_lines
from codesign.report.edge import edge_words
from codesign.report.exports.block_diagram import block_diagram
from codesign.report.exports.design_files import Written, path_of_pool, write_texts
from codesign.report.exports.sheet_accounts import (
    BUDGET_COLUMNS,
    INTERFACE_COLUMNS,
    NOT_MODELLED,
    SAMPLES,
    budget_table,
    constant_lines,
    interface_lines,
    interval_words,
)
from codesign.report.labels import (
    KEY_METRICS,
    MAIN_METRICS,
    evaluator_words,
    format_metric,
    format_setting,
    format_value,
    metric_of,
    metric_title,
    part_words,
    spoken_design,
)
from codesign.report.tables import format_cell, unit_and_title
from codesign.report.uncertainty_tables import NO_RANGE, PERCENTS

if TYPE_CHECKING:
    from codesign.report.chosen import ChosenDesign
    from codesign.report.machine import Bank, Machine

_OPERATORS = ("name", "count", "bound", "time_s", "time_share", "energy_joules")
_WAY_KEYS = (
    "name", "machines", "start_s", "end_s", "step_s", "batch_size", "requests_per_s", "utilization",
    "joules_per_request", "bytes",
)  # fmt: skip
_POWER = ("name", "tdp_watts", "average_watts")
_LEAST = 0.01
"""Share of the time from which on an operator is listed."""


def to_spec_sheet(exported: ChosenDesign, path: Path) -> Written:
    """Machine, results and budgets; beside it, the sources of the numbers.

    A design of an evaluator without an array gets its parameters instead of parts. A system gets a
    sheet of its own, and one for a machine of each pool.
    """
    texts: dict[Path, str] = {}
    places = {path: exported} | {
        path_of_pool(path, key): item for key, item in exported.pools.items()
    }
    for place, item in places.items():
        drawing = place.with_name(f"{place.stem}-blocks.svg")
        machine = _machine(item)
        sources = place.with_name(f"{place.stem}-sources.md")
        texts[place] = _sheet(item, machine, drawing.name, sources.name)
        evaluated = item.evaluated
        metrics = [
            (metric_title(metric), format_metric(value, metric), metric.meaning)
            for name, value in evaluated.metrics.items()
            for metric in [metric_of(name, evaluated.known_metrics)]
        ]
        texts[sources] = "\n".join(
            [
                markdown_text(f"# {item.title}: sources\n"),
                _table("All metrics", ("metric", "value", "meaning"), metrics),
                *(
                    []
                    if item.pools
                    else [_rows("Time by operator", evaluated.operators, _OPERATORS)]
                ),
                *([] if item.pools else [_rows("Power", evaluated.power, _POWER)]),
                *([] if item.pools else _assumed(item, machine)),
                f"## Provenance\n\n```json\n{json_text(item.provenance())}\n```\n",
            ]
        )
        if machine is not None:
            texts[drawing] = block_diagram(machine, item.evaluated.costs, item.title)
    return Written(write_texts(texts))


def _machine(exported: ChosenDesign) -> Machine | None:
    """The machine, where the design is one."""
    try:
        return exported.machine
    except InputError:
        return None


def _sheet(exported: ChosenDesign, machine: Machine | None, drawing: str, sources: str) -> str:
    evaluated = exported.evaluated
    return "\n".join(
        [
            markdown_text(
                f"# {exported.title}\n\n{spoken_design(evaluated.space, evaluated.design)}\n"
            ),
            markdown_text(f"In short: {exported.words}.\n"),
            *([f"{exported.standing}.\n"] if exported.standing else []),
            markdown_text(f"Evaluated by {evaluator_words(evaluated.reading)}.\n"),
            *(_system(exported) if exported.pools else []),
            *([] if machine is None else _parts(exported, machine, drawing)),
            _table("What it achieves", ("metric", "value", PERCENTS), _main_metrics(exported)),
            f"{PERCENTS}: 5 % of {SAMPLES} draws of all ranges are below, 5 % above. "
            f"{NO_RANGE.capitalize()}: the metric depends on no number with a range.\n",
            _list("Limits", _limits(exported)),
            _rows("One request that waits for nobody", evaluated.explanation.timeline, _WAY_KEYS),
            *([] if exported.pools else _accounts(exported)),
            *([] if exported.pools else [_settings(evaluated.design)]),
            _list("Assumed: how it is computed", evaluated.notes),
            _list("Not modelled", NOT_MODELLED),
            f"## Provenance\n\n{markdown_text(_provenance_words(exported))}. All metrics with "
            "their "
            f"meanings, constants and sources: [{sources}]({quote(sources)}).\n",
        ]
    )


def _provenance_words(exported: ChosenDesign) -> str:
    note = exported.provenance()
    return (
        f"Made by {note['made_by']} from the campaign {note['campaign']}: {note['state']}; "
        f"evaluated: {note['evaluated']}"
    )


def _main_metrics(exported: ChosenDesign) -> Iterator[tuple[str, str, str]]:
    evaluated = exported.evaluated
    intervals = interval_words(evaluated)
    names = dict.fromkeys([*exported.results.problem.objective_names, *KEY_METRICS, *MAIN_METRICS])
    for name in names:
        if name in evaluated.metrics:
            metric = metric_of(name, evaluated.known_metrics)
            yield (
                metric_title(metric),
                format_metric(evaluated.metrics[name], metric),
                intervals[name],
            )


def _limits(exported: ChosenDesign) -> Iterator[str]:
    """Limits that are broken, by how much, and limits that are kept; each once."""
    violations = exported.evaluated.violations
    for name, value in violations.items():
        if value > 0:
            yield f"BROKEN by {value:.1%}: {name}"
    kept_names = [name for name, value in violations.items() if value <= 0]
    # A space and its evaluator may state the same limit, one of them with its bound.
    of_campaign = (constraint.expression for constraint in exported.results.problem.constraints)
    of_space = (item.expression for item in exported.evaluated.space.constraints)
    limits = [item.limit for item in (*of_campaign, *of_space) if item.text in kept_names]
    bounded = {limit.quantity for limit in limits if limit is not None}
    kept_names = [name for name in kept_names if name not in bounded]
    if kept_names:
        yield f"kept: {', '.join(kept_names)}"


def _system(exported: ChosenDesign) -> list[str]:
    """Pools and links; each pool's machine has a sheet of its own."""
    words = part_words(exported.evaluated.space, exported.evaluated.design)
    return [_table("What to build", ("part", "specification"), words.items())]


def _settings(design: Mapping[str, Any]) -> str:
    settings = [
        f"{name} {format_setting(value)}" for name, value in design.items() if value is not None
    ]
    return f"## Decided: the design's parameters\n\n{markdown_text(', '.join(settings))}\n"


def _accounts(exported: ChosenDesign) -> list[str]:
    """Shares of time, budgets with their ranges, and the accuracy that formats cost."""
    operators = [row for row in exported.evaluated.operators if row.get("time_share", 0) >= _LEAST]
    budgets = budget_table(exported.evaluated)
    words = (
        "Each as low / typical / high: all published ranges at that end; a single number has no "
        "published range. What fills a die below its layers shrinks as its other blocks grow.\n"
    )
    return [
        _rows(f"Time by operator, from {100 * _LEAST:g} %", operators, _OPERATORS),
        _table("Budgets of one device", BUDGET_COLUMNS, budgets),
        *([words] if budgets else []),
        _table(
            "What the formats cost in accuracy", FORMAT_COLUMNS, format_lines(exported.evaluated)
        ),
    ]


def _assumed(exported: ChosenDesign, machine: Machine | None) -> list[str]:
    banks = [] if machine is None else [bank for level in machine.levels for bank in level.banks]
    columns = ("constant", "low / typical / high", "date", "source")
    return [
        _table(
            "Assumed: constants of area, energy, price, heat and carbon",
            columns,
            constant_lines(exported.evaluated),
        ),
        _list("Assumed: where the memories' numbers are from", dict.fromkeys(map(_sources, banks))),
    ]


def _parts(exported: ChosenDesign, machine: Machine, drawing: str) -> list[str]:
    """The drawing and the bill of materials."""
    formats = ", ".join(f"{operand} {name}" for operand, name in machine.formats.items())
    build = [
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
    return [
        f"![Block diagram]({quote(drawing)})\n",
        _table(
            "What to build",
            ("part", "specification"),
            [*build, ("die edge for memory", edge_words(exported.evaluated) or "–")],
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
        _table("Interfaces", INTERFACE_COLUMNS, interface_lines(machine)),
    ]


def _sources(bank: Bank) -> str:
    sources = bank.technology.sources
    listed = "; ".join(f"{name}: {source}" for name, source in sources.items())
    return f"{bank.technology.name} (`{bank.technology.key}`): {listed}"


def _table(title: str, headers: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    listed = list(lines)
    return f"## {title}\n\n{markdown_table(headers, listed)}\n" if listed else ""


def _rows(title: str, rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str:
    """The wanted columns of an explanation, as far as it has them."""
    keys = [key for key in names if any(key in row for row in rows)]
    headers = [unit_and_title(key)[1] for key in keys]
    return _table(
        title, headers, ([format_cell(key, row.get(key)) for key in keys] for row in rows)
    )


def _list(title: str, lines: Iterable[str]) -> str:
    listed = list(lines)
    return (
        f"## {title}\n\n" + "".join(f"- {markdown_text(line)}\n" for line in listed)
        if listed
        else ""
    )
