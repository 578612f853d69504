"""Limits of a step of a serving engine, and its choice of requests."""

from __future__ import annotations

from typing import Literal, get_args

from codesign.base.errors import InputError, Mistake, check_known
from codesign.base.records import frozen

StepPolicy = Literal["chunked", "prefill-first"]
"""``chunked``: every step carries all decoding requests and, in what is left of the token budget,
chunks of prompts [Agrawal2024]_, as vLLM's engine V1 does. ``prefill-first``: a step prefills whole
prompts where any waits and has room, else it decodes, as its first engine did [Kwon2023]_.

.. [Agrawal2024] A. Agrawal et al., Taming Throughput-Latency Tradeoff in LLM Inference with
   Sarathi-Serve, OSDI 2024.
.. [Kwon2023] W. Kwon et al., Efficient Memory Management for Large Language Model Serving with
   PagedAttention, SOSP 2023.
"""
BLOCK_TOKENS = 16
"""Tokens of one block of the cache: vLLM's default on GPUs."""


@frozen
class EngineLimits:
    """Limits by which one machine's engine forms its steps.

    Attributes:
        max_sequences: Requests that a machine runs at a time.
        max_batched_tokens: Tokens of a step of a machine. Under ``prefill-first`` a longer prompt
            has a step of its own.
        cache_tokens: Tokens whose keys and values the machine holds; whole blocks count.
        policy: ``chunked``: chunks of prompts beside all decoding requests; ``prefill-first``:
            whole prompts before any.
        keeps_preempted: Whether a preempted request finds its blocks again that nobody has taken:
            vLLM's prefix caching, which is on by default.
        plans_ahead: Whether the step after the next is chosen when the next one starts, so that the
            machine never waits for its host: vLLM's asynchronous scheduling. What arrives or ends
            in a step then counts one step later.
        reserves_answers: Whether a request runs only where all that it will generate has blocks,
            too, so that none is preempted: TensorRT-LLM's default, GUARANTEED_NO_EVICT.
    """

    max_sequences: int = 256
    max_batched_tokens: int = 2048
    cache_tokens: int = 2**62
    policy: StepPolicy = "chunked"
    keeps_preempted: bool = True
    plans_ahead: bool = False
    reserves_answers: bool = False

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            InputError: No request fits, the decoding requests alone exceed a step's tokens, or the
                policy is not known.
        """
        check_known("policy", self.policy, get_args(StepPolicy), "policy")
        if self.max_sequences < 1:
            raise InputError(
                f"expected at least 1 request at a time, got {self.max_sequences}", "max_sequences"
            )
        if self.max_batched_tokens < self.max_sequences:
            raise InputError(
                Mistake(
                    f"expected at least max_sequences ({self.max_sequences}), a token for each "
                    f"request, got {self.max_batched_tokens}",
                    named=("max_sequences",),
                ),
                "max_batched_tokens",
            )
        if self.cache_tokens < BLOCK_TOKENS:
            raise InputError(
                f"expected at least a block of {BLOCK_TOKENS} tokens, got {self.cache_tokens}",
                "cache_tokens",
            )

    @property
    def cache_blocks(self) -> int:
        """Whole blocks of the cache."""
        return self.cache_tokens // BLOCK_TOKENS


def blocks_of(tokens: int) -> int:
    """Blocks that so many tokens of one request take."""
    return -(-tokens // BLOCK_TOKENS)
