"""Whether designs keep their limits wherever in its range every number lies.

For each design and limit, every number is put to the end of its range that alone brings the design
nearest to breaking the limit. Limiting assumption: a limit is monotone in each number; then these
corners are the worst of all. A number is the same for every limit of a corner, so a price of memory
is high for all memories at once.
"""

from __future__ import annotations

import numpy as np

from codesign.base.columns import FloatArray, IntArray, StringTuple
from codesign.base.records import frozen
from codesign.insight.uncertainty.sweep import Sweep
from codesign.search.problem import Problem

NO_LIMIT = ""


@frozen
class WorstExcess:
    """Excess of designs over their limits where the ranges are worst for them.

    Attributes:
        excess: (n,) largest relative excess over any limit; ``<= 0`` is within, infinite where a
            limit has no value, -infinite without a limit.
        limits: (n,) that limit.
    """

    excess: FloatArray
    limits: StringTuple


def worst_excess(problem: Problem, rows: IntArray) -> WorstExcess:
    """The excess of (n, d) designs at the corners of the ranges that are worst for each.

    Raises:
        InputError: An evaluator without technologies.
    """
    sweep = Sweep(problem, problem.deciding_metrics)
    levels = np.array([0, -1, 1])

    def violations(corner: IntArray, designs: IntArray) -> FloatArray:
        observed = sweep.observe(rows[designs], sweep.corner(corner)).violations
        return np.where(np.isnan(observed), np.inf, observed)

    everyone = np.arange(len(rows))
    alone = np.eye(len(sweep.numbers), dtype=np.int64)
    worst = violations(np.zeros(len(alone), np.int64), everyone)
    # (n, c, k): the end of each range that alone is worst.
    corners = np.zeros((*worst.shape, len(alone)), np.int64)
    for i in sweep.moving(rows):
        ends = [worst, *(violations(end * alone[i], everyone) for end in levels[1:])]
        corners[:, :, i] = levels[np.argmax(ends, axis=0)]
    for corner in np.unique(corners.reshape(-1, len(alone)), axis=0):
        designs = np.flatnonzero((corners == corner).all(axis=2).any(axis=1))
        worst[designs] = np.maximum(worst[designs], violations(corner, designs))
    names = sweep.observe(rows[:1], sweep.typical).violation_names
    if not names:
        return WorstExcess(np.full(len(rows), -np.inf), (NO_LIMIT,) * len(rows))
    places = worst.argmax(axis=1)
    return WorstExcess(worst.max(axis=1), tuple(names[place] for place in places.tolist()))
