"""What an evaluator tells about one design, in the shape that a page draws.

The roofline is the hierarchical one [Yang2019]_: an operator has one point per memory level, at
the work it does per byte that crosses that level. All its points are at the same height, and
none is above the ceiling of its level, because crossing takes at least ``bytes / bandwidth``.

.. [Yang2019] C. Yang, T. Kurth, S. Williams, "Hierarchical Roofline analysis for GPUs:
   accelerating performance optimization for the NERSC-9 Perlmutter system", 2019.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from codesign.analysis.uncertainty_results import Swing
from codesign.evaluators.base import HasTechnologies
from codesign.hardware.accelerator import DEFAULT_CLOCK_HZ
from codesign.report.accuracy import FORMAT_COLUMNS, format_lines
from codesign.report.edge import edge_words, memory_edge_mm
from codesign.report.labels import format_value
from codesign.report.system_picture import SystemPicture, system_picture

if TYPE_CHECKING:
    from codesign.evaluated_design import EvaluatedDesign

_COMPUTE_TIMES = ("compute_time_s", "compute_s")
"""What evaluators call the time that an operator's arithmetic takes by itself."""
_MATRIX_TIMES = {
    "compute": "compute_time_s",
    "on-chip port": "on_chip_time_s",
    "off-chip": "off_chip_time_s",
}
"""What may bound an operator of array and memories, where the vector unit takes longer."""
_MOST_SWINGS = 6
_ROUNDING = 1e-9
_ANY_LEVEL = "memory"
_NO_MACHINE: dict[str, Any] = {
    "levels": [], "edge_mm": None, "edge_words": "", "operators": [], "pass": None,
    "roofline": None, "power": [], "power_notes": [], "busy": [], "costs": [], "formats": [],
}  # fmt: skip
"""Of a system, whose pools have these."""


@dataclass(frozen=True)
class Account:
    """One design explained.

    Attributes:
        evaluated: The design with its explanation.
        swings: By metric, what the range of each technology number does to it.
    """

    evaluated: EvaluatedDesign
    swings: Mapping[str, Sequence[Swing]] = field(default_factory=dict)


def account_document(account: Account, metrics: Iterable[str]) -> dict[str, Any]:
    """Levels, operators, roofline, power and swings of one design, as plain values.

    Of a system, its picture with those of each pool's machine.

    Args:
        account: Of the design.
        metrics: For which swings are shown.
    """
    evaluated = account.evaluated
    swings = {
        name: [_swing(item) for item in account.swings[name][:_MOST_SWINGS]]
        for name in metrics
        if account.swings.get(name)
    }
    notes = list(evaluated.notes)
    if evaluated.pools:
        counts = {row["name"]: row.get("machines", 1) for row in evaluated.explanation.timeline}
        return {
            **_NO_MACHINE,
            "swings": swings,
            "notes": notes,
            "system": _system_document(system_picture(evaluated), counts),
        }
    return _machine_document(evaluated) | {"swings": swings, "notes": notes}


def _system_document(picture: SystemPicture, counts: Mapping[str, int]) -> dict[str, Any]:
    """A system as the page draws it, with a document of each pool's machine."""
    return {
        "machines": [
            {
                "name": item.name,
                "title": item.title,
                "words": item.words,
                "count": counts[item.name],
                "account": _machine_document(item.evaluated),
            }
            for item in picture.machines
        ],
        "links": [{"name": item.name, "words": list(item.words)} for item in picture.links],
        "bars": [asdict(bar) for bar in picture.bars],
        "second_token_s": picture.second_token_s,
        "limit": picture.limit,
    }


