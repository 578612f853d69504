"""Proof that no system of pools keeps the limits: the limit in the way, and the nearest miss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from codesign.search.enumeration.pool_front import PoolFront
from codesign.search.problem import Problem

if TYPE_CHECKING:
    from codesign.search.enumeration.composition import SystemSearch


def nearest_miss(
    problem: Problem, pools: Sequence[PoolFront], composition: SystemSearch
) -> tuple[str, str | None]:
    """Limit in the way, distance of the nearest system, and the best that the pools can do.

    Returns:
        The message, and the place of the limit.
    """
    if not composition.n_shared:
        (place, *_) = [
            constraint.where for constraint in problem.constraints if constraint.is_known
        ]
        return "no numbers of machines and links keep the constraints on them", place
    n = composition.n_shared
    ideal = [np.repeat(pool.values.min(axis=0)[None], n, axis=0) for pool in pools]
    metrics, excess = composition.limited(np.arange(n), ideal)
    least = {text: float(values.min()) for text, values in excess.items()}
    worst = max(least, key=lambda text: least[text])
    if least[worst] > 0:
        (limit,) = [constraint for constraint in problem.constraints if constraint.text == worst]
        name = min(limit.expression.names)
        best = metrics[name][np.argmin(excess[worst])]
        return (
            f"no system keeps {worst!r}: the best of every pool together has {best:.4g}, "
            f"which misses it by {least[worst]:.1%}; {_best_of_pools(problem, pools, name)}"
        ), limit.where
    setting, nearest, over = composition.nearest()
    states = ", ".join(
        f"{min(limit.expression.names)} {nearest[min(limit.expression.names)]:.4g} "
        + (f"(misses by {over[limit.text]:.1%})" if over[limit.text] > 0 else "(kept)")
        for limit in composition.limits
    )
    texts = " and ".join(map(repr, least))
    return (
        f"no system keeps {texts} together; the nearest that was tried has {states} with "
        f"{composition.setting_words(setting)}"
    ), composition.limits[0].where


def _best_of_pools(problem: Problem, pools: Sequence[PoolFront], metric: str) -> str:
    """Metrics of pools that decide on a metric of systems, each at its best."""
    decisive = problem.evaluator.pool_metrics(problem.sources_of([metric]))
    pool_lines = []
    for pool in pools:
        natural = pool.natural(pool.values.min(axis=0)[None])
        words = [f"{name} {natural[name][0]:.4g}" for name in decisive[pool.name]]
        pool_lines += [f"pool {pool.name} {', '.join(words)}"] if words else []
    return f"at best, each by itself: {'; '.join(pool_lines)}"
