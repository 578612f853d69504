"""Request to a platform: a model, tokens, beams, chunking, speculative decoding.

.. [Leviathan2023] Y. Leviathan, M. Kalman, Y. Matias, Fast inference from transformers via
   speculative decoding, 2023: equation 1.
"""

from __future__ import annotations

from functools import cached_property
from typing import Annotated

from pydantic import Field

from codesign.base.columns import Fields, IntegerPair
from codesign.base.errors import InputError, KeyedValueError
from codesign.base.schema import Natural, Positive, Share, accepted_by, unstored_at
from codesign.evaluators.platform.use_cases import UseCase, load_use_case
from codesign.models.workload.model import LanguageModel
from codesign.models.workload.model_library import load_model
from codesign.models.workload.request import (
    CheckedTokens,
    LayerPart,
    SequenceRecord,
    StepsPerToken,
    TraceName,
)
from codesign.models.workload.traces import load_trace


def _check_generates(name: str) -> None:
    if load_model(name).is_diffusion:
        raise InputError(f"expected a model that generates token by token, got {name!r}")


DraftName = Annotated[str, accepted_by(_check_generates)] | None
DraftTokens = Annotated[Annotated[Positive, Field(le=64)] | None, unstored_at(None)]
UNDRAFTED = {"draft": None, "draft_tokens": None, "acceptance": None}
"""Keys of a request without speculative decoding."""
_DRAFT_KEYS = (("draft_tokens", "draft"), ("acceptance", "draft"), ("draft", "acceptance"))
"""Keys, each with the key that it needs."""


