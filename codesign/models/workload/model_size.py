"""What follows from a model's dimensions: parameters, KV cache, state."""

from __future__ import annotations

from codesign.models.workload.model import SOFTMAX_LAYERS, LanguageModel, LayerType

_FLOAT_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
_SCALE_BYTES = 4
_WINDOW_BYTES = 2
"""Bytes of an element of a convolution's window, which is kept as the activations are: 16 bits."""


def parameters_by_part(model: LanguageModel) -> dict[str, int]:
    """Parameters of the embedding, both kinds of attention, MLP, experts, router, norms, LM head.

    Gemma 3n's matrices beside attention and MLP are part of ``mlp``, those to and from the width of
    routed experts part of ``shared_experts``.
    Tied weights count once, as ``embedding``; a multi-token-prediction module is not counted.
    """
    hidden = model.hidden_size
    routed = model.moe_dims.n_routed_experts if model.is_mixture else 0
    router = hidden * routed + (routed if model.has_router_bias else 0)
    norms = model.n_norms * hidden * model.n_norm_vectors
    norms += _attention_norms(model)
    if model.is_sparse:  # a layer norm of the indexers' keys
        norms += model.n_index_layers * 2 * model.index_dims.head_dim
    if model.n_linear_layers:
        norms += model.n_linear_layers * model.linear_dims.norm_width
    return {
        "embedding": _embedding_parameters(model),
        "attention": _attention_parameters(model),
        "linear_attention": model.n_linear_layers * _linear_parameters(model),
        "mlp": _dense_parameters(model),
        "experts": model.n_moe_layers * routed * _expert_parameters(model),
        "shared_experts": model.n_moe_layers * _shared_parameters(model),
        "router": model.n_moe_layers * router,
        "norm": norms,
        "lm_head": 0 if model.tie_word_embeddings else model.vocab_size * model.embedding_width,
    }


def parameter_count(model: LanguageModel) -> int:
    """Number of all parameters; tied weights count once."""
    return sum(parameters_by_part(model).values())


def active_parameter_count(model: LanguageModel) -> int:
    """Parameters that one token meets: all but the routed experts that it does not use.

    The embedding table counts in full, as in Mixtral's published 12.9 B.
    """
    parts = parameters_by_part(model)
    if not model.is_mixture:
        return sum(parts.values())
    moe = model.moe_dims
    used = parts["experts"] // moe.n_routed_experts * moe.num_experts_per_tok
    return sum(parts.values()) - parts["experts"] + used


def weight_elements(model: LanguageModel) -> int:
    """Elements that memory must hold for the weights: every parameter."""
    return parameter_count(model)


def kv_elements_per_token(model: LanguageModel) -> int:
    """Elements that one token of context takes in the KV cache, over all layers that hold it.

    Keys and values of each KV head; with MLA the latent and the one rotated key. Layers with
    linear attention have none (see :func:`state_bytes`), nor have those that share an earlier
    layer's.
    """
    return sum(_kv_elements(model, kind) for kind in SOFTMAX_LAYERS)


def kv_elements(model: LanguageModel, n_tokens: int) -> int:
    """Elements of the KV cache of a sequence; sliding layers hold no more than their window."""
    in_window = min(n_tokens, model.sliding_window or n_tokens)
    full, sliding = (_kv_elements(model, kind) for kind in SOFTMAX_LAYERS)
    return n_tokens * full + in_window * sliding


def sliding_share(model: LanguageModel) -> float:
    """Share of the KV cache of a token that sliding layers hold; 0 without a cache."""
    return _kv_elements(model, "sliding_attention") / (kv_elements_per_token(model) or 1)


def _kv_elements(model: LanguageModel, kind: LayerType) -> int:
    """Elements of a token in all layers of a kind."""
    if model.is_latent:
        width = model.latent_dims.kv_lora_rank + model.latent_dims.qk_rope_head_dim
        return model.n_layers(kind) * width
    return sum(model.own_key_value_widths(kind))


def recurrent_state_bytes(model: LanguageModel) -> int:
    """Bytes of the recurrent state of one request in one layer with linear attention."""
    return model.linear_dims.state_bytes


def window_bytes(model: LanguageModel) -> int:
    """Bytes of the convolution's window of one request in one layer with linear attention."""
    return model.linear_dims.window_bytes


def index_key_bytes(model: LanguageModel) -> int:
    """Bytes of the one key that an indexer of sparse attention keeps of each token: 8 bits an
    element and a float32 scale, as DeepSeek-V3.2's code caches it; 0 without indexers."""
    return model.index_dims.head_dim + _SCALE_BYTES if model.is_sparse else 0


def index_bytes_per_token(model: LanguageModel) -> int:
    """Bytes that one token of context takes in the caches of all indexers."""
    return model.n_index_layers * index_key_bytes(model)


def state_bytes(model: LanguageModel, n_tokens: int = 0) -> int:
    """Bytes that one request keeps in formats of the model's own, over all layers.

    The recurrent state of linear attention in the format of the model's configuration, and the
    inputs that the convolution still needs, as Qwen3-Next's code caches them, whatever the
    length; the keys of indexers of so many tokens.
    """
    keys = n_tokens * index_bytes_per_token(model)
    if not model.n_linear_layers:
        return keys
    return keys + model.n_linear_layers * (recurrent_state_bytes(model) + window_bytes(model))


