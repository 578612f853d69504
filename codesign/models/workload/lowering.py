"""The operators of one pass, from a language model and a phase.

Conventions, the same for every model:

- Projections that read the same input are one product (Q, K and V; gate and up; the two latent
  projections of MLA). Embedding rows are looked up, unless ``embedding="dense"``.
- Attention works on the mean context of the pass. A causal prefill of ``P`` tokens attends to
  ``(P + 1) / 2`` on average. Decode step ``i`` of ``G`` feeds the ``i``-th generated token and
  attends to the prompt, to the generated tokens before it and to itself, ``P + i``, on average
  ``P + (G + 1) / 2``. All quantities are affine in the context, so the mean step has exactly
  the mean work and traffic of the ``G`` steps; only its *time* is approximate, where the bound
  changes on the way. Pass ``context`` to look at particular steps.
- A diffusion model attends in both directions. Its decode is ``diffusion_steps`` passes over
  prompt and generated tokens together; it keeps nothing from pass to pass (LLaDA §2).
- Layers whose heads with keys, or whose MLPs, differ in number or width are the mean of them:
  work, weights and traffic are exact, only the shape of the products is not.
- The gate of a shared expert reads what the router reads, and is a column of it.

Attention is in ``softmax_attention.py``, ``sparse_attention.py`` and ``linear_attention.py``;
``vector_ops.py`` says what is counted of the vector unit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import inf
from typing import Literal

import numpy as np

from codesign.base.columns import FloatPair
from codesign.base.errors import InputError
from codesign.models.workload.dimension_parts import largest_parts
from codesign.models.workload.layer_pass import Embedding, LayerPass, Span
from codesign.models.workload.linear_attention import lower_linear_attention
from codesign.models.workload.model import Block, HeadKey, LanguageModel, LayerType
from codesign.models.workload.operator_rules import operator_rule
from codesign.models.workload.operators import (
    Group,
    Operator,
    Operators,
    OperatorTable,
    build_table,
    elementwise,
    projection,
)
from codesign.models.workload.softmax_attention import (
    lower_latent_attention,
    lower_softmax_attention,
)
from codesign.models.workload.vector_ops import (
    ACTIVATION_OPS,
    COMBINE_OPS,
    NORM_OPS,
    ROUTING_OPS,
    SIGMOID_OPS,
)

Phase = Literal["prefill", "decode"]
Logits = Literal["last", "all"]


def lower(
    model: LanguageModel,
    phase: Phase,
    prompt_tokens: int,
    generated_tokens: int,
    *,
    causal: bool = True,
    logits: Logits = "last",
    embedding: Embedding = "lookup",
    diffusion_steps: int | None = None,
    context: float | None = None,
    later_tokens: float = 0,
    past_tokens: int = 0,
    new_tokens: int = 1,
) -> OperatorTable:
    """The operators of one pass of a phase, and the number of passes.

    Limiting assumption: all requests of a batch have the same token counts, and a decode step
    is the mean step (see the module's text).

    Args:
        phase: ``prefill`` or ``decode``.
        prompt_tokens: Tokens of the prompt of one request.
        generated_tokens: Tokens generated after it.
        causal: Whether a prefill skips the masked scores.
        logits: ``last``: LM head on the tokens where one is predicted (the last of a prefill,
            the generated ones of a denoising pass); ``all``: on every token of the pass.
        embedding: ``lookup`` or ``dense`` (a product with one-hot rows).
        diffusion_steps: Denoising steps; one per generated token if None.
        context: Tokens that a decode step attends to, instead of the mean over the decode.
        later_tokens: Tokens after those of ``context``, which come first in a sliding window and
            are counted elsewhere.
        past_tokens: Tokens before a prefill's own whose keys and values are in the cache, as for
            a later chunk of a prompt; a decode or a diffusion model has none.
        new_tokens: Tokens of one request in a decode step: more than 1 where a pass checks drafted
            tokens. The first attends to ``context``, each later one to one token more.
    """
    is_prefill = phase == "prefill"
    end = past_tokens + prompt_tokens
    tokens, logit_tokens = (prompt_tokens, 1) if is_prefill else (new_tokens, new_tokens)
    if model.is_diffusion and not is_prefill:
        tokens = prompt_tokens + generated_tokens
        logit_tokens = generated_tokens

    def reach(window: int | None) -> FloatPair:
        """Context and cached tokens of a window."""
        if model.is_diffusion:
            return tokens, tokens
        if is_prefill:
            return _mean_window(window, past_tokens + 1, end) if causal else float(end), end
        if context is None:
            mean = _mean_window(window, prompt_tokens + 1, prompt_tokens + generated_tokens)
        else:
            room = context if window is None else max(window - later_tokens, 0.0)
            mean = float(min(context + (new_tokens - 1) / 2, room))
        return mean, mean

    layer_pass = LayerPass(
        tokens,
        _spans(model, reach),
        tokens if logits == "all" else logit_tokens,
        is_prefill or model.is_diffusion,
        not model.is_diffusion and (past_tokens > 0 or not is_prefill),
        embedding,
        reach(None)[0],
    )
    steps = generated_tokens if diffusion_steps is None else diffusion_steps
    operators = [operator for lower_block in _BLOCKS for operator in lower_block(model, layer_pass)]
    for block in model.blocks:
        operators += _checked(block, model, block.lower(model, layer_pass))
    lm_head = projection(
        "lm_head", "lm_head", 1, layer_pass.logit_tokens, model.embedding_width, model.vocab_size
    )
    if model.tie_word_embeddings:
        lm_head = replace(lm_head, stored_weight_elements=0.0)
    return build_table(
        [*operators, lm_head],
        layer_pass.tokens,
        1 if is_prefill else steps,
    )


def _checked(block: Block, model: LanguageModel, operators: Operators) -> Operators:
    """The operators of a block, if every machine can take them."""
    shares = largest_parts(model, np.ones(()))
    for operator in operators:
        rule = operator.rule or operator_rule(operator.name)
        moves_state = (
            operator.state_read_bytes_per_request + operator.state_written_bytes_per_request
        )
        problem = None
        if rule.kernel not in _BLOCK_KERNELS:
            problem = f"a kernel among {', '.join(_BLOCK_KERNELS)}, got {rule.kernel}"
        elif operator.kv_read_elements_per_request or operator.stored_kv_elements_per_token:
            problem = "a state of bytes, got elements of the KV cache, which is of attention alone"
        elif moves_state and rule.kernel != "stream":
            problem = f"the kernel stream, since it moves a state, got {rule.kernel}"
        elif not {rule.dimension, rule.stored} <= shares.keys():
            problem = f"dimensions among {', '.join(shares)}, got {rule.dimension}, {rule.stored}"
        if problem:
            where = f"block {block.name}, operator {operator.name}"
            raise InputError(f"expected {problem}", where)
    return operators


def _spans(model: LanguageModel, reach: Callable[[int | None], FloatPair]) -> tuple[Span, ...]:
    """``reach`` gives the context and the cached tokens of a window."""
    windows: dict[LayerType, int | None] = {
        "full_attention": model.index_topk,
        "sliding_attention": model.sliding_window,
    }
    is_mixed = all(model.n_layers(layer_type) for layer_type in windows)

    def mean(layer_type: LayerType, *factors: HeadKey) -> float:
        return model.sum_over_layers(*factors, kinds=(layer_type,)) / model.n_layers(layer_type)

    def stored(layer_type: LayerType) -> FloatPair:
        layers = model.n_layers(layer_type)
        if model.is_latent:  # one latent with its rotated key, which serves as value too
            return model.latent_dims.kv_lora_rank + model.latent_dims.qk_rope_head_dim, 0.0
        keys, values = model.own_key_value_widths(layer_type)
        return keys / layers, values / layers

    spans = tuple(
        Span(
            "sliding_" if is_mixed and layer_type == "sliding_attention" else "",
            model.n_layers(layer_type),
            mean(layer_type, "num_attention_heads"),
            mean(layer_type, "num_key_value_heads"),
            mean(layer_type, "num_attention_heads", "head_dim"),
            mean(layer_type, "num_key_value_heads", "head_dim"),
            mean(layer_type, "num_key_value_heads", "value_head_dim"),
            mean(layer_type, "num_attention_heads", "value_head_dim"),
            *reach(window),
            *stored(layer_type),
            (layer_type == "sliding_attention" and model.sliding_window) or inf,
        )
        for layer_type, window in windows.items()
        if model.n_layers(layer_type)
    )
    if not model.is_sparse:
        return spans
    context, cached = reach(None)
    return *spans, replace(spans[0], prefix="index_", context=context, cached=cached)


def _mean_window(window: int | None, first: int, last: int) -> float:
    """Mean of ``min(context, window)`` over the contexts ``first`` to ``last``."""
    window = window or last
    below = max(0, min(window, last) - first + 1)
    full = last - first + 1 - below
    return (below * (first + first + below - 1) / 2 + full * window) / (last - first + 1)


def lower_embeddings(model: LanguageModel, layer_pass: LayerPass) -> Operators:
    """Rows of the table, and the matrices from and to a table of another width."""
    tokens = layer_pass.tokens
    hidden = model.hidden_size
    elements = model.vocab_size * model.embedding_width
    positions = 0.0
    stored = elements
    if model.position == "learned":
        positions = tokens * hidden
        stored += (model.max_position_embeddings or 0) * hidden
    looked_up = tokens * model.embedding_width
    table = Operator(
        "embedding",
        "gather",
        "embedding",
        1,
        lookup_elements_per_request=looked_up + positions,
        output_elements_per_request=looked_up,
        vector_ops_per_request=positions,
        stored_weight_elements=stored,
    )
    if layer_pass.embedding == "dense":
        table = replace(
            table,
            kind="gemm",
            m_per_request=tokens,
            k=model.vocab_size,
            n=model.embedding_width,
            weight_elements=elements,
            lookup_elements_per_request=positions,
            input_elements_per_request=tokens * model.vocab_size,
        )
    if model.word_embed_proj_dim is None:
        return [table]
    width = model.word_embed_proj_dim
    return [table, projection("embedding_projection", "embedding", 2, tokens, width, hidden)]


def lower_attention(model: LanguageModel, layer_pass: LayerPass) -> Operators:
    """Softmax attention, latent or not."""
    if model.is_latent:
        return lower_latent_attention(model, layer_pass)
    return lower_softmax_attention(model, layer_pass)


def lower_norms(model: LanguageModel, layer_pass: LayerPass) -> Operators:
    """Norms of the residual stream and of what is added to it."""
    weights = model.hidden_size * model.n_norm_vectors
    elements = layer_pass.tokens * model.hidden_size
    ops = NORM_OPS[model.norm]
    return [elementwise("norm", "norm", model.n_norms, elements, ops, weights)]


def lower_residuals(model: LanguageModel, layer_pass: LayerPass) -> Operators:
    """Additions to the residual stream."""
    width = layer_pass.tokens * model.hidden_size
    return [
        Operator(
            "residual",
            "vector",
            "residual",
            model.n_blocks,
            input_elements_per_request=2 * width,
            output_elements_per_request=width,
            vector_ops_per_request=width,
        )
    ]


def lower_dense_mlp(model: LanguageModel, layer_pass: LayerPass) -> Operators:
    """Dense MLPs."""
    layers = model.n_dense_layers
    if not layers:
        return []
    width = model.dense_width / layers
    return _mlp(model, "", "mlp", layers, layer_pass.tokens, width)


def _mlp(
    model: LanguageModel, prefix: str, group: Group, layers: int, tokens: float, width: float
) -> Operators:
    """Up (with gate), activation, down; on the same tokens for all weights."""
    hidden = model.hidden_size
    bias = model.mlp_bias
    name = "gate_up_projection" if model.is_gated else "up_projection"
    up = width * model.n_up_matrices
    return [
        projection(prefix + name, group, layers, tokens, hidden, up, has_bias=bias),
        _activation(model, prefix, group, layers, tokens * width),
        projection(prefix + "down_projection", group, layers, tokens, width, hidden, has_bias=bias),
    ]


def _activation(
    model: LanguageModel, prefix: str, group: Group, layers: int, elements: float
) -> Operator:
    return Operator(
        prefix + "activation",
        "vector",
        group,
        layers,
        input_elements_per_request=elements * model.n_up_matrices,
        output_elements_per_request=elements,
        vector_ops_per_request=elements * (ACTIVATION_OPS[model.hidden_act] + model.is_gated),
    )


def lower_experts(model: LanguageModel, layer_pass: LayerPass) -> Operators:
    """Router, shared experts, routed experts and their combination."""
    if not model.is_mixture:
        return []
    layers = model.n_moe_layers
    tokens = layer_pass.tokens
    hidden = model.hidden_size
    moe = model.moe_dims
    routed = moe.n_routed_experts
    active = moe.num_experts_per_tok
    width = moe.moe_intermediate_size
    up = moe.moe_intermediate_size * model.n_up_matrices
    outer = moe.routed_width
    columns = routed + moe.has_shared_gate
    router = Operator(
        "router",
        "gemm",
        "moe",
        layers,
        m_per_request=tokens,
        k=hidden,
        n=columns,
        weight_elements=hidden * columns + (routed if moe.has_router_bias else 0),
        input_elements_per_request=tokens * hidden,
        output_elements_per_request=tokens * columns,
        vector_ops_per_request=tokens
        * (routed * (ROUTING_OPS + moe.has_router_bias) + SIGMOID_OPS * moe.has_shared_gate),
    )
    has_shared = moe.shared_width > 0
    # A gated shared expert is scaled before it is added, as the routed ones are.
    shared_ops = has_shared + moe.has_shared_gate
    combine = Operator(
        "expert_combination",
        "vector",
        "moe",
        layers,
        input_elements_per_request=tokens * (active * outer + has_shared * hidden),
        output_elements_per_request=tokens * hidden,
        vector_ops_per_request=tokens * hidden * (COMBINE_OPS * active + shared_ops),
    )
    gate = "gate_up" if model.is_gated else "up"
    expert_projection = partial(
        projection, group="moe", count=layers, rows=tokens, has_bias=model.mlp_bias,
        n_experts=routed, experts_per_token=active,
    )  # fmt: skip
    return [
        router,
        *(_mlp(model, "shared_", "moe", layers, tokens, moe.shared_width) if has_shared else []),
        *_latent(model, "expert_latent_projection", tokens, hidden, outer),
        expert_projection(f"expert_{gate}_projection", k=outer, n=up),
        _activation(model, "expert_", "moe", layers, tokens * active * width),
        expert_projection("expert_down_projection", k=width, n=outer),
        *_latent(model, "expert_latent_output", tokens, outer, hidden),
        combine,
    ]


def _latent(model: LanguageModel, name: str, tokens: float, k: float, n: float) -> Operators:
    """The matrix to or from routed experts of another width than the model's."""
    if model.moe_latent_size is None:
        return []
    return [projection(name, "moe", model.n_moe_layers, tokens, k, n)]


_BLOCKS: tuple[Callable[[LanguageModel, LayerPass], Operators], ...] = (
    lower_embeddings, lower_norms, lower_attention, lower_linear_attention, lower_residuals,
    lower_dense_mlp, lower_experts,
)  # fmt: skip
"""Blocks that the keys of a model imply; one that a model does not have gives no operators."""
_BLOCK_KERNELS = ("gemm", "rowwise", "residual", "lookup", "stream")
"""Kernels whose laws look at nothing but the operator; those of others look at the model's keys."""
