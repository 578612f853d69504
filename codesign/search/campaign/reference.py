"""The reference point that bounds a campaign's hypervolume, fixed before the first run.

Unless the definition gives it, it is the worst value of each objective among the feasible designs
of a sample. Where a constraint bounds an objective from its bad side, as ``tdp_watts <= 700``
bounds a TDP to minimize, that bound is taken: no feasible design lies beyond it. The sample counts
in no budget; its observations are stored.

For evaluators of this package the sample is uniform over the admissible designs and depends on the
problem alone. If hardly any of it is feasible, feasible designs are searched for. Simulators are
slow: there the sample are the initial designs of the first seed, whose runs have them for nothing.

A point from fewer than :data:`ENOUGH` feasible designs is provisional. Runs begin with it, for an
optimizer needs a scale; results are bounded by the worst of all feasible designs of the sample and
of the runs, so that no design that breaks a limit decides.
"""

from __future__ import annotations

import numpy as np

from codesign.base.columns import FloatArray, FloatDict, FloatMap, IntArray
from codesign.base.errors import InfeasibleError, JobError
from codesign.base.metrics import flipped_columns
from codesign.base.records import frozen
from codesign.search.campaign.feasible_search import feasible_objectives
from codesign.search.campaign.observations import SAMPLE, StoredObservations
from codesign.search.campaign.store import Store
from codesign.search.execution.answers import Evaluate
from codesign.search.observations import Observations
from codesign.search.pareto import HypervolumeTracker
from codesign.search.problem import Problem, bound_on

SEED = 20_000
"""Seed of the sample; no run's seed is meant to equal it."""
DRAWS = 4096
"""Designs drawn at a time."""
MOST_ROUNDS = 250
"""Draws before the space is said to have no admissible design: about a million designs."""
ENOUGH = 8
"""Feasible designs from which a reference point is relied on."""
TRIALS = 8
"""Designs tried until one is evaluated, to learn which limits an evaluator reports."""


class FailedSampleError(JobError):
    """No design of a reference sample could be evaluated."""


@frozen
class Reference:
    """Values that are fixed before the first run.

    Attributes:
        point: Reference value by objective metric, in natural sign.
        bounds: Those of them that a constraint sets.
        is_provisional: Whether too few feasible designs are known to rely on the point.
        is_of_feasible: Whether feasible designs are behind it; if not, it is a scale for optimizers
            and bounds no result.
    """

    point: FloatMap
    bounds: FloatMap
    is_provisional: bool
    is_of_feasible: bool
    sample: Observations


def find_reference(
    problem: Problem,
    rows: IntArray,
    stated_point: FloatMap | None,
    evaluate: Evaluate | None = None,
    searches: bool = True,
) -> Reference:
    """The reference point of a problem.

    Args:
        rows: (k, d) the sample. If the definition gives the point, they are evaluated until one has
            a result, to learn which limits the evaluator reports.
        stated_point: The point, if the definition gives it.
        evaluate: Evaluates designs; the problem's own if None.
        searches: Whether to search for feasible designs if the sample has too few.

    Raises:
        FailedSampleError: No design of the sample could be evaluated.
    """
    evaluate = evaluate or problem.evaluate
    if stated_point is None:
        observations = evaluate(rows)
    else:  # designs up to the first that can be evaluated
        batches = []
        for row in rows:
            batches.append(evaluate(row[None, :]))
            if not batches[-1].failed.any():
                break
        observations = Observations.joined(batches)
    if observations.failed.all():
        reason = next(iter(observations.failures.values()))
        raise FailedSampleError(
            f"evaluator {problem.evaluator_name!r} failed on all {len(rows)} designs of the "
            f"reference sample, for example with: {reason}"
        )
    if stated_point is not None:
        return Reference(stated_point, stated_point, False, True, observations)
    kept_objectives = observations.objectives[observations.feasible]
    if len(kept_objectives) < ENOUGH and searches:
        kept_objectives = feasible_objectives(problem, observations, evaluate, ENOUGH)
    is_of_feasible = len(kept_objectives) > 0
    scale = kept_objectives if is_of_feasible else observations.objectives[~observations.failed]
    bounds = _bounds(problem)
    point = worst_point(problem, scale) | bounds
    return Reference(point, bounds, len(kept_objectives) < ENOUGH, is_of_feasible, observations)


