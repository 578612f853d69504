"""The exact front of a campaign's problem, in the shape of its results.

So that whatever shows or exports a campaign's results does the same for the truth.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from codesign.campaign.definition import Definition
from codesign.campaign.observations import Run
from codesign.campaign.reference import minimized
from codesign.campaign.results import Results
from codesign.columns import IntArray
from codesign.enumeration import ExactFront
from codesign.pareto import HypervolumeTracker
from codesign.problem import Problem

RUN = Run("exact", 0)
"""In the place of an optimizer and its seed."""


def front_results(
    front: ExactFront,
    rows: IntArray,
    definition: Definition,
    problem: Problem,
    reference_point: Mapping[str, float],
    versions: Mapping[str, str],
) -> Results:
    """Designs of an exact front with all their metrics.

    Args:
        front: The front, whose objectives the designs must have.
        rows: (k, d) such as ``front.rows``, or ``front.representatives()`` for one per point.
        definition: The campaign's.
        problem: The campaign's.
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
        runs=(RUN,),
        run_index=np.zeros(n, dtype=np.int64),
        step=np.arange(n),
        batch=np.zeros(n, dtype=np.int64),
        rows=rows,
        metrics=observations.metrics,
        objectives=observations.objectives,
        violations=dict(zip(observations.violation_names, observations.violations.T, strict=True)),
        feasible=observations.feasible,
        failed=observations.failed,
        reasons=observations.failures,
        hypervolume=np.array([tracker.add(point) for point in observations.objectives]),
        versions=versions,
        exact=front,
    )
