"""The largest part of each dimension of a model that one of several devices has."""

from __future__ import annotations

import numpy as np

from codesign.base.columns import FloatArray
from codesign.models.workload.model import LanguageModel
from codesign.models.workload.operator_rules import Dimension


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
    gated = 2 if model.attn_output_gate else 1
    width = model.head_dim
    queries_width = model.num_attention_heads * width
    cached_width = model.num_key_value_heads * (width + (model.value_head_dim or width))
    states = model.linear_dims.n_value_heads if model.n_linear_layers else 1
    shares: dict[Dimension, FloatArray] = {
        "all": np.ones_like(queries),
        "vocabulary": _part(model.vocab_size, n_ranks),
        "mlp": _part(model.intermediate_size, n_ranks),
        "query_heads": queries,
        "query_key_value": _mean((gated * queries_width, queries), (cached_width, keys)),
        "kv_heads": keys,
        "value_heads": _part(states, n_ranks),
        "latent": np.ones_like(queries),
    }
    if model.is_latent and model.latent_dims.q_lora_rank is None:  # else queries have a latent
        dims = model.latent_dims
        query = model.num_attention_heads * (dims.qk_nope_head_dim + dims.qk_rope_head_dim)
        undivided = dims.kv_lora_rank + dims.qk_rope_head_dim
        shares["latent"] = _mean((query, queries), (undivided, np.ones_like(queries)))
    if model.n_linear_layers:
        linear = model.linear_dims
        values = shares["value_heads"]
        keys = _part(linear.n_key_heads, n_ranks)
        convolved = 2 * linear.key_width * linear.form.convolves_keys
        projected = 2 * linear.key_width * linear.form.projects_keys
        gate_width = linear.value_width + linear.gate_width
        shares["linear_convolution"] = _mean((convolved, keys), (linear.value_width, values))
        shares["linear_projection"] = _mean((projected, keys), (gate_width, values))
    if model.is_mixture:
        mixture = model.moe_dims
        width = mixture.moe_intermediate_size
        shares["expert"] = _part(width, n_ranks)
        shares["shared"] = _part(mixture.shared_width or width, n_ranks)
    return shares


def _part(size: int, n_ranks: FloatArray) -> FloatArray:
    return np.ceil(size / np.asarray(n_ranks, np.float64)) / size


def _mean(*weighted: tuple[float, FloatArray]) -> FloatArray:
    """Share of the sum of several widths, each with a share of its own."""
    total = sum(width for width, _ in weighted)
    return np.asarray(sum(width * share for width, share in weighted) / total)
