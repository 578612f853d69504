"""Experts that take the tokens of a mixture, in expectation.

Limiting assumption: tokens choose independently, and every expert is equally likely.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from codesign.base.columns import FloatArray


def expected_distinct_experts(
    n_tokens: FloatArray, n_experts: FloatArray, n_active: FloatArray
) -> FloatArray:
    """Experts that at least one of ``n_tokens`` tokens is routed to.

    The arguments broadcast. A dense layer is one expert that every token takes.

    Examples:
        >>> float(expected_distinct_experts(1, 8, 2)), float(expected_distinct_experts(2, 8, 2))
        (2.0, 3.5)
    """
    return n_experts * (1.0 - (1.0 - n_active / n_experts) ** n_tokens)


def partners(groups: ArrayLike, experts: ArrayLike, top_k: ArrayLike) -> FloatArray:
    """Expected groups of devices, other than its own, that have an expert of a token.

    Args:
        groups: Equal groups over which the experts are spread.
        top_k: Different experts of a token, drawn evenly.

    Examples:
        >>> round(float(partners(2, 4, 2)), 4)  # both in one half: 1 of 3 draws
        0.8333
    """
    groups, experts, top_k = np.broadcast_arrays(*map(np.asarray, (groups, experts, top_k)))
    elsewhere = experts - experts / groups
    missed = np.ones(groups.shape)
    for drawn in range(int(np.max(top_k, initial=0.0))):
        undrawn = np.maximum(experts - drawn, 1.0)
        chance = np.clip((elsewhere - drawn) / undrawn, 0.0, 1.0)
        missed = np.where(drawn < top_k, missed * chance, missed)
    return (groups - 1) * (1 - missed)
