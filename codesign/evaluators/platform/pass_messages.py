"""The messages of one pass between devices (GenZ §IV-D).

A group's ranks are numbered so that tensor parallelism is nearest, then experts, then the
sequence, then the stages of the pipeline: a group whose stride and size exceed a node spans
several, and its collectives are hierarchical.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from codesign.columns import FloatArray
from codesign.evaluators.platform.communication import Message
from codesign.evaluators.platform.device_work import Stream
from codesign.evaluators.platform.platform import Platform
from codesign.evaluators.platform.serving_rules import ServingRules
from codesign.evaluators.platform.sharding import Sharding
from codesign.workload.model import LanguageModel


def list_messages(
    sharding: Sharding, streams: Sequence[Stream], rules: ServingRules
) -> list[Message]:
    """The messages of a pass of one replica."""
    platform, width = sharding.platform, sharding.model.hidden_size
    products = [stream for stream in streams if stream.has_products]
    tokens = _rows(platform, products, "tokens")
    logits = _rows(platform, products, "logits")
    messages = [
        *_attention(sharding, streams, tokens),
        *_mlp(sharding, products, tokens, rules),
        *_ends(sharding, products, tokens, logits),
    ]
    hops = np.maximum(platform.pp - 1, 0)
    sent, stride = width * tokens, platform.stage_devices
    return [
        *messages,
        Message("stage_to_stage", "send", False, hops, sent, platform.pp, stride),
    ]


def _rows(platform: Platform, streams: Sequence[Stream], quantity: str) -> FloatArray:
    """Tokens, or tokens with logits, of one device in a pass."""
    total = np.zeros_like(platform.tp)
    for stream in streams:
        table = stream.table
        per_request = table.tokens_per_request
        if quantity == "logits":
            per_request = float(table.m_per_request[table.groups.index("lm_head")])
        share = platform.sp if stream.is_prefill else 1.0
        total = total + per_request * platform.own_requests(stream.requests) / share
    return total


def _attention(sharding: Sharding, streams: Sequence[Stream], tokens: FloatArray) -> list[Message]:
    model, platform = sharding.model, sharding.platform
    layers, ranks = float(model.n_attention_layers), platform.attention_ranks
    adjacent = np.ones_like(ranks)
    messages = [
        Message("attention_output", "all_reduce", True, layers + model.n_linear_layers,
                tokens * model.hidden_size, ranks, adjacent)
    ]  # fmt: skip
    for stream in streams:
        if stream.is_prefill:
            # Every rank of a sequence gathers the keys and values of all its tokens.
            wide = _cache_width(model) * sharding.kv * stream.table.tokens_per_request
            elements, kind = wide * platform.own_requests(stream.requests), "all_gather"
        else:
            # The ranks' partial sums, with maximum and denominator of each row's softmax.
            wide = sharding.heads_per_rank * (_value_width(model) + 2)
            requests = platform.own_requests(stream.attention_requests)
            elements, kind = wide * requests, "all_reduce"
        messages.append(
            Message(f"sequence{stream.name}", "all_gather" if kind == "all_gather" else
                    "all_reduce", True, layers, elements, platform.sp, ranks)
        )  # fmt: skip
    return messages


def _cache_width(model: LanguageModel) -> float:
    """Elements that one token keeps in the cache, per layer."""
    if model.is_latent:
        return float(model.latent_dims.kv_lora_rank + model.latent_dims.qk_rope_head_dim)
    return 2.0 * model.num_key_value_heads * model.head_dim


def _value_width(model: LanguageModel) -> float:
    return float(model.latent_dims.kv_lora_rank if model.is_latent else model.head_dim)


def _mlp(
    sharding: Sharding, streams: Sequence[Stream], tokens: FloatArray, rules: ServingRules
) -> list[Message]:
    model, tp = sharding.model, sharding.platform.tp
    elements, adjacent = tokens * float(model.hidden_size), np.ones_like(tokens)
    dense = float(model.n_dense_layers)
    messages = [Message("mlp_output", "all_reduce", True, dense, elements, tp, adjacent)]
    if not model.is_mixture:
        return messages
    return [*messages, *rules.expert_messages(sharding, streams, tokens)]


def _ends(
    sharding: Sharding, streams: Sequence[Stream], tokens: FloatArray, logits: FloatArray
) -> list[Message]:
    model, ranks = sharding.model, sharding.platform.attention_ranks
    adjacent = np.ones_like(tokens)
    messages = []
    if any("embedding" in stream.table.groups for stream in streams):
        elements = tokens * model.hidden_size
        messages.append(
            Message("embedding_sum", "all_reduce", False, 1.0, elements, ranks, adjacent)
        )
    gathered = logits * model.vocab_size
    return [*messages, Message("logits", "all_gather", False, 1.0, gathered, ranks, adjacent)]
