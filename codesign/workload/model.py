"""A language model as its dimensions, and what follows from them: parameters and KV cache.

Keys are those of Hugging Face's ``config.json``, verbatim where one exists.
"""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple, TypeAlias

from pydantic import Field, ValidationInfo, field_validator, model_validator

from codesign.schema import Record

Positive: TypeAlias = Annotated[int, Field(ge=1, strict=True)]
Natural: TypeAlias = Annotated[int, Field(ge=0, strict=True)]

_LATENT_KEYS = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
_MIXTURE_KEYS = ("n_routed_experts", "num_experts_per_tok", "moe_intermediate_size")


class PublishedCount(Record):
    """A parameter count as somebody else published it."""

    count: Positive
    """The number."""
    counted: str
    """What is in it."""
    source: str
    """Where it was read."""
    rounded_to: Positive = 1
    """The published number's last digit counts this many; 1 if it is exact."""


class LatentDims(NamedTuple):
    """Dimensions of multi-head latent attention (MLA)."""

    q_lora_rank: int | None
    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int


class MixtureDims(NamedTuple):
    """Dimensions of a mixture of experts (MoE)."""

    n_routed_experts: int
    num_experts_per_tok: int
    moe_intermediate_size: int
    n_shared_experts: int
    has_router_bias: bool