def _machine_document(evaluated: EvaluatedDesign) -> dict[str, Any]:
    # Traffic that is not told by level crosses the only one, if there is only one.
    names = [str(level["name"]) for level in evaluated.levels]
    memory = names[0] if len(names) == 1 else _ANY_LEVEL
    operators = [_operator(row, memory) for row in evaluated.operators]
    return {
        "levels": [dict(level) for level in evaluated.levels],
        "edge_mm": memory_edge_mm(evaluated),
        "edge_words": edge_words(evaluated),
        "operators": operators,
        "pass": pass_account(evaluated),
        "roofline": roofline(operators, evaluated),
        "power": [_component(row) for row in evaluated.power],
        "power_notes": above_tdp(evaluated.power, evaluated.notes),
        "busy": [
            {"name": item["name"], "share": item["average_watts"] / item["tdp_watts"]}
            for item in _overdrawn(evaluated.power)
        ],
        "costs": [
            {"part": row["part"], "area_mm2": row["area_mm2"], "usd": row["usd"]}
            for row in evaluated.costs
            if {"part", "area_mm2", "usd"} <= set(row)
        ],
        "formats": [
            dict(zip(FORMAT_COLUMNS, line, strict=True)) for line in format_lines(evaluated)
        ],
    }


def _operator(row: Mapping[str, Any], memory: str) -> dict[str, Any]:
    """An operator of any evaluator; keys that the evaluator does not report are left out."""
    phase = str(row.get("phase", ""))
    work = row.get("work_flop")
    if work is None and "multiply_accumulates" in row:
        work = 2.0 * row["multiply_accumulates"]
    fields = {
        "name": " ".join(filter(None, [phase, str(row.get("name", "")).replace("_", " ")])),
        "bound": row.get("bound", "time"),
        "count": row.get("count"),
        "time_s": row.get("time_s"),
        "work_flop": work,
        "traffic_bytes": _traffic(row.get("traffic_bytes"), memory),
        "energy_joules": row.get("energy_joules"),
        "memory_s": row.get("memory_s"),
        "compute_s": next((row[key] for key in _COMPUTE_TIMES if key in row), None),
    }
    return {key: value for key, value in fields.items() if value is not None}


def pass_account(evaluated: EvaluatedDesign) -> dict[str, Any] | None:
    """How long one pass takes and each unit works in it; None if the evaluator does not tell.

    ``bounds`` has the time of array and memories by what sets it. Units work side by side where
    they add up to more than the pass.
    """
    rows = evaluated.operators
    lasting = [
        (level["read_bytes"] + level["written_bytes"])
        / (level["bandwidth_bytes_per_s"] * level["utilization"])
        for level in evaluated.levels
        if level.get("utilization") and {"read_bytes", "written_bytes"} <= set(level)
    ]
    if not lasting or not all({"matrix_time_s", "vector_time_s"} <= set(row) for row in rows):
        return None
    bounds: dict[str, float] = {}
    for row in rows:
        if row["matrix_time_s"]:
            bound = str(row["bound"])
            if bound == "vector":
                bound = max(_MATRIX_TIMES, key=lambda name: row[_MATRIX_TIMES[name]])
            bounds[bound] = bounds.get(bound, 0.0) + row["matrix_time_s"]
    matrix_s, vector_s = sum(bounds.values()), sum(row["vector_time_s"] for row in rows)
    return {
        "pass_s": lasting[0],
        "matrix_s": matrix_s,
        "vector_s": vector_s,
        "bounds": bounds,
        "is_side_by_side": matrix_s + vector_s > lasting[0] * (1 + _ROUNDING),
    }


def _traffic(moved: Any, memory: str) -> dict[str, float] | None:
    if isinstance(moved, Mapping):
        return {str(level): float(value) for level, value in moved.items()}
    return None if moved is None else {memory: float(moved)}


def roofline(
    operators: Sequence[Mapping[str, Any]], evaluated: EvaluatedDesign
) -> dict[str, Any] | None:
    """Ceilings and one point per operator and memory level; None if work or traffic is unknown.

    Args:
        operators: Rows of :func:`account_document`.
        evaluated: The design.
    """
    points = [
        {
            "operator": item["name"],
            "level": level,
            "flop_per_byte": item["work_flop"] / moved,
            "flop_per_s": item["work_flop"] / item["time_s"],
            "time_s": item["time_s"],
        }
        for item in operators
        if item.get("work_flop") and item.get("time_s")
        for level, moved in item.get("traffic_bytes", {}).items()
        if moved > 0
    ]
    peak = _peak_flop_per_s(operators, evaluated)
    if not points or not peak:
        return None
    used = {point["level"] for point in points}
    ceilings = [
        {
            "level": level["name"],
            "bytes_per_s": level["bandwidth_bytes_per_s"],
            "usable_bytes_per_s": _usable_bytes_per_s(evaluated, level["name"]),
        }
        for level in evaluated.levels
        if level["name"] in used and level.get("bandwidth_bytes_per_s")
    ]
    return {
        "unit": _operation_unit(evaluated),
        "peak_flop_per_s": peak,
        "usable_flop_per_s": _fastest_flop_per_s(operators),
        "vector_per_s": _vector_operations_per_s(evaluated),
        "ceilings": ceilings,
        "points": points,
    }


