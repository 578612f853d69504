"""The messages of one pass between devices (GenZ §IV-D).

A group's ranks are numbered so that tensor parallelism is nearest, then experts, then the
sequence, then the stages of the pipeline: a group whose stride and size exceed a node spans
several, and its collectives are hierarchical.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from codesign.base.columns import FloatArray
from codesign.evaluators.platform.communication import Message
from codesign.evaluators.platform.device_work import Stream
from codesign.evaluators.platform.loads import stream_parts, total_of, written_elements
from codesign.evaluators.platform.platform import Platform
from codesign.evaluators.platform.serving_rules import ServingRules
from codesign.evaluators.platform.sharding import Sharding
from codesign.models.workload.operator_rules import Collective
from codesign.models.workload.storage import kv_elements_per_token

_PURPOSES: dict[Collective, str] = {"all_reduce": "sum", "all_gather": "gather"}
"""Suffix of a message's name after the operator whose outputs it sends."""
BETWEEN_GROUPS = ("expert_dispatch", "expert_combine", "token_gather")
"""Messages between groups of experts, which a link to and from attention devices replaces."""


def list_messages(
    sharding: Sharding, streams: Sequence[Stream], rules: ServingRules
) -> list[Message]:
    """The messages of a pass of one replica."""
    platform = sharding.platform
    model = sharding.model
    products = [stream for stream in streams if stream.has_products]
    tokens = _tokens(platform, products)
    has_experts = model.is_mixture and sharding.layers != "attention"
    hops = np.maximum(platform.pp - 1, 0)
    sent = model.hidden_size * tokens
    return [
        *_operator_messages(sharding, products),
        *(_sequence_messages(sharding, streams) if sharding.layers != "ffn" else []),
        *(rules.expert_messages(sharding, products, tokens) if has_experts else []),
        Message("stage_to_stage", "send", False, hops, sent, platform.pp, platform.stage_devices),
    ]


def _tokens(platform: Platform, streams: Sequence[Stream]) -> FloatArray:
    """Tokens of one device in a pass."""
    total = np.zeros_like(platform.tp)
    for stream in streams:
        share = platform.sp if stream.is_prefill else 1.0
        requests = platform.own_requests(stream.requests)
        total = total + stream.table.tokens_per_request * requests / share
    return total


def _operator_messages(sharding: Sharding, streams: Sequence[Stream]) -> Iterator[Message]:
    """Sums and gathers of devices after each operator that they divide, by its rule.

    After experts, the rules of serving say it.
    """
    tables = [stream.table for stream in streams]
    rules = {
        name: rule for table in tables for name, rule in zip(table.names, table.rules, strict=True)
    }
    for name, rule in rules.items():
        if rule.collective is None or rule.kernel == "experts":
            continue
        slices = stream_parts(sharding.platform, streams, name)
        table = slices[0].stream.table
        i = slices[0].position
        yield Message(
            name=f"{name}_{_PURPOSES[rule.collective]}",
            collective=rule.collective,
            is_in_layers=bool(table.is_in_layers[i]),
            count=float(table.count[i]),
            elements=total_of(slices, written_elements),
            ranks=sharding.ranks(rule),
            stride=np.ones_like(sharding.platform.tp),
            scope=rule.scope,
        )


def _sequence_messages(sharding: Sharding, streams: Sequence[Stream]) -> Iterator[Message]:
    """Messages of devices that divide a sequence, in each layer's attention."""
    model = sharding.model
    platform = sharding.platform
    layers = float(model.n_attention_layers)
    ranks = platform.attention_ranks
    keys = model.n_index_layers * model.index_dims.head_dim if model.is_sparse else 0
    # Elements that one token keeps in the cache, per layer with softmax attention, on average.
    cache_width = (kv_elements_per_token(model) + keys) / (model.n_attention_layers or 1)
    value_width = model.value_head_dim or model.head_dim
    if model.is_latent:
        value_width = model.latent_dims.kv_lora_rank
    collective: Collective
    for stream in streams:
        if stream.is_prefill:
            # Every rank of a sequence gathers the keys and values of all its tokens.
            wide = cache_width * sharding.parts["kv_heads"] * stream.table.tokens_per_request
            elements = wide * platform.own_requests(stream.requests)
            collective = "all_gather"
        else:
            # The ranks' partial sums, with maximum and denominator of each row's softmax.
            wide = sharding.heads_per_rank * (value_width + 2)
            requests = platform.own_requests(stream.attention_requests)
            elements = wide * requests
            collective = "all_reduce"
        name = f"sequence{stream.name}"
        yield Message(name, collective, True, layers, elements, platform.sp, ranks, scope="phase")
