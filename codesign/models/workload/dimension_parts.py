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
