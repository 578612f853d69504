"""Memory of a device: its content, its fit, and the bandwidth of offloaded bytes (GenZ Eq. 1)."""

from __future__ import annotations

import numpy as np

from codesign.base.columns import FloatArray, Floats
from codesign.base.records import frozen
from codesign.evaluators.platform.platform import Platform
from codesign.evaluators.platform.platform_options import PlatformOptions
from codesign.evaluators.platform.sharding import Sharding
from codesign.models.workload.request import served_operators
from codesign.models.workload.storage import stored_operators


@frozen
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
    stages: Floats = 1.0

    @property
    def need_bytes(self) -> FloatArray:
        """Bytes that must be kept."""
        return self.weight_bytes + self.kv_bytes


@frozen
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


@frozen
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


@frozen
class RankStorage:
    """Data that one rank stores of all layers and of the ends of a model, (n,) each.

    Attributes:
        layers: Bytes of weights in the layers.
        embedding: Bytes of weights before the first layer.
        head: Bytes of weights after the last one.
        token_bytes: Bytes that a token of context takes.
        request_bytes: Bytes of state that a request takes, whatever its length.
    """

    layers: FloatArray
    embedding: FloatArray
    head: FloatArray
    token_bytes: FloatArray
    request_bytes: FloatArray


def rank_storage(sharding: Sharding) -> RankStorage:
    """Sums over what all operators of a model store, each divided by its rule."""
    platform = sharding.platform
    table = served_operators(stored_operators(sharding.model), sharding.layers)
    weights = {name: np.zeros_like(platform.tp) for name in ("layers", "embedding", "lm_head")}
    token_bytes = request_bytes = np.zeros_like(platform.tp)
    for i, rule in enumerate(table.rules):
        end = "layers" if table.is_in_layers[i] else table.groups[i]
        held = table.stored_weight_elements[i] * table.count[i] * sharding.weight_bytes(table, i)
        work = sharding.share(rule).work if rule.divides_weights else 1.0
        weights[end] += held * work / (platform.ep if table.is_routed[i] else 1.0)
        divided = table.count[i] * sharding.parts[rule.stored]
        cached = table.stored_kv_elements_per_token[i] * platform.kv_bytes
        token_bytes = token_bytes + divided * (cached + table.stored_bytes_per_token[i])
        request_bytes = request_bytes + divided * table.stored_bytes_per_request[i]
    return RankStorage(
        weights["layers"], weights["embedding"], weights["lm_head"], token_bytes, request_bytes
    )


def footprint(sharding: Sharding, cached: CachedTokens) -> DeviceFootprint:
    """Weights, KV cache and states of the fullest device when the last token is generated.

    A compiler of scheduled chips fills them evenly, whatever the stages.

    Limiting assumption: activations and buffers are not counted (see ``usable_memory``).
    """
    model = sharding.model
    platform = sharding.platform
    stored = rank_storage(sharding)
    even = 1.0 / platform.pp
    layers = np.ceil(model.num_hidden_layers * even) / model.num_hidden_layers
    layers = np.where(platform.is_scheduled, even, layers)
    ends = stored.embedding + stored.head
    fullest_end = np.where(platform.pp > 1, np.maximum(stored.embedding, stored.head), ends)
    weights = stored.layers * layers + np.where(platform.is_scheduled, ends * even, fullest_end)
    per_request = cached.of_prompt + cached.beams * cached.of_beam
    requests = platform.own_requests(platform.batch)
    held = per_request * requests + cached.of_prompt * cached.next_prompts
    # Every beam has a state of its own.
    states = requests * cached.beams + cached.next_prompts
    kv = (held * stored.token_bytes / platform.sp + states * stored.request_bytes) * layers
    return DeviceFootprint(weights, kv, platform.fast_capacity)


def excess(footprint: DeviceFootprint, platform: Platform, options: PlatformOptions) -> FloatArray:
    """Relative excess of what must be kept over the memories that may keep it; <= 0 fits."""
    room = footprint.room_bytes
    if options.offload:
        room = room + np.where(np.isnan(platform.slow_bandwidth), 0.0, platform.slow_capacity)
    return np.where(np.isinf(room), -1.0, footprint.need_bytes / (room * footprint.stages) - 1.0)


def reside(
    footprint: DeviceFootprint, platform: Platform, options: PlatformOptions, slow_efficiency: float
) -> Residence:
    """Read rates when a fixed share of everything kept lies in the slow memory (Eq. 1).

    Both memories are read at once, so a byte takes the longer of its two shares. Without
    offload everything is read from the fast memory, and :func:`excess` says if it fits.
    """
    fast = 1.0 / (platform.fast_bandwidth * (options.memory_efficiency or 1.0))
    # Stages that are counted together are tested together, but spread over one device's memory.
    exceeds = (footprint.need_bytes > footprint.room_bytes * footprint.stages) & bool(
        options.offload
    )
    share = np.where(exceeds, 1.0 - footprint.room_bytes / footprint.need_bytes, 0.0)
    slow = 1.0 / (platform.slow_bandwidth * slow_efficiency)
    split = np.maximum((1.0 - share) * fast, np.where(exceeds, share * slow, 0.0))
    return Residence(fast, np.where(exceeds, split, fast), share)
