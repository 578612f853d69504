"""Load of an operator with weights by the tokens of a pass: arithmetic, weights, activations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from codesign.base.columns import FloatArray, Floats, summed
from codesign.base.records import frozen
from codesign.evaluators.platform.device_work import Stream
from codesign.evaluators.platform.platform import Platform
from codesign.evaluators.platform.sharding import RankShare, Sharding
from codesign.models.workload.expert_routing import expected_distinct_experts
from codesign.models.workload.operators import OperatorTable


@frozen
class StreamPart:
    """An operator in one stream, and the requests whose tokens one device has."""

    stream: Stream
    position: int
    requests: FloatArray


def stream_parts(platform: Platform, streams: Sequence[Stream], name: str) -> list[StreamPart]:
    """The streams whose tokens pass through an operator with weights."""
    slices = []
    for stream in streams:
        if stream.has_products and name in stream.table.names:
            i = stream.table.names.index(name)
            # Experts have the tokens of all groups, everything else those of its own; what goes
            # with their products is evenly spread, these are divided where experts are.
            is_own = stream.table.rules[i].kernel != "experts"
            shared = stream.requests / (1.0 if stream.table.is_routed[i] else platform.ep)
            requests = platform.own_requests(stream.requests) if is_own else shared
            share = platform.sp if stream.is_prefill else 1.0
            slices.append(StreamPart(stream, i, requests / share))
    return slices


def total_of(
    slices: Sequence[StreamPart], per_request: Callable[[OperatorTable, int], float]
) -> FloatArray:
    """(n,) a quantity over all requests of all streams."""
    terms = [
        per_request(stream_slice.stream.table, stream_slice.position) * stream_slice.requests
        for stream_slice in slices
    ]
    return np.asarray(summed(terms), np.float64)


@frozen
class Loads:
    """Multiply-accumulates, weights read, elements of input and output; (n,) each."""

    mac: FloatArray
    weights: FloatArray
    input_elements: FloatArray
    output_elements: FloatArray


def product_rows(table: OperatorTable, i: int) -> float:
    """Rows of a product; of an operator that is none, the tokens of a request."""
    is_product = table.kinds[i] == "gemm"
    return float(table.m_per_request[i]) if is_product else table.tokens_per_request


def written_elements(table: OperatorTable, i: int) -> float:
    """Elements that an operator writes for a request, to the cache too."""
    return float(table.output_elements_per_request[i] + table.kv_written_elements_per_request[i])


def read_elements(table: OperatorTable, i: int) -> float:
    """Elements of input of an operator for a request."""
    return float(table.input_elements_per_request[i])


def dense_loads(share: RankShare, slices: Sequence[StreamPart]) -> Loads:
    """Every token meets all weights; of a table, only the rows that it looks up are read."""
    table = slices[0].stream.table
    i = slices[0].position
    looked_up = total_of(slices, lambda t, j: float(t.lookup_elements_per_request[j]))
    stored = table.weight_elements[i] * table.n_experts[i]
    return _loads(share, slices, (stored + looked_up) * share.work)


def expected_expert_loads(sharding: Sharding, slices: Sequence[StreamPart]) -> Loads:
    """Tokens spread evenly over the ranks; a rank reads the experts it can expect to touch."""
    table = slices[0].stream.table
    i = slices[0].position
    share = sharding.share(table.rules[i])
    moe = sharding.model.moe_dims
    ep = sharding.platform.ep
    touched = expected_distinct_experts(
        total_of(slices, lambda t, j: float(t.m_per_request[j])),
        np.asarray(float(moe.n_routed_experts)),
        np.asarray(float(moe.num_experts_per_tok)),
    )
    return _loads(share, slices, table.weight_elements[i] * touched / ep * share.work, ep)


def _loads(
    share: RankShare,
    slices: Sequence[StreamPart],
    weights: FloatArray,
    n_groups: Floats = 1.0,
) -> Loads:
    """Loads of a rank, whose tokens are those of its group alone."""
    return Loads(
        mac=total_of(slices, lambda t, j: float(t.mac_per_request[j])) * share.work / n_groups,
        weights=weights,
        input_elements=total_of(slices, read_elements) * share.input / n_groups,
        output_elements=total_of(slices, written_elements) * share.output / n_groups,
    )
