"""The operators of one pass through a language model: one array per property.

A pass is the whole prompt in prefill, one step in decode, one denoising step of a diffusion
model. Identical operators of identical layers are one row with a ``count``, so a table has
some fifteen rows. Every quantity is for one instance of the operator, and is split into what
each request of a batch brings and what the batch shares (the weights), so that an evaluator
broadcasts ``(n, 1)`` batch sizes against ``(o,)`` operators.

Elements, not bytes: which format an element has is the design's choice. Only the state of linear
attention is in bytes, since its format is the model's.
"""

from __future__ import annotations

from dataclasses import fields, replace
from math import inf
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from codesign.base.columns import Arrays, BoolArray, FloatArray, JsonObject, StringTuple
from codesign.base.errors import InputError
from codesign.base.records import frozen
from codesign.models.workload.expert_routing import expected_distinct_experts
from codesign.models.workload.operator_rules import OperatorRule, operator_rule

Kind = Literal["gemm", "attention_qk", "attention_pv", "linear_attention", "vector", "gather"]
Group = Literal["embedding", "norm", "attention", "mlp", "moe", "residual", "lm_head"]
_ENDS: tuple[Group, ...] = ("embedding", "lm_head")


@frozen
class OperatorTable:
    """The ``o`` operators of one pass, in the order in which they first run.

    Attributes:
        names: Unique, such as ``qkv_projection``.
        kinds: ``gemm`` (weights shared by the batch), ``attention_qk`` and ``attention_pv``
            (products of each request with its own keys and values), ``linear_attention``
            (products of each request with its own state, or within a chunk of its tokens),
            ``vector`` (element by element), ``gather`` (rows looked up in a table).
        groups: The part of the layer, for reports.
        rules: How several devices divide each operator, which kernel runs it, and what it is for.
        count: (o,) instances in one pass; every other column is for one instance.
        m_per_request: (o,) rows that one request brings to one product; 0 if no product.
        k: (o,) inner size of one product.
        n: (o,) columns of one product.
        products_per_request: (o,) separate products of one request, in attention (one per
            KV head, or per value head and chunk); 0 where the batch shares the operand.
        n_experts: (o,) weight matrices of which a token uses ``experts_per_token``; 1 if dense.
        experts_per_token: (o,) 1 if dense.
        weight_elements: (o,) elements of one expert (of the whole operator if dense), biases
            included, read once a pass whatever the batch.
        lookup_elements_per_request: (o,) weight elements that a ``gather`` reads.
        input_elements_per_request: (o,) activations read, scores excepted.
        output_elements_per_request: (o,) activations written, scores excepted.
        score_read_elements_per_request: (o,) attention scores read; they stay on chip if the
            attention is fused (FlashAttention), the evaluator's choice.
        score_written_elements_per_request: (o,) attention scores written.
        kv_read_elements_per_request: (o,) elements read from the KV cache, each once.
        kv_written_elements_per_request: (o,) elements appended to the KV cache.
        state_read_bytes_per_request: (o,) bytes of linear attention's state, of its convolution's
            window and of an indexer's keys that are read, each once a pass, in the model's own
            format.
        state_written_bytes_per_request: (o,) bytes of them that are written.
        kv_reused_elements_per_request: (o,) elements of the KV cache that an earlier operator has
            read and this one uses again: the values of latent attention in a decode.
        stored_weight_elements: (o,) elements of weights that memory holds, of all experts.
        stored_kv_elements_per_token: (o,) elements of the KV cache that a token of context takes.
        stored_bytes_per_token: (o,) bytes in the model's own format that a token of context takes.
        stored_bytes_per_request: (o,) bytes of state that a request takes, whatever its length.
        most_stored_tokens: (o,) tokens beyond which the cache grows no more: a sliding window.
        vector_ops_per_request: (o,) operations of the vector unit, one element and one
            instruction each (see ``vector_ops.py``); a GEMM has them for its bias.
        tokens_per_request: Tokens that one request brings to the pass.
        n_passes: Passes of the phase: 1 in prefill, the generated tokens in decode, the
            denoising steps of a diffusion model.
    """

    names: StringTuple
    kinds: tuple[Kind, ...]
    groups: tuple[Group, ...]
    rules: tuple[OperatorRule, ...]
    count: FloatArray
    m_per_request: FloatArray
    k: FloatArray
    n: FloatArray
    products_per_request: FloatArray
    n_experts: FloatArray
    experts_per_token: FloatArray
    weight_elements: FloatArray
    lookup_elements_per_request: FloatArray
    input_elements_per_request: FloatArray
    output_elements_per_request: FloatArray
    score_read_elements_per_request: FloatArray
    score_written_elements_per_request: FloatArray
    kv_read_elements_per_request: FloatArray
    kv_written_elements_per_request: FloatArray
    state_read_bytes_per_request: FloatArray
    state_written_bytes_per_request: FloatArray
    vector_ops_per_request: FloatArray
    kv_reused_elements_per_request: FloatArray
    stored_weight_elements: FloatArray
    stored_kv_elements_per_token: FloatArray
    stored_bytes_per_token: FloatArray
    stored_bytes_per_request: FloatArray
    most_stored_tokens: FloatArray
    tokens_per_request: float
    n_passes: float

    def __len__(self) -> int:
        return len(self.names)

    def take(self, positions: NDArray[np.int64]) -> OperatorTable:
        """The table of the operators at these positions."""
        columns: JsonObject = {name: getattr(self, name)[positions] for name in NUMERIC_COLUMNS}
        for name in ("names", "kinds", "groups", "rules"):
            columns[name] = tuple(getattr(self, name)[i] for i in positions)
        return replace(self, **columns)

    def scaled(self, factors: Arrays) -> OperatorTable:
        """The table with some columns, by name, times (o,) factors."""
        columns: JsonObject = {name: getattr(self, name) * factors[name] for name in factors}
        return replace(self, **columns)

    def is_kind(self, *kinds: Kind) -> BoolArray:
        """(o,) whether each operator is one of the kinds."""
        return np.array([operator_kind in kinds for operator_kind in self.kinds], np.bool_)

    @property
    def is_in_layers(self) -> BoolArray:
        """(o,) whether each operator is neither before the first layer nor after the last one."""
        return np.array([group not in _ENDS for group in self.groups], np.bool_)

    @property
    def parts(self) -> StringTuple:
        """The part of the model among whose parameters each operator's weights are counted."""
        return tuple(map(_parameter_part, self.groups, self.rules))

    @property
    def is_attention(self) -> BoolArray:
        """(o,) whether each request multiplies with its own keys, values or state."""
        return self.products_per_request > 0

    @property
    def is_routed(self) -> BoolArray:
        """(o,) True if a token uses only some weight matrices of the operator."""
        return self.n_experts > self.experts_per_token

    @property
    def is_mixture(self) -> bool:
        """Whether any operator is routed."""
        return bool(self.is_routed.any())

    @property
    def is_softmax(self) -> BoolArray:
        """(o,) True if an operator of the vector unit works on attention scores."""
        return self.is_kind("vector") & (self.score_read_elements_per_request > 0)

    @property
    def mac_per_request(self) -> FloatArray:
        """(o,) multiply-accumulates of one request in one instance (2 FLOP each)."""
        per_product = self.m_per_request * self.k * self.n
        repeats = np.where(self.is_attention, self.products_per_request, self.experts_per_token)
        return per_product * repeats

    def distinct_experts(self, batch_size: NDArray[Any]) -> FloatArray:
        """(..., o) weight matrices that a pass touches; ``batch_size`` (..., 1) or a scalar."""
        tokens = batch_size * self.m_per_request
        touched = expected_distinct_experts(tokens, self.n_experts, self.experts_per_token)
        # An operator without rows (a norm) still reads its only set of weights.
        is_only = (self.n_experts == 1) & ~self.is_routed
        return np.where(is_only, 1.0, touched)

    def n_products(self, batch_size: NDArray[Any]) -> FloatArray:
        """(..., o) matrix products of one instance: experts touched, or requests times heads."""
        separate = batch_size * self.products_per_request
        shared = np.where(self.m_per_request > 0, self.distinct_experts(batch_size), 0.0)
        return np.where(self.is_attention, separate, shared)

    def rows_per_product(self, batch_size: NDArray[Any]) -> FloatArray:
        """(..., o) rows ``m`` of each product, on average over the experts touched."""
        routed = batch_size * self.m_per_request * self.experts_per_token
        shared = routed / self.distinct_experts(batch_size)
        return np.where(self.is_attention, self.m_per_request, shared)

    def weights_read(self, batch_size: NDArray[Any]) -> FloatArray:
        """(..., o) weight elements that one instance reads, once each, look-ups included."""
        looked_up = batch_size * self.lookup_elements_per_request
        return self.weight_elements * self.distinct_experts(batch_size) + looked_up


