"""One step of a serving engine, and how long a machine takes for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol


class PromptChunk(NamedTuple):
    """Tokens of one prompt that one step prefills.

    Attributes:
        tokens: Tokens of the chunk.
        past_tokens: Tokens of the same request that the cache holds already.
    """

    tokens: int
    past_tokens: int


@dataclass(frozen=True, slots=True)
class EngineStep:
    """What one step computes.

    Attributes:
        chunks: Chunks of prompts; none in a pure decode step.
        n_decoding: Requests that get their next token.
        context_tokens: Tokens to which these attend, summed over them, each with its newest.
    """

    chunks: Sequence[PromptChunk]
    n_decoding: int
    context_tokens: int


class StepTimes(Protocol):
    """Seconds of a machine's steps; a pure function of the step."""

    def step_s(self, step: EngineStep) -> float:
        """Seconds from the start of a step to its tokens."""
        ...


@dataclass(frozen=True)
class LinearStepTimes:
    """Step times that are linear in the work: a machine of four numbers.

    Attributes:
        start_s: Seconds of every step.
        prompt_token_s: Seconds of a token that is prefilled.
        request_s: Seconds of a request that decodes.
        context_token_s: Seconds of a token of context that is read.

    Examples:
        >>> machine = LinearStepTimes(0.01, 1e-4, 1e-3)
        >>> machine.step_s(EngineStep((PromptChunk(100, 0),), 2, 50))
        0.022
    """

    start_s: float = 0.0
    prompt_token_s: float = 0.0
    request_s: float = 0.0
    context_token_s: float = 0.0

    def step_s(self, step: EngineStep) -> float:
        """Seconds of a step."""
        prompt = sum(chunk.tokens for chunk in step.chunks)
        decode = self.request_s * step.n_decoding + self.context_token_s * step.context_tokens
        return self.start_s + self.prompt_token_s * prompt + decode
