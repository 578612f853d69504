"""The exact front of a campaign's problem, in the shape of its results.

So that whatever shows or exports a campaign's results does the same for the truth.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from codesign.base.columns import FloatMap, IntArray, StringMap
from codesign.search.campaign.campaign_definition import Definition
from codesign.search.campaign.reference import minimized
from codesign.search.campaign.results import EXACT_RUN, Results
from codesign.search.enumeration import ExactFront
from codesign.search.observations import Observations
from codesign.search.pareto import HypervolumeTracker
from codesign.search.problem import Problem


def front_results(
    front: ExactFront,
    rows: IntArray,
    definition: Definition,
    problem: Problem,
    reference_point: FloatMap,
    versions: StringMap,
) -> Results:
    """Designs of an exact front with all their metrics.

    Args:
        front: The front, whose objectives the designs must have.
        rows: (k, d) such as ``front.rows``, or ``front.representatives()`` for one per point.
        reference_point: By objective, in natural sign.
        versions: Of the libraries.
    """
    observations = problem.evaluate(rows)
    tracker = HypervolumeTracker(minimized(problem, reference_point))
    n = len(rows)
    return Results(
        definition=definition,
        problem=problem,
        reference_point=reference_point,
        runs=(EXACT_RUN,),
        run_index=np.zeros(n, np.int64),
        step=np.arange(n),
        batch=np.zeros(n, np.int64),
        observations=observations,
        hypervolume=tracker.add_all(observations.objectives, observations.feasible),
        versions=versions,
        exact=front,
        front_run=0 if n == len(front) else None,
    )


def joined(searched: Results, exact: Results) -> Results:
    """Searched designs, followed by those of the exact front as one more run.

    The front of the two together is the exact one, with one design for each of its points; such a
    design that a search found, too, is that search's.

    Args:
        exact: Of the same campaign, by :func:`front_results`.
    """
    return replace(
        searched,
        runs=(*searched.runs, EXACT_RUN),
        front_run=len(searched.runs),
        run_index=np.concatenate([searched.run_index, np.full(len(exact), len(searched.runs))]),
        step=np.concatenate([searched.step, exact.step]),
        batch=np.concatenate([searched.batch, exact.batch]),
        observations=Observations.joined([searched.observations, exact.observations]),
        hypervolume=np.concatenate([searched.hypervolume, exact.hypervolume]),
        exact=exact.exact,
    )
