"""Experts that are spread over groups of devices, each of which serves requests of its own.

Every group has the attention, the router, the shared experts and the dense layers; of the routed
experts each has its part, to which the tokens of all groups travel and from which they come back.
So a cache that all heads share, as that of latent attention, is kept once for each request, where
tensor parallelism keeps it on every device (DeepSeek-V3, 2024, section 3.4).

Limiting assumptions: tokens choose experts evenly; of groups that have unequal numbers of them, the
one with the most sets the pace.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from codesign.base.columns import FloatArray
from codesign.base.records import frozen
from codesign.models.workload.expert_routing import partners
from codesign.models.workload.model import LanguageModel
from codesign.models.workload.operators import OperatorTable

ExchangeKind = Literal["dispatch", "combine", "all_gather", "reduce_scatter"]


@frozen
class ExchangeStep:
    """One collective around a layer of experts.

    Attributes:
        name: Purpose of the message.
        collective: ``dispatch`` and ``combine`` go between groups, the others within a group.
        elements: What every device has after a gather or before a sum; all that it sends in a
            dispatch or a combination.
        is_dispatched: True if it carries tokens in the format in which experts receive them.
    """

    name: str
    collective: ExchangeKind
    elements: FloatArray
    is_dispatched: bool = False

    @property
    def is_between_groups(self) -> bool:
        """Whether groups send it to one another, and not the devices of one."""
        return self.collective in ("dispatch", "combine")


def exchange_steps(
    model: LanguageModel, tokens: FloatArray, n_groups: FloatArray, n_devices: FloatArray
) -> list[ExchangeStep]:
    """Messages of a layer of experts between several groups.

    Every group sends its tokens once to each other group that has an expert of theirs. The devices
    of a group send a part of its tokens each, gather those that came from others (all have the
    group's own), and add up what their parts of the matrices give; after the way back they gather
    the group's own tokens again.

    Args:
        tokens: (n,) tokens of one group.
        n_groups: (n,) groups.
        n_devices: (n,) devices of one group.
    """
    width = float(model.moe_dims.routed_width)
    mixture = model.moe_dims
    remote = partners(n_groups, float(mixture.n_routed_experts), mixture.num_experts_per_tok)
    sent = tokens * remote * width / n_devices
    arrived = tokens * remote * width
    return [
        ExchangeStep("expert_dispatch", "dispatch", sent),
        ExchangeStep("expert_gather", "all_gather", arrived, is_dispatched=True),
        ExchangeStep("expert_sum", "reduce_scatter", arrived + tokens * width),
        ExchangeStep("expert_combine", "combine", sent),
        ExchangeStep("token_gather", "all_gather", tokens * width),
    ]


def spread_experts(table: OperatorTable, model: LanguageModel, n_groups: int) -> OperatorTable:
    """Operators of a device in the group with the most experts.

    Its experts take tokens of all groups: as many on average as those of its own group would bring
    to all experts, where the groups have equal numbers of experts.
    """
    if n_groups == 1 or not model.is_mixture:
        return table
    n_experts = model.moe_dims.n_routed_experts
    held = np.ceil(n_experts / n_groups)
    share = held / n_experts
    busier = held * n_groups / n_experts
    routed = table.is_routed
    # What goes with their products is of the same tokens; the combination is of the group's own.
    of_experts = np.array(
        [rule.kernel == "experts" and rule.role != "combination" for rule in table.rules]
    )
    load = np.where(of_experts, busier, 1.0)
    expert_share = np.where(routed, share, 1.0)
    moved = ("input_elements", "output_elements", "vector_ops")
    factors = {
        "m_per_request": np.where(routed, n_groups, 1.0),
        "experts_per_token": expert_share,
        "stored_weight_elements": expert_share,
        **dict.fromkeys([f"{name}_per_request" for name in moved], load),
    }
    spread = table.scaled(factors)
    return replace(spread, n_experts=np.where(routed, held, table.n_experts))