class LanguageModel(Record):
    """A decoder-only transformer, or a diffusion model of the same shape.

    Limiting assumption: all layers are alike, but for the first ``first_k_dense_replace`` of a
    mixture of experts, which have a dense MLP.
    """

    name: str
    """As it is listed."""
    hidden_size: Positive
    """Width of the residual stream."""
    intermediate_size: Positive
    """Width of the dense MLP."""
    num_hidden_layers: Positive
    """Layers."""
    num_attention_heads: Positive
    """Query heads."""
    num_key_value_heads: Positive
    """Heads with keys and values of their own; unused with MLA."""
    head_dim: Positive
    """Width of a head; unused with MLA."""
    vocab_size: Positive
    """Rows of the embedding table."""
    tie_word_embeddings: bool = False
    """Whether the LM head is the embedding table."""
    hidden_act: Literal["silu", "gelu"] = "silu"
    """Activation of the MLP."""
    is_gated: bool = True
    """Whether the MLP multiplies the activation with a second up projection."""
    norm: Literal["rmsnorm", "layernorm"] = "rmsnorm"
    """Normalization; layer norm has a weight and a bias."""
    position: Literal["rotary", "learned"] = "rotary"
    """Rotary embedding of queries and keys, or a learned table added to the input."""
    max_position_embeddings: Positive | None = None
    """Rows of the learned position table; no limit on the tokens of a request."""
    attention_bias: bool = False
    """Biases of the query, key and value projections."""
    attention_output_bias: bool = False
    """Bias of the attention's output projection."""
    mlp_bias: bool = False
    """Biases of the MLP's projections."""
    qk_norm: bool = False
    """RMS norm of each head's queries and keys."""
    sliding_window: Positive | None = None
    """Tokens back to which every layer attends; all of them if None."""
    is_diffusion: bool = False
    """Generates by denoising the whole sequence, attending in both directions."""

    n_routed_experts: Positive | None = None
    """Experts among which the router chooses (``num_local_experts``, ``num_experts``)."""
    num_experts_per_tok: Positive | None = None
    """Routed experts that a token uses."""
    moe_intermediate_size: Positive | None = None
    """Width of one expert."""
    n_shared_experts: Natural = 0
    """Experts that every token uses besides."""
    first_k_dense_replace: Natural = 0
    """First layers that have a dense MLP instead of experts."""
    has_router_bias: bool = False
    """Whether the router adds a bias per expert (``e_score_correction_bias``)."""

    q_lora_rank: Positive | None = None
    """Rank of MLA's queries; None: queries are projected directly."""
    kv_lora_rank: Positive | None = None
    """Rank of MLA's latent, which is what the KV cache holds; None: no MLA."""
    qk_nope_head_dim: Positive | None = None
    """Width of a head's query and key without rotation."""
    qk_rope_head_dim: Positive | None = None
    """Width of the rotated part; one rotated key for all heads."""
    v_head_dim: Positive | None = None
    """Width of a head's value."""

    parameters: PublishedCount | None = None
    """The published parameter count."""
    sources: tuple[str, ...] = ()
    """Where the dimensions were read."""

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, data: object) -> object:
        """Hugging Face's defaults for what a file may leave out."""
        if not isinstance(data, dict):
            return data
        filled = {key: value for key, value in data.items() if value is not None}
        heads, hidden = filled.get("num_attention_heads"), filled.get("hidden_size")
        if "num_key_value_heads" not in filled and heads is not None:
            filled["num_key_value_heads"] = heads
        if "head_dim" not in filled and isinstance(heads, int) and isinstance(hidden, int):
            if heads < 1 or hidden % heads:
                raise ValueError(
                    "head_dim: expected where hidden_size is not a multiple of "
                    f"num_attention_heads, got hidden_size {hidden} and {heads} heads"
                )
            filled["head_dim"] = hidden // heads
        return filled

    @field_validator("num_key_value_heads")
    @classmethod
    def _divides_heads(cls, value: int, info: ValidationInfo) -> int:
        heads = info.data.get("num_attention_heads", value)
        if heads % value:
            raise ValueError(f"expected a divisor of num_attention_heads ({heads}), got {value}")
        return value

    @field_validator("num_experts_per_tok", "first_k_dense_replace")
    @classmethod
    def _is_within(cls, value: int | None, info: ValidationInfo) -> int | None:
        limits = {
            "num_experts_per_tok": "n_routed_experts",
            "first_k_dense_replace": "num_hidden_layers",
        }
        limit = limits[str(info.field_name)]
        most = info.data.get(limit)
        if value is not None and most is not None and value > most:
            raise ValueError(f"expected at most {limit} ({most}), got {value}")
        return value

    @model_validator(mode="after")
    def _check(self) -> LanguageModel:
        if self.position == "learned" and self.max_position_embeddings is None:
            raise ValueError("max_position_embeddings: required with learned positions")
        self._check_together("multi-head latent attention", _LATENT_KEYS, ("q_lora_rank",))
        mixture_only = ("n_shared_experts", "first_k_dense_replace", "has_router_bias")
        self._check_together("a mixture of experts", _MIXTURE_KEYS, mixture_only)
        if self.is_latent and (self.position, self.qk_norm) != ("rotary", False):
            raise ValueError("kv_lora_rank: MLA has rotary positions and no qk_norm")
        if self.is_latent and (self.is_diffusion or self.sliding_window):
            raise ValueError("kv_lora_rank: MLA is neither a diffusion model nor windowed")
        if self.is_diffusion and self.sliding_window:
            raise ValueError("sliding_window: a diffusion model attends to everything")
        if self.is_mixture and self.mlp_bias:
            raise ValueError("mlp_bias: experts with biases are not supported")
        return self

    def _check_together(self, what: str, keys: tuple[str, ...], extra: tuple[str, ...]) -> None:
        missing = [key for key in keys if getattr(self, key) is None]
        used = [key for key in (*keys, *extra) if getattr(self, key)]
        if missing and used:
            raise ValueError(f"{missing[0]}: required for {what}, since {used[0]} is given")

    @property
    def is_latent(self) -> bool:
        """Whether attention is MLA."""
        return self.kv_lora_rank is not None

    @property
    def is_mixture(self) -> bool:
        """Whether there are routed experts."""
        return self.n_routed_experts is not None

    @property
    def latent_dims(self) -> LatentDims:
        """MLA's dimensions; only for ``is_latent`` models."""
        assert self.kv_lora_rank is not None and self.qk_nope_head_dim is not None
        assert self.qk_rope_head_dim is not None and self.v_head_dim is not None
        return LatentDims(
            self.q_lora_rank,
            self.kv_lora_rank,
            self.qk_nope_head_dim,
            self.qk_rope_head_dim,
            self.v_head_dim,
        )

    @property
    def moe_dims(self) -> MixtureDims:
        """The mixture's dimensions; only for ``is_mixture`` models."""
        assert self.n_routed_experts is not None and self.num_experts_per_tok is not None
        assert self.moe_intermediate_size is not None
        return MixtureDims(
            self.n_routed_experts,
            self.num_experts_per_tok,
            self.moe_intermediate_size,
            self.n_shared_experts,
            self.has_router_bias,
        )

    @property
    def n_dense_layers(self) -> int:
        """Layers with a dense MLP."""
        return self.first_k_dense_replace if self.is_mixture else self.num_hidden_layers

    @property
    def n_moe_layers(self) -> int:
        """Layers with experts."""
        return self.num_hidden_layers - self.n_dense_layers

    @property
    def n_up_matrices(self) -> int:
        """Up projections of an MLP: 2 with a gate."""
        return 2 if self.is_gated else 1

    @property
    def n_norm_vectors(self) -> int:
        """Vectors of one norm: a weight, and a bias in layer norm."""
        return 1 if self.norm == "rmsnorm" else 2


