"""The roofline of a design, as figures and pages draw it.

The roofline is the hierarchical one [Yang2019]_: an operator has one point per memory level, at
the work it does per byte that crosses that level. All its points are at the same height, and
none is above the ceiling of its level, because crossing takes at least ``bytes / bandwidth``.

.. [Yang2019] C. Yang, T. Kurth, S. Williams, "Hierarchical Roofline analysis for GPUs:
   accelerating performance optimization for the NERSC-9 Perlmutter system", 2019.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from codesign.models.hardware.accelerator import DEFAULT_CLOCK_HZ
from codesign.report.labels import row_title
from codesign.report.pass_account import pass_account

if TYPE_CHECKING:
    from codesign.insight.evaluated_design import EvaluatedDesign

_ANY_LEVEL = "memory"
_MOST_NAMED = 4
_USABLE = 0.98
"""[ours] A roof that is this near the one above it is not drawn by itself."""
_OFF_ROOF = 0.01
"""[ours] Share of the time from which on an operator without a point is named."""


def operator_documents(evaluated: EvaluatedDesign) -> list[dict[str, Any]]:
    """Operators of any evaluator; keys that the evaluator does not report are left out."""
    # Traffic that is not told by level crosses the only one, if there is only one.
    names = [str(level["name"]) for level in evaluated.levels]
    memory = names[0] if len(names) == 1 else _ANY_LEVEL
    return [_operator(row, memory) for row in evaluated.operators]


def _operator(row: Mapping[str, Any], memory: str) -> dict[str, Any]:
    phase = str(row.get("phase", ""))
    fields = {
        "name": " ".join(filter(None, [phase, str(row.get("name", "")).replace("_", " ")])),
        "bound": row.get("bound", "time"),
        "count": row.get("count"),
        "time_s": row.get("time_s"),
        "work_flop": row.get("work_flop"),
        "traffic_bytes": _traffic(row.get("traffic_bytes"), memory),
        "energy_joules": row.get("energy_joules"),
        "memory_s": row.get("memory_s"),
        "compute_s": row.get("compute_s"),
    }
    return {key: value for key, value in fields.items() if value is not None}


def _traffic(moved: Any, memory: str) -> dict[str, float] | None:
    if isinstance(moved, Mapping):
        return {str(level): float(value) for level, value in moved.items()}
    return None if moved is None else {memory: float(moved)}


def roofline(
    operators: Sequence[Mapping[str, Any]], evaluated: EvaluatedDesign
) -> dict[str, Any] | None:
    """Ceilings and one point per operator and memory level; None if work or traffic is unknown.

    The operators that take longest are named, each at its point farthest from the levels' roofs;
    those that take long and have no point are listed.

    Args:
        operators: Rows of :func:`operator_documents`.
    """
    points = [
        {
            "operator": row["name"],
            "level": level,
            "flop_per_byte": row["work_flop"] / moved,
            "flop_per_s": row["work_flop"] / row["time_s"],
            "time_s": row["time_s"],
        }
        for row in operators
        if row.get("work_flop") and row.get("time_s")
        for level, moved in row.get("traffic_bytes", {}).items()
        if moved > 0
    ]
    peak = _peak_flop_per_s(operators, evaluated)
    if not points or not peak:
        return None
    one_pass = pass_account(evaluated)
    used = {point["level"] for point in points}
    ceilings = [
        {
            "level": level["name"],
            "title": row_title(level),
            "bytes_per_s": level["bandwidth_bytes_per_s"],
            "usable_bytes_per_s": _if_less(
                _usable_bytes_per_s(evaluated, level["name"]), level["bandwidth_bytes_per_s"]
            ),
        }
        for level in evaluated.levels
        if level["name"] in used and level.get("bandwidth_bytes_per_s")
    ]
    drawn = {point["operator"] for point in points}
    whole_s = one_pass["pass_s"] if one_pass else sum(item.get("time_s", 0.0) for item in operators)
    rows = [
        {"operator": operator["name"], "time_share": operator["time_s"] / whole_s}
        for operator in operators
        if operator["name"] not in drawn and operator.get("time_s", 0.0) > _OFF_ROOF * whole_s
    ]
    formats = [
        str(evaluated.design.get(f"{operand}_format") or "") for operand in ("weight", "activation")
    ]
    formats_in_words = [name.split("*")[-1] for text in formats for name in text.split("+")]
    return {
        "unit": (
            "OP" if all(name.startswith(("int", "mxint")) for name in formats_in_words) else "FLOP"
        ),
        "peak_flop_per_s": peak,
        "usable_flop_per_s": _if_less(_fastest_flop_per_s(operators), peak),
        "vector_per_s": _vector_operations_per_s(evaluated),
        "ceilings": ceilings,
        "points": points,
        "named": _named(points),
        "off_roof": sorted(rows, key=lambda row: -row["time_share"]),
        "shares_of": "pass" if one_pass else "time",
    }


def _if_less(usable: float | None, roof: float) -> float | None:
    """A usable roof, if it is clearly below the one that is stated."""
    return usable if usable and usable < _USABLE * roof else None


def _named(points: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    farthest: dict[str, Mapping[str, Any]] = {}
    for point in sorted(points, key=lambda point: point["flop_per_byte"]):
        farthest[point["operator"]] = point
    return sorted(farthest.values(), key=lambda point: -point["time_s"])[:_MOST_NAMED]


def _usable_bytes_per_s(evaluated: EvaluatedDesign, level: str) -> float | None:
    """The highest rate at which the evaluator lets any operator use a level; None if unknown."""
    key = "on_chip_s" if level == "on_chip" else "off_chip_s"
    rates = [
        row["traffic_bytes"].get(level, 0.0) / row[key]
        for row in evaluated.operators
        if row.get(key) and isinstance(row.get("traffic_bytes"), Mapping)
    ]
    return max(rates, default=None)


def _vector_operations_per_s(evaluated: EvaluatedDesign) -> float | None:
    """One operation per lane and cycle; None if the evaluator models no vector unit."""
    lanes = evaluated.design.get("vector_length")
    clock_hz = evaluated.design.get("clock_hz") or DEFAULT_CLOCK_HZ
    if not evaluated.evaluator.offers("technologies"):
        return None
    if not isinstance(lanes, int | float) or not isinstance(clock_hz, int | float):
        return None
    return lanes * clock_hz or None


def _peak_flop_per_s(
    operators: Sequence[Mapping[str, Any]], evaluated: EvaluatedDesign
) -> float | None:
    """Stated peak, or the fastest rate at which the evaluator lets any operator compute."""
    stated = evaluated.metrics.get("peak_flop_per_s")
    if stated:
        return float(stated)
    return _fastest_flop_per_s(operators)


def _fastest_flop_per_s(operators: Sequence[Mapping[str, Any]]) -> float | None:
    """The highest rate at which the evaluator lets any operator compute."""
    rates = [
        row["work_flop"] / row["compute_s"]
        for row in operators
        if row.get("compute_s") and row.get("work_flop")
    ]
    return max(rates, default=None)
