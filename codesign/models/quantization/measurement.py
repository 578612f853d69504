"""Distance of a quantized decoder from itself in full precision, over a text.

Sequences of a text are the sample; intervals are those of 1,000 resamples of whole sequences.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from codesign.base.columns import FloatArray, FloatList
from codesign.base.errors import InputError
from codesign.base.records import frozen
from codesign.models.quantization.decoder import Decoder
from codesign.models.quantization.measured import Interval

_RESAMPLES = 1000
_LEVEL = 0.95


@frozen
class Fidelity:
    """Effect of formats on the answers of a decoder.

    Attributes:
        perplexity: Of the text.
        perplexity_ratio: Over that in full precision.
        divergence_nats: Kullback-Leibler divergence from the full precision, nats per token.
        agreement: Share of tokens for which both have the same likeliest next token.
        layer_sqnr_db: Energy of the hidden state behind each layer over that of its error.
    """

    perplexity: Interval
    perplexity_ratio: Interval
    divergence_nats: Interval
    agreement: Interval
    layer_sqnr_db: FloatList


@frozen
class Sequences:
    """Tokens that algorithms look at, and those that are measured.

    Attributes:
        calibration: (b, s).
        evaluation: (b, s).
    """

    calibration: Tensor
    evaluation: Tensor


def split_text(
    tokens: Tensor, context_length: int, n_calibration: int, n_evaluation: int
) -> Sequences:
    """The first sequences of a text to measure, the last ones to calibrate; they do not overlap.

    Raises:
        InputError: The text is too short.
    """
    needed = context_length * (n_calibration + n_evaluation)
    if len(tokens) < needed:
        raise InputError(
            f"expected a text of {needed:,} tokens ({n_evaluation} sequences to measure and "
            f"{n_calibration} to calibrate, {context_length} tokens each), got {len(tokens):,}"
        )
    evaluation = tokens[: context_length * n_evaluation].view(n_evaluation, context_length)
    calibration = tokens[len(tokens) - context_length * n_calibration :]
    return Sequences(calibration.view(n_calibration, context_length), evaluation)


def measure(
    reference: Decoder,
    trial: Decoder,
    tokens: Tensor,
    seed: int = 0,
    advance: Callable[[], None] = lambda: None,
) -> Fidelity:
    """Compare two decoders over (b, s) tokens.

    Args:
        reference: In full precision.
        trial: Quantized.
        tokens: Of the text.
        advance: Called after each sequence.
    """
    rows = []
    n_layers = reference.shape.num_hidden_layers
    energy = np.zeros(n_layers)
    error = np.zeros(n_layers)
    # A rotated decoder has another basis of the hidden state, so lengths are compared there.
    is_rotated = trial.in_flight.rotation_of_inner is not reference.in_flight.rotation_of_inner
    with torch.no_grad():
        for sequence in tokens.to(reference.device):
            states = reference.embedded(sequence[None]), trial.embedded(sequence[None])
            for layer in range(n_layers):
                states = (
                    reference.layer_output(layer, states[0]), trial.layer_output(layer, states[1])
                )  # fmt: skip
                pair = [x.square().sum(-1).sqrt() if is_rotated else x for x in states]
                energy[layer] += float(pair[0].square().sum())
                error[layer] += float((pair[1] - pair[0]).square().sum())
            exact = functional.log_softmax(reference.head(states[0])[0], dim=-1)
            stored = functional.log_softmax(trial.head(states[1])[0], dim=-1)
            losses = [functional.nll_loss(logits[:-1], sequence[1:]) for logits in (exact, stored)]
            divergence = (exact.exp() * (exact - stored)).sum(-1).mean()
            agreement = (exact.argmax(-1) == stored.argmax(-1)).float().mean()
            rows.append([float(number) for number in (*losses, divergence, agreement)])
            advance()
    table = np.array(rows)
    picks = np.random.default_rng(seed).integers(0, len(table), (_RESAMPLES, len(table)))
    resampled = table[picks].mean(axis=1)
    mean = table.mean(axis=0)

    def interval(value: Callable[[FloatArray], FloatArray]) -> Interval:
        low, high = np.quantile(value(resampled.T), [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
        return Interval(float(value(mean)), float(low), float(high))

    with np.errstate(divide="ignore"):
        ratio = 10 * np.log10(energy / error)
    return Fidelity(
        interval(lambda row: np.exp(row[1])),
        interval(lambda row: np.exp(row[1] - row[0])),
        interval(lambda row: row[2]),
        interval(lambda row: row[3]),
        [float(value) for value in ratio],
    )
