"""A question about serving in the same words wherever it is answered."""

from __future__ import annotations

import math
from collections.abc import Mapping

from codesign.base.units import format_engineering


def context_words(prompt_tokens: int, generated_tokens: int, beams: int = 1) -> str:
    """Tokens of a request, and those that its last step attends to.

    Examples:
        >>> context_words(2000, 500)
        '2,000 prompt + 500 generated = 2,500 tokens'
        >>> context_words(2000, 500, beams=4)
        '2,000 prompt + 4 x 500 generated = 4,000 tokens'
    """
    answers = f"{beams} x {generated_tokens:,}" if beams > 1 else f"{generated_tokens:,}"
    total = prompt_tokens + beams * generated_tokens
    return f"{prompt_tokens:,} prompt + {answers} generated = {total:,} tokens"


def user_words(users: int) -> str:
    """Users in a steady state."""
    return f"{users:,} at once, each with the next request when the last is answered"


def format_words(design: Mapping[str, object]) -> str:
    """Number formats of a design, by the names of its parameters.

    Examples:
        >>> formats = {"weight_format": "int8", "activation_format": "bf16", "kv_format": "fp8"}
        >>> format_words(formats)
        'weights int8, activations bf16, cache fp8'
    """
    names = {"weights": "weight_format", "activations": "activation_format", "cache": "kv_format"}
    return ", ".join(f"{name} {design[key]}" for name, key in names.items())


def limit_words(first_token_s: float | None, token_time_s: float | None) -> str:
    """The limits on time that are set.

    Examples:
        >>> limit_words(1.0, 0.05)
        'first token within 1 s, output token within 50 ms'
    """
    limits = {"first token": first_token_s, "output token": token_time_s}
    return ", ".join(
        f"{name} within {format_engineering(limit, 's', 3)}"
        for name, limit in limits.items()
        if limit is not None and limit < math.inf
    )
