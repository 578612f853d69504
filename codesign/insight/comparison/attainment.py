"""Attainment surfaces: what a share of an optimizer's runs reached.

Grunert da Fonseca, Fonseca and Hall (2001): a point is attained by a run whose front dominates or
equals it; the surface of 50 % bounds what half of the runs attained. Two objectives.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from codesign.base.columns import FloatArray, FloatSequence
from codesign.insight.comparison.outcome import ProblemOutcome

PERCENTILES = (25.0, 50.0, 75.0)
"""Quartiles of the runs."""


def attainment_surfaces(
    problem: ProblemOutcome, optimizer: str, percentiles: FloatSequence = PERCENTILES
) -> Mapping[float, FloatArray]:
    """(k, 2) corners of each surface, minimized, by percentile; empty if it attains nothing.

    A run without a feasible design attains nothing, so it counts among the runs but adds no
    point: the surface of 50 % is empty where half of the runs found none.

    Args:
        problem: With two objectives.
        percentiles: Share of the runs, in percent.
    """
    runs = problem.runs_of(optimizer)
    fronts = [run.front for run in runs if len(run.front)]
    surfaces = {level: np.empty((0, 2)) for level in percentiles}
    if not fronts:
        return surfaces
    import moocore

    points = np.concatenate(fronts)
    sets = np.repeat(np.arange(len(fronts)), [len(front) for front in fronts])
    for level in percentiles:
        # moocore counts only the sets that it is given.
        n_needed = level * len(runs) / len(fronts)
        if n_needed <= 100.0:
            surfaces[level] = moocore.eaf(points, sets, percentiles=[n_needed])[:, :2]
    return surfaces