def _parameter_part(group: Group, rule: OperatorRule) -> str:
    if rule.role in ("norm", "qk_norm"):
        return "norm"
    if group == "moe":
        routed = "experts" if rule.kernel == "experts" else "shared_experts"
        return "router" if rule.role == "router" else routed
    is_linear = rule.dimension in ("value_heads", "linear_projection", "linear_convolution")
    return "linear_attention" if is_linear else group


@frozen
class Operator:
    """One row of an :class:`OperatorTable`, with the same meanings; what is left out is zero.

    Attributes:
        stored_weight_elements: All weights that the operator reads, if None.
        most_stored_tokens: No limit, if left out.
        rule: The row of :mod:`codesign.models.workload.operator_rules`, if None.
    """

    name: str
    kind: Kind
    group: Group
    count: float
    m_per_request: float = 0.0
    k: float = 0.0
    n: float = 0.0
    products_per_request: float = 0.0
    n_experts: float = 1.0
    experts_per_token: float = 1.0
    weight_elements: float = 0.0
    lookup_elements_per_request: float = 0.0
    input_elements_per_request: float = 0.0
    output_elements_per_request: float = 0.0
    score_read_elements_per_request: float = 0.0
    score_written_elements_per_request: float = 0.0
    kv_read_elements_per_request: float = 0.0
    kv_written_elements_per_request: float = 0.0
    state_read_bytes_per_request: float = 0.0
    state_written_bytes_per_request: float = 0.0
    vector_ops_per_request: float = 0.0
    kv_reused_elements_per_request: float = 0.0
    stored_weight_elements: float | None = None
    stored_kv_elements_per_token: float = 0.0
    stored_bytes_per_token: float = 0.0
    stored_bytes_per_request: float = 0.0
    most_stored_tokens: float = inf
    rule: OperatorRule | None = None