class PlatformRequest(SequenceRecord):
    """The requests of a batch, all alike, from prompt to last token."""

    model: Annotated[str, accepted_by(_check_generates)]
    """A bundled language model, or the path of a ``config.json`` or YAML file."""
    use_case: Annotated[str, accepted_by(load_use_case)] | None = None
    """Tokens, beams and limits of a use case: question-answering, chat, rag-qa, summarization,
    code-generation or personal-assistant."""
    trace: TraceName | None = None
    """A named pair of token counts (``osworld``)."""
    prompt_tokens: Positive | None = None
    """Tokens of a prompt; instead of ``use_case``."""
    generated_tokens: Natural | None = None
    """Tokens generated after it, by each beam; 0: the first decode step is looked at."""
    beams: Positive | None = None
    """Answers that a request generates side by side; 1, or as the use case has it."""
    chunk_tokens: Positive | None = None
    """Prompt tokens that one pass prefills (chunked prefill); the whole prompt if left out."""
    mixed: bool = False
    """Whether every pass with a chunk of a prompt also carries a decode step of the batch."""
    expert_copies: Annotated[Natural, unstored_at(0)] = 0
    """Copies of experts beside the model's own, among which tokens are shared out evenly, so that
    more devices divide them."""
    layers: Annotated[LayerPart, unstored_at("all")] = "all"
    """``attention`` or ``ffn``: the devices run that part of every layer, others the other one."""
    checked_tokens: CheckedTokens = 1
    """Tokens of a request in a decode step: those that other devices drafted, and the next."""
    steps_per_token: StepsPerToken = 1.0
    """Decode steps of a generated token, where other devices draft or check it."""
    draft: DraftName = None
    """Draft model on the same devices. It drafts tokens that the model verifies in one pass
    (speculative decoding)."""
    # Up to 64 [ours]: with 95 % accepted, the last of them counts 4 %.
    draft_tokens: DraftTokens = None
    """Tokens drafted before each verification. [4]"""
    acceptance: Share | None = None
    """Acceptance rate: probability that a drafted token is accepted, whatever came before it."""

    def check_fields(self) -> None:
        counts = (self.prompt_tokens, self.generated_tokens)
        has_counts = counts != (None, None)
        n_named = 2 - (self.use_case, self.trace).count(None)
        if n_named + has_counts != 1 or (has_counts and None in counts):
            raise KeyedValueError(
                "",
                "expected one of use_case, trace, or both prompt_tokens and generated_tokens",
                ("use_case", "trace", "prompt_tokens", "generated_tokens"),
            )
        if self.expert_copies and not load_model(self.model).is_mixture:
            raise KeyedValueError("expert_copies", f"{self.model} has no experts; expected 0")
        if self.mixed and self.chunk_tokens is None:
            message = "expected chunk_tokens, the prompt tokens of one pass"
            raise KeyedValueError("mixed", message, ("chunk_tokens",))
        if self.chunk_tokens is not None and self.chunk_tokens > self.prompt:
            raise KeyedValueError(
                "chunk_tokens",
                f"expected at most the prompt of {self.prompt} tokens, got {self.chunk_tokens}",
            )
        self.check_draft()

    def check_draft(self) -> None:
        """Whether the model can check the tokens of the draft, if there is one.

        Raises:
            KeyedValueError: A key is missing, or the draft has other tokens or a state.
        """
        for key, needed in _DRAFT_KEYS:
            if getattr(self, key) is not None and getattr(self, needed) is None:
                raise KeyedValueError("", f"{key} needs {needed}", (key, needed))
        if self.draft is None:
            return
        model, draft = map(load_model, (self.model, self.draft))
        if draft.vocab_size != model.vocab_size:
            sizes = f"{model.vocab_size:,} tokens, got {draft.vocab_size:,}"
            raise KeyedValueError("draft", f"expected the vocabulary of {self.model}, {sizes}")
        if model.n_linear_layers or draft.n_linear_layers:
            message = "expected models without linear attention: a state takes no token back"
            raise KeyedValueError("draft", message)
        if self.n_beams > 1 or self.mixed:
            message = "draft needs beams 1 and passes that are not mixed"
            raise KeyedValueError("", message, ("draft", "beams"))

    @property
    def models(self) -> list[LanguageModel]:
        """The model, and its draft if there is one."""
        return [load_model(name) for name in (self.model, self.draft) if name]

    @cached_property
    def draft_request(self) -> PlatformRequest | None:
        """The same tokens of the draft model."""
        if self.draft is None:
            return None
        return self.updated({**UNDRAFTED, "model": self.draft, "expert_copies": 0})

    def updated(self, keys: Fields) -> PlatformRequest:
        """The request with other values of some keys."""
        return PlatformRequest(**{**self.model_dump(exclude_none=True), **keys})

    @property
    def n_drafted(self) -> int:
        """Tokens drafted before each verification; 0 without a draft model."""
        return (self.draft_tokens or 4) if self.draft else 0

    @property
    def tokens_per_verification(self) -> float:
        """Expected tokens of a verification: those accepted, and the next one [Leviathan2023]_."""
        return sum((self.acceptance or 0.0) ** i for i in range(self.n_drafted + 1))

    @cached_property
    def language_model(self) -> LanguageModel:
        """The model, loaded, with the copies of its experts."""
        model = load_model(self.model)
        if not self.expert_copies:
            return model
        n_experts = model.moe_dims.n_routed_experts + self.expert_copies
        return model.model_copy(update={"n_routed_experts": n_experts})

    @cached_property
    def limits(self) -> UseCase | None:
        """The use case with its limits; None if the tokens were given otherwise."""
        return None if self.use_case is None else load_use_case(self.use_case)

    @cached_property
    def _tokens(self) -> IntegerPair:
        if self.limits is not None:
            return self.limits.prompt_tokens, self.limits.generated_tokens
        if self.trace is not None:
            trace = load_trace(self.trace)
            return trace.prompt_tokens, trace.generated_tokens
        assert self.prompt_tokens is not None and self.generated_tokens is not None  # checked
        return self.prompt_tokens, self.generated_tokens

    @property
    def prompt(self) -> int:
        """Tokens of the prompt."""
        return self._tokens[0]

    @property
    def generated(self) -> int:
        """Tokens generated by each beam."""
        return self._tokens[1]

    @property
    def n_beams(self) -> int:
        """Beams of a request."""
        return self.beams or (self.limits.beams if self.limits else 1)
