"""Time per generated token, with a smaller model that drafts ahead or without.

Speculative decoding drafts g tokens and checks them in one pass of the large model, all g queries
together; with probability a that a token is accepted, an iteration yields (1 - a^g) / (1 - a)
tokens on average ([Epoch2025]_ Eq. 46, after [Leviathan2023]_).

.. [Epoch2025] E. Erdil, Inference economics of language models, Epoch AI, 2025, section 4.1.
.. [Leviathan2023] Y. Leviathan, M. Kalman, Y. Matias, Fast inference from transformers via
   speculative decoding, 2023.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from codesign.base.columns import FloatArray, Floats, IntArray
from codesign.base.records import frozen
from codesign.evaluators.economics.latency import ForwardPass
from codesign.evaluators.economics.load import Load

DRAFT_LENGTHS = (2, 3, 4, 5)
"""Tokens drafted ahead that are tried [ours: Epoch section 4.1 leaves the choice open]."""


@frozen
class Speculation:
    """A draft model and how well it guesses.

    Attributes:
        draft: Passes of the draft model, on the same devices and batch.
        acceptance: Probability that a drafted token is accepted.
    """

    draft: ForwardPass
    acceptance: float

    def tokens_per_iteration(self, length: int) -> float:
        """Expected tokens of drafting and checking ``length`` tokens.

        Examples:
            >>> round(Speculation(None, 0.5).tokens_per_iteration(3), 6)  # 1 + 1/2 + 1/4
            1.75
        """
        return sum(self.acceptance**position for position in range(length))


@frozen
class Decoding:
    """Decoding of one model on one machine; prompts cost nothing, as in the paper.

    Attributes:
        target: Passes of the model that is served.
        speculation: The draft model; None: every token costs a pass.
        draft_length: Tokens drafted ahead, one number or one for each design; 0: no speculation,
            NaN: as many as is fastest.
    """

    target: ForwardPass
    speculation: Speculation | None = None
    draft_length: Floats = np.nan

    def token_times(self, load: Load) -> tuple[FloatArray, IntArray]:
        """Seconds per token, and how many tokens are drafted ahead (0: no speculation)."""
        if self.speculation is None:
            (time,) = self.target.best_times(replace(load, queries=(1,)))
            return time, np.zeros(time.shape, np.int64)
        is_open = np.isnan(self.draft_length)
        lengths = [n for n in DRAFT_LENGTHS if np.any(is_open | (self.draft_length == n))]
        plain, *checks = self.target.best_times(replace(load, queries=(1, *lengths)))
        (draft,) = self.speculation.draft.best_times(replace(load, queries=(1,)))
        best = np.where(is_open | (self.draft_length == 0), plain, np.inf)
        length_of_best = np.zeros(best.shape, np.int64)
        for length, check in zip(lengths, checks, strict=True):
            time = (check + length * draft) / self.speculation.tokens_per_iteration(length)
            is_better = (is_open | (self.draft_length == length)) & (time < best)
            best = np.where(is_better, time, best)
            length_of_best = np.where(is_better, length, length_of_best)
        return best, length_of_best

    def stored_bytes(self, load: Load) -> FloatArray:
        """Weights and KV caches of the model, and of its draft where one is used."""
        stored = self.target.stored_bytes(load)
        if self.speculation is None:
            return stored
        drafts = self.speculation.draft.stored_bytes(load)
        return stored + np.where(self.draft_length == 0, 0.0, drafts)

    def memory_excess(self, load: Load) -> FloatArray:
        """Stored bytes over the memory of the instance, minus one; above 0 they do not fit."""
        memory = load.n_devices * self.target.machine.capacity_bytes
        return self.stored_bytes(load) / memory - 1.0
