"""Tokens of one pass, and the contexts to which the layers of a model attend."""

from __future__ import annotations

from math import inf
from typing import Literal

from codesign.base.records import frozen

Embedding = Literal["lookup", "dense"]


@frozen
class Span:
    """The tokens to which the layers of one kind of softmax attention attend.

    Attributes:
        prefix: Prefix of the names of the layers' operators.
        query_heads: Query heads of each, on average.
        kv_heads: Heads with keys and values of each, on average.
        query_width: Width of the queries of each, on average.
        key_width: Width of the keys that each reads, on average.
        value_width: Width of the values that each reads, on average.
        output_width: Width of what each gives, on average.
        context: Tokens that each token of the pass attends to, on average.
        cached: Tokens whose keys and values are read.
        stored_key_width: Width of the keys that each stores itself, on average.
        stored_value_width: Width of the values that each stores itself, on average.
        window: Tokens beyond which its cache grows no more.
    """

    prefix: str
    layers: int
    query_heads: float
    kv_heads: float
    query_width: float
    key_width: float
    value_width: float
    output_width: float
    context: float
    cached: float
    stored_key_width: float
    stored_value_width: float
    window: float = inf


@frozen
class LayerPass:
    """One pass through the layers.

    Attributes:
        tokens: Tokens that a request brings.
        spans: Spans of the kinds of softmax attention that the model has; one with latent
            attention, and a second one, of its indexer, where that is sparse.
        logit_tokens: Tokens that go through the LM head.
        is_prefill: Whether keys and values of the whole context are computed in this pass.
        has_past: Whether there are tokens before those of the pass.
        embedding: Whether rows of the embedding are looked up, or multiplied with one-hot rows.
        context: Tokens up to each token of the pass, on average.
    """

    tokens: float
    spans: tuple[Span, ...]
    logit_tokens: float
    is_prefill: bool
    has_past: bool
    embedding: Embedding = "lookup"
    context: float = 0.0
