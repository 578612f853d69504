"""Workload of a system: a model, the tokens and the rate of requests, and the phases served."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field, model_validator

from codesign.base.errors import KeyedValueError
from codesign.base.schema import Positive, unstored_at
from codesign.models.workload import LanguageModel, load_model
from codesign.models.workload.request import (
    BOTH_COUNTS,
    TOKEN_KEYS,
    ModelName,
    SequenceRecord,
    TraceName,
)
from codesign.models.workload.traces import Trace, load_trace


class SystemWorkload(SequenceRecord):
    """The requests that a system serves, all alike; what a campaign's ``workload:`` says."""

    model: ModelName
    """A bundled language model, or the path of a ``config.json`` or YAML file."""
    trace: TraceName | None = None
    """A named pair of token counts (``osworld``, ``bfcl``, ``gsm8k``)."""
    prompt_tokens: Positive | None = None
    """Tokens of the prompt; instead of ``trace``."""
    generated_tokens: Positive | None = None
    """Tokens generated after it; instead of ``trace``."""
    phases: Annotated[tuple[Literal["prefill", "decode"], ...], Field(min_length=1)] = (
        "prefill",
        "decode",
    )
    """The phases that the system serves; with one of them, its pool stands for itself."""
    early_share: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Share of the generated tokens that a pool ``early`` generates, where there is one."""
    requests_per_s: Annotated[float | None, Field(gt=0, allow_inf_nan=False), unstored_at(None)] = (
        None
    )
    """Requests that arrive per second, at random times (Poisson); adds the metrics
    ``queue_wait_s`` and ``time_to_first_token_p90_s``, which are infinite for systems that do not
    keep up."""
    max_batch: Positive = 128
    """The largest batch that a pool of NPUs chooses."""

    @model_validator(mode="after")
    def _check(self) -> SystemWorkload:
        if (self.trace is None) == (self.prompt_tokens is None and self.generated_tokens is None):
            raise KeyedValueError("", f"expected trace, or {BOTH_COUNTS}", TOKEN_KEYS)
        if self.trace is None and None in (self.prompt_tokens, self.generated_tokens):
            raise KeyedValueError("", f"expected {BOTH_COUNTS}", TOKEN_KEYS)
        if len(set(self.phases)) < len(self.phases):
            raise KeyedValueError("phases", f"expected each phase once, got {list(self.phases)}")
        n_tokens = self.tokens.prompt_tokens + self.tokens.generated_tokens
        self.check_context(n_tokens, self.language_model, *TOKEN_KEYS)
        return self

    @cached_property
    def language_model(self) -> LanguageModel:
        """The model, loaded."""
        return load_model(self.model)

    @cached_property
    def tokens(self) -> Trace:
        """Prompt and generated token counts, from the trace or as given."""
        if self.trace is not None:
            return load_trace(self.trace)
        assert self.prompt_tokens is not None and self.generated_tokens is not None  # checked
        return Trace(prompt_tokens=self.prompt_tokens, generated_tokens=self.generated_tokens)
