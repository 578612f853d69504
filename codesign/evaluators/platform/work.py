"""What one device does in one pass: products, bytes of weights, activations and KV cache.

A pass is made of streams: the prompt of a prefill, a decode step over the prompt's part of the
KV cache, the same over the part that the beams generated. Operators with weights run once for
all streams, attention runs for each; an operator without a rule for how to divide it is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from codesign.columns import FloatArray
from codesign.evaluators.platform.options import PlatformOptions
from codesign.evaluators.platform.platforms import Platform
from codesign.evaluators.platform.sharding import RankShare, Sharding
from codesign.workload.model import LanguageModel
from codesign.workload.operators import (
    Group,
    Kind,
    OperatorTable,
    expected_distinct_experts,
)
from codesign.workload.split_rules import Kernel, split_rule

Block: TypeAlias = Literal["layers", "embedding", "lm_head"]
_BLOCKS: dict[Group, Block] = {"embedding": "embedding", "lm_head": "lm_head"}


@dataclass(frozen=True)
class Stream:
    """Requests that bring the same tokens to a pass.

    Attributes:
        name: Suffix of the names of the stream's attention operators; empty if there is only one
            stream.
        table: Operators of one request of one beam.
        past_tokens: Tokens of a request whose keys and values the cache held before the pass.
        requests: (n,) requests in the pass; each beam counts as a request.
        cache_requests: (n,) requests whose keys and values are read; beams share a prompt's.
        attention_requests: (n,) requests whose scores are computed.
        is_prefill: Whether the tokens are a prompt's.
        has_products: Whether the tokens also pass through the operators with weights. They do
            not if another stream of the same tokens does.
    """

    name: str
    table: OperatorTable
    past_tokens: float
    requests: FloatArray
    cache_requests: FloatArray
    attention_requests: FloatArray
    is_prefill: bool
    has_products: bool = True


@dataclass(frozen=True)
class DeviceWork:
    """One operator on one device, per instance; arrays are (n,).

    Attributes:
        name: Name of the operator.
        kind: Kind of the operator.
        block: Place of the operator: in every layer, or at an end of the model.
        kernel: Kernel of which the operator is a part.
        stream: Requests whose keys and values it multiplies; None of other operators.
        products: Separate products: heads of keys in attention, heads of a product by heads.
        rows: Rows of a product: tokens, of all groups before they are routed to experts; queries
            in attention.
        inner: Inner size of a product.
        columns: Columns of a product; keys or widths in attention.
        expert_elements: Weights of one expert; 0 of an operator that every token meets.
        count: Instances in the whole model, all stages of the pipeline together.
        mac: Multiply-accumulates.
        weight_bytes: Bytes of weights read.
        kv_bytes: Bytes of keys and values read.
        activation_bytes: Bytes of activations that pass the device's memory.
        onchip_bytes: Bytes of activations that stay on chip.
    """

    name: str
    kind: Kind
    block: Block
    kernel: Kernel
    stream: Stream | None
    products: FloatArray
    rows: FloatArray
    inner: FloatArray
    columns: FloatArray
    expert_elements: float
    count: float
    mac: FloatArray
    weight_bytes: FloatArray
    kv_bytes: FloatArray
    activation_bytes: FloatArray
    onchip_bytes: FloatArray


def list_work(
    model: LanguageModel,
    platform: Platform,
    sharding: Sharding,
    streams: Sequence[Stream],
    options: PlatformOptions,
) -> list[DeviceWork]:
    """The operators of a pass on one device, in the order in which they first run.

    Elementwise operators are listed where they are kernels with a time of their own, under
    ``fitted``; the other profiles take them as fused into their neighbors, as GenZ does.
    """
    done: set[str] = set()
    operators: list[DeviceWork] = []
    for stream in streams:
        for i, name in enumerate(stream.table.names):
            kernel, kind = split_rule(name).kernel, stream.table.kinds[i]
            if kind == "linear_attention" or _state_bytes(stream.table, i):
                has_state = True
            else:
                has_state = kernel == "scan" and options.is_fitted
            if has_state:
                if stream.has_products:
                    operators.append(_with_state(platform, sharding, stream, i))
            elif kind == "vector" and not options.is_fitted:
                continue
            elif stream.table.is_attention[i] or kernel == "attention":
                operators.append(_attention(platform, sharding, stream, i, options.is_genz))
            elif stream.has_products and name not in done:
                done.add(name)
                parts = _parts(platform, streams, name)
                share = sharding.share(name)
                operators.append(_product(model, platform, share, parts, options.is_genz))
    return operators


@dataclass(frozen=True)
class _StreamPart:
    """An operator in one stream, and the requests whose tokens one device has."""

    stream: Stream
    position: int
    requests: FloatArray


def _parts(platform: Platform, streams: Sequence[Stream], name: str) -> list[_StreamPart]:
    """The streams whose tokens pass through an operator with weights."""
    parts = []
    for stream in streams:
        if stream.has_products and name in stream.table.names:
            i = stream.table.names.index(name)
            # Experts have the tokens of all groups, everything else those of its own; what goes
            # with their products is evenly spread, these are divided where experts are.
            is_own = split_rule(name).kernel != "experts"
            shared = stream.requests / (1.0 if stream.table.is_routed[i] else platform.ep)
            requests = platform.own_requests(stream.requests) if is_own else shared
            share = platform.sp if stream.is_prefill else 1.0
            parts.append(_StreamPart(stream, i, requests / share))
    return parts


def _total(
    parts: Sequence[_StreamPart], per_request: Callable[[OperatorTable, int], float]
) -> FloatArray:
    """(n,) a quantity over all requests of all streams."""
    terms = [per_request(part.stream.table, part.position) * part.requests for part in parts]
    return np.asarray(sum(terms[1:], terms[0]), dtype=np.float64)


def _product(
    model: LanguageModel,
    platform: Platform,
    share: RankShare,
    parts: Sequence[_StreamPart],
    is_genz: bool,
) -> DeviceWork:
    """An operator with weights, run once for the tokens of all streams."""
    stream, i = parts[0].stream, parts[0].position
    table, name = stream.table, stream.table.names[i]
    is_routed = bool(table.is_routed[i])
    is_by_heads = split_rule(name).axis == "heads"
    if is_routed:
        load = _genz_experts if is_genz else _expected_experts
        loads = load(model, platform, share, parts)
    else:
        loads = _dense(share, parts)
    moved = (loads.input_elements + loads.output_elements) * platform.activation_bytes
    nothing = np.zeros_like(moved)
    # GenZ keeps the activations of a decode step on chip, but for the router's and the LM head's.
    is_kept = is_genz and not stream.is_prefill and name not in ("router", "lm_head")
    return DeviceWork(
        name=name,
        kind=table.kinds[i],
        block=_BLOCKS.get(table.groups[i], "layers"),
        kernel=split_rule(name).kernel,
        stream=None,
        products=table.n_experts[i] * share.work if is_by_heads else np.ones_like(moved),
        rows=_total(parts, _rows),
        inner=table.k[i] * (1.0 if is_by_heads else share.input),
        columns=table.n[i] * (1.0 if is_by_heads else share.output),
        expert_elements=float(table.weight_elements[i]) if is_routed else 0.0,
        count=float(table.count[i]),
        mac=loads.mac,
        weight_bytes=loads.weights * platform.weight_bytes,
        kv_bytes=nothing,
        activation_bytes=nothing if is_kept else moved,
        onchip_bytes=moved if is_kept else nothing,
    )


@dataclass(frozen=True)
class _Loads:
    """Multiply-accumulates, weights read, elements of input and output; (n,) each."""

    mac: FloatArray
    weights: FloatArray
    input_elements: FloatArray
    output_elements: FloatArray


def _rows(table: OperatorTable, i: int) -> float:
    """Rows of a product; of an operator that is none, the tokens of a request."""
    is_product = table.kinds[i] == "gemm"
    return float(table.m_per_request[i]) if is_product else table.tokens_per_request


def _written(table: OperatorTable, i: int) -> float:
    return float(table.output_elements_per_request[i] + table.kv_written_elements_per_request[i])


def _read(table: OperatorTable, i: int) -> float:
    return float(table.input_elements_per_request[i])


def _mac(table: OperatorTable, i: int) -> float:
    return float(table.mac_per_request[i])


def _dense(share: RankShare, parts: Sequence[_StreamPart]) -> _Loads:
    """Every token meets all weights; of a table, only the rows that it looks up are read."""
    table, i = parts[0].stream.table, parts[0].position
    looked_up = _total(parts, lambda t, j: float(t.lookup_elements_per_request[j]))
    return _Loads(
        mac=_total(parts, _mac) * share.work,
        weights=(table.weight_elements[i] * table.n_experts[i] + looked_up) * share.work,
        input_elements=_total(parts, _read) * share.input,
        output_elements=_total(parts, _written) * share.output,
    )


def _expected_experts(
    model: LanguageModel, platform: Platform, share: RankShare, parts: Sequence[_StreamPart]
) -> _Loads:
    """Tokens spread evenly over the ranks; a rank reads the experts it can expect to touch."""
    table, i = parts[0].stream.table, parts[0].position
    moe = model.moe_dims
    touched = expected_distinct_experts(
        _total(parts, lambda t, j: float(t.m_per_request[j])),
        np.asarray(float(moe.n_routed_experts)),
        np.asarray(float(moe.num_experts_per_tok)),
    )
    return _Loads(
        mac=_total(parts, _mac) * share.work / platform.ep,
        weights=table.weight_elements[i] * touched / platform.ep * share.work,
        input_elements=_total(parts, _read) * share.input / platform.ep,
        output_elements=_total(parts, _written) * share.output / platform.ep,
    )


def _genz_experts(
    model: LanguageModel, platform: Platform, share: RankShare, parts: Sequence[_StreamPart]
) -> _Loads:
    """Loads of the experts as GenZ's tool counts them: a rank's experts are one wide matrix.

    In a prefill every expert of the rank takes a whole number of tokens; in a decode step ``k``
    experts are read, whatever the batch, and every token meets all of them.
    """
    stream, i = parts[0].stream, parts[0].position
    table, moe = stream.table, model.moe_dims
    tokens = float(table.m_per_request[i])
    if stream.is_prefill:
        experts = np.floor(moe.n_routed_experts / platform.ep)
        tokens = float(tokens * moe.num_experts_per_tok // moe.n_routed_experts)
    else:
        experts = np.maximum(np.ceil(moe.num_experts_per_tok / platform.ep), 1.0)
    rows = tokens * parts[0].requests
    k, n = table.k[i] * share.input, table.n[i] * share.output
    is_down = split_rule(table.names[i]).axis == "rows"
    return _Loads(
        mac=rows * k * n * experts,
        weights=table.weight_elements[i] * share.work * experts,
        input_elements=rows * k * (experts if is_down else 1.0),
        output_elements=rows * n * (1.0 if is_down else experts),
    )


def _state_bytes(table: OperatorTable, i: int) -> float:
    return float(table.state_read_bytes_per_request[i] + table.state_written_bytes_per_request[i])


def _with_state(platform: Platform, sharding: Sharding, stream: Stream, i: int) -> DeviceWork:
    """An operator of linear attention: its products, and all that moves of its state.

    Limiting assumption: ranks of sequence parallelism divide a prompt's tokens evenly, and each
    has the state; the states of all requests are in the model's own format.
    """
    table, share = stream.table, sharding.share(stream.table.names[i])
    requests = platform.own_requests(stream.requests)
    tokens = requests / platform.sp if stream.is_prefill else requests
    is_product = table.kinds[i] == "linear_attention"
    moved = _read(table, i) * share.input + _written(table, i) * share.output
    mac = table.mac_per_request[i] * tokens * share.work
    nothing = np.zeros_like(mac)
    return DeviceWork(
        name=f"{table.names[i]}{stream.name}",
        kind=table.kinds[i],
        block="layers",
        kernel="scan",
        stream=stream,
        products=table.products_per_request[i] * requests * share.work,
        rows=table.m_per_request[i] + nothing,
        inner=table.k[i] + nothing,
        columns=table.n[i] + nothing,
        expert_elements=0.0,
        count=float(table.count[i]),
        mac=mac,
        weight_bytes=nothing,
        kv_bytes=_state_bytes(table, i) * requests * share.work,
        # Elementwise operators are fused into their neighbors.
        activation_bytes=moved * tokens * platform.activation_bytes if is_product else nothing,
        onchip_bytes=nothing,
    )


def _attention(
    platform: Platform, sharding: Sharding, stream: Stream, i: int, is_genz: bool
) -> DeviceWork:
    """Scores or their products with the values; the scores stay on chip (FlashAttention)."""
    table = stream.table
    share = sharding.share(table.names[i])
    requests = platform.own_requests(stream.attention_requests)
    # A prompt's tokens are spread over the ranks of a sequence, which gather all keys; in a
    # decode step the ranks hold parts of the cache.
    tokens = requests / platform.sp if stream.is_prefill else requests
    moved = table.input_elements_per_request[i] * tokens * share.input
    moved = moved + _written(table, i) * tokens * share.output
    scores = table.score_read_elements_per_request[i] + table.score_written_elements_per_request[i]
    kept = scores * requests / platform.sp * share.work if is_genz else np.zeros_like(moved)
    if is_genz and not stream.is_prefill:
        moved, kept = np.zeros_like(moved), kept + moved
    cached = platform.own_requests(stream.cache_requests)
    cached = cached if stream.is_prefill else cached / platform.sp
    ones = np.ones_like(moved)
    heads = np.maximum(table.products_per_request[i] * share.work, 1.0)
    return DeviceWork(
        name=f"{table.names[i]}{stream.name}",
        kind=table.kinds[i],
        block="layers",
        kernel=split_rule(table.names[i]).kernel,
        stream=stream,
        products=heads,
        rows=table.m_per_request[i] * table.products_per_request[i] * share.work / heads,
        inner=table.k[i] * ones,
        columns=table.n[i] * ones,
        expert_elements=0.0,
        count=float(table.count[i]),
        mac=table.mac_per_request[i] * requests / platform.sp * share.work,
        weight_bytes=np.zeros_like(moved),
        kv_bytes=table.kv_read_elements_per_request[i] * cached * sharding.kv * platform.kv_bytes,
        activation_bytes=moved * platform.activation_bytes,
        onchip_bytes=kept * platform.activation_bytes,
    )
