"""One evaluated design in full: what it is, what it achieves, where time and power go."""

from __future__ import annotations

from rich.table import Table

from codesign.base.columns import FieldRows, JsonRows, StringDict
from codesign.base.records import drop_keys
from codesign.insight.evaluated_design import EvaluatedDesign
from codesign.report.edge import edge_words
from codesign.report.labels import (
    BETTER,
    bank_words,
    evaluator_words,
    format_metric,
    format_setting,
    format_value,
    metric_of,
    part_words,
    spoken_codes,
)
from codesign.report.labels import metric_title as title_of
from codesign.report.system_picture import limit_words
from codesign.report.tables import (
    Tables,
    format_cell,
    pairs_table,
    plain_table,
    rows_table,
)

_LEVEL_COLUMNS = (
    "name",
    "technology",
    "capacity_bytes",
    "bandwidth_bytes_per_s",
    "utilization",
    "holds_share",
)
_TIMELINE_COLUMNS = (
    "name",
    "machines",
    "start_s",
    "end_s",
    "step_s",
    "utilization",
    "requests_per_s",
    "joules_per_request",
)
_OPERATOR_COLUMNS = ("name", "time_s", "time_share", "bound", "traffic_bytes")


def evaluation_tables(title: str, evaluated: EvaluatedDesign, width: int) -> Tables:
    """The evaluated design for the terminal, ``width`` columns wide."""
    explanation = evaluated.explanation
    settings, pools = _settings(evaluated)
    declared = list(evaluated.known_metrics)
    metrics = ((metric_of(name, declared), value) for name, value in explanation.metrics.items())
    rows = ((title_of(m), format_metric(value, m), BETTER[m.sense]) for m, value in metrics)
    limits = (
        (
            spoken_codes(name) if name.isidentifier() else name,
            "kept" if value <= 0 else f"broken by {format_value(value)}",
        )
        for name, value in evaluated.violations.items()
    )
    timeline = [drop_keys(row, ("kind", "sets_rate")) for row in explanation.timeline]
    way = rows_table("One request without queues", timeline, width, _TIMELINE_COLUMNS)
    captions = (limit_words(explanation.timeline), str(way.caption or ""))
    way.caption = "\n".join(filter(None, captions)) or None
    sections: Tables = [
        pairs_table(
            title,
            {
                "space": evaluated.space.name,
                "evaluator": evaluator_words(evaluated.reading),
                "workload": format_cell("", evaluated.inputs["workload"]),
                **settings,
            },
        ),
        *pools,
        plain_table("Metrics", ["metric", "value", "better"], ["value"], rows),
        way,
        rows_table("Operators", _printed(explanation.operators), width, _OPERATOR_COLUMNS),
        rows_table("Memory levels", _printed(explanation.levels), width, _LEVEL_COLUMNS),
        rows_table("Power", _printed(explanation.power), width),
        rows_table("Area and price of one device", _printed(explanation.costs), width),
        plain_table("Limits", ["limit", "state"], rows=limits),
    ]
    if words := edge_words(evaluated):
        sections.append(f"Die edge for memory: {words}")
    return [
        *(
            line
            for section in sections
            if not isinstance(section, Table) or section.row_count
            for line in (section, "")
        ),
        *(f"Note: {note}" for note in explanation.notes),
    ]


_NOT_PRINTED = ("title", "component", "banks", "matrix_bound")
"""Keys of rows for figures and pages, which other columns say well enough here."""


def _printed(rows: FieldRows) -> JsonRows:
    return [drop_keys(row, _NOT_PRINTED) | {"technology": bank_words(row)} for row in rows]


def _settings(evaluated: EvaluatedDesign) -> tuple[StringDict, list[Table]]:
    """A design's parameters as pairs; of a system its pools in words, and a table side by side."""
    design = evaluated.design
    pools = evaluated.space.pools
    if not pools:
        return {k: format_setting(v) for k, v in design.items() if v is not None}, []
    table = plain_table("Machines", ["parameter", *pools])
    for name in dict.fromkeys(name for pool in pools.values() for name in pool.parameter_names):
        values = [design.get(pool.full_name(name)) for pool in pools.values()]
        if any(value is not None for value in values):
            table.add_row(name, *map(format_setting, values))
    return part_words(evaluated.space, design), [table]
