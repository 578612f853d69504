"""Messages of one pass between devices, and their time (GenZ §IV-D, Eqs. 3 and 4).

A group's ranks are numbered so that tensor parallelism is nearest, then experts, then the
sequence, then the stages of the pipeline: a group whose stride and size exceed a node spans
several, and its collectives are hierarchical.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from codesign.columns import FloatArray
from codesign.evaluators.platform.options import PlatformOptions
from codesign.evaluators.platform.platforms import Platform
from codesign.evaluators.platform.sharding import Sharding
from codesign.evaluators.platform.work import Stream
from codesign.hardware.collectives import (
    Link,
    hierarchical_all_gather_s,
    hierarchical_all_reduce_s,
    hierarchical_all_to_all_s,
    point_to_point_s,
    split_over_nodes,
)
from codesign.machines.device.expert_exchange import partners
from codesign.workload.model import LanguageModel

Kind: TypeAlias = Literal[
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "dispatch", "combine", "send"
]  # fmt: skip


@dataclass(frozen=True)
class Message:
    """One collective of a pass; arrays are (n,).

    Attributes:
        name: Purpose of the message.
        kind: Kind of collective; ``send`` goes from a stage of the pipeline to the next,
            ``dispatch`` and ``combine`` carry tokens to the groups of their experts and back.
        is_in_layers: Whether every layer sends the message; otherwise an end of the model does.
        count: Instances in the whole model, all stages together.
        elements: Elements of the message that every rank holds; of a gather, of all parts; of
            dispatch and combine, the sum of what one rank sends to the others.
        ranks: Devices that take part in the collective.
        stride: Devices between two ranks.
    """

    name: str
    kind: Kind
    is_in_layers: bool
    count: float | FloatArray
    elements: FloatArray
    ranks: FloatArray
    stride: FloatArray


def list_messages(
    model: LanguageModel,
    platform: Platform,
    sharding: Sharding,
    streams: Sequence[Stream],
    options: PlatformOptions,
) -> list[Message]:
    """The messages of a pass of one replica."""
    products = [stream for stream in streams if stream.has_products]
    tokens = _rows(platform, products, "tokens")
    logits = _rows(platform, products, "logits")
    messages = [
        *_attention(model, platform, sharding, streams, tokens),
        *_mlp(model, platform, tokens, products, options),
        *_ends(model, platform, tokens, logits, products, options),
    ]
    hops = np.maximum(platform.pp - 1, 0)
    width = model.hidden_size * tokens
    return [
        *messages,
        Message("stage_to_stage", "send", False, hops, width, platform.pp, platform.stage_devices),
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


def _attention(
    model: LanguageModel,
    platform: Platform,
    sharding: Sharding,
    streams: Sequence[Stream],
    tokens: FloatArray,
) -> list[Message]:
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
    model: LanguageModel,
    platform: Platform,
    tokens: FloatArray,
    streams: Sequence[Stream],
    options: PlatformOptions,
) -> list[Message]:
    width, adjacent = float(model.hidden_size), np.ones_like(tokens)
    dense, sparse = float(model.n_dense_layers), float(model.n_moe_layers)
    messages = [
        Message("mlp_output", "all_reduce", True, dense, tokens * width, platform.tp, adjacent)
    ]
    if not model.is_mixture:
        return messages
    if options.is_genz:
        return [*messages, *_genz_experts(model, platform, tokens, streams, options)]
    if options.has_data_attention:
        return [*messages, *_exchanged(model, platform, tokens)]
    # All devices have all tokens; each adds what its part of its experts gives.
    ranks = platform.attention_ranks
    return [
        *messages,
        Message("expert_output", "all_reduce", True, sparse, tokens * width, ranks, adjacent),
    ]


def _exchanged(model: LanguageModel, platform: Platform, tokens: FloatArray) -> list[Message]:
    """Every group sends its tokens once to each other group that has an expert of theirs.

    The devices of a group send a part of its tokens each, gather those that came from others (all
    have the group's own), and add up what their parts of the matrices give; after the way back they
    gather the group's own tokens again.
    """
    width, sparse = float(model.hidden_size), float(model.n_moe_layers)
    groups, tp, adjacent = platform.ep, platform.tp, np.ones_like(tokens)
    mixture = model.moe_dims
    remote = partners(groups, float(mixture.n_routed_experts), mixture.num_experts_per_tok)
    sent = tokens * remote * width / tp
    arrived = tokens * remote * width
    is_alone = groups <= 1
    return [
        Message("expert_dispatch", "dispatch", True, sparse, sent, groups, tp),
        Message("expert_gather", "all_gather", True, np.where(is_alone, 0.0, sparse), arrived,
                tp, adjacent),
        Message("expert_sum", "reduce_scatter", True, np.where(is_alone, 0.0, sparse),
                arrived + tokens * width, tp, adjacent),
        Message("expert_combine", "combine", True, sparse, sent, groups, tp),
        Message("token_gather", "all_gather", True, np.where(is_alone, 0.0, sparse),
                tokens * width, tp, adjacent),
        Message("expert_output", "all_reduce", True, np.where(is_alone, sparse, 0.0),
                tokens * width, tp, adjacent),
    ]  # fmt: skip


def _genz_experts(
    model: LanguageModel,
    platform: Platform,
    tokens: FloatArray,
    streams: Sequence[Stream],
    options: PlatformOptions,
) -> list[Message]:
    """Messages of the experts as GenZ's tool has them.

    It adds up the router's partial scores, and in decode as many as the model is wide.
    """
    width, sparse = float(model.hidden_size), float(model.n_moe_layers)
    mixture = model.moe_dims
    routed = mixture.n_routed_experts if streams[0].is_prefill else width
    times = sparse if options.router_all_reduce else 0.0
    sent, adjacent = tokens * mixture.num_experts_per_tok * width, np.ones_like(tokens)
    return [
        Message("router_scores", "all_reduce", True, times, tokens * routed, platform.tp, adjacent),
        Message("expert_exchange", "all_to_all", True, 2 * sparse, sent, platform.ep, platform.tp),
        Message("expert_output", "all_reduce", True, sparse, tokens * width, platform.tp, adjacent),
    ]


def _ends(
    model: LanguageModel,
    platform: Platform,
    tokens: FloatArray,
    logits: FloatArray,
    streams: Sequence[Stream],
    options: PlatformOptions,
) -> list[Message]:
    ranks, adjacent = platform.attention_ranks, np.ones_like(tokens)
    messages = []
    # GenZ's tool has no embedding in a decode step.
    if not options.is_genz or streams[0].is_prefill:
        messages.append(
            Message(
                "embedding_sum",
                "all_reduce",
                False,
                1.0,
                tokens * model.hidden_size,
                ranks,
                adjacent,
            )
        )
    gathered = logits * model.vocab_size
    return [*messages, Message("logits", "all_gather", False, 1.0, gathered, ranks, adjacent)]


def message_time_s(message: Message, platform: Platform, options: PlatformOptions) -> FloatArray:
    """(n,) time of one instance of a message."""
    size = message.elements * platform.activation_bytes
    near, far, warm_up = platform.link, platform.network, options.warm_up or 0.0
    if message.kind == "send":
        return _send_s(size, message, platform, options)
    inner, outer = split_over_nodes(message.ranks, message.stride, platform.node_size)
    if message.kind == "all_reduce":
        return hierarchical_all_reduce_s(size, inner, outer, near, far, warm_up, options.all_reduce)
    if message.kind in ("dispatch", "combine"):
        return _exchange_s(size, inner, outer, near, far) + np.where(inner * outer > 1, warm_up, 0)
    return _OTHERS[message.kind](size, inner, outer, near, far, warm_up)


def _exchange_s(
    size: FloatArray, inner: FloatArray, outer: FloatArray, near: Link, far: Link
) -> FloatArray:
    """Tokens that are written straight to all partners: one latency, links and network at once."""
    part = size / np.maximum(inner * outer - 1.0, 1.0)
    within = near.latency_s + (inner - 1.0) * part / near.bandwidth_bytes_per_s
    across = far.latency_s + (outer - 1.0) * inner * part / far.bandwidth_bytes_per_s
    slower = np.maximum(np.where(inner > 1, within, 0.0), np.where(outer > 1, across, 0.0))
    return np.asarray(slower)


_Collective: TypeAlias = Callable[
    [FloatArray, FloatArray, FloatArray, Link, Link, float], FloatArray
]
_OTHERS: dict[str, _Collective] = {
    "all_gather": hierarchical_all_gather_s,
    "reduce_scatter": hierarchical_all_gather_s,
    "all_to_all": hierarchical_all_to_all_s,
}


def _send_s(
    size: FloatArray, message: Message, platform: Platform, options: PlatformOptions
) -> FloatArray:
    """Mean time over the boundaries of the pipeline, of which some are between nodes."""
    # GenZ's tool starts a message without the warm-up of Eq. 4.
    warm_up = 0.0 if options.is_genz else (options.warm_up or 0.0)
    between = boundary_share(message, platform)
    near = point_to_point_s(size, platform.link, warm_up)
    far = point_to_point_s(size, platform.network, warm_up)
    return np.where(between > 0, between * far, 0.0) + np.where(
        between < 1, (1 - between) * near, 0.0
    )


def boundary_share(message: Message, platform: Platform) -> FloatArray:
    """(n,) part of the boundaries between a pipeline's stages that lie between nodes."""
    _, n_nodes = split_over_nodes(message.ranks, message.stride, platform.node_size)
    # A stage that fills a node or more has every boundary at a node's end.
    return np.where(message.ranks > 1, (n_nodes - 1) / np.maximum(message.ranks - 1, 1), 0.0)
