"""Time line of one pass, as the evaluator counts it.

Operators follow one another, each once for all its instances in all layers. A vector unit works
beside array and memories, or after them. Limiting assumption: it is an account, no schedule;
messages between devices are not in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from codesign.base.columns import JsonRows
from codesign.report import palette
from codesign.report.chart import Axis, Bars, Chart, Panel, row_axis
from codesign.report.design_charts import HATCHES
from codesign.report.labels import format_value
from codesign.report.svg import axis_unit

if TYPE_CHECKING:
    from codesign.insight.evaluated_design import EvaluatedDesign


def line_chart(evaluated: EvaluatedDesign) -> Chart | None:
    """Operators on each unit, one after the other; None if operators have no time."""
    bars = pass_line(evaluated)
    if not bars:
        return None
    units = list(dict.fromkeys(bar["unit"] for bar in bars))
    end = max(bar["end_s"] for bar in bars)
    marks = [
        Bars(
            [units.index(bar["unit"])], [bar["end_s"] - bar["start_s"]], [bar["start_s"]],
            hue=palette.BOUNDS.get(bar["bound"], "gray"), hatch=HATCHES.get(bar["bound"], ""),
            name=bar["bound"],
            texts=[
                f"{bar['name'].replace('_', ' ')}, bound by {bar['bound']}: "
                f"{format_value(bar['start_s'], 's', 3)} to {format_value(bar['end_s'], 's', 3)}"
            ],
        )
        for bar in bars
    ]  # fmt: skip
    time = Axis(
        (0.0, 1.02 * end), f"Time ({axis_unit((0, end), 's')}); messages are not drawn", "s"
    )
    names = row_axis(units)
    return Chart([Panel(time, names, marks, height=40.0 * len(units))], "Time line of one pass")


def pass_line(evaluated: EvaluatedDesign) -> JsonRows:
    """A bar for each operator on each unit: ``unit``, ``name``, ``bound``, ``start_s``, ``end_s``.

    Empty where the evaluator gives operators no time of their own.
    """
    units = {"array and memories": "matrix_s", "vector unit": "vector_s"}
    rows = [row for row in evaluated.operators if row.get("time_s")]
    if not all("matrix_s" in row for row in rows):
        units = {"device": "time_s"}
    options = evaluated.evaluator.provenance().get("options")
    is_serial = isinstance(options, Mapping) and options.get("vector") == "serial"
    bound_keys = {"matrix_s": "matrix_bound", "time_s": "bound"}
    bars = []
    end_s = 0.0
    for unit, key in units.items():
        start_s = end_s if is_serial else 0.0
        for row in rows:
            end_s = start_s + row.get(key, 0.0)
            if end_s > start_s:
                name = " ".join(filter(None, [str(row.get("phase", "")), str(row["name"])]))
                times = {"start_s": start_s, "end_s": end_s}
                bound = str(row.get(bound_keys[key], "time")) if key in bound_keys else "vector"
                bars.append({"unit": unit, "name": name, "bound": bound} | times)
            start_s = end_s
    return bars
