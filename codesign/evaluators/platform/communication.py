"""Messages between devices, those of layers with experts, and their time (GenZ Eqs. 3 and 4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from codesign.base.columns import FloatArray, Floats
from codesign.base.records import frozen
from codesign.evaluators.platform.platform import Platform
from codesign.evaluators.platform.platform_options import PlatformOptions
from codesign.models.deployments.expert_parallelism import exchange_steps
from codesign.models.hardware.collective_times import (
    CollectiveKind,
    Link,
    all_gather_s,
    all_reduce_s,
    all_to_all_s,
    point_to_point_s,
    split_over_nodes,
)
from codesign.models.workload.model import LanguageModel
from codesign.models.workload.operator_rules import Scope

Kind = CollectiveKind | Literal["dispatch", "combine"]


@frozen
class Message:
    """One collective of a pass; arrays are (n,).

    Attributes:
        name: Purpose of the message.
        collective: Its kind; ``send`` goes from a stage of the pipeline to the next,
            ``dispatch`` and ``combine`` carry tokens to the groups of their experts and back.
        is_in_layers: Whether every layer sends the message; otherwise an end of the model does.
        count: Instances in the whole model, all stages together.
        elements: Elements of the message that every rank holds; of a gather, of all parts; of
            dispatch and combine, the sum of what one rank sends to the others.
        ranks: Devices that take part in the collective.
        stride: Devices between two ranks.
        is_dispatched: Whether it carries tokens in the format in which experts are sent them.
        scope: Which tokens of a pass it is of.
    """

    name: str
    collective: Kind
    is_in_layers: bool
    count: Floats
    elements: FloatArray
    ranks: FloatArray
    stride: FloatArray
    is_dispatched: bool = False
    scope: Scope = "tokens"


def expert_messages(
    model: LanguageModel, platform: Platform, tokens: FloatArray, has_data_attention: bool
) -> list[Message]:
    """Messages of layers with experts, whose groups serve requests of their own or not."""
    if has_data_attention:
        return _exchanged(model, platform, tokens)
    # All devices have all tokens; each adds what its part of its experts gives.
    ranks = platform.attention_ranks
    sparse = float(model.n_moe_layers)
    elements = tokens * float(model.hidden_size)
    adjacent = np.ones_like(tokens)
    return [Message("expert_output", "all_reduce", True, sparse, elements, ranks, adjacent)]


def _exchanged(model: LanguageModel, platform: Platform, tokens: FloatArray) -> list[Message]:
    """The exchange of tokens between groups, or one sum where there is a single group."""
    sparse = float(model.n_moe_layers)
    adjacent = np.ones_like(tokens)
    tp = platform.tp
    is_alone = platform.ep <= 1
    messages = []
    for step in exchange_steps(model, tokens, platform.ep, tp):
        ranks, stride = (platform.ep, tp) if step.is_between_groups else (tp, adjacent)
        count = sparse if step.is_between_groups else np.where(is_alone, 0.0, sparse)
        messages.append(
            Message(step.name, step.collective, True, count, step.elements, ranks, stride,
                    is_dispatched=step.is_dispatched)
        )  # fmt: skip
    dispatched = np.where(is_alone, sparse, 0.0)
    elements = tokens * float(model.hidden_size)
    return [
        *messages,
        Message("expert_output", "all_reduce", True, dispatched, elements, tp, adjacent),
    ]


def message_time_s(
    message: Message, platform: Platform, options: PlatformOptions, send_warm_up_s: float
) -> FloatArray:
    """(n,) time of one instance of a message; those between stages have their own warm-up."""
    size = message.elements * platform.activation_bytes
    warm_up = options.warm_up or 0.0
    share = options.link_efficiency or 1.0
    near = platform.link.share_rates(share)
    far = platform.network.share_rates(share)
    if message.collective == "send":
        times = (point_to_point_s(size, link, send_warm_up_s) for link in (near, far))
        return mean_over_boundaries(message, platform, *times)
    inner, outer = split_over_nodes(message.ranks, message.stride, platform.node_size)
    if message.collective == "all_reduce":
        return all_reduce_s(size, inner, outer, near, far, warm_up, options.all_reduce)
    if message.collective in ("dispatch", "combine"):
        # Tokens are written straight to all partners: one latency, links and network at once.
        share_bytes = size / np.maximum(inner * outer - 1.0, 1.0)
        within = near.latency_s + (inner - 1.0) * share_bytes / near.bandwidth_bytes_per_s
        across = far.latency_s + (outer - 1.0) * inner * share_bytes / far.bandwidth_bytes_per_s
        slower = np.maximum(np.where(inner > 1, within, 0.0), np.where(outer > 1, across, 0.0))
        return slower + np.where(inner * outer > 1, warm_up, 0)
    return _OTHERS[message.collective](size, inner, outer, near, far, warm_up)


def direct_message_s(message: Message, platform: Platform, element_bytes: Floats) -> FloatArray:
    """(n,) time of one instance of a message of chips that write to all partners at once.

    An all-reduce is a reduce-scatter, then an all-gather.
    """
    size = message.elements * element_bytes
    near = platform.link
    far = platform.network
    if message.collective == "send":
        times = (point_to_point_s(size, link, 0.0) for link in (near, far))
        return mean_over_boundaries(message, platform, *times)
    inner, outer = split_over_nodes(message.ranks, message.stride, platform.node_size)
    passes = 2.0 if message.collective == "all_reduce" else 1.0
    within = near.steps_s(passes, size * (inner - 1.0) / inner)
    across = far.steps_s(passes, size * (outer - 1.0) / (inner * outer))
    return np.where(inner > 1, within, 0.0) + np.where(outer > 1, across, 0.0)


_Collective = Callable[[FloatArray, FloatArray, FloatArray, Link, Link, float], FloatArray]
_OTHERS: dict[str, _Collective] = {
    "all_gather": all_gather_s,
    "reduce_scatter": all_gather_s,
    "all_to_all": all_to_all_s,
}


def mean_over_boundaries(
    message: Message, platform: Platform, near_s: FloatArray, far_s: FloatArray
) -> FloatArray:
    """(n,) mean time of a message from stage to stage of the pipeline.

    Args:
        message: A message of kind ``send``.
        near_s: Its time within a node.
        far_s: Its time between nodes, where some of the boundaries lie; may be NaN where none does.
    """
    _, n_nodes = split_over_nodes(message.ranks, message.stride, platform.node_size)
    # A stage that fills a node or more has every boundary at a node's end.
    between = np.where(message.ranks > 1, (n_nodes - 1) / np.maximum(message.ranks - 1, 1), 0.0)
    return np.where(between > 0, between * far_s, 0.0) + np.where(
        between < 1, (1 - between) * near_s, 0.0
    )
