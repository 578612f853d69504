"""Time of the kernels that choose the tokens of sparse latent attention (DSA).

Two kernels: the scores of all tokens, and the choice of the highest. The first is attention with
many queries on one key and no values, in 8 bits where the device multiplies them; the second works
row by row on scores of 32 bits. Nothing is fitted to them: their constants are those of latent
attention and of rows [ours]. Of measured blocks with them, half are within 22 %
(``studies/validation/attention_blocks.py``).
"""

from __future__ import annotations

import numpy as np

from codesign.base.columns import FloatArray, Floats
from codesign.base.records import frozen
from codesign.models.machines.device.attention import (
    Attention,
    AttentionConstants,
    attention_time_s,
)
from codesign.models.machines.device.elementwise import ElementwiseConstants, row_time_s
from codesign.models.machines.device.rates import DeviceRates

_KEY_BITS = 8.0
_SCORE_BYTES = 4


@frozen
class Index:
    """Sizes of an indexer's kernels on one device; numbers or arrays to broadcast.

    Attributes:
        sequences: Sequences in the batch.
        new_tokens: Query tokens per sequence.
        context: Tokens that each of them scores, on average.
        heads: Heads of the indexer.
        head_dim: Elements of a query and of a key.
    """

    sequences: Floats
    new_tokens: Floats
    context: Floats
    heads: Floats
    head_dim: Floats


def eight_bit_peak(rates: DeviceRates) -> FloatArray:
    """Peak of 8-bit products, twice that of 16-bit ones; 0 without a multiplier for fp8."""
    return np.where(rates.has_fp8 > 0, 2.0 * rates.peak_16bit_flop_per_s, 0.0)


def index_score_time_s(
    shape: Index, rates: DeviceRates, constants: AttentionConstants
) -> FloatArray:
    """Seconds of the scores.

    Limiting assumption: what a softmax takes of a score, the comparison, the product and the sum
    over heads take here.

    Args:
        shape: Sizes; they broadcast with the rates.
        rates: Datasheet numbers of the devices.
        constants: Fitted efficiencies of latent attention on a class of devices.
    """
    new = shape.new_tokens
    scores = Attention(
        sequences=shape.sequences,
        new_tokens=new,
        past_tokens=np.maximum(shape.context - (new + 1) / 2, 0.0),
        query_heads=shape.heads,
        kv_heads=1.0,
        head_dim=shape.head_dim,
        value_head_dim=0.0,
        kv_bits=_KEY_BITS,
        math_bits=np.where(rates.has_fp8 > 0, 8.0, 16.0),
    )
    return attention_time_s(scores, rates, constants)


def selection_time_s(
    shape: Index, rates: DeviceRates, constants: ElementwiseConstants
) -> FloatArray:
    """Seconds of the choice; arguments as above, with the constants of kernels that work by rows.

    Limiting assumption: it reads the scores once, however many digits it sorts by.
    """
    rows = shape.sequences * shape.new_tokens
    return row_time_s(rows, _SCORE_BYTES * shape.context, rates, constants)