def _operation_unit(evaluated: EvaluatedDesign) -> str:
    """``OP`` where the array multiplies integers, whatever scales they share; else ``FLOP``."""
    formats = [
        str(evaluated.design.get(f"{kind}_format") or "") for kind in ("weight", "activation")
    ]
    parts = [part.split("*")[-1] for text in formats for part in text.split("+")]
    return "OP" if all(part.startswith(("int", "mxint")) for part in parts) else "FLOP"


def _usable_bytes_per_s(evaluated: EvaluatedDesign, level: str) -> float | None:
    """The highest rate at which the evaluator lets any operator use a level; None if unknown."""
    key = "on_chip_time_s" if level == "on_chip" else "off_chip_time_s"
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
    if not isinstance(evaluated.evaluator, HasTechnologies):
        return None
    if not isinstance(lanes, int | float) or not isinstance(clock_hz, int | float):
        return None
    return lanes * clock_hz or None


def _peak_flop_per_s(
    operators: Sequence[Mapping[str, Any]], evaluated: EvaluatedDesign
) -> float | None:
    """As the evaluator states it, or the fastest that it lets any operator compute."""
    stated = evaluated.metrics.get("peak_flop_per_s")
    if stated:
        return float(stated)
    return _fastest_flop_per_s(operators)


def _fastest_flop_per_s(operators: Sequence[Mapping[str, Any]]) -> float | None:
    """The highest rate at which the evaluator lets any operator compute."""
    rates = [
        item["work_flop"] / item["compute_s"]
        for item in operators
        if item.get("compute_s") and item.get("work_flop")
    ]
    return max(rates, default=None)


def _component(row: Mapping[str, Any]) -> dict[str, Any]:
    name = row.get("component", row.get("name", ""))
    return {
        "name": str(name).replace("_", " "),
        "tdp_watts": row.get("tdp_watts"),
        "average_watts": row.get("average_watts"),
    }


def above_tdp(power: Sequence[Mapping[str, Any]], notes: Sequence[str]) -> list[str]:
    """Why components draw more on average than their TDP, as far as the evaluator says.

    A TDP is a component's energy in the time that it needs by itself; an average is over the time
    that the whole work takes. So the average is above the TDP where the model lets a component
    work in less time than it needs.

    Args:
        power: Rows of an explanation.
        notes: The assumptions of the same explanation.

    Returns:
        One sentence per component, with the first assumption that names it.
    """
    sentences = []
    for item in _overdrawn(power):
        tdp, average = item["tdp_watts"], item["average_watts"]
        words = re.compile(rf"\b{re.escape(item['name'])}\b")
        why = next((note for note in notes if words.search(note)), None)
        numbers = f"{format_value(average, 'W', 3)} on average, {format_value(tdp, 'W', 3)} at TDP"
        reason = f"The evaluator assumes: {why}" if why else "The assumptions below do not say why"
        sentences.append(
            f"{item['name']}: {numbers}. Its energy is counted, and spread over less time than it "
            f"needs at its TDP. {reason}."
        )
    return sentences


def _overdrawn(power: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Components that draw more on average than their TDP."""
    components = map(_component, power)
    return [
        item
        for item in components
        if item["tdp_watts"]
        and item["average_watts"] is not None
        and item["average_watts"] > item["tdp_watts"] * (1 + _ROUNDING)
    ]


def _swing(swing: Swing) -> dict[str, Any]:
    return {
        "name": f"{swing.technology} {swing.number.replace('_', ' ')}",
        "low": swing.at_low,
        "high": swing.at_high,
    }