def parameters_by_part(model: LanguageModel) -> dict[str, int]:
    """Parameters of the embedding, attention, MLP, experts, router, norms and LM head.

    Tied weights count once, as ``embedding``; a multi-token-prediction module is not counted.
    """
    hidden, layers = model.hidden_size, model.num_hidden_layers
    positions = (model.max_position_embeddings or 0) if model.position == "learned" else 0
    routed = model.moe_dims.n_routed_experts if model.is_mixture else 0
    router = hidden * routed + (routed if model.has_router_bias else 0)
    norms = (2 * layers + 1) * hidden * model.n_norm_vectors
    return {
        "embedding": (model.vocab_size + positions) * hidden,
        "attention": layers * _attention_parameters(model),
        "mlp": model.n_dense_layers * _mlp_parameters(model, model.intermediate_size),
        "experts": model.n_moe_layers * routed * _expert_parameters(model),
        "shared_experts": model.n_moe_layers * model.n_shared_experts * _expert_parameters(model),
        "router": model.n_moe_layers * router,
        "norm": norms + layers * _attention_norms(model),
        "lm_head": 0 if model.tie_word_embeddings else model.vocab_size * hidden,
    }


def parameter_count(model: LanguageModel) -> int:
    """All parameters; tied weights once."""
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
    """Elements that one token of context takes in the KV cache, over all layers.

    Keys and values of each KV head; with MLA the latent and the one rotated key.
    """
    if model.is_latent:
        per_layer = model.latent_dims.kv_lora_rank + model.latent_dims.qk_rope_head_dim
    else:
        per_layer = 2 * model.num_key_value_heads * model.head_dim
    return model.num_hidden_layers * per_layer


def kv_elements(model: LanguageModel, n_tokens: int) -> int:
    """Elements of the KV cache of a sequence; not more tokens than a sliding window holds."""
    held = min(n_tokens, model.sliding_window or n_tokens)
    return held * kv_elements_per_token(model)


def _attention_parameters(model: LanguageModel) -> int:
    hidden, heads = model.hidden_size, model.num_attention_heads
    if model.is_latent:
        return _latent_parameters(model)
    queries, keys = heads * model.head_dim, model.num_key_value_heads * model.head_dim
    biases = (queries + 2 * keys if model.attention_bias else 0) + (
        hidden if model.attention_output_bias else 0
    )
    return hidden * (queries + 2 * keys) + queries * hidden + biases


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


def _attention_norms(model: LanguageModel) -> int:
    if model.is_latent:
        return (model.latent_dims.q_lora_rank or 0) + model.latent_dims.kv_lora_rank
    return 2 * model.head_dim if model.qk_norm else 0


def _mlp_parameters(model: LanguageModel, width: int) -> int:
    matrices = (model.n_up_matrices + 1) * model.hidden_size * width
    return matrices + (model.n_up_matrices * width + model.hidden_size if model.mlp_bias else 0)


def _expert_parameters(model: LanguageModel) -> int:
    return _mlp_parameters(model, model.moe_dims.moe_intermediate_size) if model.is_mixture else 0
