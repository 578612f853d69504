"""What others need to know of each kind of operator: one row per operator.

How several devices divide it, which kernel runs it, and what it does in its layer.

Tensor parallelism cuts a matrix by columns, so that every device has a part of the output, or by
rows, so that every device has a part of the input and a partial sum of the whole output; attention
is cut by heads [Shoeybi2019]_. After a cut by rows the devices add up their partial sums
(all-reduce). Every device has the same code, so the one with the largest part sets the pace.

A kernel is what a device starts at once: the products with keys and values and the softmax between
them are one, as FlashAttention has it, and so is a layer of experts.

What an operator does in its layer is its role: those who count work by other rules than the
lowering, as LIFE does, go by it and not by the operator's name.

An operator that has no row here is refused when it is lowered.

.. [Shoeybi2019] M. Shoeybi et al., Megatron-LM: Training multi-billion parameter language
   models using model parallelism, 2019.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from codesign.base.columns import FloatArray
from codesign.base.errors import check_known
from codesign.models.workload.model import LanguageModel

Axis: TypeAlias = Literal["columns", "rows", "heads", "replicated"]
Collective: TypeAlias = Literal["all_reduce", "all_gather"]
Kernel: TypeAlias = Literal[
    "gemm", "absorption", "attention", "index", "experts", "scan", "rowwise", "residual", "lookup",
]  # fmt: skip
Dimension: TypeAlias = Literal[
    "query_heads", "query_key_value", "kv_heads", "latent", "value_heads", "linear_projection",
    "linear_convolution", "mlp", "shared", "expert", "vocabulary", "all",
]  # fmt: skip
Access: TypeAlias = Literal["streamed", "paged", "gathered"]
Scope: TypeAlias = Literal["tokens", "logits", "phase"]
Role: TypeAlias = Literal[
    "embedding", "norm", "residual", "lm_head", "qkv", "qk_norm", "rope", "softmax",
    "attention_output", "latent", "query", "key_value", "up", "activation", "down", "router",
    "combination", "other",
]  # fmt: skip


@dataclass(frozen=True)
class OperatorRule:
    """How one operator is divided, what runs it, and what it is for.

    Attributes:
        axis: What is cut: columns or rows of its weights, heads, or nothing.
        dimension: Dimension of the model along which it is cut.
        kernel: Kernel that runs it: a matrix product, or one for each head; attention, the choice
            of its tokens by an index, experts or a scan of linear attention, of which it is a part;
            a kernel that works row by row; an addition that the next norm does on its way; a
            look-up in a table.
        collective: What the devices send one another afterwards: the operator's output, added up
            (``all_reduce``) or put together (``all_gather``); None if nothing.
        role: What it does in its layer, the same for dense, shared and routed feed-forward layers:
            their ``up`` projections have the gate's matrix with them.
        scope: Which tokens of a step go through it together: all ``tokens``; those before a
            predicted one, which ``logits`` are computed of; or those of prompts and of decoding
            requests apart, since each ``phase`` does it in its own way.
        is_windowed: Whether it is attention of layers that slide, in a model that has others too.
        access: Order in which it reads stored data: ``streamed`` from end to end, ``paged`` as
            caches of serving engines are, or ``gathered`` row by row.
        stored: Dimension along which devices divide the cache or the state that it stores.
    """

    axis: Axis
    dimension: Dimension
    kernel: Kernel
    collective: Collective | None = None
    role: Role = "other"
    scope: Scope = "tokens"
    is_windowed: bool = False
    access: Access = "streamed"
    stored: Dimension = "all"

    @property
    def has_keys(self) -> bool:
        """Whether requests multiply with keys or values that are their own, or weigh the scores."""
        return self.kernel in ("attention", "index")

    @property
    def divides_weights(self) -> bool:
        """Whether a device has a part of the weights; of a norm every device has them all."""
        return self.kernel != "rowwise"


_REPLICATED_PRODUCT = OperatorRule("replicated", "all", "gemm")
_ATTENTION = OperatorRule(
    "heads", "query_heads", "attention", scope="phase", access="paged", stored="kv_heads"
)
_ROWS_OF_HEADS = OperatorRule("heads", "query_heads", "rowwise")
_INDEX = OperatorRule("replicated", "all", "index", scope="phase", access="paged")
_ABSORPTION = OperatorRule("heads", "query_heads", "absorption", scope="phase")
_SCAN = OperatorRule("heads", "value_heads", "scan", scope="phase", stored="value_heads")
_CONVOLUTION = replace(_SCAN, dimension="linear_convolution")

_RULES: dict[str, OperatorRule] = {
    "embedding": OperatorRule(
        "rows", "vocabulary", "lookup", "all_reduce", role="embedding", access="gathered"
    ),
    "embedding_projection": _REPLICATED_PRODUCT,
    "altup_projection": _REPLICATED_PRODUCT,
    "laurel_projection": _REPLICATED_PRODUCT,
    "laurel_output": _REPLICATED_PRODUCT,
    "layer_input_projection": _REPLICATED_PRODUCT,
    "layer_input_gate": _REPLICATED_PRODUCT,
    "layer_input_output": _REPLICATED_PRODUCT,
    "norm": OperatorRule("replicated", "all", "rowwise", role="norm"),
    "residual": OperatorRule("replicated", "all", "residual", role="residual"),
    "lm_head": OperatorRule(
        "columns", "vocabulary", "gemm", "all_gather", role="lm_head", scope="logits"
    ),
    # Attention with grouped queries.
    "qkv_projection": OperatorRule("columns", "query_key_value", "gemm", role="qkv"),
    "qk_norm": replace(_ROWS_OF_HEADS, role="qk_norm"),
    "rope": replace(_ROWS_OF_HEADS, role="rope"),
    "attention_qk": _ATTENTION,
    "softmax": replace(_ATTENTION, role="softmax"),
    "attention_pv": _ATTENTION,
    "sliding_attention_qk": replace(_ATTENTION, is_windowed=True),
    "sliding_softmax": replace(_ATTENTION, role="softmax", is_windowed=True),
    "sliding_attention_pv": replace(_ATTENTION, is_windowed=True),
    "output_gate": _ROWS_OF_HEADS,
    "output_projection": OperatorRule(
        "rows", "query_heads", "gemm", "all_reduce", role="attention_output"
    ),
    # Multi-head latent attention: all heads share the latent, which every device keeps.
    "latent_projection": OperatorRule("columns", "latent", "gemm", role="latent"),
    "latent_norm": OperatorRule("replicated", "all", "rowwise", role="norm"),
    "query_projection": OperatorRule("columns", "query_heads", "gemm", role="query"),
    "key_value_projection": OperatorRule(
        "columns", "query_heads", "gemm", role="key_value", scope="phase"
    ),
    "query_absorption": _ABSORPTION,
    "value_absorption": _ABSORPTION,
    # The indexer of sparse latent attention, which every device has.
    "index_projection": _REPLICATED_PRODUCT,
    "index_query_projection": _REPLICATED_PRODUCT,
    "index_norm": OperatorRule("replicated", "all", "rowwise", role="norm"),
    "index_scores": _INDEX,
    "index_selection": _INDEX,
    # Linear attention.
    "linear_projection": OperatorRule("columns", "linear_projection", "gemm"),
    "linear_convolution": _CONVOLUTION,
    "linear_qk_norm": replace(_CONVOLUTION, role="norm"),
    "linear_decay": _SCAN,
    "linear_state_products": _SCAN,
    "linear_state_update": _SCAN,
    "scan_projection": OperatorRule("rows", "value_heads", "gemm", "all_reduce"),
    "time_step_projection": OperatorRule("columns", "value_heads", "gemm"),
    "selective_scan": _SCAN,
    "convolution_gates": _SCAN,
    "scan_scores": _SCAN,
    "scan_decay": _SCAN,
    "scan_corrections": _SCAN,
    "scan_state_products": _SCAN,
    "scan_outputs": _SCAN,
    "scan_state_update": _SCAN,
    "linear_norm": OperatorRule("heads", "value_heads", "rowwise", role="norm"),
    "linear_output_projection": OperatorRule("rows", "value_heads", "gemm", "all_reduce"),
    # Feed-forward layers. Partial sums of all experts are combined before they are added up.
    "gate_up_projection": OperatorRule("columns", "mlp", "gemm", role="up"),
    "up_projection": OperatorRule("columns", "mlp", "gemm", role="up"),
    "activation": OperatorRule("heads", "mlp", "rowwise", role="activation"),
    "down_projection": OperatorRule("rows", "mlp", "gemm", "all_reduce", role="down"),
    "router": replace(_REPLICATED_PRODUCT, role="router"),
    "shared_gate_up_projection": OperatorRule("columns", "shared", "gemm", role="up"),
    "shared_up_projection": OperatorRule("columns", "shared", "gemm", role="up"),
    "shared_activation": OperatorRule("heads", "shared", "rowwise", role="activation"),
    "shared_down_projection": OperatorRule("rows", "shared", "gemm", role="down"),
    "expert_latent_projection": _REPLICATED_PRODUCT,
    "expert_latent_output": _REPLICATED_PRODUCT,
    "expert_gate_up_projection": OperatorRule("columns", "expert", "experts", role="up"),
    "expert_up_projection": OperatorRule("columns", "expert", "experts", role="up"),
    "expert_activation": OperatorRule("heads", "expert", "experts", role="activation"),
    "expert_down_projection": OperatorRule("rows", "expert", "experts", role="down"),
    "expert_combination": OperatorRule(
        "replicated", "all", "experts", "all_reduce", role="combination"
    ),
}


def operator_rule(operator: str) -> OperatorRule:
    """The rule of the operator of that name.

    Raises:
        UnknownNameError: The operator has none.
    """
    check_known("operator", operator, _RULES)
    return _RULES[operator]


def largest_parts(model: LanguageModel, n_ranks: FloatArray) -> dict[Dimension, FloatArray]:
    """The largest part of each dimension that one of ``n_ranks`` devices has, as a share.

    Args:
        n_ranks: (...) devices over which the dimensions are cut.

    Returns:
        (...) shares by dimension, of those that the model has.

    Examples:
        >>> from codesign.models.workload import load_model
        >>> parts = largest_parts(load_model("llama-3.3-70b"), np.array([4.0, 16.0]))
        >>> parts["query_heads"].tolist()
        [0.25, 0.0625]
        >>> parts["query_key_value"].tolist()  # 8 KV heads: each of 16 devices has a whole one
        [0.25, 0.075]
    """
    queries = _part(model.num_attention_heads, n_ranks)
    # Whole heads, at least one; a latent serves all heads.
    keys = np.ones_like(queries) if model.is_latent else _part(model.num_key_value_heads, n_ranks)
    states = model.linear_dims.n_value_heads if model.n_linear_layers else 1
    parts: dict[Dimension, FloatArray] = {
        "all": np.ones_like(queries),
        "vocabulary": _part(model.vocab_size, n_ranks),
        "mlp": _part(model.intermediate_size, n_ranks),
        "query_heads": queries,
        "query_key_value": _query_key_value(model, queries, keys),
        "kv_heads": keys,
        "value_heads": _part(states, n_ranks),
        "latent": _latent(model, queries),
    }
    if model.n_linear_layers:
        parts |= _linear(model, n_ranks)
    if model.is_mixture:
        mixture = model.moe_dims
        width = mixture.moe_intermediate_size
        parts["expert"] = _part(width, n_ranks)
        parts["shared"] = _part(mixture.shared_width or width, n_ranks)
    return parts


def _part(size: int, n_ranks: FloatArray) -> FloatArray:
    return np.asarray(np.ceil(size / np.asarray(n_ranks, dtype=np.float64)) / size)


def _mean(*weighted: tuple[float, FloatArray]) -> FloatArray:
    """Share of the sum of several widths, each with a share of its own."""
    total = sum(width for width, _ in weighted)
    return np.asarray(sum(width * part for width, part in weighted) / total)


def _query_key_value(model: LanguageModel, queries: FloatArray, keys: FloatArray) -> FloatArray:
    gated, width = 2 if model.attn_output_gate else 1, model.head_dim
    cached = model.num_key_value_heads * (width + (model.value_head_dim or width))
    return _mean((gated * model.num_attention_heads * width, queries), (cached, keys))


def _latent(model: LanguageModel, queries: FloatArray) -> FloatArray:
    """The down projections of MLA: queries are cut only where they have no latent."""
    if not model.is_latent or model.latent_dims.q_lora_rank is not None:
        return np.ones_like(queries)
    dims = model.latent_dims
    query = model.num_attention_heads * (dims.qk_nope_head_dim + dims.qk_rope_head_dim)
    rest = dims.kv_lora_rank + dims.qk_rope_head_dim
    return _mean((query, queries), (rest, np.ones_like(queries)))


def _linear(model: LanguageModel, n_ranks: FloatArray) -> dict[Dimension, FloatArray]:
    dims = model.linear_dims
    keys, values = _part(dims.n_key_heads, n_ranks), _part(dims.n_value_heads, n_ranks)
    form = dims.form
    convolved = 2 * dims.key_width * form.convolves_keys
    projected = 2 * dims.key_width * form.projects_keys
    return {
        "linear_convolution": _mean((convolved, keys), (dims.value_width, values)),
        "linear_projection": _mean((projected, keys), (dims.value_width + dims.gate_width, values)),
    }
