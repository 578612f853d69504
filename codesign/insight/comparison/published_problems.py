"""Prove published fronts of the public set again (``codesign compare problems --verify``)."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path

from codesign.base.errors import InputError
from codesign.insight.comparison.truth import problem_of
from codesign.search.campaign.campaign_definition import ResolvedDefinition, load_definition
from codesign.search.campaign.reference import minimized
from codesign.search.pareto import hypervolume
from codesign.search.problems import problem_records
from codesign.search.problems.problem_records import CAMPAIGN, FOLDER, MOST_LISTED, ProblemRecord
from codesign.search.problems.proof import ProvenFront, limits_of, prove

SAME = 1e-9
"""Relative difference up to which numbers are the same: the last digits of functions such as a
sine differ between processors."""


def proven(definition: ResolvedDefinition, folder: Path) -> ProvenFront:
    """The exact front of a problem of the set, computed in ``folder``."""
    return prove(definition.problem, folder, partial(problem_of, definition.path))


def files_of(
    name: str, family: str, version: int, definition: ResolvedDefinition, front: ProvenFront
) -> tuple[ProblemRecord, str]:
    """The record and the text of the front of a version of a problem."""
    problem = definition.problem
    point = definition.reference_point
    if point is None:
        raise InputError(f"{definition.path.name}: a problem of the set needs a reference_point")
    is_listed = len(front.objectives) <= MOST_LISTED
    text = problem_records.front_text(
        problem.space.decode(front.rows) if is_listed else None,
        problem.objective_names,
        problem.flipped(front.objectives) + 0.0,  # no negative zeros
        front.counts,
    )
    record = ProblemRecord(
        name=name,
        version=version,
        kind=family,
        objectives=tuple(map(str, problem.objectives)),
        limits=limits_of(problem),
        n_designs=problem.space.size,
        feasible_share=front.feasible_share,
        n_feasible=front.n_feasible,
        front_points=len(front.objectives),
        front_designs=sum(front.counts),
        reference_point=dict(point),
        hypervolume=hypervolume(front.objectives, minimized(problem, point)),
        proof=front.proof,
        definition_sha256=problem_records.definition_digest(problem, point),
        front_sha256=problem_records.digest(text.encode()),
    )
    return record, text


def differences(record: ProblemRecord, folder: Path) -> list[str]:
    """Differences from the published front, one line each, after it was computed from scratch."""
    definition = load_definition(CAMPAIGN + record.name)
    again, text = files_of(
        record.name, record.kind, record.version, definition, proven(definition, folder)
    )
    exact = record.model_dump(exclude={"hypervolume", "feasible_share", "front_sha256"})
    lines = [
        f"{record.label}: {key}: published {value}, got {getattr(again, key)}"
        for key, value in exact.items()
        if getattr(again, key) != value
    ]
    for key in ("hypervolume", "feasible_share"):
        published = getattr(record, key)
        now = getattr(again, key)
        if not _is_same(repr(published), repr(now)):
            lines.append(f"{record.label}: {key}: published {published!r}, got {now!r}")
    problem_records.read_front(record)  # the file is the one that was published
    before = (FOLDER / f"{record.label}.csv").read_text(encoding="utf-8")
    cells, cells_now = ([line.split(",") for line in x.splitlines()] for x in (before, text))
    if len(cells) != len(cells_now) or not all(
        len(row) == len(row_now) and all(map(_is_same, row, row_now))
        for row, row_now in zip(cells, cells_now, strict=True)
    ):
        lines.append(f"{record.label}: the designs or the points of the front differ")
    return lines


def _is_same(cell: str, cell_now: str) -> bool:
    """Whether two cells are equal, or numbers of which hardly a digit differs."""
    try:
        return cell == cell_now or math.isclose(
            float(cell), float(cell_now), rel_tol=SAME, abs_tol=1e-12
        )
    except ValueError:
        return False
