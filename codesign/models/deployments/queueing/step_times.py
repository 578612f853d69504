"""One step of a serving engine, and how long a machine takes for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol


class PromptChunk(NamedTuple):
    """Tokens of one prompt that one step prefills.

    Attributes:
        past_tokens: Tokens of the same request that the cache holds already.
    """

    tokens: int
    past_tokens: int


@dataclass(frozen=True, slots=True)
class EngineStep:
    """Work of one step.

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
