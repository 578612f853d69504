"""The reference point that bounds a campaign's hypervolume, fixed before the first run.

Unless the definition gives it, it is the worst value of each objective among the feasible
designs of a uniform sample. Where a constraint bounds an objective from its bad side, as
``tdp_watts <= 700`` bounds a TDP to minimize, that bound is taken: no feasible design lies
beyond it. The sample depends on the problem alone, so every optimizer and seed shares it; it
counts in no budget.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from codesign.columns import FloatArray, IntArray
from codesign.errors import InputError, JobError
from codesign.problem import Objective, Observations, Problem
from codesign.units import parse_quantity

SEED = 20_000
"""Of the sample; no run's seed is meant to equal it."""
DRAWS = 4096
"""Designs drawn at a time."""
MOST_ROUNDS = 250
"""Draws before the space is said to have no admissible design: about a million designs."""
TRIALS = 8
"""Designs tried until one is evaluated, to learn which limits an evaluator reports."""

_BOUND = re.compile(r"^\s*(\w+)\s*(<=|<|>=|>)\s*([^<>=]+?)\s*$")


@dataclass(frozen=True)
class Reference:
    """What is fixed before the first run.

    Attributes:
        point: Reference value by objective metric, in natural sign.
        violation_names: What the evaluator and the constraints report.
    """

    point: Mapping[str, float]
    violation_names: tuple[str, ...]


def find_reference(problem: Problem, n: int, stated_point: Mapping[str, float] | None) -> Reference:
    """The reference point of a problem.

    Args:
        problem: The problem.
        n: Size of the sample.
        stated_point: The point, if the definition gives it; then a single design is evaluated.

    Raises:
        InputError: The space has no admissible design.
        JobError: No design of the sample could be evaluated.
    """
    observations = (
        _trial(problem) if stated_point else problem.evaluate(admissible_sample(problem, n))
    )
    if observations.failed.all():
        reason = next(iter(observations.failures.values()))
        raise JobError(
            f"evaluator {problem.evaluator_name!r} failed on all {len(observations.rows)} designs "
            f"of the reference sample, the first time with: {reason}"
        )
    point = stated_point or _worst(problem, observations)
    return Reference(point, observations.violation_names)


def admissible_sample(problem: Problem, n: int) -> IntArray:
    """(k, d) up to ``n`` designs, uniform over the admissible ones, with replacement.

    Raises:
        InputError: None was found; says which limits stand in the way.
    """
    rng = np.random.default_rng(SEED)
    admitted_rows: list[IntArray] = []
    missing = n
    for _ in range(MOST_ROUNDS):
        rows = problem.space.sample(rng, DRAWS)
        rows = rows[problem.admits(rows)][:missing]
        admitted_rows.append(rows)
        missing -= len(rows)
        if not missing:
            break
    if missing == n:
        raise InputError(_no_design(problem, rng))
    return np.concatenate(admitted_rows)


def _no_design(problem: Problem, rng: np.random.Generator) -> str:
    known = problem.known_violations(problem.space.sample(rng, DRAWS))
    shares = {name: float((~(values <= 0)).mean()) for name, values in known.items()}
    worst = sorted(shares.items(), key=lambda item: -item[1])[:3]
    blame = ", ".join(f"{name!r} excludes {share:.0%}" for name, share in worst if share > 0)
    return (
        f"no design of space {problem.space.name!r} meets every limit that is known before "
        f"evaluation ({MOST_ROUNDS * DRAWS:,} were drawn): {blame or 'the limits contradict'}"
    )


def _trial(problem: Problem) -> Observations:
    """The first design of a few that the evaluator can evaluate, or the last that it cannot."""
    for row in admissible_sample(problem, TRIALS):
        observations = problem.evaluate(row[None, :])
        if not observations.failed.any():
            break
    return observations


def _worst(problem: Problem, observations: Observations) -> dict[str, float]:
    # Without a feasible design, the infeasible ones still give the scale.
    kept = observations.feasible if observations.feasible.any() else ~observations.failed
    point = {}
    for j, objective in enumerate(problem.objectives):
        worst = float(observations.objectives[kept, j].max()) * objective.sign
        bounds = [
            bound
            for constraint in problem.constraints
            if (bound := _bound(constraint.text, objective)) is not None
        ]
        # Of several bounds the tightest holds.
        tightest = min(bounds, key=lambda bound: bound * objective.sign, default=worst)
        point[objective.metric.name] = tightest
    return point


def _bound(text: str, objective: Objective) -> float | None:
    """The number at which a constraint bounds an objective from its bad side."""
    match = _BOUND.match(text)
    if match is None or match[1] != objective.metric.name:
        return None
    if match[2].startswith("<") != (objective.sense == "minimize"):
        return None
    unit = objective.metric.unit
    for expected in (unit, ""):  # "700 W", or 700 in the unit that the metric's name says
        try:
            return parse_quantity(match[3], expected)
        except InputError:
            continue
    return None


def minimized(problem: Problem, point: Mapping[str, float]) -> FloatArray:
    """(m,) the reference point as the search sees it."""
    return np.array([item.sign * point[item.metric.name] for item in problem.objectives])
