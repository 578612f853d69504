"""The synthetic routing of the measured experts: what the source's draws put on the first device.

After ``balanced_logits`` and ``power_law_logits_v3`` of ai-dynamo/aiconfigurator @095f58a, NVIDIA,
Apache-2.0. The source draws once and does not record the draw; here the mean of several counts,
always the same ones.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from codesign.base.columns import FloatArray
from codesign.base.records import frozen

_DRAWS = 8
_SEED = 20261123


@frozen
class FirstRankLoad:
    """Load that a draw puts on the measured device; means over draws, each 1 or more.

    Attributes:
        pairs: Pairs of a token and an expert of the device.
        active_experts: Experts of the device that have a token.
        tokens: Tokens that have an expert of the device.
    """

    pairs: float
    active_experts: float
    tokens: float


@cache
def first_rank_load(tokens: int, experts: int, top_k: int, ep: int, power: float) -> FirstRankLoad:
    """The load of the device that is measured.

    Args:
        tokens: Tokens that enter the expert-parallel group.
        top_k: Experts of a token.
        ep: Devices over which the experts are spread.
        power: Exponent of the skew; 0: balanced.
    """
    if power == 0:
        draws = [_balanced(tokens, experts, top_k, experts // ep)]
    else:
        random = np.random.default_rng(_SEED)
        counts = (_skewed(tokens, experts, top_k, power, random) for _ in range(_DRAWS))
        draws = [_busiest(draw, tokens, ep) for draw in counts]
    return FirstRankLoad(*np.maximum(np.mean(draws, axis=0), 1.0).tolist())


def _balanced(tokens: int, experts: int, top_k: int, local: int) -> tuple[float, float, float]:
    stride = -(-experts // top_k)
    # Beyond whole rounds over all experts, only the rest need be counted.
    rounds, rest = divmod(tokens, experts) if tokens >= stride else (0, tokens)
    step = 1.0 if tokens >= stride else stride / tokens
    first = np.arange(max(rest, experts if rounds else 0))[:, None] * step
    experts_of_tokens = np.floor(first + np.arange(top_k) * stride).astype(np.int64) % experts
    has_local = (experts_of_tokens < local).any(axis=1)
    counts = (
        np.bincount(experts_of_tokens[:rest].ravel(), minlength=experts)[:local] + rounds * top_k
    )
    reached = has_local[:rest].sum() + rounds * has_local.sum()
    return float(counts.sum()), float(np.count_nonzero(counts)), float(reached)


def _skewed(
    tokens: int, experts: int, top_k: int, power: float, random: np.random.Generator
) -> FloatArray:
    total = tokens * top_k
    low, high = (1.0, 0.8 * tokens) if total > experts else (0.01, 2.0)
    ends = low ** (1 - power), high ** (1 - power)
    weights = ((ends[1] - ends[0]) * random.random(experts) + ends[0]) ** (1 / (1 - power))
    counts = np.minimum(np.round(weights / weights.sum() * total), tokens)
    order = np.argsort(-(counts + 0.01 * random.random(experts)))
    while missing := int(total - counts.sum()):  # what rounding and the bound left over
        room = counts[order] < tokens if missing > 0 else counts[order] > 0
        ranked = order[room] if missing > 0 else order[room][::-1]
        next_counts = counts[ranked] + np.sign(missing) * max(abs(missing) // len(ranked), 1)
        counts[ranked[: abs(missing)]] = np.clip(next_counts, 0, tokens)[: abs(missing)]
    return np.asarray(counts)


def _busiest(counts: FloatArray, tokens: int, ep: int) -> tuple[float, float, float]:
    """Load of the device with most pairs; the source deals experts to tokens by falling load."""
    rank = np.repeat(np.arange(ep), len(counts) // ep)
    busiest = np.argmax(np.bincount(rank, weights=counts))
    order = np.argsort(-counts, kind="stable")
    is_own = (rank[order] == busiest) & (counts[order] > 0)
    ends = np.cumsum(counts[order])[is_own].astype(np.int64)
    own_counts = counts[order][is_own].astype(np.int64)
    # An expert's tokens follow each other and begin anew at the first after the last.
    starts = (ends - own_counts) % tokens
    changes = np.zeros(2 * tokens + 1, dtype=np.int64)
    np.add.at(changes, starts, 1)
    np.add.at(changes, starts + own_counts, -1)
    is_reached = np.cumsum(changes)[: 2 * tokens].reshape(2, tokens).any(axis=0)
    return float(own_counts.sum()), float(len(own_counts)), float(np.count_nonzero(is_reached))
