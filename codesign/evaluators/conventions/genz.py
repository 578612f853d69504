"""Counting rules of the public tool of [GenZ]_: profile ``genz`` of the ``platform`` evaluator.

``python -m validation genz`` holds it to the tool's answers.

.. [GenZ] A. Bambhaniya et al., Demystifying Platform Requirements for Diverse LLM Inference
   Use Cases, 2024, and its tool GenZ-LLM-Analyzer, version 0.0.16.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from codesign.base.columns import Column, Fields, FloatArray, StringList
from codesign.base.records import frozen
from codesign.evaluators.platform.communication import Message
from codesign.evaluators.platform.device_memory import CachedTokens, DeviceFootprint
from codesign.evaluators.platform.device_work import DeviceWork, Stream, Works
from codesign.evaluators.platform.loads import Loads, StreamPart
from codesign.evaluators.platform.operator_time import Rooflines
from codesign.evaluators.platform.platform import Platform
from codesign.evaluators.platform.product_columns import ProductColumns
from codesign.evaluators.platform.serving_rules import ServingRules
from codesign.evaluators.platform.sharding import RankShare, Sharding
from codesign.models.hardware.device import Device
from codesign.models.workload.lowering import lower
from codesign.models.workload.model import LanguageModel
from codesign.models.workload.operator_rules import OperatorRule
from codesign.models.workload.operators import OperatorTable
from codesign.models.workload.precision import multiply_bits


@frozen
class GenzRooflines(Rooflines):
    """Rooflines that also time what stays on chip."""

    def memory_s(self, work: DeviceWork) -> FloatArray:
        """Activations come at the rate of weights; what multiplies nothing reads nothing."""
        s_per_byte = self.residence.kept_s_per_byte
        kept_s = (work.weight_bytes + work.kv_bytes) * s_per_byte
        efficiency = self.options.memory_efficiency or 1.0
        onchip_s = work.onchip_bytes / (self.options.onchip_bandwidth * efficiency)
        return np.where(work.mac > 0, kept_s + work.activation_bytes * s_per_byte + onchip_s, 0.0)

    @property
    def send_warm_up_s(self) -> float:
        """The tool starts a message from stage to stage without the warm-up of Eq. 4."""
        return 0.0


class GenzRules(ServingRules):
    """The tool's conventions; what is not here is as in the physical rules."""

    defaults: ClassVar[Fields] = {
        **ServingRules.defaults,
        "warm_up": 5e-6,  # T_warmup of its Eq. 3
        "attention": "tensor",
        "has_nodes": False,
        "router_all_reduce": True,
    }
    limits_context = False
    has_mixed_passes = False
    kernels = GenzRooflines
    unchecked_limits = frozenset(
        {"attention_heads", "intermediate_size", "layers", "batch", "links"}
    )
    """It rounds splits up instead, but for experts, and asks for no links."""

    def prefill_table(self, model: LanguageModel, tokens: int, past: int) -> OperatorTable:
        """All scores, all logits, and an embedding that is a product."""
        return lower(model, "prefill", tokens, 1, causal=False, logits="all",
                     embedding="dense", past_tokens=past)  # fmt: skip

    def decode_table(
        self, model: LanguageModel, context: float, later: float, tokens: int = 1
    ) -> OperatorTable:
        """A decode step without an embedding."""
        table = super().decode_table(model, context, later, tokens)
        return table.take(np.flatnonzero([group != "embedding" for group in table.groups]))

    def mean_generated(self, generated: float) -> float:
        """It looks at the step after the generated tokens, and does not count its own."""
        return generated

    def scored_requests(self, requests: FloatArray, beams: FloatArray) -> FloatArray:
        """It computes the prompt's scores once, as if for one beam."""
        return requests

    def micro_batch(self, platform: Platform) -> FloatArray:
        """It divides the batch by the stages and drops the rest."""
        return np.maximum(np.floor(platform.batch / platform.pp), 1.0)

    def products(
        self,
        products: ProductColumns,
        weights: Column,
        activations: Column,
        peak_16bit_flop_per_s: FloatArray,
    ) -> ProductColumns:
        """It halves the time of a product with each halving of its width, on every device."""
        bits = np.maximum(weights.lookup(multiply_bits), activations.lookup(multiply_bits))
        peak = peak_16bit_flop_per_s * (16.0 / bits)
        return replace(products, peak_flop_per_s=peak, multiply_bits=bits)

    def sharding(self, model: LanguageModel, platform: Platform) -> Sharding:
        """It rounds the vocabulary and the router's rows down, and splits the router at all."""
        tp = platform.tp
        vocabulary = np.floor(model.vocab_size / platform.attention_ranks) / model.vocab_size
        router = np.floor(model.hidden_size / tp) / model.hidden_size
        return Sharding(
            model,
            platform,
            parts={"vocabulary": vocabulary},
            shares={"router": RankShare(work=router, input=router, output=np.ones_like(router))},
        )

    def expert_loads(self, sharding: Sharding, slices: Sequence[StreamPart]) -> Loads:
        """A rank's experts are one wide matrix.

        In a prefill every expert of the rank takes a whole number of tokens; in a decode step
        ``k`` experts are read, whatever the batch, and every token meets all of them.
        """
        stream = slices[0].stream
        i = slices[0].position
        table = stream.table
        moe = sharding.model.moe_dims
        ep = sharding.platform.ep
        share = sharding.share(table.rules[i])
        tokens = float(table.m_per_request[i])
        if stream.is_prefill:
            experts = np.floor(moe.n_routed_experts / ep)
            tokens = float(tokens * moe.num_experts_per_tok // moe.n_routed_experts)
        else:
            experts = np.maximum(np.ceil(moe.num_experts_per_tok / ep), 1.0)
        rows = tokens * slices[0].requests
        k = table.k[i] * share.input
        n = table.n[i] * share.output
        is_down = table.rules[i].axis == "rows"
        return Loads(
            mac=rows * k * n * experts,
            weights=table.weight_elements[i] * share.work * experts,
            input_elements=rows * k * (experts if is_down else 1.0),
            output_elements=rows * n * (1.0 if is_down else experts),
        )

    def keeps_on_chip(self, rule: OperatorRule, stream: Stream) -> bool:
        """Activations of a decode step stay on chip, but for the router's and the LM head's."""
        return not stream.is_prefill and rule.role not in ("router", "lm_head")

    def expert_messages(
        self, sharding: Sharding, streams: Sequence[Stream], tokens: FloatArray
    ) -> list[Message]:
        """It adds up the router's partial scores, and in decode as many as the model is wide."""
        model = sharding.model
        mixture = sharding.model.moe_dims
        width = float(model.hidden_size)
        sparse = float(model.n_moe_layers)
        tp = sharding.platform.tp
        ep = sharding.platform.ep
        adjacent = np.ones_like(tokens)
        routed = mixture.n_routed_experts if streams[0].is_prefill else width
        times = sparse if self.options.router_all_reduce else 0.0
        sent = tokens * mixture.num_experts_per_tok * width
        return [
            Message("router_scores", "all_reduce", True, times, tokens * routed, tp, adjacent),
            Message("expert_exchange", "all_to_all", True, 2 * sparse, sent, ep, tp),
            Message("expert_output", "all_reduce", True, sparse, tokens * width, tp, adjacent),
        ]

    def footprint(
        self,
        sharding: Sharding,
        cached: CachedTokens,
        list_pass: Callable[[], Works],
    ) -> DeviceFootprint:
        """Bytes that one pass reads, of all stages of the pipeline, and of all experts."""
        platform = sharding.platform
        weights = kv = np.zeros_like(platform.tp)
        for operator in list_pass():
            weights = weights + _held_bytes(sharding, operator) * operator.count
            kv = kv + operator.kv_bytes * operator.count
        return DeviceFootprint(weights, kv, platform.fast_capacity, stages=platform.pp)

    @property
    def slow_efficiency(self) -> float:
        """Both memories reach the same share."""
        return self.options.memory_efficiency or 1.0

    def paced_s(self, total_s: FloatArray, stage_s: FloatArray, waits: FloatArray) -> FloatArray:
        """It takes the stages as balanced."""
        return total_s

    def notes(self, device: Device, products: ProductColumns) -> StringList:
        """Whose conventions these are."""
        return [
            "Profile genz: the conventions of the public tool GenZ-LLM-Analyzer 0.0.16.",
            "Norms, softmax, activations, sampling and launches cost nothing.",
        ]


def _held_bytes(sharding: Sharding, operator: DeviceWork) -> FloatArray:
    """Weights that an operator keeps: of an expert's matrix, those of all experts of the rank."""
    if not operator.expert_elements:
        return operator.weight_bytes
    platform = sharding.platform
    part_bytes = (
        operator.expert_elements * platform.weight_bytes * sharding.share(operator.rule).work
    )
    return part_bytes * np.ceil(sharding.model.moe_dims.n_routed_experts / platform.ep)
