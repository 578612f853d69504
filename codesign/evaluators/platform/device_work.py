"""Records of what one device does in one pass: requests that run together, and operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from codesign.base.columns import FloatArray
from codesign.base.records import frozen
from codesign.models.workload.operator_rules import Kernel, OperatorRule
from codesign.models.workload.operators import Kind, OperatorTable


@frozen
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


@frozen
class DeviceWork:
    """One operator on one device, per instance; arrays are (n,).

    Attributes:
        is_in_layers: Whether every layer has the operator; otherwise an end of the model has it.
        rule: How the operator is divided, and the kernel of which it is a part.
        stream: Requests whose keys and values it multiplies; None of other operators.
        products: Separate products: heads of keys in attention, heads of a product by heads.
        rows: Rows of a product: tokens, of all groups before they are routed to experts; queries
            in attention.
        inner: Inner size of a product.
        columns: Columns of a product; keys or widths in attention.
        expert_elements: Weights of one expert; 0 of an operator that every token meets.
        is_plain: Whether its weights stay in 16 bits, whatever the format of the others.
        count: Instances in the whole model, all stages of the pipeline together.
        mac: Multiply-accumulates.
        weight_bytes: Bytes of weights read.
        kv_bytes: Bytes of keys and values read.
        activation_bytes: Bytes of activations that pass the device's memory.
        onchip_bytes: Bytes of activations that stay on chip.
    """

    name: str
    kind: Kind
    is_in_layers: bool
    rule: OperatorRule
    stream: Stream | None
    products: FloatArray
    rows: FloatArray
    inner: FloatArray
    columns: FloatArray
    expert_elements: float
    is_plain: bool
    count: float
    mac: FloatArray
    weight_bytes: FloatArray
    kv_bytes: FloatArray
    activation_bytes: FloatArray
    onchip_bytes: FloatArray

    @property
    def kernel(self) -> Kernel:
        """Kernel of which the operator is a part."""
        return self.rule.kernel

    @property
    def part(self) -> Literal["attention", "linear"]:
        """Whether its time is of products with keys and values, or with weights."""
        return "attention" if self.rule.has_keys else "linear"


Works = Sequence[DeviceWork]
"""Work of operators that follow each other."""
