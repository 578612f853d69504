"""Limits of a platform: parallelism that divides, links, memory; and their wording."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from codesign.base.columns import ArrayDict, Arrays, FloatArray, Floats, FloatSequence
from codesign.base.errors import Mistake
from codesign.base.records import drop_keys
from codesign.base.units import format_engineering
from codesign.evaluators.platform.device_memory import excess
from codesign.evaluators.platform.platform_serving import PlatformServing
from codesign.models.deployments.parallelism import divisors
from codesign.models.workload.precision import FORMATS, bits_per_element

_INDIVISIBLE = 1.0
"""Violation of a split that does not come out even."""
_OF_OTHERS = {
    "all": (),
    "attention": ("experts", "intermediate_size"),
    "ffn": ("attention_heads",),
}
"""Limits of the other part of every layer, which devices of one part need not keep."""
_LEAST_BYTES = min(bits_per_element(name) for name in FORMATS) / 8
"""Bytes of an element in the narrowest format."""


def limits(serving: PlatformServing) -> Arrays:
    """(n,) violations by name; ``<= 0`` is within."""
    model = serving.model
    experts = model.moe_dims.n_routed_experts if model.is_mixture else 1
    platform = serving.platform
    used = platform.stage_devices * platform.pp
    has_links = ~np.isnan(platform.link.bandwidth_bytes_per_s)
    has_network = ~np.isnan(platform.network.bandwidth_bytes_per_s)
    is_joined = ((used <= 1) | has_links) & ((used <= platform.node_size) | has_network)
    violations = {
        "memory": np.maximum(
            excess(serving.prefill_footprint, serving.platform, serving.options),
            excess(serving.decode_footprint, serving.platform, serving.options),
        ),
        "experts": _uneven(float(experts), serving.platform.ep),
        **_even_splits(serving),
        "links": np.where(is_joined, 0.0, 1.0),
    }
    unchecked = serving.rules.unchecked_limits.union(_OF_OTHERS[serving.request.layers])
    return drop_keys(violations, unchecked)


def _uneven(amount: Floats, ranks: FloatArray) -> FloatArray:
    return np.where(np.mod(amount, ranks) == 0, 0.0, _INDIVISIBLE)


def _even_splits(serving: PlatformServing) -> ArrayDict:
    model = serving.model
    platform = serving.platform
    ranks = platform.attention_ranks
    keys = float(model.num_key_value_heads)
    # Fewer heads of keys than ranks are copied to whole groups of ranks.
    shared = np.where(ranks > keys, np.mod(ranks, keys), np.mod(keys, ranks)) == 0
    even_keys = shared | model.is_latent
    widths = [model.intermediate_size] if model.n_dense_layers else []
    widths += [model.moe_dims.moe_intermediate_size] if model.is_mixture else []
    return {
        "attention_heads": np.where(
            even_keys, _uneven(float(model.num_attention_heads), ranks), _INDIVISIBLE
        ),
        "intermediate_size": np.max(
            [np.zeros(ranks.shape), *(_uneven(float(width), platform.tp) for width in widths)],
            axis=0,
        ),
        "layers": np.where(platform.pp > model.num_hidden_layers, _INDIVISIBLE, 0.0),
        "batch": _uneven(platform.batch, np.ones_like(platform.batch)),
    }


def describe_limits(serving: PlatformServing, besides: str = "") -> list[Mistake]:
    """One mistake for each limit that a single platform breaks, with what would keep it.

    Args:
        besides: Name of a limit that is left out.
    """
    broken = [name for name, values in limits(serving).items() if values[0] > 0]
    return [_MISTAKES[name](serving) for name in broken if name != besides]


def _divisors(amount: int) -> str:
    choices = [str(number) for number in divisors(amount)]
    return ", ".join(choices[:12]) + (", …" if len(choices) > 12 else "")


def memory_mistake(serving: PlatformServing) -> Mistake:
    platform = serving.platform
    need = float(serving.memory_used_per_device_bytes[0])
    at_hand = float(platform.fast_capacity[0])
    if serving.options.offload and not np.isnan(platform.slow_bandwidth[0]):
        at_hand += float(platform.slow_capacity[0])
    footprint = serving.decode_footprint
    needs = [
        float((need_bytes / footprint.stages)[0])
        for need_bytes in (footprint.weight_bytes, footprint.kv_bytes)
    ]
    weights, cache = (format_engineering(need_bytes, "B") for need_bytes in needs)
    fits = ", ".join(_ways_to_fit(serving, need, at_hand, needs))
    return Mistake(
        f"expected at most {format_engineering(at_hand, 'B')} on each device, got "
        f"{format_engineering(need, 'B')} ({weights} of weights, {cache} of KV cache), "
        f"{format_engineering(need - at_hand, 'B')} too much; would fit: {fits}",
        ("memory",),
        named=("batch_size",),
    )


def _ways_to_fit(
    serving: PlatformServing, need: float, at_hand: float, needs: FloatSequence
) -> Iterator[str]:
    """Changes of which each alone makes room; ``parts`` are bytes of weights and KV cache."""
    platform = serving.platform
    yield f"{int(np.ceil(need / at_hand))} times as many devices"
    widths = (platform.weight_bytes[0], platform.kv_bytes[0])
    least = sum(
        need_bytes * _LEAST_BYTES / width for need_bytes, width in zip(needs, widths, strict=True)
    )
    if least <= at_hand:
        yield "a narrower format"
    if needs[0] < at_hand:
        per_request = needs[1] / float(platform.batch[0])
        batch = int((at_hand - needs[0]) / per_request) * int(platform.dp[0])
        if batch:
            yield f"batch_size {batch}"
    has_slow = not serving.options.offload and not np.isnan(platform.slow_bandwidth[0])
    if has_slow and platform.slow_capacity[0] >= need - at_hand:
        yield "offload=true"


def heads_mistake(serving: PlatformServing) -> Mistake:
    model = serving.model
    ranks = int(serving.platform.attention_ranks[0])
    keys = "" if model.is_latent else f" ({model.num_key_value_heads} of keys and values)"
    product = "" if serving.options.has_data_attention else " as tensor_parallel x expert_parallel"
    return Mistake(
        f"expected a divisor of the {model.num_attention_heads} "
        f"attention heads{keys} of {model.name}{product}, got {ranks}; "
        f"choices: {_divisors(model.num_attention_heads)}",
        ("tensor_parallel",),
        named=("tensor_parallel", "expert_parallel"),
    )


def width_mistake(serving: PlatformServing) -> Mistake:
    model = serving.model
    tp = int(serving.platform.tp[0])
    width = model.intermediate_size if model.n_dense_layers else 0
    if model.is_mixture and model.moe_dims.moe_intermediate_size % tp:
        width = model.moe_dims.moe_intermediate_size
    return Mistake(
        f"expected a divisor of the MLP's width {width} of {model.name}, got {tp}"
        f"; choices: {_divisors(width)}",
        ("tensor_parallel",),
    )


def experts_mistake(serving: PlatformServing) -> Mistake:
    model = serving.model
    ep = int(serving.platform.ep[0])
    if not model.is_mixture:
        return Mistake(f"{model.name} has no experts; expected 1, got {ep}", ("expert_parallel",))
    experts = model.moe_dims.n_routed_experts
    return Mistake(
        f"expected a divisor of the {experts} experts of {model.name}, got {ep}; "
        f"choices: {_divisors(experts)}",
        ("expert_parallel",),
    )


def layers_mistake(serving: PlatformServing) -> Mistake:
    layers = serving.model.num_hidden_layers
    pp = int(serving.platform.pp[0])
    message = f"expected at most the {layers} layers of {serving.model.name}, got {pp}"
    return Mistake(message, ("pipeline_parallel",))


def batch_mistake(serving: PlatformServing) -> Mistake:
    dp = int(serving.platform.dp[0])
    total = round(float(serving.platform.batch[0]) * dp)
    nearest = max(round(total / dp), 1) * dp
    return Mistake(
        f"expected a multiple of data_parallel {dp}, got {total}; nearest: {nearest}",
        ("batch_size",),
        named=("data_parallel",),
    )


def links_mistake(serving: PlatformServing) -> Mistake:
    platform = serving.platform
    used = int(platform.stage_devices[0] * platform.pp[0])
    if np.isnan(np.asarray(platform.link.bandwidth_bytes_per_s)[0]):
        return Mistake(
            f"{used} devices work together, but the device's file states no "
            "link_bandwidth; expected one device for each replica, or a link_bandwidth",
            ("links",),
        )
    return Mistake(
        f"{used} devices work together, but links join {platform.node_size[0]:.0f} and the "
        "device's file states no network_bandwidth between nodes; expected at most "
        f"{platform.node_size[0]:.0f}, a network_bandwidth, or another node_size",
        ("links",),
    )


_MISTAKES = {
    "memory": memory_mistake,
    "experts": experts_mistake,
    "attention_heads": heads_mistake,
    "intermediate_size": width_mistake,
    "layers": layers_mistake,
    "batch": batch_mistake,
    "links": links_mistake,
}
