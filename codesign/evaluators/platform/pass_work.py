"""Work of one device in one pass: products, bytes of weights, activations and KV cache.

A pass is made of streams: the prompt of a prefill, a decode step over the prompt's part of the
KV cache, the same over the part that the beams generated. Operators with weights run once for
all streams, attention runs for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from codesign.base.columns import JsonObject
from codesign.evaluators.platform.device_work import DeviceWork, Stream
from codesign.evaluators.platform.loads import (
    StreamPart,
    dense_loads,
    product_rows,
    read_elements,
    stream_parts,
    total_of,
    written_elements,
)
from codesign.evaluators.platform.serving_rules import ServingRules
from codesign.evaluators.platform.sharding import Sharding


def list_work(
    sharding: Sharding, streams: Sequence[Stream], rules: ServingRules
) -> list[DeviceWork]:
    """The operators of a pass on one device, in the order in which they first run.

    Elementwise operators are listed where they are kernels with a time of their own or parts of a
    scan; elsewhere they are fused into their neighbors.
    """
    done = set()
    operators = []
    for stream in streams:
        for i, name in enumerate(stream.table.names):
            rule = stream.table.rules[i]
            if rule.kernel in ("scan", "stream"):
                if stream.has_products:
                    operators.append(_stateful(sharding, stream, i))
            elif stream.table.kinds[i] == "vector" and not rules.has_vector_kernels:
                continue
            elif rule.has_keys:
                operators.append(_attention(sharding, stream, i, rules))
            elif stream.has_products and name not in done:
                done.add(name)
                slices = stream_parts(sharding.platform, streams, name)
                operators.append(_product(sharding, slices, rules))
    return operators


def _work(source: Stream, i: int, name: str, **amounts: Any) -> DeviceWork:
    """An operator of a stream, whose other amounts are nothing; (n,) each."""
    table = source.table
    nothing = np.zeros_like(source.requests)
    sizes: JsonObject = {
        "stream": source,
        "expert_elements": 0.0,
        "is_plain": False,
        "inner": table.k[i] + nothing,
        "columns": table.n[i] + nothing,
        **dict.fromkeys(("weight_bytes", "kv_bytes", "activation_bytes", "onchip_bytes"), nothing),
    }
    return DeviceWork(
        name=name,
        kind=table.kinds[i],
        is_in_layers=bool(table.is_in_layers[i]),
        rule=table.rules[i],
        count=float(table.count[i]),
        **sizes | amounts,
    )


def _product(sharding: Sharding, slices: Sequence[StreamPart], rules: ServingRules) -> DeviceWork:
    """An operator with weights, run once for the tokens of all streams."""
    stream = slices[0].stream
    i = slices[0].position
    table = stream.table
    rule = stream.table.rules[i]
    platform = sharding.platform
    share = sharding.share(rule)
    is_routed = bool(table.is_routed[i])
    is_by_heads = rule.axis == "heads"
    loads = rules.expert_loads(sharding, slices) if is_routed else dense_loads(share, slices)
    moved = (loads.input_elements + loads.output_elements) * platform.activation_bytes
    is_kept = rules.keeps_on_chip(rule, stream)
    return _work(
        stream,
        i,
        table.names[i],
        stream=None,
        products=table.n_experts[i] * share.work if is_by_heads else np.ones_like(moved),
        rows=total_of(slices, product_rows),
        inner=table.k[i] * (1.0 if is_by_heads else share.input),
        columns=table.n[i] * (1.0 if is_by_heads else share.output),
        expert_elements=float(table.weight_elements[i]) if is_routed else 0.0,
        is_plain=table.parts[i] in sharding.unquantized,
        mac=loads.mac,
        weight_bytes=loads.weights * sharding.weight_bytes(table, i),
        **{"onchip_bytes" if is_kept else "activation_bytes": moved},
    )


def _stateful(sharding: Sharding, stream: Stream, i: int) -> DeviceWork:
    """An operator with a state of every request: its products, weights and traffic of the state.

    Limiting assumption: ranks of sequence parallelism divide a prompt's tokens evenly, and each
    has the state; the states of all requests are in the model's own format.
    """
    table = stream.table
    platform = sharding.platform
    share = sharding.share(table.rules[i])
    requests = platform.own_requests(stream.requests)
    tokens = requests / platform.sp if stream.is_prefill else requests
    is_product = table.kinds[i] == "linear_attention"
    moved = read_elements(table, i) * share.input + written_elements(table, i) * share.output
    mac = table.mac_per_request[i] * tokens * share.work
    state = table.state_read_bytes_per_request[i] + table.state_written_bytes_per_request[i]
    return _work(
        stream,
        i,
        f"{table.names[i]}{stream.name}",
        products=table.products_per_request[i] * requests * share.work,
        rows=table.m_per_request[i] + np.zeros_like(mac),
        mac=mac,
        weight_bytes=table.weight_elements[i] * share.work * sharding.weight_bytes(table, i),
        kv_bytes=state * requests * share.work,
        # Elementwise operators are fused into their neighbors.
        activation_bytes=moved * tokens * platform.activation_bytes * is_product,
    )


def _attention(sharding: Sharding, stream: Stream, i: int, rules: ServingRules) -> DeviceWork:
    """Scores or their products with the values; the scores stay on chip (FlashAttention)."""
    table = stream.table
    platform = sharding.platform
    share = sharding.share(table.rules[i])
    requests = platform.own_requests(stream.attention_requests)
    # A prompt's tokens are spread over the ranks of a sequence, which gather all keys; in a
    # decode step the ranks hold parts of the cache.
    tokens = requests / platform.sp if stream.is_prefill else requests
    moved = table.input_elements_per_request[i] * tokens * share.input
    moved = moved + written_elements(table, i) * tokens * share.output
    scores = table.score_read_elements_per_request[i] + table.score_written_elements_per_request[i]
    on_chip = scores * requests / platform.sp * share.work
    if rules.keeps_on_chip(table.rules[i], stream):
        moved, on_chip = np.zeros_like(moved), on_chip + moved
    cached = platform.own_requests(stream.cache_requests)
    cached = cached if stream.is_prefill else cached / platform.sp
    kept_elements = table.kv_read_elements_per_request[i] * sharding.parts["kv_heads"]
    keys_bytes = float(table.state_read_bytes_per_request[i])
    heads = np.maximum(table.products_per_request[i] * share.work, 1.0)
    return _work(
        stream,
        i,
        f"{table.names[i]}{stream.name}",
        products=heads,
        rows=table.m_per_request[i] * table.products_per_request[i] * share.work / heads,
        mac=table.mac_per_request[i] * requests / platform.sp * share.work,
        kv_bytes=cached * (kept_elements * platform.kv_bytes + keys_bytes),
        activation_bytes=moved * platform.activation_bytes,
        onchip_bytes=on_chip * platform.activation_bytes,
    )
