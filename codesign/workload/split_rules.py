"""How several devices divide each kind of operator among them: one row per operator.

Tensor parallelism cuts a matrix by columns, so that every device has a part of the output, or by
rows, so that every device has a part of the input and a partial sum of the whole output; attention
is cut by heads [Shoeybi2019]_. After a cut by rows the devices add up their partial sums
(all-reduce). Every device has the same code, so the one with the largest part sets the pace.

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
        collective: What the devices send one another afterwards: the operator's output, added up
            (``all_reduce``) or put together (``all_gather``); None if nothing.
    """

    axis: Axis
    dimension: Dimension
    collective: Collective | None = None


_REPLICATED = SplitRule("replicated", "all")
_BY_QUERY_HEADS = SplitRule("heads", "query_heads")
_BY_VALUE_HEADS = SplitRule("heads", "value_heads")

_RULES: dict[str, SplitRule] = {
    "embedding": SplitRule("rows", "vocabulary", "all_reduce"),
    "embedding_projection": _REPLICATED,
    "altup_projection": _REPLICATED,
    "laurel_projection": _REPLICATED,
    "laurel_output": _REPLICATED,
    "layer_input_projection": _REPLICATED,
    "layer_input_gate": _REPLICATED,
    "layer_input_output": _REPLICATED,
    "norm": _REPLICATED,
    "residual": _REPLICATED,
    "lm_head": SplitRule("columns", "vocabulary", "all_gather"),
    # Attention with grouped queries.
    "qkv_projection": SplitRule("columns", "query_key_value"),
    "qk_norm": _BY_QUERY_HEADS,
    "rope": _BY_QUERY_HEADS,
    "attention_qk": _BY_QUERY_HEADS,
    "softmax": _BY_QUERY_HEADS,
    "attention_pv": _BY_QUERY_HEADS,
    "sliding_attention_qk": _BY_QUERY_HEADS,
    "sliding_softmax": _BY_QUERY_HEADS,
    "sliding_attention_pv": _BY_QUERY_HEADS,
    "output_gate": _BY_QUERY_HEADS,
    "output_projection": SplitRule("rows", "query_heads", "all_reduce"),
    # Multi-head latent attention: all heads share the latent, which every device keeps.
    "latent_projection": SplitRule("columns", "latent"),
    "latent_norm": _REPLICATED,
    "query_projection": SplitRule("columns", "query_heads"),
    "key_value_projection": SplitRule("columns", "query_heads"),
    "query_absorption": _BY_QUERY_HEADS,
    "value_absorption": _BY_QUERY_HEADS,
    # Linear attention.
    "linear_projection": SplitRule("columns", "linear_projection"),
    "linear_convolution": SplitRule("heads", "linear_convolution"),
    "linear_qk_norm": SplitRule("heads", "linear_convolution"),
    "linear_decay": _BY_VALUE_HEADS,
    "linear_state_products": _BY_VALUE_HEADS,
    "linear_state_update": _BY_VALUE_HEADS,
    "scan_projection": SplitRule("rows", "value_heads", "all_reduce"),
    "time_step_projection": SplitRule("columns", "value_heads"),
    "selective_scan": _BY_VALUE_HEADS,
    "scan_scores": _BY_VALUE_HEADS,
    "scan_decay": _BY_VALUE_HEADS,
    "scan_corrections": _BY_VALUE_HEADS,
    "scan_state_products": _BY_VALUE_HEADS,
    "scan_outputs": _BY_VALUE_HEADS,
    "scan_state_update": _BY_VALUE_HEADS,
    "linear_norm": _BY_VALUE_HEADS,
    "linear_output_projection": SplitRule("rows", "value_heads", "all_reduce"),
    # Feed-forward layers. Partial sums of all experts are combined before they are added up.
    "gate_up_projection": SplitRule("columns", "mlp"),
    "up_projection": SplitRule("columns", "mlp"),
    "activation": SplitRule("heads", "mlp"),
    "down_projection": SplitRule("rows", "mlp", "all_reduce"),
    "router": _REPLICATED,
    "shared_gate_up_projection": SplitRule("columns", "shared"),
    "shared_up_projection": SplitRule("columns", "shared"),
    "shared_activation": SplitRule("heads", "shared"),
    "shared_down_projection": SplitRule("rows", "shared"),
    "expert_gate_up_projection": SplitRule("columns", "expert"),
    "expert_up_projection": SplitRule("columns", "expert"),
    "expert_activation": SplitRule("heads", "expert"),
    "expert_down_projection": SplitRule("rows", "expert"),
    "expert_combination": SplitRule("replicated", "all", "all_reduce"),
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