def _embedding_parameters(model: LanguageModel) -> int:
    """Tables of tokens, of learned positions and of layers' inputs; matrices from and to them."""
    positions = (model.max_position_embeddings or 0) if model.position == "learned" else 0
    tables = model.vocab_size * model.embedding_width + positions * model.hidden_size
    tables += model.vocab_size_per_layer_input * model.layer_inputs_width
    copies = 2 * (model.altup_num_inputs - 1) * model.hidden_size**2
    return tables + copies + 2 * model.hidden_size * (model.word_embed_proj_dim or 0)


def _attention_parameters(model: LanguageModel) -> int:
    """Parameters of softmax attention in all layers that have it."""
    layers, hidden = model.n_attention_layers, model.hidden_size
    if model.is_latent:
        return layers * _latent_parameters(model) + model.n_index_layers * _index_parameters(model)
    queries, cached = model.query_width, sum(model.own_key_value_widths(*SOFTMAX_LAYERS))
    projected = queries * (2 if model.attn_output_gate else 1) + cached
    biases = (projected if model.attention_bias else 0) + (
        layers * hidden if model.attention_output_bias else 0
    )
    heads = model.sum_over_layers("num_attention_heads", kinds=SOFTMAX_LAYERS)
    sinks = heads if model.has_attention_sinks else 0
    return hidden * projected + model.attention_width * hidden + biases + sinks


def _linear_parameters(model: LanguageModel) -> int:
    """Projections in and out, convolution, and what each value head has besides."""
    if not model.n_linear_layers:
        return 0
    hidden, dims = model.hidden_size, model.linear_dims
    matrices = hidden * dims.projected_width + dims.value_width * hidden
    # Mamba 1's rates, keys and queries come from the values.
    rank, channels = dims.time_step_rank, dims.value_width
    matrices += channels * (rank + 2 * dims.key_dim) + rank * channels if rank else 0
    return matrices + dims.conv_weights + dims.head_parameters


def _latent_parameters(model: LanguageModel) -> int:
    hidden, heads, dims = model.hidden_size, model.num_attention_heads, model.latent_dims
    query = heads * (dims.qk_nope_head_dim + dims.qk_rope_head_dim)
    down = (dims.q_lora_rank or query) + dims.kv_lora_rank + dims.qk_rope_head_dim
    matrices = hidden * down + (dims.q_lora_rank or 0) * query
    matrices += dims.kv_lora_rank * heads * (dims.qk_nope_head_dim + dims.v_head_dim)
    matrices += heads * dims.v_head_dim * hidden
    return (
        matrices
        + (down if model.attention_bias else 0)
        + (hidden if model.attention_output_bias else 0)
    )


def _index_parameters(model: LanguageModel) -> int:
    """Matrices of an indexer: its queries, its key, a weight per head."""
    if not model.is_sparse:
        return 0
    index, rank = model.index_dims, model.latent_dims.q_lora_rank or 0
    queries = rank * index.n_heads * index.head_dim
    return queries + model.hidden_size * (index.head_dim + index.n_heads)


def _attention_norms(model: LanguageModel) -> int:
    """Weights of the norms of queries and keys, or of their latents, of all layers."""
    if model.is_latent:
        ranks = (model.latent_dims.q_lora_rank or 0) + model.latent_dims.kv_lora_rank
        return model.n_attention_layers * ranks
    return 2 * model.sum_over_layers("head_dim", kinds=SOFTMAX_LAYERS) if model.qk_norm else 0


def _dense_parameters(model: LanguageModel) -> int:
    """Parameters of the dense MLPs of all layers."""
    matrices = _mlp_parameters(model, model.dense_width)
    beyond_first = (model.n_dense_layers - 1) * model.hidden_size
    beside = 3 * model.layer_inputs_width + 2 * model.num_hidden_layers * model.laurel_rank
    return matrices + (beyond_first if model.mlp_bias else 0) + beside * model.hidden_size


def _mlp_parameters(model: LanguageModel, width: int, outer_width: int | None = None) -> int:
    outer = outer_width or model.hidden_size
    matrices = (model.n_up_matrices + 1) * outer * width
    return matrices + (model.n_up_matrices * width + outer if model.mlp_bias else 0)


def _expert_parameters(model: LanguageModel) -> int:
    if not model.is_mixture:
        return 0
    return _mlp_parameters(model, model.moe_dims.moe_intermediate_size, model.moe_dims.routed_width)


def _shared_parameters(model: LanguageModel) -> int:
    """The shared experts of a layer, the gate of a gated one, and what leads to routed experts of
    another width."""
    latent = 2 * model.hidden_size * (model.moe_latent_size or 0)
    if not model.is_mixture or not model.moe_dims.shared_width:
        return latent
    gate = model.hidden_size if model.moe_dims.has_shared_gate else 0
    return _mlp_parameters(model, model.moe_dims.shared_width) + gate + latent
