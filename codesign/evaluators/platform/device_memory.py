"""What a device holds, whether it fits, and how fast offloaded bytes are read (GenZ Eq. 1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from codesign.base.columns import FloatArray
from codesign.evaluators.platform.platform import Platform
from codesign.evaluators.platform.platform_options import PlatformOptions
from codesign.evaluators.platform.sharding import Sharding
from codesign.models.workload.model_size import (
    index_bytes_per_token,
    kv_elements_per_token,
    parameters_by_part,
    state_bytes,
)
from codesign.models.workload.operator_rules import state_part
from codesign.models.workload.operators import OperatorTable


@dataclass(frozen=True)
class DeviceFootprint:
    """Bytes of one device, (n,) each.

    Attributes:
        kv_bytes: Bytes of the KV cache of the batch that is served.
        room_bytes: Capacity of the fast memory for these bytes.
        stages: Stages of the pipeline whose bytes are counted together.
    """

    weight_bytes: FloatArray
    kv_bytes: FloatArray
    room_bytes: FloatArray
    stages: FloatArray | float = 1.0

    @property
    def need_bytes(self) -> FloatArray:
        """Bytes that must be kept."""
        return self.weight_bytes + self.kv_bytes


@dataclass(frozen=True)
class CachedTokens:
    """Tokens whose keys and values the cache holds at the end of an answer.

    Sliding layers hold no more than their window; the counts are means over all layers.

    Attributes:
        of_beam: Tokens that a beam generated.
        beams: Beams of a request.
        next_prompts: Prompts of further requests, which are being prefilled.
    """

    of_prompt: float
    of_beam: float
    beams: int
    next_prompts: int


@dataclass(frozen=True)
class Residence:
    """Seconds to read a byte, and where data lie, (n,) each.

    Attributes:
        fast_s_per_byte: Seconds to read a byte from the fast memory.
        kept_s_per_byte: Seconds to read a byte of weights or KV cache, part of which may lie in
            the slow memory.
        offloaded_share: Share of weights and KV cache that lies in the slow memory.
    """

    fast_s_per_byte: FloatArray
    kept_s_per_byte: FloatArray
    offloaded_share: FloatArray


def footprint(sharding: Sharding, table: OperatorTable, cached: CachedTokens) -> DeviceFootprint:
    """Weights, KV cache and states of the fullest device when the last token is generated.

    Limiting assumption: activations and buffers are not counted (see ``usable_memory``).
    """
    model, platform = sharding.model, sharding.platform
    layers = np.ceil(model.num_hidden_layers / platform.pp) / model.num_hidden_layers
    in_layers, embedding, head = _weights(sharding, table)
    tied = 0.0 if model.tie_word_embeddings else head
    ends = np.where(platform.pp > 1, np.maximum(embedding, head), embedding + tied)
    weights = (in_layers * layers + ends) * platform.weight_bytes
    per_request = cached.of_prompt + cached.beams * cached.of_beam
    requests = platform.own_requests(platform.batch)
    held = per_request * requests + cached.of_prompt * cached.next_prompts
    per_token = kv_elements_per_token(model) * sharding.kv * platform.kv_bytes
    kv = held * (per_token + index_bytes_per_token(model)) * layers / platform.sp
    if model.n_linear_layers:
        # Every beam has a state of its own.
        states = requests * cached.beams + cached.next_prompts
        kv = kv + states * state_bytes(model) * state_part(model, platform.attention_ranks) * layers
    return DeviceFootprint(weights, kv, platform.fast_capacity)


def _weights(sharding: Sharding, table: OperatorTable) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Elements in the layers, in the embedding and in the LM head, of one device's part."""
    model, platform = sharding.model, sharding.platform
    layers = zero = np.zeros_like(platform.tp)
    for i in np.flatnonzero(table.is_in_layers):
        held = table.weight_elements[i] * table.n_experts[i] * table.count[i]
        rule = table.rules[i]
        part = sharding.share(rule).work if rule.divides_weights else np.ones_like(zero)
        routed = platform.ep if table.is_routed[i] else 1.0
        layers = layers + held * part / routed
    words = model.vocab_size * model.embedding_width
    vocabulary = sharding.parts["vocabulary"] * words
    embedding = vocabulary + (parameters_by_part(model)["embedding"] - words)
    return layers, embedding, vocabulary


def excess(kept: DeviceFootprint, platform: Platform, options: PlatformOptions) -> FloatArray:
    """Relative excess of what must be kept over the memories that may keep it; <= 0 fits."""
    room = kept.room_bytes
    if options.offload:
        room = room + np.where(np.isnan(platform.slow_bandwidth), 0.0, platform.slow_capacity)
    return np.where(np.isinf(room), -1.0, kept.need_bytes / (room * kept.stages) - 1.0)


def reside(
    kept: DeviceFootprint, platform: Platform, options: PlatformOptions, slow_efficiency: float
) -> Residence:
    """Read rates when a fixed share of everything kept lies in the slow memory (Eq. 1).

    Both memories are read at once, so a byte takes the longer of its two shares. Without
    offload everything is read from the fast memory, and :func:`excess` says if it fits.
    """
    fast = 1.0 / (platform.fast_bandwidth * (options.memory_efficiency or 1.0))
    # Stages that are counted together are tested together, but spread over one device's memory.
    exceeds = (kept.need_bytes > kept.room_bytes * kept.stages) & bool(options.offload)
    share = np.where(exceeds, 1.0 - kept.room_bytes / kept.need_bytes, 0.0)
    slow = 1.0 / (platform.slow_bandwidth * slow_efficiency)
    split = np.maximum((1.0 - share) * fast, np.where(exceeds, share * slow, 0.0))
    return Residence(fast, np.where(exceeds, split, fast), share)