def worst_point(problem: Problem, objectives: FloatArray) -> FloatDict:
    """Worst value of each objective among (n, m) minimized ones, in natural sign."""
    worst = zip(problem.objectives, objectives.max(axis=0).tolist(), strict=True)
    return {objective.metric.name: objective.flipped(value) for objective, value in worst}


def settled(
    store: Store, stored: StoredObservations, exact_front: FloatArray | None = None
) -> tuple[FloatDict, FloatArray]:
    """The reference point of results, and (n,) the hypervolume of each run so far.

    As stored, but where the stored point is provisional and feasible designs are known by now.

    Args:
        stored: The campaign's observations of all runs.
        exact_front: (p, m) the exact front, if it is known: it settles the point where neither the
            sample nor a run has a feasible design.
    """
    point = store.meta["reference_point"]
    layout = store.layout
    sources = (store.read(SAMPLE).observations, stored.observations)
    objectives = np.concatenate(
        [observations.objectives[observations.feasible] for observations in sources]
    )
    if not len(objectives) and exact_front is not None:
        objectives = exact_front
    if not store.meta.get("reference_is_provisional", False) or not len(objectives):
        return dict(point), stored.hypervolume
    worst = flipped_columns(objectives.max(axis=0), layout.senses).tolist()
    bounds = store.meta["reference_bounds"]
    point = dict(zip(layout.objectives, worst, strict=True)) | bounds
    natural = np.array([point[name] for name in layout.objectives])
    reference = flipped_columns(natural, layout.senses)
    hypervolume = np.zeros(len(stored))
    for run in range(len(store.runs)):
        ours = np.flatnonzero(stored.run == run)
        points = stored.observations.objectives[ours]
        feasible = stored.observations.feasible[ours]
        hypervolume[ours] = HypervolumeTracker(reference).add_all(points, feasible)
    return point, hypervolume


def admissible_sample(problem: Problem, n: int) -> IntArray:
    """(k, d) up to ``n`` designs, uniform over the admissible ones, with replacement.

    Raises:
        InfeasibleError: None was found; says which limits stand in the way.
    """
    rng = np.random.default_rng(SEED)
    admitted_rows = []
    missing = n
    for _ in range(MOST_ROUNDS):
        rows = problem.space.sample(rng, DRAWS)
        rows = rows[problem.admits(rows)][:missing]
        admitted_rows.append(rows)
        missing -= len(rows)
        if not missing:
            break
    if missing == n:
        violations = problem.known_violations(problem.space.sample(rng, DRAWS))
        shares = {name: float((~(values <= 0)).mean()) for name, values in violations.items()}
        worst = sorted(shares.items(), key=lambda pair: -pair[1])[:3]
        blame = ", ".join(f"{name!r} excludes {share:.0%}" for name, share in worst if share > 0)
        raise InfeasibleError(
            f"no design of space {problem.space.name!r} meets every limit that is known before "
            f"evaluation ({MOST_ROUNDS * DRAWS:,} were drawn): {blame or 'the limits contradict'}"
        )
    return np.concatenate(admitted_rows)


def _bounds(problem: Problem) -> FloatDict:
    """Tightest bound from the bad side that a constraint sets, by objective."""
    tightest = {}
    for objective in problem.objectives:
        bounds = [
            objective.flipped(bound)
            for constraint in problem.constraints
            if (bound := bound_on(objective.metric, objective.sense, constraint.expression))
            is not None
        ]
        if bounds:
            tightest[objective.metric.name] = objective.flipped(min(bounds))
    return tightest


def minimized(problem: Problem, point: FloatMap) -> FloatArray:
    """(m,) the reference point as the search sees it."""
    return np.array(
        [objective.flipped(point[objective.metric.name]) for objective in problem.objectives]
    )
