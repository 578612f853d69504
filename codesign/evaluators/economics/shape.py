"""A language model as Epoch's equations see it: parameters and widths of one average layer.

[Epoch2025]_ counts matrices only, no rotated part of a latent key, no layers with a dense MLP
before a mixture of experts, shared experts among the routed ones, and experts over active experts
as a whole number. Dense models without latent attention or biases are as elsewhere.

.. [Epoch2025] E. Erdil, Inference economics of language models, Epoch AI, 2025, section 3.
"""

from __future__ import annotations

from codesign.base.errors import InputError
from codesign.base.records import frozen
from codesign.models.workload.model import LanguageModel, describe_unlike_attention
from codesign.models.workload.storage import sliding_share


@frozen
class ModelShape:
    """Products, bytes and messages of one decode step of a model.

    Attributes:
        name: Name for people.
        hidden_size: Width of the residual stream.
        n_layers: Layers, all alike.
        attention_parameters: Parameters of one layer's attention.
        shared_parameters: Parameters of one layer's feedforward block that every token uses.
        routed_parameters: Parameters of all experts of one layer; a dense model's MLP is one
            expert.
        unembedding_parameters: Parameters of the LM head.
        stored_parameters: Parameters that memory holds.
        qkv_width: Outputs of the query, key and value projections.
        attention_width: Inputs of the attention's output projection.
        feedforward_width: Width of one expert.
        n_up_matrices: Up projections of an expert: 2 with a gate.
        n_experts: Experts; 1 if dense.
        n_active_experts: Experts that one token uses.
        sparsity: Experts over active experts, s of Eqs. 21 and 22.
        kv_elements: Elements of the KV cache of a token in a layer.
        score_flop: Arithmetic of a token in a layer per token of context, FLOP (Eq. 37).
        n_heads: Query heads.
        n_kv_heads: Heads with keys and values of their own; latent attention has as many as heads.
        window: Tokens of context that sliding layers attend to; None: no layer slides.
        sliding_share: Share of the KV cache of a token that sliding layers hold.
    """

    name: str
    hidden_size: float
    n_layers: float
    attention_parameters: float
    shared_parameters: float
    routed_parameters: float
    unembedding_parameters: float
    stored_parameters: float
    qkv_width: float
    attention_width: float
    feedforward_width: float
    n_up_matrices: float
    n_experts: float
    n_active_experts: float
    sparsity: float
    kv_elements: float
    score_flop: float
    n_heads: int
    n_kv_heads: int
    window: int | None = None
    sliding_share: float = 1.0

    @property
    def is_mixture(self) -> bool:
        """Whether there are experts to choose from."""
        return self.n_experts > 1

    @property
    def active_flop_per_token(self) -> float:
        """Two per multiply-accumulate with a weight (Eq. 38)."""
        routed = self.routed_parameters / self.sparsity
        layer = self.attention_parameters + self.shared_parameters + routed
        return 2.0 * (self.n_layers * layer + self.unembedding_parameters)

    def attended(self, context_tokens: float) -> float:
        """Tokens of a context that a step attends to, in the mean layer with a KV cache."""
        if self.window is None:
            return context_tokens
        within = min(context_tokens, self.window)
        return (1.0 - self.sliding_share) * context_tokens + self.sliding_share * within


def shape_of(model: LanguageModel) -> ModelShape:
    """The shape of a model.

    Raises:
        InputError: A diffusion model, which does not decode token by token, or layers of which
            some have linear attention or none.
    """
    if model.is_diffusion:
        problem = "expected a model that decodes token by token, got a diffusion model"
        raise InputError(problem, f"model {model.name}")
    unlike = describe_unlike_attention(model, windows_may_differ=True)
    if unlike is not None:
        raise InputError(unlike, f"model {model.name}")
    heads = model.num_attention_heads
    width = model.hidden_size
    experts = 1
    active = 1
    expert_width = model.intermediate_size
    if model.is_mixture:
        moe = model.moe_dims
        experts = moe.n_routed_experts
        expert_width = moe.moe_intermediate_size
        active = min(moe.num_experts_per_tok - (-moe.shared_width // expert_width), experts)
    head = model.latent_dims.qk_nope_head_dim if model.is_latent else model.head_dim
    group = 1 if model.is_latent else heads // model.num_key_value_heads
    attention_width = float(heads * head)
    qkv_width = (1 + 2 / group) * attention_width  # Eq. 25
    attention = width * qkv_width + attention_width * width
    kv = 2 * attention_width / group
    score_width = attention_width
    if model.is_latent:
        kv = model.latent_dims.kv_lora_rank
        score_width = heads * model.latent_dims.kv_lora_rank
        attention = _absorbed_parameters(model)
    layers = float(model.n_moe_layers if model.is_mixture else model.num_hidden_layers)
    routed = experts * (model.n_up_matrices + 1) * width * expert_width
    return ModelShape(
        name=model.name,
        hidden_size=float(width),
        n_layers=layers,
        attention_parameters=float(attention),
        shared_parameters=0.0,
        routed_parameters=float(routed),
        unembedding_parameters=float(model.vocab_size * width),
        stored_parameters=layers * (attention + routed) + float(model.vocab_size * width),
        qkv_width=qkv_width,
        attention_width=attention_width,
        feedforward_width=float(expert_width),
        n_up_matrices=float(model.n_up_matrices),
        n_experts=float(experts),
        n_active_experts=float(active),
        sparsity=float(experts // active),
        kv_elements=float(kv),
        score_flop=4.0 * score_width,
        n_heads=heads,
        n_kv_heads=heads if model.is_latent else model.num_key_value_heads,
        window=model.sliding_window,
        sliding_share=sliding_share(model),
    )


def _absorbed_parameters(model: LanguageModel) -> float:
    """Latent attention in decode: the keys' up projection multiplied into the queries' (§3.1).

    Query down and absorbed up, latent down, values up, output. Of the readings of the paper's
    text that were tried, those near 14e9 parameters for DeepSeek-V3 give Table 2's 215 token/s;
    with both projections kept apart it is 10.1e9 and 225 token/s, with the values' absorbed as
    well 34e9 and 187 token/s.
    """
    dims = model.latent_dims
    heads = model.num_attention_heads
    width = model.hidden_size
    rank = dims.q_lora_rank
    queries = heads * dims.kv_lora_rank
    query = width * rank + rank * queries if rank is not None else width * queries
    values = dims.kv_lora_rank * heads * dims.v_head_dim
    return float(query + width * dims.kv_lora_rank + values + heads * dims.v_head_dim * width)
