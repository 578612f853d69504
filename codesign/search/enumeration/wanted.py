"""A part of a front that is wanted: what else there may be is not looked for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from codesign.base.columns import ArrayPair, FloatArray
from codesign.base.records import frozen
from codesign.search.enumeration.front import Archive, dominated_by


@frozen
class WantedPart:
    """Region of a front that is asked for.

    A design that is dominated by a point of ``cutoffs`` is not, and its part of the space is left
    out like one that a design dominates. Of the others none is lost: what dominates one of them is
    not dominated by a cutoff either.

    Attributes:
        key: All that ``cutoffs`` depends on besides the problem.
        cutoffs: (q, m) points from the (p, m) objectives of some feasible designs.
        is_sampled: Whether such designs are looked for; else ``p`` is 0.
    """

    key: str
    cutoffs: Callable[[FloatArray], FloatArray]
    is_sampled: bool = True


def barriers(incumbents: FloatArray, wanted: WantedPart | None) -> ArrayPair:
    """(p, m) incumbents that are wanted, and (b, m) points of which what they dominate is left out.

    Args:
        incumbents: (q, m) objectives of feasible designs, in lexicographic order.
        wanted: The part; None: the whole front.
    """
    if wanted is None:
        return incumbents, incumbents
    archive = Archive(incumbents.shape[1])
    for points in (wanted.cutoffs(incumbents), incumbents):
        archive.add(points, np.arange(len(points)), np.ones(len(points), np.int64))
    return incumbents[~dominated_by(archive.points, incumbents)], archive.points
