"""The synthetic routing of the measured experts: what the source's draws put on the first device.

After ``balanced_logits`` and ``power_law_logits_v3`` of ai-dynamo/aiconfigurator @095f58a, NVIDIA,
Apache-2.0. The source draws once and does not record the draw; here the mean of several counts,
always the same ones.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from codesign.columns import FloatArray

_DRAWS = 8
_SEED = 20261123


@cache
def first_rank_load(
    tokens: int, experts: int, top_k: int, ep: int, power: float
) -> tuple[float, float]:
    """Pairs of token and expert, and experts with work, on the device that is measured.

    Args:
        tokens: Tokens that enter the expert-parallel group.
        experts: Experts of the layer.
        top_k: Experts of a token.
        ep: Devices over which the experts are spread.
        power: Exponent of the skew; 0: balanced.
    """
    if power == 0:
        loads = [_balanced(tokens, experts, top_k)[: experts // ep]]
    else:
        random = np.random.default_rng(_SEED)
        draws = (_skewed(tokens, experts, top_k, power, random) for _ in range(_DRAWS))
        loads = [_busiest(counts.reshape(ep, -1)) for counts in draws]
    pairs = float(np.mean([load.sum() for load in loads]))
    active = float(np.mean([np.count_nonzero(load) for load in loads]))
    return max(pairs, 1.0), max(active, 1.0)


def _balanced(tokens: int, experts: int, top_k: int) -> FloatArray:
    stride = -(-experts // top_k)
    # Beyond whole rounds over all experts, only the rest need be counted.
    rounds, rest = divmod(tokens, experts) if tokens >= stride else (0, tokens)
    step = 1.0 if tokens >= stride else stride / tokens
    first = np.arange(rest)[:, None] * step
    chosen = np.floor(first + np.arange(top_k) * stride).astype(np.int64) % experts
    counts = np.bincount(chosen.ravel(), minlength=experts) + rounds * top_k
    return counts.astype(np.float64)


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
        each = max(abs(missing) // len(ranked), 1)
        next_counts = counts[ranked] + np.sign(missing) * each
        counts[ranked[: abs(missing)]] = np.clip(next_counts, 0, tokens)[: abs(missing)]
    return np.asarray(counts)


def _busiest(by_rank: FloatArray) -> FloatArray:
    return np.asarray(by_rank[np.argmax(by_rank.sum(axis=1))])
