"""From a language model and a phase to the operators of one pass.

Conventions, the same for every model:

- Projections that read the same input are one product (Q, K and V; gate and up; the two latent
  projections of MLA). Embedding rows are looked up, unless ``embedding="dense"``.
- Attention works on the mean context of the pass. A causal prefill of ``P`` tokens attends to
  ``(P + 1) / 2`` on average. Decode step ``i`` of ``G`` feeds the ``i``-th generated token and
  attends to the prompt, to the generated tokens before it and to itself, ``P + i``, on average
  ``P + (G + 1) / 2``. All quantities are affine in the context, so the mean step has exactly
  the mean work and traffic of the ``G`` steps; only its *time* is approximate, where the bound
  changes on the way. Pass ``context`` to look at particular steps.
- Keys and values are read from the cache once a pass, however many query heads share them, and
  also in prefill, where they have just been written. What a small on-chip memory makes an
  evaluator read again is the evaluator's business.
- Multi-head latent attention (MLA) is expanded in prefill (per-head keys and values are
  computed from the latent and are activations) and absorbed in decode (queries are moved into
  the latent space, all heads share one read of the latent), as DeepSeek-V2 §2.1 describes.
- A diffusion model attends in both directions. Its decode is ``diffusion_steps`` passes over
  prompt and generated tokens together; it keeps nothing from pass to pass (LLaDA §2).

Operations of the vector unit, per element, one for each of addition, multiplication,
comparison, reciprocal, exponential or step of a reduction:

=============  ===  ============================================================================
RMS norm         4  square, sum, scale by the reciprocal root, weight
layer norm       7  sum, subtract the mean, square, sum, scale, weight, bias
softmax          6  scale, maximum, subtract, exponential, sum, divide (as LIFE counts, Table 4)
RoPE             3  two products with cosine and sine, one sum
SiLU             4  exponential, add one, reciprocal, product
GELU             8  as x·sigmoid(2√(2/π)(x + 0.044715x³)): square, scale, add, product and SiLU
gate             1  product with the up projection
bias, residual   1  addition
routing          6  per expert: softmax without scale, comparison for the choice of the best
combination      2  per chosen expert: product with its weight, sum
=============  ===  ============================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from codesign.workload.model import LanguageModel
from codesign.workload.operators import Group, Operator, OperatorTable, to_table

Phase: TypeAlias = Literal["prefill", "decode"]
Logits: TypeAlias = Literal["last", "all"]
Embedding: TypeAlias = Literal["lookup", "dense"]

NORM_OPS = {"rmsnorm": 4, "layernorm": 7}
ACTIVATION_OPS = {"silu": 4, "gelu": 8}
SOFTMAX_OPS = 6
ROPE_OPS = 3
ROUTING_OPS = 6
COMBINE_OPS = 2
"""Per element; the table above says what is counted."""


@dataclass(frozen=True)
class Pass:
    """One pass through the layers.

    Attributes:
        tokens: Tokens that a request brings.
        context: Tokens that each of them attends to, on average.
        cached: Tokens whose keys and values are read.
        logit_tokens: Tokens that go through the LM head.
        is_prefill: Whether keys and values of the whole context are computed in this pass.
    """

    tokens: float
    context: float
    cached: float
    logit_tokens: float
    is_prefill: bool


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
    past_tokens: int = 0,
) -> OperatorTable:
    """The operators of one pass of a phase, and the number of passes.

    Limiting assumption: all requests of a batch have the same token counts, and a decode step
    is the mean step (see the module's text).

    Args:
        model: The language model.
        phase: ``prefill`` or ``decode``.
        prompt_tokens: Tokens of the prompt of one request.
        generated_tokens: Tokens generated after it.
        causal: Whether a prefill skips the masked scores.
        logits: ``last``: LM head on the tokens where one is predicted (the last of a prefill,
            the generated ones of a denoising pass); ``all``: on every token of the pass.
        embedding: ``lookup`` or ``dense`` (a product with one-hot rows).
        diffusion_steps: Denoising steps; one per generated token if None.
        context: Tokens that a decode step attends to, instead of the mean over the decode.
        past_tokens: Tokens before a prefill's own whose keys and values are in the cache, as for
            a later chunk of a prompt; a decode or a diffusion model has none.
    """
    one = _pass(model, phase, prompt_tokens, generated_tokens, causal, logits, context, past_tokens)
    steps = generated_tokens if diffusion_steps is None else diffusion_steps
    operators = [
        _embedding(model, one, embedding),
        _norm(model, one),
        *(_latent_attention(model, one) if model.is_latent else _attention(model, one)),
        _residual(model, one),
        *_dense_mlp(model, one),
        *_experts(model, one),
        _lm_head(model, one),
    ]
    return to_table(operators, one.tokens, 1 if phase == "prefill" else steps)


def _pass(
    model: LanguageModel,
    phase: Phase,
    prompt: int,
    generated: int,
    causal: bool,
    logits: Logits,
    context: float | None,
    past: int,
) -> Pass:
    if model.is_diffusion:
        length = prompt if phase == "prefill" else prompt + generated
        predicted = 1 if phase == "prefill" else generated
        return Pass(length, length, length, length if logits == "all" else predicted, True)
    if phase == "prefill":
        whole = past + prompt
        mean = _mean_window(model, past + 1, whole) if causal else float(whole)
        return Pass(prompt, mean, whole, prompt if logits == "all" else 1, True)
    if context is None:
        mean = _mean_window(model, prompt + 1, prompt + generated)
    else:
        mean = float(min(context, model.sliding_window or context))
    return Pass(1, mean, mean, 1, False)


def _mean_window(model: LanguageModel, first: int, last: int) -> float:
    """Mean of ``min(context, window)`` over the contexts ``first`` to ``last``."""
    window = model.sliding_window or last
    below = max(0, min(window, last) - first + 1)
    full = last - first + 1 - below
    return (below * (first + first + below - 1) / 2 + full * window) / (last - first + 1)


def _embedding(model: LanguageModel, one: Pass, embedding: Embedding) -> Operator:
    width = one.tokens * model.hidden_size
    positions = width if model.position == "learned" else 0
    if embedding == "lookup":
        return Operator(
            "embedding",
            "gather",
            "embedding",
            1,
            lookup_elements_per_request=width + positions,
            output_elements_per_request=width,
            vector_ops_per_request=positions,
        )
    return Operator(
        "embedding",
        "gemm",
        "embedding",
        1,
        m_per_request=one.tokens,
        k=model.vocab_size,
        n=model.hidden_size,
        weight_elements=model.vocab_size * model.hidden_size,
        lookup_elements_per_request=positions,
        input_elements_per_request=one.tokens * model.vocab_size,
        output_elements_per_request=width,
        vector_ops_per_request=positions,
    )


def _norm(model: LanguageModel, one: Pass) -> Operator:
    weights = model.hidden_size * model.n_norm_vectors
    count = 2 * model.num_hidden_layers + 1  # before attention, before the MLP, and the last
    return _vector(
        "norm", "norm", count, one.tokens * model.hidden_size, NORM_OPS[model.norm], weights
    )


def _residual(model: LanguageModel, one: Pass) -> Operator:
    width = one.tokens * model.hidden_size
    return Operator(
        "residual",
        "vector",
        "residual",
        2 * model.num_hidden_layers,
        input_elements_per_request=2 * width,
        output_elements_per_request=width,
        vector_ops_per_request=width,
    )


def _lm_head(model: LanguageModel, one: Pass) -> Operator:
    return _projection(
        "lm_head", "lm_head", 1, one.logit_tokens, model.hidden_size, model.vocab_size
    )


def _vector(
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


def _projection(
    name: str,
    group: Group,
    count: float,
    rows: float,
    k: float,
    n: float,
    *,
    has_bias: bool = False,
    cached: float = 0.0,
) -> Operator:
    """A product with shared weights; ``cached`` of its ``n`` columns go to the KV cache."""
    return Operator(
        name,
        "gemm",
        group,
        count,
        m_per_request=rows,
        k=k,
        n=n,
        weight_elements=k * n + (n if has_bias else 0),
        input_elements_per_request=rows * k,
        output_elements_per_request=rows * (n - cached),
        kv_written_elements_per_request=rows * cached,
        vector_ops_per_request=rows * n if has_bias else 0,
    )


def _attention(model: LanguageModel, one: Pass) -> list[Operator]:
    """Multi-head, grouped-query or multi-query attention."""
    layers, tokens, width = model.num_hidden_layers, one.tokens, model.head_dim
    queries, keys = model.num_attention_heads * width, model.num_key_value_heads * width
    is_rotary = model.position == "rotary"
    operators = [
        _projection(
            "qkv_projection",
            "attention",
            layers,
            tokens,
            model.hidden_size,
            queries + 2 * keys,
            has_bias=model.attention_bias,
            # Rotated keys go to the cache only after the rotation.
            cached=keys if is_rotary else 2 * keys,
        )
    ]
    if model.qk_norm:
        elements, ops = tokens * (queries + keys), NORM_OPS["rmsnorm"]
        operators.append(_vector("qk_norm", "attention", layers, elements, ops, 2 * width))
    if is_rotary:
        operators.append(_rope(layers, tokens * queries, tokens * keys, tokens * keys))
    group = model.num_attention_heads // model.num_key_value_heads
    operators += _scores(
        model,
        one,
        products=model.num_key_value_heads,
        rows=group * tokens,
        inner=width,
        outer=width,
        inputs=(tokens * queries, 0),
        cached=(keys, keys),
    )
    return [*operators, _output_projection(model, tokens, queries)]


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
    return _projection(
        "output_projection",
        "attention",
        model.num_hidden_layers,
        tokens,
        inner,
        model.hidden_size,
        has_bias=model.attention_output_bias,
    )


def _scores(
    model: LanguageModel,
    one: Pass,
    *,
    products: float,
    rows: float,
    inner: float,
    outer: float,
    inputs: tuple[float, float],
    cached: tuple[float, float],
) -> list[Operator]:
    """Queries times keys, softmax, times values.

    Args:
        model: Gives the number of layers.
        one: The pass.
        products: Separate products of a request.
        rows: Rows of each product: tokens times the heads that share its keys.
        inner: Width of a key.
        outer: Width of a value.
        inputs: Activations that the two products read, scores excepted.
        cached: Elements of the KV cache per cached token that the two products read.
    """
    layers, scores = model.num_hidden_layers, products * rows * one.context
    qk = Operator(
        "attention_qk",
        "attention_qk",
        "attention",
        layers,
        m_per_request=rows,
        k=inner,
        n=one.context,
        products_per_request=products,
        input_elements_per_request=inputs[0],
        kv_read_elements_per_request=cached[0] * one.cached,
        score_written_elements_per_request=scores,
    )
    softmax = Operator(
        "softmax",
        "vector",
        "attention",
        layers,
        score_read_elements_per_request=scores,
        score_written_elements_per_request=scores,
        vector_ops_per_request=SOFTMAX_OPS * scores,
    )
    pv = Operator(
        "attention_pv",
        "attention_pv",
        "attention",
        layers,
        m_per_request=rows,
        k=one.context,
        n=outer,
        products_per_request=products,
        input_elements_per_request=inputs[1],
        output_elements_per_request=products * rows * outer,
        kv_read_elements_per_request=cached[1] * one.cached,
        score_read_elements_per_request=scores,
    )
    return [qk, softmax, pv]


def _latent_attention(model: LanguageModel, one: Pass) -> list[Operator]:
    """Multi-head latent attention, expanded in prefill and absorbed in decode."""
    layers, tokens, heads = model.num_hidden_layers, one.tokens, model.num_attention_heads
    latent, rope = model.latent_dims.kv_lora_rank, model.latent_dims.qk_rope_head_dim
    query_latent = model.latent_dims.q_lora_rank or 0
    query = heads * (model.latent_dims.qk_nope_head_dim + rope)
    bias = model.attention_bias
    down = (query_latent or query) + latent + rope
    normed = tokens * (query_latent + latent)
    operators = [
        _projection(
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
            output_elements_per_request=normed if one.is_prefill else tokens * query_latent,
            kv_written_elements_per_request=tokens * latent,
            vector_ops_per_request=NORM_OPS["rmsnorm"] * normed,
        ),
    ]
    if query_latent:
        operators.append(
            _projection("query_projection", "attention", layers, tokens, query_latent, query)
        )
    operators.append(_rope(layers, tokens * heads * rope, tokens * rope, tokens * rope))
    operators += _expanded(model, one) if one.is_prefill else _absorbed(model, one)
    inner = heads * model.latent_dims.v_head_dim
    return [*operators, _output_projection(model, tokens, inner)]


def _expanded(model: LanguageModel, one: Pass) -> list[Operator]:
    dims, tokens, heads = model.latent_dims, one.tokens, model.num_attention_heads
    nope, rope, value = dims.qk_nope_head_dim, dims.qk_rope_head_dim, dims.v_head_dim
    up = _projection(
        "key_value_projection",
        "attention",
        model.num_hidden_layers,
        one.cached,  # the cache holds latents: those of earlier chunks are expanded again
        dims.kv_lora_rank,
        heads * (nope + value),
    )
    keys = one.cached * (heads * nope + rope)
    return [
        up,
        *_scores(
            model,
            one,
            products=heads,
            rows=tokens,
            inner=nope + rope,
            outer=value,
            inputs=(tokens * heads * (nope + rope) + keys, one.cached * heads * value),
            cached=(0, 0),
        ),
    ]


def _absorbed(model: LanguageModel, one: Pass) -> list[Operator]:
    dims, tokens, heads = model.latent_dims, one.tokens, model.num_attention_heads
    latent, rope = dims.kv_lora_rank, dims.qk_rope_head_dim
    return [
        _per_head("query_absorption", model, tokens, dims.qk_nope_head_dim, latent),
        *_scores(
            model,
            one,
            products=1,
            rows=heads * tokens,
            inner=latent + rope,
            outer=latent,
            inputs=(tokens * heads * (latent + rope), 0),
            # The values are the latent part of the keys: one read serves both products.
            cached=(latent + rope, 0),
        ),
        _per_head("value_absorption", model, tokens, latent, dims.v_head_dim),
    ]


def _per_head(name: str, model: LanguageModel, tokens: float, k: float, n: float) -> Operator:
    """A product with one weight matrix per head: experts that every token takes."""
    heads = model.num_attention_heads
    return Operator(
        name,
        "gemm",
        "attention",
        model.num_hidden_layers,
        m_per_request=tokens,
        k=k,
        n=n,
        n_experts=heads,
        experts_per_token=heads,
        weight_elements=k * n,
        input_elements_per_request=tokens * heads * k,
        output_elements_per_request=tokens * heads * n,
    )


def _dense_mlp(model: LanguageModel, one: Pass) -> list[Operator]:
    return _mlp(model, "", "mlp", model.n_dense_layers, one.tokens, model.intermediate_size)


def _mlp(
    model: LanguageModel, prefix: str, group: Group, layers: int, tokens: float, width: int
) -> list[Operator]:
    """Up (with gate), activation, down; on the same tokens for all weights."""
    hidden, bias = model.hidden_size, model.mlp_bias
    name = "gate_up_projection" if model.is_gated else "up_projection"
    up = width * model.n_up_matrices
    return [
        _projection(prefix + name, group, layers, tokens, hidden, up, has_bias=bias),
        _activation(model, prefix, group, layers, tokens * width),
        _projection(
            prefix + "down_projection", group, layers, tokens, width, hidden, has_bias=bias
        ),
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


def _experts(model: LanguageModel, one: Pass) -> list[Operator]:
    """Router, shared experts, routed experts and their combination."""
    if not model.is_mixture:
        return []
    layers, tokens, hidden = model.n_moe_layers, one.tokens, model.hidden_size
    moe = model.moe_dims
    routed, active = moe.n_routed_experts, moe.num_experts_per_tok
    width, up = moe.moe_intermediate_size, moe.moe_intermediate_size * model.n_up_matrices
    shared = moe.n_shared_experts
    router = Operator(
        "router",
        "gemm",
        "moe",
        layers,
        m_per_request=tokens,
        k=hidden,
        n=routed,
        weight_elements=hidden * routed + (routed if moe.has_router_bias else 0),
        input_elements_per_request=tokens * hidden,
        output_elements_per_request=tokens * routed,
        vector_ops_per_request=tokens * routed * (ROUTING_OPS + moe.has_router_bias),
    )
    terms = active + (1 if shared else 0)
    combine = Operator(
        "expert_combination",
        "vector",
        "moe",
        layers,
        input_elements_per_request=tokens * terms * hidden,
        output_elements_per_request=tokens * hidden,
        vector_ops_per_request=tokens * hidden * (COMBINE_OPS * active + (1 if shared else 0)),
    )
    gate = "gate_up" if model.is_gated else "up"
    return [
        router,
        *(_mlp(model, "shared_", "moe", layers, tokens, shared * width) if shared else []),
        _routed(f"expert_{gate}_projection", model, tokens, hidden, up),
        _activation(model, "expert_", "moe", layers, tokens * active * width),
        _routed("expert_down_projection", model, tokens, width, hidden),
        combine,
    ]


def _routed(name: str, model: LanguageModel, tokens: float, k: float, n: float) -> Operator:
    moe = model.moe_dims
    return Operator(
        name,
        "gemm",
        "moe",
        model.n_moe_layers,
        m_per_request=tokens,
        k=k,
        n=n,
        n_experts=moe.n_routed_experts,
        experts_per_token=moe.num_experts_per_tok,
        weight_elements=k * n,
        input_elements_per_request=tokens * moe.num_experts_per_tok * k,
        output_elements_per_request=tokens * moe.num_experts_per_tok * n,
    )
