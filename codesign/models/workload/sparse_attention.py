"""The operators that choose the tokens of sparse latent attention (DeepSeek sparse attention, DSA).

An indexer scores every token before a query: ``sum_j w_j relu(q_j . k)`` over its heads ``j``, with
one key of its own per token, which is kept beside the latent. MLA then attends to the
``index_topk`` tokens with the highest scores, each query to its own [DeepSeek2025]_, Eq. 1. Queries
and keys are rotated in part, then multiplied with a Hadamard matrix, and kept in 8 bits whatever
the KV cache's format. Layers without an indexer attend to the tokens of the layer before (GLM-5.2).

.. [DeepSeek2025] DeepSeek-AI, DeepSeek-V3.2: Pushing the Frontier of Open Large Language Models,
   2025, and its ``inference/model.py``.
"""

from __future__ import annotations

from math import log2

from codesign.models.workload.layer_pass import LayerPass
from codesign.models.workload.model import LanguageModel
from codesign.models.workload.operators import Operator, Operators, projection
from codesign.models.workload.vector_ops import INDEX_OPS, NORM_OPS, ROPE_OPS, SELECTION_OPS


def chooses_tokens(model: LanguageModel, layer_pass: LayerPass) -> bool:
    """Whether there are more tokens than an indexer may choose.

    A prompt that is shorter attends to all of it, as without an indexer (DeepSeek-V3.2 §2.1.1).
    """
    return model.is_sparse and (
        not layer_pass.is_prefill or layer_pass.spans[1].cached > model.index_dims.top_k
    )


def lower_index(model: LanguageModel, layer_pass: LayerPass) -> Operators:
    """Queries, keys and weights of the indexers, their scores and the choice."""
    if not model.is_sparse:
        return []
    dims = model.index_dims
    rank = model.latent_dims.q_lora_rank or 0
    layers = model.n_index_layers
    tokens = layer_pass.tokens
    width = dims.head_dim + dims.n_heads
    query_width = dims.n_heads * dims.head_dim
    queries = tokens * query_width
    keys = tokens * dims.head_dim
    rotated = tokens * (dims.n_heads + 1) * model.latent_dims.qk_rope_head_dim
    operators = [
        projection("index_projection", "attention", layers, tokens, model.hidden_size, width),
        projection("index_query_projection", "attention", layers, tokens, rank, query_width),
        Operator(
            "index_norm",
            "vector",
            "attention",
            layers,
            weight_elements=2 * dims.head_dim,
            input_elements_per_request=queries + keys,
            output_elements_per_request=queries,
            state_written_bytes_per_request=tokens * dims.key_bytes,
            stored_bytes_per_token=dims.key_bytes,
            vector_ops_per_request=NORM_OPS["layernorm"] * keys
            + ROPE_OPS * rotated
            + log2(dims.head_dim) * (queries + keys),
        ),
    ]
    if not chooses_tokens(model, layer_pass):
        return operators
    # Scores of all tokens, one per query, and the choice of the highest.
    span = layer_pass.spans[1]
    keys_seen = span.context / dims.pool
    scores = tokens * keys_seen
    return [
        *operators,
        Operator(
            "index_scores",
            "attention_qk",
            "attention",
            layers,
            m_per_request=tokens * dims.n_heads,
            k=dims.head_dim,
            n=keys_seen,
            products_per_request=1,
            input_elements_per_request=tokens * dims.n_heads * (dims.head_dim + 1),
            state_read_bytes_per_request=dims.key_bytes * span.cached,
            score_written_elements_per_request=scores,
            vector_ops_per_request=INDEX_OPS * dims.n_heads * scores,
        ),
        Operator(
            "index_selection",
            "vector",
            "attention",
            layers,
            output_elements_per_request=tokens * dims.top_k,
            score_read_elements_per_request=scores,
            vector_ops_per_request=SELECTION_OPS * scores,
        ),
    ]
