"""The operators of softmax attention, multi-head, grouped-query, multi-query and latent.

- Keys and values are read from the cache once a pass, however many query heads share them, and
  also in prefill, where they have just been written. What a small on-chip memory makes an
  evaluator read again is the evaluator's business.
- Multi-head latent attention (MLA) is expanded in prefill (per-head keys and values are
  computed from the latent and are activations) and absorbed in decode (queries are moved into
  the latent space, all heads share one read of the latent), as DeepSeek-V2 §2.1 describes. Where
  an indexer chooses among more tokens than it may take, prefill is absorbed too.
- Layers of unlike attention are rows of their own: where a model has both, the scores of sliding
  layers begin with ``sliding_``; those of linear attention are in ``linear_attention.py``.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from codesign.base.columns import FloatPair
from codesign.models.workload.layer_pass import LayerPass, Span
from codesign.models.workload.model import SOFTMAX_LAYERS, LanguageModel
from codesign.models.workload.operator_rules import OperatorRule, operator_rule
from codesign.models.workload.operators import Operator, Operators, elementwise, projection
from codesign.models.workload.sparse_attention import chooses_tokens, lower_index
from codesign.models.workload.vector_ops import (
    NORM_OPS,
    OUTPUT_GATE_OPS,
    ROPE_OPS,
    SOFTMAX_OPS,
)

_CHOSEN_TOKENS = replace(operator_rule("attention_qk"), access="gathered")
"""Latent attention to the tokens that an indexer chose."""


def lower_softmax_attention(model: LanguageModel, layer_pass: LayerPass) -> Operators:
    """Multi-head, grouped-query or multi-query attention."""
    layers = model.n_attention_layers
    tokens = layer_pass.tokens
    if not layers:
        return []
    queries = model.query_width / layers
    attended = model.attention_width / layers
    keys, values = (width / layers for width in model.own_key_value_widths(*SOFTMAX_LAYERS))
    is_rotary = model.position == "rotary"
    operators = [
        projection(
            "qkv_projection",
            "attention",
            layers,
            tokens,
            model.hidden_size,
            queries * (2 if model.attn_output_gate else 1) + keys + values,
            has_bias=model.attention_bias,
            # Rotated keys go to the cache only after the rotation.
            cached=values if is_rotary else keys + values,
        )
    ]
    if model.qk_norm:
        elements = tokens * (queries + keys)
        ops = NORM_OPS["rmsnorm"]
        weights = 2 * model.sum_over_layers("head_dim", kinds=SOFTMAX_LAYERS) / layers
        operators.append(elementwise("qk_norm", "attention", layers, elements, ops, weights))
    if is_rotary:
        # All keys go to the KV cache, rotated or not.
        share = model.partial_rotary_factor
        cached = tokens * keys
        rope = _rope(layers, share * (tokens * queries), cached, cached)
        rope_ops = ROPE_OPS * share * (tokens * queries + cached)
        operators.append(replace(rope, vector_ops_per_request=rope_ops))
    for span in layer_pass.spans:
        operators += _scores(
            span,
            products=span.kv_heads,
            rows=span.query_heads / span.kv_heads * tokens,
            inner=span.query_width / span.query_heads,
            outer=span.output_width / span.query_heads,
            inputs=(tokens * span.query_width, 0),
            cached=(span.key_width, span.value_width),
            sinks=span.query_heads if model.has_attention_sinks else 0,
        )
    if model.attn_output_gate:
        operators.append(
            Operator(
                "output_gate",
                "vector",
                "attention",
                layers,
                input_elements_per_request=2 * tokens * queries,
                output_elements_per_request=tokens * queries,
                vector_ops_per_request=OUTPUT_GATE_OPS * tokens * queries,
            )
        )
    return [*operators, _output_projection(model, tokens, attended)]


def _rope(layers: float, queries: float, keys: float, cached: float) -> Operator:
    """Rotation of queries and keys; the ``cached`` keys go to the KV cache only."""
    return Operator(
        "rope",
        "vector",
        "attention",
        layers,
        input_elements_per_request=queries + keys,
        output_elements_per_request=queries + keys - cached,
        kv_written_elements_per_request=cached,
        vector_ops_per_request=ROPE_OPS * (queries + keys),
    )


def _output_projection(model: LanguageModel, tokens: float, inner: float) -> Operator:
    return projection(
        "output_projection",
        "attention",
        model.n_attention_layers,
        tokens,
        inner,
        model.hidden_size,
        has_bias=model.attention_output_bias,
    )


def _scores(
    span: Span,
    *,
    products: float,
    rows: float,
    inner: float,
    outer: float,
    inputs: FloatPair,
    cached: FloatPair,
    reused: float = 0.0,
    rule: OperatorRule | None = None,
    sinks: float = 0.0,
) -> Operators:
    """Queries times keys, softmax, times values.

    Args:
        span: Layers of one kind, and what they attend to.
        products: Separate products of a request.
        rows: Rows of each product: tokens times the heads that share its keys.
        inner: Width of a key.
        outer: Width of a value.
        inputs: Activations that the two products read, scores excepted.
        cached: Elements of the KV cache per cached token that the two products read.
        reused: Those that the first product has read and the second one uses again.
        rule: Row of both products, if not that of their names.
        sinks: Learned scores of a layer.
    """
    scores = products * rows * span.context
    qk = Operator(
        span.prefix + "attention_qk",
        "attention_qk",
        "attention",
        span.layers,
        m_per_request=rows,
        k=inner,
        n=span.context,
        products_per_request=products,
        input_elements_per_request=inputs[0],
        kv_read_elements_per_request=cached[0] * span.cached,
        score_written_elements_per_request=scores,
        stored_kv_elements_per_token=span.stored_key_width,
        most_stored_tokens=span.window,
        rule=rule,
    )
    softmax = Operator(
        span.prefix + "softmax", "vector", "attention", span.layers, weight_elements=sinks,
        score_read_elements_per_request=scores, score_written_elements_per_request=scores,
        vector_ops_per_request=SOFTMAX_OPS * scores,
    )  # fmt: skip
    pv = Operator(
        span.prefix + "attention_pv",
        "attention_pv",
        "attention",
        span.layers,
        m_per_request=rows,
        k=span.context,
        n=outer,
        products_per_request=products,
        input_elements_per_request=inputs[1],
        output_elements_per_request=products * rows * outer,
        kv_read_elements_per_request=cached[1] * span.cached,
        kv_reused_elements_per_request=reused * span.cached,
        score_read_elements_per_request=scores,
        stored_kv_elements_per_token=span.stored_value_width,
        most_stored_tokens=span.window,
        rule=rule,
    )
    return [qk, softmax, pv]


def lower_latent_attention(model: LanguageModel, layer_pass: LayerPass) -> Operators:
    """Multi-head latent attention, expanded in prefill and absorbed in decode."""
    if not model.n_attention_layers:
        return []
    layers = model.n_attention_layers
    tokens = layer_pass.tokens
    heads = model.num_attention_heads
    latent = model.latent_dims.kv_lora_rank
    rope = model.latent_dims.qk_rope_head_dim
    query_latent = model.latent_dims.q_lora_rank or 0
    query = heads * (model.latent_dims.qk_nope_head_dim + rope)
    bias = model.attention_bias
    down = (query_latent or query) + latent + rope
    normed = tokens * (query_latent + latent)
    operators = [
        projection(
            "latent_projection",
            "attention",
            layers,
            tokens,
            model.hidden_size,
            down,
            has_bias=bias,
        ),
        Operator(
            "latent_norm",
            "vector",
            "attention",
            layers,
            weight_elements=query_latent + latent,
            input_elements_per_request=normed,
            output_elements_per_request=normed if layer_pass.is_prefill else tokens * query_latent,
            kv_written_elements_per_request=tokens * latent,
            vector_ops_per_request=NORM_OPS["rmsnorm"] * normed,
        ),
    ]
    if query_latent:
        operators.append(
            projection("query_projection", "attention", layers, tokens, query_latent, query)
        )
    operators.append(
        _rope(layers * (rope > 0), tokens * heads * rope, tokens * rope, tokens * rope)
    )
    operators += lower_index(model, layer_pass)
    is_expanded = layer_pass.is_prefill and not chooses_tokens(model, layer_pass)
    operators += _expanded(model, layer_pass) if is_expanded else _absorbed(model, layer_pass)
    inner = heads * model.latent_dims.v_head_dim
    return [*operators, _output_projection(model, tokens, inner)]


def _expanded(model: LanguageModel, layer_pass: LayerPass) -> Operators:
    dims = model.latent_dims
    tokens = layer_pass.tokens
    heads = model.num_attention_heads
    span = layer_pass.spans[0]
    nope = dims.qk_nope_head_dim
    rope = dims.qk_rope_head_dim
    value = dims.v_head_dim
    up = projection(
        "key_value_projection",
        "attention",
        span.layers,
        span.cached,  # the cache holds latents: those of earlier chunks are expanded again
        dims.kv_lora_rank,
        heads * (nope + value),
    )
    keys = span.cached * (heads * nope + rope)
    return [
        up,
        *_scores(
            span,
            products=heads,
            rows=tokens,
            inner=nope + rope,
            outer=value,
            inputs=(tokens * heads * (nope + rope) + keys, span.cached * heads * value),
            cached=(0, 0),
        ),
    ]


def _absorbed(model: LanguageModel, layer_pass: LayerPass) -> Operators:
    dims = model.latent_dims
    tokens = layer_pass.tokens
    heads = model.num_attention_heads
    span = layer_pass.spans[0]
    latent = dims.kv_lora_rank
    rope = dims.qk_rope_head_dim
    head_product = partial(
        projection, group="attention", count=span.layers, rows=tokens,
        n_experts=heads, experts_per_token=heads,
    )  # fmt: skip
    return [
        head_product("query_absorption", k=dims.qk_nope_head_dim, n=latent),
        *_scores(
            span,
            products=1,
            rows=heads * tokens,
            inner=latent + rope,
            outer=latent,
            inputs=(tokens * heads * (latent + rope), 0),
            # The values are the latent part of the keys: one read serves both products.
            cached=(latent + rope, 0),
            reused=latent,
            rule=_CHOSEN_TOKENS if chooses_tokens(model, layer_pass) else None,
        ),
        head_product("value_absorption", k=latent, n=dims.v_head_dim),
    ]
