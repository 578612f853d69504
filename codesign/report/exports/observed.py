"""What every export says of a campaign: where its numbers come from, and its observations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from codesign.base.columns import IntArray
from codesign.report.json_values import to_plain
from codesign.search.pareto import TOLERANCE

if TYPE_CHECKING:
    from codesign.search.campaign import Results

CHUNK = 10_000
"""Observations decoded at a time, so that memory does not grow with the campaign."""


def provenance(results: Results, scope: str = "front") -> dict[str, Any]:
    """What the numbers depend on: versions, definition, resolved problem, reference point."""
    objectives = results.problem.objectives
    return {
        "campaign": results.definition.name,
        "scope": scope,
        **({"tolerance": TOLERANCE} if scope == "folded" else {}),
        "state": results.state,
        "evaluated": _evaluated(results),
        "evaluator": to_plain(results.reading),
        "versions": dict(results.versions),
        "objectives": {objective.metric.name: objective.sense for objective in objectives},
        "reference_point": to_plain(results.reference_point),
        "definition": to_plain(results.definition),
        "problem": to_plain(results.problem.provenance()),
        **({"accepted_changes": to_plain(results.accepted)} if results.accepted else {}),
    }


def _evaluated(results: Results) -> str:
    """How much of what was asked for the results are; less before a campaign ends."""
    if results.is_enumerated:
        return "the exact front, by enumeration"
    return f"{len(results.rows):,} of {results.definition.budget * len(results.runs):,}"


def progress_words(results: Results) -> str:
    """``complete``, or ``stopped, 120 of 1,200 evaluated``."""
    if results.state == "complete":
        return results.state
    return f"{results.state}, {_evaluated(results)} evaluated"


def observations(results: Results, positions: IntArray) -> Iterator[dict[str, Any]]:
    """One plain mapping per observation; absent parameters are left out of its design."""
    for start in range(0, len(positions), CHUNK):
        chunk = positions[start : start + CHUNK]
        designs = results.problem.space.decode(results.rows[chunk])
        for position, design in zip(chunk.tolist(), designs, strict=True):
            yield _observation(results, position, design)


def _observation(results: Results, position: int, design: Mapping[str, Any]) -> dict[str, Any]:
    run = results.runs[int(results.run_index[position])]
    return {
        "optimizer": run.optimizer,
        "seed": run.seed,
        "step": int(results.step[position]),
        "design": plain_design(design),
        "metrics": {name: to_plain(values[position]) for name, values in results.metrics.items()},
        "violations": {
            name: to_plain(values[position]) for name, values in results.violations.items()
        },
        "feasible": bool(results.feasible[position]),
        "failed": bool(results.failed[position]),
        "status": results.status_word(position),
        "reason": results.reasons.get(position),
        "hypervolume": to_plain(results.hypervolume[position]),
        **({"inputs": int(results.epoch[position])} if results.accepted else {}),
    }


def plain_design(design: Mapping[str, Any]) -> dict[str, Any]:
    """The present parameters of a design as JSON values."""
    return {name: to_plain(value) for name, value in design.items() if value is not None}
