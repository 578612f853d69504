"""The exact front of a problem of the set, and how it is proven.

``enumeration``
    Every design is evaluated, or shown to be off the front by a bound of the evaluator.
``composition``
    A system's front follows from the exact fronts of its pools (docs/exact-fronts.md).
``reduction``
    Some parameters change nothing: the designs with the first value of each are enumerated, and
    each point stands for all values of the others.
``closed form``
    ZDT on a grid with the optimum of its distance variables: the published curve at the levels of
    the position (codesign/evaluators/functions/zdt_and_dtlz.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from codesign.base.columns import BoolArray, FloatArray, IntArray, IntegerTuple, StringTuple
from codesign.base.errors import JobError
from codesign.base.records import frozen
from codesign.evaluators.functions import BenchmarkFunctions
from codesign.evaluators.functions import exact_front as front_in_closed_form
from codesign.evaluators.functions.zdt_and_dtlz import CLOSED_FORM
from codesign.search.enumeration import exact_front
from codesign.search.enumeration.composition import is_composed
from codesign.search.pareto import non_dominated
from codesign.search.problem import Problem
from codesign.search.problems.problem_records import ProofKind

_MOST_COUNTED = 5_000_000
"""Designs that are all evaluated to count the feasible ones."""
_MOST_ENUMERATED = 10**8
"""Designs of a test function, which has no bounds."""
_SAMPLE = 20_000
_SAMPLE_OF_LIMITS = 2_000
_SEED = 0
_CHUNK = 1 << 16


@frozen
class ProvenFront:
    """An exact front and its proof.

    Attributes:
        objectives: (p, m) distinct points, minimized, in lexicographic order.
        rows: (p, d) a design of each.
        counts: (p,) designs of each.
        n_feasible: Feasible designs of the space; None if they were not counted.
        feasible_share: Of all designs.
    """

    proof: ProofKind
    objectives: FloatArray
    rows: IntArray
    counts: IntegerTuple
    n_feasible: int | None
    feasible_share: float


def prove(problem: Problem, folder: Path, rebuild: Callable[[], Problem]) -> ProvenFront:
    """The exact front of a problem.

    Args:
        folder: Where fronts of large spaces are kept until they are complete.
        rebuild: How a worker gets the problem.

    Raises:
        JobError: The proof does not hold for this problem.
    """
    evaluator = problem.evaluator
    if isinstance(evaluator, BenchmarkFunctions):
        if evaluator.options.unused:
            unused = evaluator.unused_parameters & set(problem.space.names)
            values = {
                parameter.name: parameter.values
                for parameter in problem.space.parameters
                if parameter.name in unused
            }
            space = problem.space.fix({name: levels[0] for name, levels in values.items()})
            factor = math.prod(map(len, values.values()))
            named = any(constraint.expression.names & unused for constraint in problem.constraints)
            if named or space.size * factor != problem.space.size:
                raise JobError(
                    f"a constraint of space {space.name!r} or of the problem names unused ones"
                )
            front = _enumerated(replace(problem, space=space), folder)
            assert front.n_feasible is not None
            return replace(
                front,
                proof="reduction",
                counts=tuple(count * factor for count in front.counts),
                n_feasible=front.n_feasible * factor,
            )
        if problem.space.size > _MOST_ENUMERATED:
            return _closed_form(problem, evaluator)
    return _enumerated(problem, folder, rebuild)


def _enumerated(
    problem: Problem, folder: Path, rebuild: Callable[[], Problem] | None = None
) -> ProvenFront:
    front = exact_front(problem, folder, rebuild=rebuild)
    size = problem.space.size
    n_feasible = None
    if isinstance(problem.evaluator, BenchmarkFunctions) and size <= _MOST_COUNTED:
        chunks = (np.arange(start, min(start + _CHUNK, size)) for start in range(0, size, _CHUNK))
        n_feasible = sum(int(_feasible(problem, problem.space.rows(x)).sum()) for x in chunks)
    if n_feasible is None:
        rows = problem.space.sample(np.random.default_rng(_SEED), _SAMPLE)
        feasible_share = float(_feasible(problem, rows).mean())
    else:
        feasible_share = n_feasible / size
    return ProvenFront(
        "composition" if is_composed(problem) else "enumeration",
        front.objectives,
        front.representatives(),
        tuple(front.counts.tolist()),
        n_feasible,
        feasible_share,
    )


def _closed_form(problem: Problem, evaluator: BenchmarkFunctions) -> ProvenFront:
    """ZDT's front: each level of the position with every distance at its optimum, 0."""
    name = evaluator.options.function
    space = problem.space
    first, *distances = space.parameters
    if name not in CLOSED_FORM or name == "dtlz2" or any(0 not in x.values for x in distances):
        raise JobError(f"no front in closed form of {name} on space {space.name!r}")
    optimum = {distance.name: 0 for distance in distances}
    rows = np.concatenate([space.encode({first.name: x, **optimum}) for x in first.values])
    objectives = problem.evaluate(rows).objectives
    positions = np.array(first.values, np.float64)[:, None] / evaluator.options.steps
    points = front_in_closed_form(name, positions)
    is_best = non_dominated(objectives)
    order = np.lexsort(objectives[is_best].T[::-1])
    if not np.allclose(objectives[is_best][order], points, rtol=1e-12, atol=1e-12):
        raise JobError(f"the designs of {name}'s front do not have the points of its closed form")
    return ProvenFront(
        "closed form",
        objectives[is_best][order],
        rows[is_best][order],
        (1,) * len(points),
        space.size,
        1.0,
    )


def limits_of(problem: Problem) -> StringTuple:
    """The problem's constraints, and the evaluator's limits that a sampled design breaks."""
    rows = problem.space.sample(np.random.default_rng(_SEED), _SAMPLE_OF_LIMITS)
    observed = problem.evaluate(rows[problem.admits(rows)], problem.deciding_metrics)
    stated = [constraint.text for constraint in problem.constraints]
    others = [name for name in observed.violation_names if name not in stated]
    columns = observed.violations_by_name
    return (*stated, *(name for name in others if (columns[name] > 0).any()))


def _feasible(problem: Problem, rows: IntArray) -> BoolArray:
    admitted = problem.admits(rows)
    admitted[admitted] = problem.evaluate(rows[admitted], problem.deciding_metrics).feasible
    return admitted
