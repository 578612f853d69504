"""The roofline of a design, as figures and pages draw it.

The roofline is the hierarchical one [Yang2019]_: an operator has one point per memory level, at
the work it does per byte that crosses that level. All its points are at the same height, and
none is above the ceiling of its level, because crossing takes at least ``bytes / bandwidth``.

.. [Yang2019] C. Yang, T. Kurth, S. Williams, "Hierarchical Roofline analysis for GPUs:
   accelerating performance optimization for the NERSC-9 Perlmutter system", 2019.
"""

from __future__ import annotations

from collections.abc import Mapping

from codesign.base.columns import FieldRows, JsonObject, JsonRows
from codesign.insight.evaluated_design import EvaluatedDesign
from codesign.models.hardware.accelerator import DEFAULT_CLOCK_HZ
from codesign.report.labels import row_title
from codesign.report.pass_account import pass_account

_ANY_LEVEL = "memory"
_MOST_NAMED = 4
_USABLE = 0.98
"""[ours] A roof that is this near the one above it is not drawn by itself."""
_OFF_ROOF = 0.01
"""[ours] Share of the time from which on an operator without a point is named."""


def operator_documents(evaluated: EvaluatedDesign) -> JsonRows:
    """Operators of any evaluator; keys that the evaluator does not report are left out."""
    # Traffic without levels crosses the only level, if there is only one.
    names = [str(level["name"]) for level in evaluated.levels]
    memory = names[0] if len(names) == 1 else _ANY_LEVEL
    keys = ("count", "time_s", "work_flop", "energy_joules", "memory_s", "compute_s")
    documents = []
    for row in evaluated.operators:
        words = [str(row.get("phase", "")), str(row.get("name", "")).replace("_", " ")]
        document = {"name": " ".join(filter(None, words)), "bound": row.get("bound", "time")}
        moved = row.get("traffic_bytes")
        if moved is not None:
            by_level = moved if isinstance(moved, Mapping) else {memory: moved}
            document["traffic_bytes"] = {str(x): float(amount) for x, amount in by_level.items()}
        documents.append(document | {key: row[key] for key in keys if row.get(key) is not None})
    return documents


def roofline(operators: FieldRows, evaluated: EvaluatedDesign) -> JsonObject | None:
    """Ceilings and one point per operator and memory level; None if work or traffic is unknown.

    The operators that take longest are named, each at its point farthest from the levels' roofs;
    those that take long and have no point are listed.

    Args:
        operators: Rows of :func:`operator_documents`.
    """
    points: JsonRows = [
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
    # The highest rate at which the evaluator lets any operator compute.
    computing = (row for row in operators if row.get("compute_s") and row.get("work_flop"))
    fastest = max((row["work_flop"] / row["compute_s"] for row in computing), default=None)
    peak = evaluated.metrics.get("peak_flop_per_s") or fastest
    if not points or not peak:
        return None
    account = pass_account(evaluated)
    pass_s = account["pass_s"] if account else sum(row.get("time_s", 0.0) for row in operators)
    drawn = {point["operator"] for point in points}
    off_roof = [
        {"operator": row["name"], "time_share": row["time_s"] / pass_s}
        for row in operators
        if row["name"] not in drawn and row.get("time_s", 0.0) > _OFF_ROOF * pass_s
    ]
    farthest = {
        point["operator"]: point for point in sorted(points, key=lambda x: x["flop_per_byte"])
    }
    formats = [evaluated.design.get(f"{operand}_format") for operand in ("weight", "activation")]
    names = [name.split("*")[-1] for text in formats for name in str(text or "").split("+")]
    is_integer = all(name.startswith(("int", "mxint")) for name in names)
    return {
        "unit": "OP" if is_integer else "FLOP",
        "peak_flop_per_s": peak,
        "usable_flop_per_s": _if_less(fastest, peak),
        "vector_per_s": _vector_operations_per_s(evaluated),
        "ceilings": _ceilings(evaluated, {point["level"] for point in points}),
        "points": points,
        "named": sorted(farthest.values(), key=lambda point: -point["time_s"])[:_MOST_NAMED],
        "off_roof": sorted(off_roof, key=lambda row: -row["time_share"]),
        "shares_of": "pass" if account else "time",
    }


def _ceilings(evaluated: EvaluatedDesign, used: set[str]) -> JsonRows:
    """Bandwidth of each used level, and the most of it that any operator may use."""
    ceilings = []
    for level in evaluated.levels:
        name = level["name"]
        rate = level.get("bandwidth_bytes_per_s")
        if name not in used or not rate:
            continue
        key = "on_chip_s" if name == "on_chip" else "off_chip_s"
        rates = [
            row["traffic_bytes"].get(name, 0.0) / row[key]
            for row in evaluated.operators
            if row.get(key) and isinstance(row.get("traffic_bytes"), Mapping)
        ]
        ceilings.append({
            "level": name, "title": row_title(level), "bytes_per_s": rate,
            "usable_bytes_per_s": _if_less(max(rates, default=None), rate),
        })  # fmt: skip
    return ceilings


def _if_less(usable: float | None, roof: float) -> float | None:
    """A usable roof, if it is clearly below the stated one."""
    return usable if usable and usable < _USABLE * roof else None


def _vector_operations_per_s(evaluated: EvaluatedDesign) -> float | None:
    """One operation per lane and cycle; None if the evaluator models no vector unit."""
    lanes = evaluated.design.get("vector_length")
    clock_hz = evaluated.design.get("clock_hz") or DEFAULT_CLOCK_HZ
    if not isinstance(lanes, int | float) or not isinstance(clock_hz, int | float):
        return None
    return lanes * clock_hz or None if evaluated.evaluator.offers("technologies") else None
