"""What an evaluator tells about one design, in the shape that a page draws."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from codesign.insight.uncertainty.uncertainty_results import Swing
from codesign.report.accuracy_tables import FORMAT_COLUMNS, format_lines
from codesign.report.edge import edge_words, memory_edge_mm
from codesign.report.labels import bank_words, format_value, row_title
from codesign.report.pass_account import pass_account
from codesign.report.roofline_picture import operator_documents, roofline
from codesign.report.system_picture import SystemPicture, system_picture

if TYPE_CHECKING:
    from codesign.base.evaluator import Explanation
    from codesign.insight.evaluated_design import EvaluatedDesign

_MOST_SWINGS = 6
_ROUNDING = 1e-9
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
    operators = operator_documents(evaluated)
    return {
        "levels": [_level(row) for row in evaluated.levels],
        "edge_mm": memory_edge_mm(evaluated),
        "edge_words": edge_words(evaluated),
        "operators": operators,
        "pass": pass_account(evaluated),
        "roofline": roofline(operators, evaluated),
        "power": [_component(row) for row in evaluated.power],
        "power_notes": above_tdp(evaluated.explanation),
        "busy": [
            {"name": row_title(item), "share": item["average_watts"] / item["tdp_watts"]}
            for item in _overdrawn(evaluated.power)
        ],
        "costs": [
            {
                "title": row_title(row),
                "component": row.get("component"),
                "area_mm2": row["area_mm2"],
                "usd": row["usd"],
            }
            for row in evaluated.costs
            if {"area_mm2", "usd"} <= set(row)
        ],
        "formats": [
            dict(zip(FORMAT_COLUMNS, line, strict=True)) for line in format_lines(evaluated)
        ],
    }


def _level(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **row,
        "title": row_title(row),
        "technology": bank_words(row).replace("_", " "),
        "count": sum(bank["count"] for bank in row.get("banks", ())) or 1,
    }


def _component(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": row["name"],
        "title": row_title(row),
        "tdp_watts": row.get("tdp_watts"),
        "average_watts": row.get("average_watts"),
    }


def above_tdp(explanation: Explanation) -> list[str]:
    """Why components draw more on average than their TDP, as far as the evaluator says.

    A TDP is a component's energy in the time that it needs by itself; an average is over the time
    that the whole work takes. So the average is above the TDP where the model lets a component
    work in less time than it needs.

    Returns:
        One sentence per component, with the assumption on its time.
    """
    sentences = []
    for item in _overdrawn(explanation.power):
        tdp, average = item["tdp_watts"], item["average_watts"]
        why = explanation.timing_notes.get(item["name"])
        numbers = f"{format_value(average, 'W', 3)} on average, {format_value(tdp, 'W', 3)} at TDP"
        reason = f"The evaluator assumes: {why}" if why else "The assumptions below do not say why"
        sentences.append(
            f"{row_title(item)}: {numbers}. Its energy is counted, and spread over less time than "
            f"it needs at its TDP. {reason}."
        )
    return sentences


def _overdrawn(power: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Components that draw more on average than their TDP."""
    return [
        row
        for row in power
        if (tdp := row.get("tdp_watts"))
        and (average := row.get("average_watts")) is not None
        and average > tdp * (1 + _ROUNDING)
    ]


def _swing(swing: Swing) -> dict[str, Any]:
    return {
        "name": f"{swing.technology} {swing.number.replace('_', ' ')}",
        "low": swing.at_low,
        "high": swing.at_high,
    }
