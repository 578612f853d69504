"""Time per generated token, with a smaller model that drafts ahead or without.

Speculative decoding drafts g tokens and checks them in one pass of the large model, all g queries
together; with probability a that a token is accepted, an iteration yields (1 - a^g) / (1 - a)
tokens on average ([Epoch2025]_ Eq. 46, after [Leviathan2023]_).

.. [Epoch2025] E. Erdil, Inference economics of language models, Epoch AI, 2025, section 4.1.
.. [Leviathan2023] Y. Leviathan, M. Kalman, Y. Matias, Fast inference from transformers via
   speculative decoding, 2023.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from codesign.base.columns import FloatArray, IntArray
from codesign.evaluators.economics.latency import ForwardPass
from codesign.evaluators.economics.load import Load

DRAFT_LENGTHS = (2, 3, 4, 5)
"""Tokens drafted ahead that are tried [ours: Epoch section 4.1 leaves the choice open]."""
ACCEPTANCE = 0.8
"""Probability that a drafted token is accepted (Epoch section 4.1, for Llama 3)."""


@dataclass(frozen=True)
class Speculation:
    """A draft model and how well it guesses.

    Attributes:
        draft: Passes of the draft model, on the same devices and batch.
        acceptance: Probability that a drafted token is accepted.
    """

    draft: ForwardPass
    acceptance: float = ACCEPTANCE

    def tokens_per_iteration(self, length: int) -> float:
        """Expected tokens of drafting and checking ``length`` tokens.

        Examples:
            >>> round(Speculation(None, 0.5).tokens_per_iteration(3), 6)  # 1 + 1/2 + 1/4
            1.75
        """
        return sum(self.acceptance**position for position in range(length))


@dataclass(frozen=True)
class RequestTokens:
    """Tokens of a request whose prompt is counted too.

    Attributes:
        generated_tokens: Tokens of the answer; above 0.
    """

    prompt_tokens: float
    generated_tokens: float


@dataclass(frozen=True)
class Decoding:
    """Decoding of one model on one machine, with the prefill of its prompts if they are counted.

    Attributes:
        target: Passes of the model that is served.
        speculation: The draft model; None: every token costs a pass.
        tokens: Tokens of a request; None: prompts cost nothing, as in the paper's tables.
        draft_length: Tokens drafted ahead, one number or one for each design; 0: no speculation,
            NaN: as many as is fastest.
    """

    target: ForwardPass
    speculation: Speculation | None = None
    tokens: RequestTokens | None = None
    draft_length: FloatArray | float = np.nan

    def token_times(self, load: Load) -> tuple[FloatArray, IntArray]:
        """Seconds per token, and how many tokens are drafted ahead (0: no speculation)."""
        if self.speculation is None:
            (time,) = self.target.best_times(replace(load, queries=(1,)))
            return time, np.zeros(time.shape, dtype=np.int64)
        is_open = np.isnan(self.draft_length)
        lengths = [n for n in DRAFT_LENGTHS if np.any(is_open | (self.draft_length == n))]
        plain, *checks = self.target.best_times(replace(load, queries=(1, *lengths)))
        (draft,) = self.speculation.draft.best_times(replace(load, queries=(1,)))
        best = np.where(is_open | (self.draft_length == 0), plain, np.inf)
        length_of_best = np.zeros(best.shape, dtype=np.int64)
        for length, check in zip(lengths, checks, strict=True):
            time = (check + length * draft) / self.speculation.tokens_per_iteration(length)
            is_better = (is_open | (self.draft_length == length)) & (time < best)
            best, length_of_best = (
                np.where(is_better, time, best),
                np.where(is_better, length, length_of_best),
            )
        return best, length_of_best

    def request_times(
        self, load: Load, stages: float = 1.0
    ) -> tuple[FloatArray, IntArray, FloatArray]:
        """Seconds per token and to the first one, and how many tokens are drafted ahead.

        In a steady state every request is followed by the next, so that between two steps the
        instance prefills ``batch / generated_tokens`` prompts, which lengthens all tokens; a draft
        prefills too where it is used. A new request waits for one step and for its own prefill.

        Args:
            stages: Stages of the pipeline, each of which prefills a prompt of its own.

        Returns:
            Time per token, tokens drafted ahead, and time to the first token, NaN where prompts
            cost nothing.
        """
        time, length = self.token_times(load)
        if self.tokens is None:
            return time, length, np.full_like(time, np.nan)
        target_s = self._prefill_s(self.target, load.n_devices, stages)
        share = load.batch / stages / self.tokens.generated_tokens
        if self.speculation is None:
            return time + target_s * share, length, target_s + time
        with_draft = target_s + self._prefill_s(self.speculation.draft, load.n_devices, stages)
        (plain,) = self.target.best_times(replace(load, queries=(1,)))
        drafts = (length > 0) & (time + with_draft * share < plain + target_s * share)
        time, prefill = np.where(drafts, time, plain), np.where(drafts, with_draft, target_s)
        return time + prefill * share, np.where(drafts, length, 0), prefill + time

    def _prefill_s(self, passes: ForwardPass, n_devices: FloatArray, stages: float) -> FloatArray:
        """Seconds in which a prompt passes an instance, one more in every other stage.

        It is a pass of as many queries as the prompt has tokens, each of which attends to half of
        it on average. Limiting assumption: the whole prompt at once, logits of every token.
        """
        assert self.tokens is not None
        prompt = self.tokens.prompt_tokens
        prompts = np.full((1,) * n_devices.ndim, stages)
        (time,) = passes.best_times(Load(n_devices, prompts, prompt / 2.0, (int(prompt),)))
        return time

    def stored_bytes(self, load: Load) -> FloatArray:
        """Weights and KV caches of the model, and of its draft where one is used."""
        stored = self.target.stored_bytes(load)
        if self.speculation is None:
            return stored
        drafts = self.speculation.draft.stored_bytes(load)
        return np.asarray(stored + np.where(self.draft_length == 0, 0.0, drafts))

    def memory_excess(self, load: Load) -> FloatArray:
        """Stored bytes over the memory of the instance, minus one; above 0 they do not fit."""
        memory = load.n_devices * self.target.machine.capacity_bytes
        return np.asarray(self.stored_bytes(load) / memory - 1.0)