Operators = list[Operator]


def elementwise(
    name: str, group: Group, count: float, elements: float, ops: float, weights: float = 0.0
) -> Operator:
    """An operator that reads and writes the same number of elements."""
    return Operator(
        name,
        "vector",
        group,
        count,
        weight_elements=weights,
        input_elements_per_request=elements,
        output_elements_per_request=elements,
        vector_ops_per_request=ops * elements,
    )


def projection(
    name: str,
    group: Group,
    count: float,
    rows: float,
    k: float,
    n: float,
    *,
    has_bias: bool = False,
    cached: float = 0.0,
    n_experts: float = 1.0,
    experts_per_token: float = 1.0,
    rule: OperatorRule | None = None,
) -> Operator:
    """A product with shared weights.

    Args:
        rows: Rows of a request.
        cached: Of the ``n`` columns, those that go to the KV cache.
        n_experts: Weight matrices; a head's own is an expert that every token takes.
    """
    products = rows * experts_per_token
    return Operator(
        name,
        "gemm",
        group,
        count,
        m_per_request=rows,
        k=k,
        n=n,
        n_experts=n_experts,
        experts_per_token=experts_per_token,
        weight_elements=k * n + (n if has_bias else 0),
        input_elements_per_request=products * k,
        output_elements_per_request=products * (n - cached),
        kv_written_elements_per_request=rows * cached,
        vector_ops_per_request=products * n if has_bias else 0,
        rule=rule,
    )


_LABELS = ("name", "kind", "group", "rule")
NUMERIC_COLUMNS: StringTuple = tuple(
    column.name for column in fields(Operator) if column.name not in _LABELS
)
"""The columns of an :class:`OperatorTable` that are arrays."""
KINDS: StringTuple = get_args(Kind)


def build_table(operators: Operators, tokens_per_request: float, n_passes: float) -> OperatorTable:
    """The table of a list of operators, those with ``count`` 0 left out.

    Raises:
        UnknownNameError: An operator has no row in :mod:`codesign.models.workload.operator_rules`.
        InputError: An operator reads or writes a cache or a state that none stores.
    """
    rows = [row for row in operators if row.count > 0]
    columns = {
        name: np.array([getattr(row, name) for row in rows], np.float64) for name in NUMERIC_COLUMNS
    }
    _check_storage(rows)
    weights = columns["weight_elements"]
    stored = columns["stored_weight_elements"]
    columns["stored_weight_elements"] = np.where(
        np.isnan(stored), weights * columns["n_experts"], stored
    )
    return OperatorTable(
        names=tuple(row.name for row in rows),
        kinds=tuple(row.kind for row in rows),
        groups=tuple(row.group for row in rows),
        rules=tuple(row.rule or operator_rule(row.name) for row in rows),
        tokens_per_request=float(tokens_per_request),
        n_passes=float(n_passes),
        **columns,
    )


def _check_storage(rows: Operators) -> None:
    """Refuse operators that move a cache or a state whose size in memory no operator declares."""
    stores_cache = any(row.stored_kv_elements_per_token for row in rows)
    stores_state = any(row.stored_bytes_per_token or row.stored_bytes_per_request for row in rows)
    for row in rows:
        moves_cache = row.kv_read_elements_per_request or row.kv_written_elements_per_request
        if moves_cache and not stores_cache:
            problem = "expected stored_kv_elements_per_token, since it moves a KV cache, got none"
            raise InputError(problem, f"operator {row.name}")
        stores = row.stored_bytes_per_token or row.stored_bytes_per_request
        writes = row.state_written_bytes_per_request
        reads = row.state_read_bytes_per_request
        if (writes and not stores) or (reads and not stores_state):
            problem = "expected stored_bytes_per_request or stored_bytes_per_token"
            raise InputError(f"{problem}, since it moves a state, got none", f"operator {row.name}")
