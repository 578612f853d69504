"""Requests: a model, a phase, and how many tokens come in and go out."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Annotated, ClassVar, Literal, get_args

import numpy as np
from pydantic import Field

from codesign.base.columns import IntegerTuple, StringMap
from codesign.base.errors import InputError, KeyedValueError
from codesign.base.schema import (
    Natural,
    Positive,
    PositiveAmount,
    Record,
    accepted_by,
    checked,
    unstored_at,
)
from codesign.models.workload.layer_pass import Embedding
from codesign.models.workload.lowering import Logits, Phase, lower
from codesign.models.workload.model import LanguageModel
from codesign.models.workload.model_library import load_model
from codesign.models.workload.operators import OperatorTable
from codesign.models.workload.precision import Convention
from codesign.models.workload.sessions import check_length, load_session
from codesign.models.workload.storage import (
    stored_kv_elements,
    stored_operators,
    stored_state_bytes,
)
from codesign.models.workload.traces import Trace, load_trace

BatchRule = Literal["best", "capacity"]
LayerPart = Literal["all", "attention", "ffn"]

_FFN_GROUPS = ("mlp", "moe")


def served_operators(table: OperatorTable, layers: LayerPart) -> OperatorTable:
    """The operators of a machine that runs a part of every layer."""
    if layers == "all":
        return table
    is_ffn = np.array([group in _FFN_GROUPS for group in table.groups])
    return table.take(np.flatnonzero(is_ffn == (layers == "ffn")))


CheckedTokens = Annotated[Positive, unstored_at(1)]
StepsPerToken = Annotated[PositiveAmount, unstored_at(1.0)]
ModelName = Annotated[str, accepted_by(load_model)]
"""A bundled language model, or the path of a ``config.json`` or YAML file."""
TraceName = Annotated[str, accepted_by(load_trace)]
"""A named pair of token counts."""
SessionName = Annotated[str, accepted_by(load_session)]
"""A named session, or a YAML file with one."""


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _batch(value: object) -> object:
    if value in (None, *get_args(BatchRule)) or _is_count(value):
        return value
    if isinstance(value, list | tuple) and value and all(map(_is_count, value)):
        return tuple(value)
    raise InputError(
        "expected 'best', 'capacity', a number of requests from 1, or a list of such numbers, "
        f"got {value!r}"
    )


class SequenceRecord(Record):
    """Base of records that state a model and lengths of sequences, checked against its context."""

    beyond_context: bool = Field(False, exclude=True)
    """True to evaluate sequences longer than the model's context, as MemExplorer §5.1 does with its
    traces: assumes that RoPE scaling, such as YaRN, extends the context at no cost."""
    model: ModelName
    """A bundled language model, or the path of a ``config.json`` or YAML file."""

    @cached_property
    def language_model(self) -> LanguageModel:
        """The model, loaded."""
        return load_model(self.model)

    def check_context(self, n_tokens: int, model: LanguageModel, *keys: str) -> None:
        """Refuse sequences that are longer than the context of a model, unless allowed.

        Args:
            n_tokens: Longest sequence.
            model: Its context is the limit.
            keys: Keys of the record that may state the tokens; the first that does is named.

        Raises:
            KeyedValueError: The sequence is too long.
        """
        if self.beyond_context:
            return
        try:
            check_length(n_tokens, model)
        except InputError as error:
            key = next((key for key in keys if getattr(self, key) is not None), keys[-1])
            raise KeyedValueError(key, error.problems[0], keys) from None


TOKEN_KEYS = ("trace", "prompt_tokens", "generated_tokens")
"""Keys that say how long requests are."""
BOTH_COUNTS = "both prompt_tokens and generated_tokens"


class Request(SequenceRecord):
    """The requests of a batch, all alike; what a campaign's ``workload:`` says."""

    other_words: ClassVar[StringMap] = {
        "context_length": "prompt_tokens",
        "context_tokens": "prompt_tokens",
        "input_tokens": "prompt_tokens",
        "output_tokens": "generated_tokens",
        "new_tokens": "generated_tokens",
    }
    phase: Phase
    """``prefill`` or ``decode``: MemExplorer specializes a machine for each (§4.3)."""
    trace: TraceName | None = None
    """A named pair of token counts, such as osworld or gsm8k; see ``codesign list workloads``."""
    prompt_tokens: Positive | None = None
    """Tokens of the prompt; instead of ``trace``."""
    generated_tokens: Positive | None = None
    """Tokens generated after it; instead of ``trace``."""
    cached_tokens: Annotated[Natural, unstored_at(0)] = 0
    """Tokens before the prompt whose keys and values are in the cache, as in a later turn of a
    session; the prompt's tokens attend to them."""
    batch: Annotated[int | IntegerTuple | BatchRule | None, checked(_batch)] = None
    """Requests processed together: a number; several numbers, of which the best in throughput is
    taken; ``best``: the best power of two that fits the memory; ``capacity``: the largest that
    fits (reproduces MemExplorer's Tables 5 and 6). The best is one that keeps the campaign's
    limits on latency. Left out, the evaluator's profile says it."""
    layers: LayerPart = "all"
    """``attention`` or ``ffn``: the machine runs that part of every layer, and another machine the
    other one. The part with the attention has the embedding, norms and LM head as well."""
    checked_tokens: CheckedTokens = 1
    """Tokens of a request in a decode step: with speculative decoding the drafted ones and the
    next."""
    steps_per_token: StepsPerToken = 1.0
    """Decode steps of a generated token: with speculative decoding fewer where tokens are checked,
    and as many as are drafted for it where they are drafted."""
    max_batch: Positive = 128
    """The largest batch that ``best`` and ``capacity`` choose."""
    causal: bool = True
    """Whether masked attention scores are skipped, which halves the attention of a prefill."""
    logits: Logits = "last"
    """``last``: the LM head only where a token is predicted; ``all``: on every token."""
    embedding: Embedding = "lookup"
    """``lookup``: rows are read from the table; ``dense``: a product with one-hot rows (GenZ)."""
    format_convention: Convention = "plain"
    """Bits of an element: ``plain`` (8.0 for an 8-bit format, the only one with which the
    batches of MemExplorer's tables come out) or ``exact`` (with the shared scale, 8.25)."""
    diffusion_steps: Positive | None = None
    """Denoising steps of a diffusion model; one per generated token if left out."""

    def check_fields(self) -> None:
        has_counts = (self.prompt_tokens is not None, self.generated_tokens is not None)
        if self.trace is None and not all(has_counts):
            raise KeyedValueError("", f"expected trace, or {BOTH_COUNTS}", TOKEN_KEYS)
        if self.trace is not None and any(has_counts):
            raise ValueError("expected either trace or token counts, got both")
        if self.diffusion_steps is not None and not self.language_model.is_diffusion:
            raise KeyedValueError("diffusion_steps", f"{self.model} is not a diffusion model")
        if self.cached_tokens and self.language_model.is_diffusion:
            raise KeyedValueError("cached_tokens", f"{self.model} keeps no cache between passes")
        self.check_context(self.total_tokens, self.language_model, *TOKEN_KEYS)

    @cached_property
    def tokens(self) -> Trace:
        """Prompt and generated token counts, from the trace or as given."""
        if self.trace is not None:
            return load_trace(self.trace)
        assert self.prompt_tokens is not None and self.generated_tokens is not None  # checked above
        return Trace(prompt_tokens=self.prompt_tokens, generated_tokens=self.generated_tokens)

    @property
    def tokens_of_phase(self) -> int:
        """Tokens of one request that the phase's throughput counts."""
        is_prefill = self.phase == "prefill"
        return self.tokens.prompt_tokens if is_prefill else self.tokens.generated_tokens

    @cached_property
    def stored_operators(self) -> OperatorTable:
        """Operators of one token in the machine's layers, with what they store."""
        return served_operators(stored_operators(self.language_model), self.layers)

    @property
    def weight_elements(self) -> int:
        """Elements of all weights, held once whatever the batch."""
        table = self.stored_operators
        return round(float((table.count * table.stored_weight_elements).sum()))

    @property
    def kv_elements_per_request(self) -> int:
        """Elements of the KV cache of one request when its last token is generated.

        For a diffusion model these are the keys and values of one pass over all layers, as
        MemExplorer counts them in Table 7; an execution that keeps one layer's needs less.
        """
        return round(float(stored_kv_elements(self.stored_operators, self.total_tokens).sum()))

    @property
    def state_bytes_per_request(self) -> int:
        """Bytes of state of one request at its end, in the model's own formats."""
        return round(float(stored_state_bytes(self.stored_operators, self.total_tokens).sum()))

    @property
    def total_tokens(self) -> int:
        """Tokens of a request when its last token is generated."""
        return self.cached_tokens + self.tokens.prompt_tokens + self.tokens.generated_tokens

    def operators(self, context: float | None = None) -> OperatorTable:
        """The operators of one pass (see :func:`codesign.models.workload.lowering.lower`).

        Args:
            context: Tokens that a decode step attends to; their mean over the decode if None.
        """
        table = lower(
            self.language_model,
            self.phase,
            self.tokens.prompt_tokens + (0 if self.phase == "prefill" else self.cached_tokens),
            self.tokens.generated_tokens,
            causal=self.causal,
            logits=self.logits,
            embedding=self.embedding,
            diffusion_steps=self.diffusion_steps,
            context=context,
            past_tokens=self.cached_tokens,
            new_tokens=self.checked_tokens,
        )
        table = replace(table, n_passes=table.n_passes * self.steps_per_token)
        return served_operators(table, self.layers)
