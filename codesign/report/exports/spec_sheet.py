"""One design on two or three printed pages of Markdown: what to build and what it achieves.

What one looks up stands in a second file: meanings of all metrics, constants, sources, provenance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import quote

from codesign.answers.json_values import json_text
from codesign.base.columns import FieldRows, Strings
from codesign.base.errors import InputError
from codesign.base.text import markdown_table, markdown_text
from codesign.report.accuracy_tables import FORMAT_COLUMNS, format_lines
from codesign.report.chosen import ChosenDesign
from codesign.report.edge import edge_words
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
from codesign.report.machine import Machine
from codesign.report.paper import design_chart, design_title, sheet_text, titled, width_of
from codesign.report.tables import field_cells
from codesign.report.uncertainty_tables import NO_RANGE, PERCENTS

_OPERATORS = ("name", "count", "bound", "time_s", "time_share", "energy_joules")
_WAY_KEYS = (
    "name", "machines", "start_s", "end_s", "step_s", "batch_size", "requests_per_s", "utilization",
    "joules_per_request", "bytes",
)  # fmt: skip
_LEAST = 0.01
"""Share of the time from which on an operator is listed."""


def write_spec_sheet(exported: ChosenDesign, path: Path) -> Written:
    """Write a spec sheet, and beside it the sources of its numbers and the die to scale.

    The sheet has machine, results and budgets. If the evaluator has no array, it lists parameters
    instead of parts. A system gets one sheet, and another for a machine of each pool.
    """
    texts = {}
    sheets = {path_of_pool(path, key): machine for key, machine in exported.pools.items()}
    for place, drawn in ({path: exported} | sheets).items():
        drawing = place.with_name(f"{place.stem}-die.svg")
        sources = place.with_name(f"{place.stem}-sources.md")
        try:
            machine = drawn.machine
        except InputError:
            machine = None
        try:
            chart, notes = design_chart("hierarchy", drawn, is_narrow=False)
        except InputError:
            picture = ""
        else:
            width, _ = width_of(None)
            die = titled(chart, width, [design_title("die and memories", drawn)], notes)
            picture = sheet_text([(die, 0.0, 0.0)], width)
        picture_name = drawing.name if picture else ""
        texts[place] = "\n".join(_sheet(drawn, machine, picture_name, sources.name))
        texts[sources] = "\n".join(_sources(drawn, machine))
        if picture:
            texts[drawing] = picture
    return Written(write_texts(texts))


def _sheet(
    exported: ChosenDesign, machine: Machine | None, drawing: str, sources: str
) -> Iterator[str]:
    """The sections of a sheet."""
    evaluated = exported.evaluated
    spoken = spoken_design(evaluated.space, evaluated.design)
    yield markdown_text(f"# {exported.title}\n\n{spoken}\n\nIn short: {exported.words}.\n")
    if exported.standing:
        yield f"{exported.standing}.\n"
    yield markdown_text(f"Evaluated by {evaluator_words(evaluated.reading)}.\n")
    if drawing:
        yield f"![Die and memories to scale]({quote(drawing)})\n"
    if exported.pools:
        words = part_words(evaluated.space, evaluated.design)
        yield _table("What to build", ("part", "specification"), words.items())
    elif machine is not None:
        yield from _parts(exported, machine)
    intervals = interval_words(evaluated)
    names = dict.fromkeys([*exported.results.problem.objective_names, *KEY_METRICS, *MAIN_METRICS])
    metrics = [metric_of(name, evaluated.known_metrics) for name in names]
    yield _table("What it achieves", ("metric", "value", PERCENTS), [
        (metric_title(x), format_metric(evaluated.metrics[x.name], x), intervals[x.name])
        for x in metrics
        if x.name in evaluated.metrics
    ])  # fmt: skip
    yield (
        f"{PERCENTS}: 5 % of {SAMPLES} draws of all ranges are below, 5 % above. "
        f"{NO_RANGE.capitalize()}: the metric depends on no number with a range.\n"
    )
    yield _list("Limits", _limits(exported))
    yield _rows("One request without queues", evaluated.explanation.timeline, _WAY_KEYS)
    if not exported.pools:
        operators = [row for row in evaluated.operators if row.get("time_share", 0) >= _LEAST]
        yield _rows(f"Time by operator, from {100 * _LEAST:g} %", operators, _OPERATORS)
        budgets = budget_table(evaluated)
        yield _table("Budgets of one device", BUDGET_COLUMNS, budgets)
        if budgets:
            yield (
                "Each as low / typical / high: all published ranges at that end; a single number "
                "has no published range. What fills a die below its layers shrinks as its other "
                "blocks grow.\n"
            )
        formats = format_lines(evaluated)
        yield _table("What the formats cost in accuracy", FORMAT_COLUMNS, formats)
        settings = [
            f"{name} {format_setting(x)}" for name, x in evaluated.design.items() if x is not None
        ]
        yield f"## Decided: the design's parameters\n\n{markdown_text(', '.join(settings))}\n"
    yield _list("Assumed: how it is computed", evaluated.notes)
    yield _list("Not modelled", NOT_MODELLED)
    note = exported.provenance()
    origin = (
        f"Made by {note['made_by']} from the campaign {note['campaign']}: {note['state']}; "
        f"evaluated: {note['evaluated']}"
    )
    yield (
        f"## Provenance\n\n{markdown_text(origin)}. All metrics with their meanings, constants and "
        f"sources: [{sources}]({quote(sources)}).\n"
    )


def _parts(exported: ChosenDesign, machine: Machine) -> Iterator[str]:
    """The bill of materials."""
    formats = ", ".join(f"{operand} {name}" for operand, name in machine.formats.items())
    yield _table("What to build", ("part", "specification"), [
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
        ("die edge for memory", edge_words(exported.evaluated) or "–"),
    ])  # fmt: skip
    cells, _ = field_cells(
        machine.levels,
        "title=level words=parts capacity_bytes bandwidth_bytes_per_s latency_s=first_byte "
        "energy_words=read_/_write edge_words=die_edge",
    )
    yield _table("Memories", list(cells), zip(*cells.values(), strict=True))
    yield _table("Interfaces", INTERFACE_COLUMNS, interface_lines(machine))


def _sources(exported: ChosenDesign, machine: Machine | None) -> Iterator[str]:
    """The sections of the file of sources."""
    evaluated = exported.evaluated
    yield markdown_text(f"# {exported.title}: sources\n")
    metrics = (metric_of(name, evaluated.known_metrics) for name in evaluated.metrics)
    yield _table("All metrics", ("metric", "value", "meaning"), [
        (metric_title(x), format_metric(evaluated.metrics[x.name], x), x.meaning) for x in metrics
    ])  # fmt: skip
    if not exported.pools:
        yield _rows("Time by operator", evaluated.operators, _OPERATORS)
        yield _rows("Power", evaluated.power, ("name", "tdp_watts", "average_watts"))
        yield _table(
            "Assumed: constants of area, energy, price, heat and carbon",
            ("constant", "low / typical / high", "date", "source"),
            constant_lines(evaluated),
        )
        banks = [bank for level in machine.levels for bank in level.banks] if machine else []
        memories = {bank.technology.key: bank.technology for bank in banks}
        yield _list("Assumed: where the memories' numbers are from", [
            f"{memory.name} (`{key}`): {'; '.join(f'{k}: {x}' for k, x in memory.sources.items())}"
            for key, memory in memories.items()
        ])  # fmt: skip
    yield f"## Provenance\n\n```json\n{json_text(exported.provenance())}\n```\n"


def _limits(exported: ChosenDesign) -> Iterator[str]:
    """Limits that are broken, by how much, and limits that are kept; each once."""
    violations = exported.evaluated.violations
    for name, value in violations.items():
        if value > 0:
            yield f"BROKEN by {value:.1%}: {name}"
    names = [name for name, value in violations.items() if value <= 0]
    # A space and its evaluator may state the same limit, one of them with its bound.
    stated = [x.expression for x in exported.results.problem.constraints]
    stated += [x.expression for x in exported.evaluated.space.constraints]
    limits = [expression.limit for expression in stated if expression.text in names]
    bounded = {limit.quantity for limit in limits if limit is not None}
    if unbounded := [name for name in names if name not in bounded]:
        yield f"kept: {', '.join(unbounded)}"


def _table(title: str, headers: Strings, lines: Iterable[Strings]) -> str:
    listed = list(lines)
    return f"## {title}\n\n{markdown_table(headers, listed)}\n" if listed else ""


def _rows(title: str, rows: FieldRows, names: Strings) -> str:
    """A table of an explanation with those of the named columns that it has."""
    keys = " ".join(key for key in names if any(key in row for row in rows))
    cells, _ = field_cells(rows, keys, digits=3)
    return _table(title, list(cells), zip(*cells.values(), strict=True))


def _list(title: str, lines: Iterable[str]) -> str:
    listed = "".join(f"- {markdown_text(line)}\n" for line in lines)
    return f"## {title}\n\n{listed}" if listed else ""
