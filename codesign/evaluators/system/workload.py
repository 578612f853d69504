"""Workload of a system: a model, the tokens and the rate of requests, and the phases served."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field

from codesign.base.errors import KeyedValueError
from codesign.base.schema import Positive, PositiveAmount, Share, unstored_at
from codesign.evaluators.platform.platform_request import (
    DraftName,
    DraftTokens,
    PlatformRequest,
)
from codesign.models.workload.request import (
    BOTH_COUNTS,
    TOKEN_KEYS,
    SequenceRecord,
    SessionName,
    TraceName,
)
from codesign.models.workload.sessions import load_session
from codesign.models.workload.traces import Trace, load_trace


class SystemWorkload(SequenceRecord):
    """The requests that a system serves, all alike; what a campaign's ``workload:`` says."""

    trace: TraceName | None = None
    """A named pair of token counts (``osworld``, ``bfcl``, ``gsm8k``)."""
    prompt_tokens: Positive | None = None
    """Tokens of the prompt; instead of ``trace``."""
    generated_tokens: Positive | None = None
    """Tokens generated after it; instead of ``trace``."""
    session: Annotated[SessionName | None, unstored_at(None)] = None
    """A session instead of ``trace``: a request is its mean turn, and the prefill pool has caches
    (parameters ``cache1_technology``, ``cache1_units`` and so on)."""
    concurrent_sessions: Annotated[Positive, unstored_at(1)] = 1
    """Concurrent sessions per prefill machine, if its designs do not state them."""
    phases: Annotated[tuple[Literal["prefill", "decode"], ...], Field(min_length=1)] = (
        "prefill",
        "decode",
    )
    """The phases that the system serves; with one of them, its pool stands for itself."""
    early_share: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Share of the generated tokens that a pool ``early`` generates, where there is one."""
    requests_per_s: Annotated[PositiveAmount | None, unstored_at(None)] = None
    """Requests that arrive per second, at random times (Poisson); adds the metrics
    ``queue_wait_s`` and ``time_to_first_token_p90_s``, which are infinite for systems that do not
    keep up."""
    draft: Annotated[DraftName, unstored_at(None)] = None
    """Draft model, on the machines of a pool ``draft``. It drafts tokens that the pool ``decode``
    checks in one pass (speculative decoding)."""
    draft_tokens: DraftTokens = None
    """Tokens drafted before each verification. [4]"""
    acceptance: Annotated[Share | None, unstored_at(None)] = None
    """Acceptance rate: probability that a drafted token is accepted, whatever came before it."""
    max_batch: Positive = 128
    """The largest batch that a pool of NPUs chooses."""

    def check_fields(self) -> None:
        counts = (self.prompt_tokens, self.generated_tokens)
        n_stated = (self.trace is not None) + (self.session is not None) + (counts != (None, None))
        if n_stated != 1:
            message = f"expected trace, session, or {BOTH_COUNTS}"
            raise KeyedValueError("", message, ("session", *TOKEN_KEYS))
        if counts != (None, None) and None in counts:
            raise KeyedValueError("", f"expected {BOTH_COUNTS}", TOKEN_KEYS)
        self.drafting.check_draft()
        if self.draft and (self.session or "decode" not in self.phases):
            raise KeyedValueError("draft", "expected the phase decode and no session")
        if len(set(self.phases)) < len(self.phases):
            raise KeyedValueError("phases", f"expected each phase once, got {list(self.phases)}")
        n_tokens = self.tokens.prompt_tokens + self.tokens.generated_tokens
        if self.session is not None:
            n_tokens = load_session(self.session).longest_tokens
        self.check_context(n_tokens, self.language_model, "session", *TOKEN_KEYS)

    @property
    def drafting(self) -> PlatformRequest:
        """The keys of speculative decoding, as requests to one machine have them."""
        return PlatformRequest.model_construct(**dict(self))

    @cached_property
    def tokens(self) -> Trace:
        """Prompt and generated token counts, from the trace or as given."""
        if self.trace is not None:
            return load_trace(self.trace)
        if self.session is not None:
            session = load_session(self.session)
            added, answers = map(session.turn_values, ("new_tokens", "generated_tokens"))
            prompt = float((session.context_tokens + added).mean())
            return Trace(
                prompt_tokens=round(prompt), generated_tokens=max(round(float(answers.mean())), 1)
            )
        assert self.prompt_tokens is not None and self.generated_tokens is not None  # checked
        return Trace(prompt_tokens=self.prompt_tokens, generated_tokens=self.generated_tokens)
