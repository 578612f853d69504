"""How several devices divide each kind of operator, and which kernel runs it: one row per operator.

Tensor parallelism cuts a matrix by columns, so that every device has a part of the output, or by
rows, so that every device has a part of the input and a partial sum of the whole output; attention
is cut by heads [Shoeybi2019]_. After a cut by rows the devices add up their partial sums
(all-reduce). Every device has the same code, so the one with the largest part sets the pace.

A kernel is what a device starts at once: the products with keys and values and the softmax between
them are one, as FlashAttention has it, and so is a layer of experts.

An operator that has no row here cannot be cut, and is refused.

.. [Shoeybi2019] M. Shoeybi et al., Megatron-LM: Training multi-billion parameter language
   models using model parallelism, 2019.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from codesign.columns import FloatArray
from codesign.errors import UnknownNameError
from codesign.workload.model import LanguageModel

Axis: TypeAlias = Literal["columns", "rows", "heads", "replicated"]
Collective: TypeAlias = Literal["all_reduce", "all_gather"]
Kernel: TypeAlias = Literal[
    "gemm", "absorption", "attention", "experts", "scan", "rowwise", "residual", "lookup"
]  # fmt: skip
Dimension: TypeAlias = Literal[
    "query_heads", "query_key_value", "latent", "value_heads", "linear_projection",
    "linear_convolution", "mlp", "shared", "expert", "vocabulary", "all",
]  # fmt: skip


@dataclass(frozen=True)
class SplitRule:
    """How one operator is divided.

    Attributes:
        axis: What is cut: columns or rows of its weights, heads, or nothing.
        dimension: Dimension of the model along which it is cut.
        kernel: Kernel that runs it: a matrix product, or one for each head; attention, experts or a
            scan of linear attention, of which it is a part; a kernel that works row by row; an
            addition that the next norm does on its way; a look-up in a table.
        collective: What the devices send one another afterwards: the operator's output, added up
            (``all_reduce``) or put together (``all_gather``); None if nothing.
    """

    axis: Axis
    dimension: Dimension
    kernel: Kernel
    collective: Collective | None = None


_REPLICATED_PRODUCT = SplitRule("replicated", "all", "gemm")
_ATTENTION = SplitRule("heads", "query_heads", "attention")
_ROWS_OF_HEADS = SplitRule("heads", "query_heads", "rowwise")
_ABSORPTION = SplitRule("heads", "query_heads", "absorption")
_SCAN = SplitRule("heads", "value_heads", "scan")

_RULES: dict[str, SplitRule] = {
    "embedding": SplitRule("rows", "vocabulary", "lookup", "all_reduce"),
    "embedding_projection": _REPLICATED_PRODUCT,
    "altup_projection": _REPLICATED_PRODUCT,
    "laurel_projection": _REPLICATED_PRODUCT,
    "laurel_output": _REPLICATED_PRODUCT,
    "layer_input_projection": _REPLICATED_PRODUCT,
    "layer_input_gate": _REPLICATED_PRODUCT,
    "layer_input_output": _REPLICATED_PRODUCT,
    "norm": SplitRule("replicated", "all", "rowwise"),
    "residual": SplitRule("replicated", "all", "residual"),
    "lm_head": SplitRule("columns", "vocabulary", "gemm", "all_gather"),
    # Attention with grouped queries.
    "qkv_projection": SplitRule("columns", "query_key_value", "gemm"),
    "qk_norm": _ROWS_OF_HEADS,
    "rope": _ROWS_OF_HEADS,
    "attention_qk": _ATTENTION,
    "softmax": _ATTENTION,
    "attention_pv": _ATTENTION,
    "sliding_attention_qk": _ATTENTION,
    "sliding_softmax": _ATTENTION,
    "sliding_attention_pv": _ATTENTION,
    "output_gate": _ROWS_OF_HEADS,
    "output_projection": SplitRule("rows", "query_heads", "gemm", "all_reduce"),
    # Multi-head latent attention: all heads share the latent, which every device keeps.
    "latent_projection": SplitRule("columns", "latent", "gemm"),
    "latent_norm": SplitRule("replicated", "all", "rowwise"),
    "query_projection": SplitRule("columns", "query_heads", "gemm"),
    "key_value_projection": SplitRule("columns", "query_heads", "gemm"),
    "query_absorption": _ABSORPTION,
    "value_absorption": _ABSORPTION,
    # Linear attention.
    "linear_projection": SplitRule("columns", "linear_projection", "gemm"),
    "linear_convolution": SplitRule("heads", "linear_convolution", "scan"),
    "linear_qk_norm": SplitRule("heads", "linear_convolution", "scan"),
    "linear_decay": _SCAN,
    "linear_state_products": _SCAN,
    "linear_state_update": _SCAN,
    "scan_projection": SplitRule("rows", "value_heads", "gemm", "all_reduce"),
    "time_step_projection": SplitRule("columns", "value_heads", "gemm"),
    "selective_scan": _SCAN,
    "scan_scores": _SCAN,
    "scan_decay": _SCAN,
    "scan_corrections": _SCAN,
    "scan_state_products": _SCAN,
    "scan_outputs": _SCAN,
    "scan_state_update": _SCAN,
    "linear_norm": SplitRule("heads", "value_heads", "rowwise"),
    "linear_output_projection": SplitRule("rows", "value_heads", "gemm", "all_reduce"),
    # Feed-forward layers. Partial sums of all experts are combined before they are added up.
    "gate_up_projection": SplitRule("columns", "mlp", "gemm"),
    "up_projection": SplitRule("columns", "mlp", "gemm"),
    "activation": SplitRule("heads", "mlp", "rowwise"),
    "down_projection": SplitRule("rows", "mlp", "gemm", "all_reduce"),
    "router": _REPLICATED_PRODUCT,
    "shared_gate_up_projection": SplitRule("columns", "shared", "gemm"),
    "shared_up_projection": SplitRule("columns", "shared", "gemm"),
    "shared_activation": SplitRule("heads", "shared", "rowwise"),
    "shared_down_projection": SplitRule("rows", "shared", "gemm"),
    "expert_gate_up_projection": SplitRule("columns", "expert", "experts"),
    "expert_up_projection": SplitRule("columns", "expert", "experts"),
    "expert_activation": SplitRule("heads", "expert", "experts"),
    "expert_down_projection": SplitRule("rows", "expert", "experts"),
    "expert_combination": SplitRule("replicated", "all", "experts", "all_reduce"),
}


def split_rule(operator: str) -> SplitRule:
    """The rule of the operator of that name.

    Raises:
        UnknownNameError: The operator has none.
    """
    if operator not in _RULES:
        raise UnknownNameError("operator", operator, _RULES)
    return _RULES[operator]


def largest_parts(model: LanguageModel, n_ranks: FloatArray) -> dict[Dimension, FloatArray]:
    """The largest part of each dimension that one of ``n_ranks`` devices has, as a share.

    Args:
        model: The language model.
        n_ranks: (...) devices over which the dimensions are cut.

    Returns:
        (...) shares by dimension, of those that the model has.

    Examples:
        >>> from codesign.workload import load_model
        >>> parts = largest_parts(load_model("llama-3.3-70b"), np.array([4.0, 16.0]))
        >>> parts["query_heads"].tolist()
        [0.25, 0.0625]
        >>> parts["query_key_value"].tolist()  # 8 KV heads: each of 16 devices has a whole one
        [0.25, 0.075]
    """
    queries = _part(model.num_attention_heads, n_ranks)
    keys = kept_part(model, n_ranks)
    parts: dict[Dimension, FloatArray] = {
        "all": np.ones_like(queries),
        "vocabulary": _part(model.vocab_size, n_ranks),
        "mlp": _part(model.intermediate_size, n_ranks),
        "query_heads": queries,
        "query_key_value": _query_key_value(model, queries, keys),
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


def kept_part(model: LanguageModel, n_ranks: FloatArray) -> FloatArray:
    """Share of the KV cache that one of ``n_ranks`` devices keeps: whole heads, at least one; all
    of a latent."""
    if model.is_latent:
        return np.ones_like(np.asarray(n_ranks, dtype=np.float64))
    return _part(model.num_key_value_heads, n_ranks)


def state_part(model: LanguageModel, n_ranks: FloatArray) -> FloatArray:
    """Share of the state of linear attention that one of ``n_ranks`` devices keeps."""
    heads = model.linear_dims.n_value_heads if model.n_linear_layers else 1
    return _part(heads, n_ranks)


def _part(size: int, n_ranks: FloatArray) -> FloatArray:
    return np.asarray(np.ceil(size / np.asarray(n_ranks, dtype=np.float64)) / size)


def _mean(*weighted: tuple[float, FloatArray]) -> FloatArray:
    """Share of the sum of several widths, each with a share of its own."""
    total = sum(width for width, _ in weighted)
    return np.asarray(sum(width * part for width, part in weighted) / total)


def _query_key_value(model: LanguageModel, queries: FloatArray, keys: FloatArray) -> FloatArray:
    gated = 2 if model.attn_output_gate else 1
    return _mean(
        (gated * model.num_attention_heads, queries), (2 * model.num_key_value_heads, keys)
    )


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
        "value_heads": values,
        "linear_convolution": _mean((convolved, keys), (dims.value_width, values)),
        "linear_projection": _mean((projected, keys), (dims.value_width + dims.gate_width, values)),
    }
