"""Whether a stated reference point lies where feasible designs do.

A point that is better than every feasible design in some objective gives hypervolume 0 to all of
them; one that is far worse gives nearly everything to the first design that comes. Either way
hypervolume tells nothing, so both are said, with the nearest value. Points that are not stated come
from feasible designs (:mod:`codesign.search.campaign.reference`): where there are only a few, each
may be the worst in some objective, and none is better than the point.
"""

from __future__ import annotations

import numpy as np

from codesign.base.columns import BoolArray, FloatArray, StringList
from codesign.base.units import format_quantity
from codesign.search.campaign.reference import minimized
from codesign.search.campaign.results import Results
from codesign.search.pareto import non_dominated

FAR_SHARE = 0.9
"""Share of the best hypervolume that the first feasible design has, from which a point is called
too far away: what is left to search for is a tenth. [ours]"""


def reference_warnings(results: Results) -> StringList:
    """Warnings about the reference point of a campaign; empty if it serves."""
    exact = results.exact
    points = results.objectives[results.feasible] if exact is None else exact.objectives
    if not len(points):
        return []
    if not is_within(results, points):
        return [reference_words(results, points)]
    best = results.exact_hypervolume or float(results.hypervolume.max(initial=0.0))
    far = None if results.is_enumerated else far_words(results, best)
    return [] if far is None else [far]


def is_within(results: Results, points: FloatArray) -> bool:
    """Whether any of the (p, m) minimized points is better than the reference in all objectives."""
    reference = minimized(results.problem, results.reference_point)
    return bool((points < reference).all(axis=1).any())


def reference_words(results: Results, points: FloatArray) -> str:
    """Message that no feasible design is better than the reference point, with a point that serves.

    Args:
        points: (p, m) minimized objectives of feasible designs, of which none is within.
    """
    reference = minimized(results.problem, results.reference_point)
    worst = points[non_dominated(points)].max(axis=0)
    if results.definition.reference_point is None:
        return (
            "every hypervolume is 0, for no feasible design is better in every objective than the "
            "default reference point, the worst values; to tell searches apart, state a "
            "reference_point worse than "
            f"{_point_words(results, worst, np.ones(len(worst), bool))}"
        )
    return (
        "no feasible design is better than the reference point in every objective, so every "
        f"hypervolume is 0; expected reference_point beyond the front's worst values, got "
        f"{_point_words(results, reference, reference <= worst)}; "
        f"nearest: worse than {_point_words(results, worst, reference <= worst)}"
    )


def far_words(results: Results, best: float) -> str | None:
    """Message that a stated point is so far from all feasible designs that the first has nearly all
    hypervolume.

    Args:
        best: The most hypervolume that is known to be possible.

    Returns:
        None if the point is not stated, or if it serves.
    """
    feasible = results.objectives[results.feasible]
    if results.definition.reference_point is None or not len(feasible) or best <= 0:
        return None
    reference = minimized(results.problem, results.reference_point)
    worst = feasible.max(axis=0)
    is_beyond = reference > worst
    # Share of the best hypervolume at the first feasible design of each run.
    first_shares = []
    for run in range(len(results.runs)):
        first = np.flatnonzero((results.run_index == run) & results.feasible)[:1]
        first_shares += (results.hypervolume[first] / best).tolist()
    if not is_beyond.any() or not first_shares:
        return None
    share = float(np.median(first_shares))
    if share < FAR_SHARE:
        return None
    return (
        f"the first feasible design of a run has {100 * share:.1f} % of the best hypervolume "
        f"(median of {len(first_shares)} runs), so hypervolume hardly tells searches apart: "
        f"reference_point {_point_words(results, reference, is_beyond)} is worse than any of the "
        f"{len(feasible):,} feasible designs; nearest: {_point_words(results, worst, is_beyond)}"
    )


def _point_words(results: Results, point: FloatArray, is_bounding: BoolArray) -> str:
    """The chosen objectives of a minimized point in natural sign."""
    return ", ".join(
        f"{limit.metric.name} {format_quantity(limit.flipped(value), limit.metric.unit, 6)}"
        for limit, value, is_chosen in zip(
            results.problem.objectives, point.tolist(), is_bounding.tolist(), strict=True
        )
        if is_chosen
    )
