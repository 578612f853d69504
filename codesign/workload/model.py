"""A language model as its dimensions, and what follows from them: parameters, KV cache, state.

Keys are those of Hugging Face's ``config.json``, verbatim where one exists.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, get_args

from pydantic import Field, ValidationInfo, field_validator, model_validator

from codesign.errors import describe_unknown
from codesign.schema import Natural, Positive, Record

LayerType: TypeAlias = Literal[
    "full_attention", "sliding_attention", "linear_attention", "no_attention"
]
MlpType: TypeAlias = Literal["dense", "sparse", "none"]
LinearKind: TypeAlias = Literal["gated_delta", "lightning", "mamba", "mamba2"]

MOST_LAYERS = 10_000
"""More layers than any model has; lists of them are made."""
_LATENT_KEYS = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
_MIXTURE_KEYS = ("n_routed_experts", "num_experts_per_tok", "moe_intermediate_size")
_MIXTURE_ONLY = (
    "n_shared_experts",
    "shared_expert_intermediate_size",
    "first_k_dense_replace",
    "decoder_sparse_step",
    "mlp_only_layers",
    "has_router_bias",
)
LINEAR_KEYS = (
    "linear_num_key_heads",
    "linear_num_value_heads",
    "linear_key_head_dim",
    "linear_value_head_dim",
    "linear_conv_kernel_dim",
)
"""Keys that a model with linear attention has, all of them."""
_FLOAT_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
_SOFTMAX: tuple[LayerType, LayerType] = ("full_attention", "sliding_attention")
_ROUNDING = 1e-9
"""Error of a share times what it is a share of."""
_WINDOW_BYTES = 2
"""Bytes of an element of a convolution's window, which is kept as the activations are: 16 bits."""


class PublishedCount(Record):
    """A parameter count as somebody else published it."""

    count: Annotated[int, Field(ge=1, strict=True)]
    """The published number of parameters."""
    counted: str
    """Parts of the model that the number includes."""
    source: str
    """Where the number was read."""
    rounded_to: Annotated[int, Field(ge=1, strict=True)] = 1
    """The published number's last digit counts this many; 1 if it is exact."""


class LatentDims(NamedTuple):
    """Dimensions of multi-head latent attention (MLA)."""

    q_lora_rank: int | None
    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int


class MixtureDims(NamedTuple):
    """Dimensions of a mixture of experts (MoE); all shared experts together are one MLP."""

    n_routed_experts: int
    num_experts_per_tok: int
    moe_intermediate_size: int
    shared_width: int
    has_shared_gate: bool
    has_router_bias: bool


class LinearForm(NamedTuple):
    """What sets a kind of linear attention apart from the others.

    ``linear_attention.py`` has the recurrences and their sources.
    """

    convolves_keys: bool
    """Whether the convolution is over queries and keys too; if not, over the values."""
    has_conv_bias: bool
    """Whether the convolution has a bias per channel."""
    projects_keys: bool
    """Whether queries and keys come from the input projection; if not, from the values."""
    projected_per_head: int
    """Numbers of each value head that the input projection gives besides: decay, rate."""
    weights_per_head: int
    """Weights of each value head: decay, bias of the rate, skipped value."""
    norms_all_heads: bool
    """Whether the output's norm has weights for all value heads; if not, those of one."""


LINEAR_FORMS: dict[LinearKind, LinearForm] = {
    "gated_delta": LinearForm(True, False, True, 2, 2, False),
    "lightning": LinearForm(True, False, True, 0, 0, True),
    "mamba2": LinearForm(True, True, True, 1, 3, True),
    "mamba": LinearForm(False, True, False, 0, 0, False),
}


class LinearDims(NamedTuple):
    """Dimensions of linear attention, whose kinds have queries, keys and values in common.

    In Mamba's words, the queries are C, the keys B, the values x; in Mamba 1 each channel is a
    value head of width 1 with ``time_step_rank`` numbers for its rate.
    """

    n_key_heads: int
    n_value_heads: int
    key_dim: int
    value_dim: int
    conv_kernel: int
    kind: LinearKind = "gated_delta"
    time_step_rank: int = 0

    @property
    def form(self) -> LinearForm:
        """What sets the kind apart."""
        return LINEAR_FORMS[self.kind]

    @property
    def key_width(self) -> int:
        """Width of all keys of a token, and of all its queries: a head of either serves its value
        heads."""
        return self.n_key_heads * self.key_dim

    @property
    def value_width(self) -> int:
        """Width of all values of a token."""
        return self.n_value_heads * self.value_dim

    @property
    def conv_channels(self) -> int:
        """Queries, keys and values that a filter of their own convolves; 0 without any."""
        if not self.conv_kernel:
            return 0
        return 2 * self.key_width * self.form.convolves_keys + self.value_width

    @property
    def conv_weights(self) -> int:
        """Weights of the convolution."""
        return self.conv_channels * (self.conv_kernel + self.form.has_conv_bias)

    @property
    def gate_width(self) -> int:
        """Outputs of the input projection besides queries, keys and values."""
        return self.value_width + self.form.projected_per_head * self.n_value_heads

    @property
    def projected_width(self) -> int:
        """Outputs of the input projection: queries, keys, values, gate, decays and rates."""
        return 2 * self.key_width * self.form.projects_keys + self.value_width + self.gate_width

    @property
    def norm_width(self) -> int:
        """Weights of the norm of the output; Mamba 1 has none."""
        if self.kind == "mamba":
            return 0
        return self.value_width if self.form.norms_all_heads else self.value_dim

    @property
    def head_parameters(self) -> int:
        """Weights of the value heads that are no matrix; in Mamba 1 one per element of the state
        and two per channel."""
        if self.kind == "mamba":
            return self.state_elements + 2 * self.n_value_heads
        return self.form.weights_per_head * self.n_value_heads

    @property
    def state_elements(self) -> int:
        """Elements of the recurrent state of a layer: one matrix per value head."""
        return self.n_value_heads * self.key_dim * self.value_dim

    @property
    def window_elements(self) -> int:
        """Elements of earlier inputs that the convolution still needs."""
        return max(self.conv_kernel - 1, 0) * self.conv_channels


class LanguageModel(Record):
    """A decoder-only transformer, or a diffusion model of the same shape.

    Limiting assumption: layers differ in their kind of attention (full, sliding, linear, none), in
    having a dense MLP, experts or neither, in heads with keys and in the width of a dense MLP; of
    widths that differ, operators have the mean. Else layers of one kind are alike.
    """

    name: str
    """Name under which the model is listed."""
    hidden_size: Positive
    """Width of the residual stream."""
    intermediate_size: Positive
    """Width of the dense MLP."""
    num_hidden_layers: Annotated[int, Field(ge=1, le=MOST_LAYERS, strict=True)]
    """Layers."""
    num_attention_heads: Positive
    """Query heads."""
    num_key_value_heads: Positive
    """Heads with keys and values of their own; unused with MLA."""
    head_dim: Positive
    """Width of a head; unused with MLA."""
    vocab_size: Positive
    """Rows of the embedding table."""
    word_embed_proj_dim: Positive | None = None
    """Width of the embedding table if matrices lead from and to it; None: the model's."""
    hidden_size_per_layer_input: Natural = 0
    """Width of what a second embedding table adds to every layer (Gemma 3n)."""
    vocab_size_per_layer_input: Natural = 0
    """Rows of that table."""
    altup_num_inputs: Positive = 1
    """Copies of the residual stream, to and from all but one of which a matrix leads (Gemma 3n)."""
    laurel_rank: Natural = 0
    """Rank of the matrices beside every layer's attention (Gemma 3n)."""
    tie_word_embeddings: bool = False
    """Whether the LM head is the embedding table."""
    hidden_act: Literal["silu", "gelu", "relu", "relu2"] = "silu"
    """Activation of the MLP."""
    is_gated: bool = True
    """Whether the MLP multiplies the activation with a second up projection."""
    norm: Literal["rmsnorm", "layernorm"] = "rmsnorm"
    """Normalization; layer norm has a weight and a bias."""
    norms_per_layer: Literal[1, 2, 4] = 2
    """Norms of a layer with attention and an MLP: 1 if both read the same one, 4 if their outputs
    are normalized too."""
    position: Literal["rotary", "learned", "none"] = "rotary"
    """Rotary embedding of queries and keys, a learned table added to the input, or neither."""
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
    has_attention_sinks: bool = False
    """Whether every query head has a learned score of its own in the softmax."""
    attn_output_gate: bool = False
    """Whether a sigmoid of a second query projection scales the output of the attention."""
    partial_rotary_factor: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Part of each head's queries and keys that is rotated."""
    layer_types: tuple[LayerType, ...] | None = None
    """Kind of attention of every layer; None: the next two keys decide."""
    mlp_layer_types: tuple[MlpType, ...] | None = None
    """Kind of MLP of every layer: dense, with experts (``sparse``), none; None: other keys
    decide."""
    num_key_value_heads_by_layer: tuple[Natural, ...] | None = None
    """Heads with keys and values of their own, of every layer; None: all layers alike."""
    intermediate_size_by_layer: tuple[Natural, ...] | None = None
    """Width of the dense MLP of every layer; None: all alike."""
    num_kv_shared_layers: Natural = 0
    """Last layers that attend to the keys and values of an earlier layer."""
    full_attention_interval: Positive | None = None
    """Layers from one with full attention to the next, the others being linear; None: no linear
    ones."""
    sliding_window: Positive | None = None
    """Tokens back to which sliding layers attend, all layers if nothing says which are; None: no
    layer slides."""
    is_diffusion: bool = False
    """Whether the model denoises the whole sequence and attends in both directions."""

    n_routed_experts: Positive | None = None
    """Experts among which the router chooses (``num_local_experts``, ``num_experts``)."""
    num_experts_per_tok: Positive | None = None
    """Routed experts that a token uses."""
    moe_intermediate_size: Positive | None = None
    """Width of one expert."""
    n_shared_experts: Natural = 0
    """Experts that every token uses besides."""
    shared_expert_intermediate_size: Positive | None = None
    """Width of one shared expert."""
    is_shared_expert_gated: bool = True
    """Whether a sigmoid gate of its own scales the output of that expert (Qwen's)."""
    first_k_dense_replace: Natural = 0
    """First layers that have a dense MLP instead of experts."""
    decoder_sparse_step: Positive = 1
    """Layers from one with experts to the next, the others having a dense MLP."""
    mlp_only_layers: tuple[Natural, ...] = ()
    """Positions from 0 of further layers that have a dense MLP."""
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

    linear_kind: LinearKind = "gated_delta"
    """Kind of linear attention: Gated DeltaNet, lightning attention, Mamba 1 or 2."""
    linear_num_key_heads: Positive | None = None
    """Heads of linear attention with queries and keys of their own."""
    linear_num_value_heads: Positive | None = None
    """Heads of linear attention with values, and a state, of their own."""
    linear_key_head_dim: Positive | None = None
    """Width of a query and a key of linear attention."""
    linear_value_head_dim: Positive | None = None
    """Width of a value of linear attention."""
    linear_conv_kernel_dim: Natural | None = None
    """Taps of the convolution over queries, keys and values of linear attention; 0: none."""
    time_step_rank: Positive | None = None
    """Rank of the projection that gives Mamba 1's rates."""
    mamba_ssm_dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Format of the recurrent state; 32 bits if a configuration does not say, as Transformers'
    code keeps it."""

    parameters: PublishedCount | None = None
    """The published parameter count."""
    sources: tuple[str, ...] = ()
    """Where the dimensions were read."""
    notes: tuple[str, ...] = ()
    """What of a configuration file was assumed or is not modeled."""

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

    @field_validator("layer_types", mode="before")
    @classmethod
    def _known_layers(cls, value: Any, info: ValidationInfo) -> Any:
        if not isinstance(value, list | tuple):
            return value
        known = get_args(LayerType)
        unknown = [kind for kind in value if kind not in known]
        if unknown:
            problem = describe_unknown("kind of layer", unknown[0], known)
            raise ValueError(f"{problem} It was got for layer {value.index(unknown[0])}.")
        return value

    @field_validator(
        "layer_types",
        "mlp_layer_types",
        "num_key_value_heads_by_layer",
        "intermediate_size_by_layer",
        mode="before",
    )
    @classmethod
    def _is_by_layer(cls, value: Any, info: ValidationInfo) -> Any:
        if not isinstance(value, list | tuple):
            return value
        layers = info.data.get("num_hidden_layers", len(value))
        if len(value) != layers:
            raise ValueError(f"expected one kind per layer ({layers}), got {len(value)}")
        return value

    @model_validator(mode="after")
    def _check(self) -> LanguageModel:
        if self.position == "learned" and self.max_position_embeddings is None:
            raise ValueError("max_position_embeddings: required with learned positions")
        self._check_together("multi-head latent attention", _LATENT_KEYS, ("q_lora_rank",))
        self._check_together("a mixture of experts", _MIXTURE_KEYS, _MIXTURE_ONLY)
        self._check_together("linear attention", LINEAR_KEYS, ())
        self._check_latent()
        self._check_layers()
        self._check_linear()
        self._check_mixture()
        rotated = self.partial_rotary_factor * self.head_dim
        if abs(rotated - round(rotated)) > _ROUNDING:
            raise ValueError(
                "partial_rotary_factor: expected a whole number of rotated elements, got "
                f"{self.partial_rotary_factor} of {self.head_dim}"
            )
        return self

    def _check_together(
        self, component: str, keys: tuple[str, ...], extra: tuple[str, ...]
    ) -> None:
        defaults = type(self).model_fields
        missing = [key for key in keys if getattr(self, key) is None]
        used = [key for key in (*keys, *extra) if getattr(self, key) != defaults[key].default]
        if missing and used:
            raise ValueError(f"{missing[0]}: required for {component}, since {used[0]} is given")

    def _check_latent(self) -> None:
        if not self.is_latent:
            return
        if (self.position, self.qk_norm) != ("rotary", False):
            raise ValueError("kv_lora_rank: MLA has rotary positions and no qk_norm")
        if self.is_diffusion or self.sliding_window:
            raise ValueError("kv_lora_rank: MLA is neither a diffusion model nor windowed")
        if self.attn_output_gate or self.partial_rotary_factor != 1:
            raise ValueError("kv_lora_rank: MLA has no output gate and no partial rotation")

    def _check_layers(self) -> None:
        """Refuses keys about the kinds of layers that do not agree."""
        slides = self.n_layers("sliding_attention") > 0
        if slides and self.sliding_window is None:
            raise ValueError("sliding_window: required, since layers have sliding_attention")
        if self.sliding_window is not None and not slides:
            raise ValueError("sliding_window: no layer has sliding_attention")
        if self.is_diffusion and self.layers_by_type != {"full_attention": self.num_hidden_layers}:
            key = "sliding_window" if slides else "layer_types"
            raise ValueError(f"{key}: a diffusion model attends to everything")
        if self.layer_types is None or self.full_attention_interval is None:
            return
        if self.layer_types != self._alternating(self.full_attention_interval):
            raise ValueError(
                f"full_attention_interval: layer_types differs from {self.full_attention_interval}"
            )

    def _check_linear(self) -> None:
        if not self.n_linear_layers:
            if self.linear_num_key_heads is not None:
                raise ValueError("linear_num_key_heads: no layer has linear_attention")
            return
        keys = (*LINEAR_KEYS, "time_step_rank") if self.linear_kind == "mamba" else LINEAR_KEYS
        missing = [key for key in keys if getattr(self, key) is None]
        if missing:
            raise ValueError(f"{missing[0]}: required, since layers have linear_attention")
        if self.linear_dims.n_value_heads % self.linear_dims.n_key_heads:
            raise ValueError(
                "linear_num_value_heads: expected a multiple of linear_num_key_heads "
                f"({self.linear_num_key_heads}), got {self.linear_num_value_heads}"
            )

    def _check_mixture(self) -> None:
        if self.n_moe_layers and not self.is_mixture:
            raise ValueError("n_routed_experts: required, since layers are sparse")
        if self.n_shared_experts and self.shared_expert_intermediate_size:
            raise ValueError("shared_expert_intermediate_size: n_shared_experts is given too")
        beyond = [layer for layer in self.mlp_only_layers if layer >= self.num_hidden_layers]
        if beyond:
            last = self.num_hidden_layers - 1
            raise ValueError(f"mlp_only_layers: expected positions up to {last}, got {beyond[0]}")

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
            self.shared_expert_intermediate_size
            or self.n_shared_experts * self.moe_intermediate_size,
            self.shared_expert_intermediate_size is not None and self.is_shared_expert_gated,
            self.has_router_bias,
        )

    @property
    def linear_dims(self) -> LinearDims:
        """Linear attention's dimensions; only for models with such layers."""
        assert self.linear_num_key_heads is not None and self.linear_num_value_heads is not None
        assert self.linear_key_head_dim is not None and self.linear_value_head_dim is not None
        assert self.linear_conv_kernel_dim is not None
        return LinearDims(
            self.linear_num_key_heads,
            self.linear_num_value_heads,
            self.linear_key_head_dim,
            self.linear_value_head_dim,
            self.linear_conv_kernel_dim,
            self.linear_kind,
            self.time_step_rank or 0,
        )

    @property
    def layers_by_type(self) -> dict[LayerType, int]:
        """Layers of each kind of attention that the model has."""
        kinds = self._kinds()
        return {kind: kinds.count(kind) for kind in get_args(LayerType) if kind in kinds}

    def _kinds(self) -> tuple[LayerType, ...]:
        if self.layer_types is not None:
            return self.layer_types
        if self.full_attention_interval is not None:
            return self._alternating(self.full_attention_interval)
        kind: LayerType = "full_attention" if self.sliding_window is None else "sliding_attention"
        return (kind,) * self.num_hidden_layers

    def _alternating(self, interval: int) -> tuple[LayerType, ...]:
        return tuple(
            "linear_attention" if (layer + 1) % interval else "full_attention"
            for layer in range(self.num_hidden_layers)
        )

    def n_layers(self, kind: LayerType) -> int:
        """Layers of one kind of attention."""
        return self.layers_by_type.get(kind, 0)

    @property
    def n_linear_layers(self) -> int:
        """Layers with linear attention, which keep a state instead of keys and values."""
        return self.n_layers("linear_attention")

    @property
    def n_attention_layers(self) -> int:
        """Layers with full or sliding attention, which keep keys and values."""
        return sum(self.n_layers(kind) for kind in _SOFTMAX)

    def n_kv_heads(self, kind: LayerType, *, of_own: bool = False) -> int:
        """Heads with keys and values in all layers of a kind, each of which reads them.

        Args:
            kind: Kind of softmax attention.
            of_own: Count only layers that compute and keep them, not those that share them.
        """
        heads = self.num_key_value_heads_by_layer
        heads = heads or (self.num_key_value_heads,) * self.num_hidden_layers
        counted = self.num_hidden_layers - (self.num_kv_shared_layers if of_own else 0)
        kinds = self._kinds()[:counted]
        return sum(count for count, own in zip(heads, kinds, strict=False) if own == kind)

    @property
    def n_own_kv_heads(self) -> int:
        """Heads whose keys and values are computed and kept, over all layers."""
        return sum(self.n_kv_heads(kind, of_own=True) for kind in _SOFTMAX)

    def _mlp_kinds(self) -> tuple[MlpType, ...]:
        if self.mlp_layer_types is not None:
            return self.mlp_layer_types
        is_dense = [
            not self.is_mixture
            or layer < self.first_k_dense_replace
            or layer in self.mlp_only_layers
            or (layer + 1) % self.decoder_sparse_step > 0
            for layer in range(self.num_hidden_layers)
        ]
        kinds: list[MlpType] = ["sparse", "dense"]
        return tuple(kinds[dense] for dense in is_dense)

    @property
    def n_dense_layers(self) -> int:
        """Layers with a dense MLP."""
        return self._mlp_kinds().count("dense")

    @property
    def n_moe_layers(self) -> int:
        """Layers with experts."""
        return self._mlp_kinds().count("sparse")

    @property
    def n_blocks(self) -> int:
        """Attentions and MLPs of all layers; each adds its output to the residual stream."""
        mixers = self.num_hidden_layers - self.n_layers("no_attention")
        return mixers + self.n_dense_layers + self.n_moe_layers

    @property
    def n_norms(self) -> int:
        """Norms of the residual stream and of what is added to it, the last one included."""
        return self.norms_per_layer * self.n_blocks // 2 + 1

    @property
    def dense_width(self) -> int:
        """Widths of the dense MLPs of all layers together."""
        widths = self.intermediate_size_by_layer
        if widths is None:
            return self.n_dense_layers * self.intermediate_size
        kinds = self._mlp_kinds()
        return sum(width for width, kind in zip(widths, kinds, strict=True) if kind == "dense")

    @property
    def embedding_width(self) -> int:
        """Width of the embedding table and of the LM head."""
        return self.word_embed_proj_dim or self.hidden_size

    @property
    def layer_inputs_width(self) -> int:
        """Width of what the second embedding table holds of a token, for all layers."""
        return self.num_hidden_layers * self.hidden_size_per_layer_input

    @property
    def n_up_matrices(self) -> int:
        """Up projections of an MLP: 2 with a gate."""
        return 2 if self.is_gated else 1

    @property
    def n_norm_vectors(self) -> int:
        """Vectors of one norm: a weight, and a bias in layer norm."""
        return 1 if self.norm == "rmsnorm" else 2


def parameters_by_part(model: LanguageModel) -> dict[str, int]:
    """Parameters of the embedding, both kinds of attention, MLP, experts, router, norms, LM head.

    Gemma 3n's matrices beside attention and MLP are part of ``mlp``.
    Tied weights count once, as ``embedding``; a multi-token-prediction module is not counted.
    """
    hidden = model.hidden_size
    routed = model.moe_dims.n_routed_experts if model.is_mixture else 0
    router = hidden * routed + (routed if model.has_router_bias else 0)
    norms = model.n_norms * hidden * model.n_norm_vectors
    norms += model.n_attention_layers * _attention_norms(model)
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
    return sum(_kv_elements(model, kind) for kind in _SOFTMAX)


def kv_elements(model: LanguageModel, n_tokens: int) -> int:
    """Elements of the KV cache of a sequence; sliding layers hold no more than their window."""
    in_window = min(n_tokens, model.sliding_window or n_tokens)
    full, sliding = (_kv_elements(model, kind) for kind in _SOFTMAX)
    return n_tokens * full + in_window * sliding


def sliding_share(model: LanguageModel) -> float:
    """Share of the KV cache of a token that sliding layers hold; 0 without a cache."""
    return _kv_elements(model, "sliding_attention") / (kv_elements_per_token(model) or 1)


def _kv_elements(model: LanguageModel, kind: LayerType) -> int:
    """Elements of a token in all layers of a kind."""
    if model.is_latent:
        width = model.latent_dims.kv_lora_rank + model.latent_dims.qk_rope_head_dim
        return model.n_layers(kind) * width
    return 2 * model.n_kv_heads(kind, of_own=True) * model.head_dim


def recurrent_state_bytes(model: LanguageModel) -> int:
    """Bytes of the recurrent state of one request in one layer with linear attention."""
    return model.linear_dims.state_elements * _FLOAT_BYTES[model.mamba_ssm_dtype]


def window_bytes(model: LanguageModel) -> int:
    """Bytes of the convolution's window of one request in one layer with linear attention."""
    return model.linear_dims.window_elements * _WINDOW_BYTES


def state_bytes(model: LanguageModel) -> int:
    """Bytes of what linear attention keeps of one request, whatever its length, over all layers.

    The recurrent state in the format of the model's configuration, and the inputs that the
    convolution still needs, as Qwen3-Next's code caches them; 0 without such layers.
    """
    if not model.n_linear_layers:
        return 0
    return model.n_linear_layers * (recurrent_state_bytes(model) + window_bytes(model))


def describe_unlike_attention(
    model: LanguageModel, *, windows_may_differ: bool = False
) -> str | None:
    """What an evaluator that takes all layers for softmax attention alike cannot do of a model.

    Args:
        model: The language model.
        windows_may_differ: Whether the evaluator tells sliding layers from others.

    Returns:
        One line for an error, or None if it can do all.
    """
    kinds = model.layers_by_type
    allowed: set[LayerType] = set(_SOFTMAX)
    has_unlike = len(kinds) > 1 and not (windows_may_differ and kinds.keys() <= allowed)
    if has_unlike or "linear_attention" in kinds:
        listed = " and ".join(f"{count} {kind}" for kind, count in kinds.items())
        return f"expected a model whose layers all have the same softmax attention, got {listed}"
    if model.attn_output_gate:
        return "expected a model without a gate on the attention's output, got attn_output_gate"
    return None


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
        return layers * _latent_parameters(model)
    queries = layers * model.num_attention_heads * model.head_dim
    keys = model.n_own_kv_heads * model.head_dim
    projected = queries * (2 if model.attn_output_gate else 1) + 2 * keys
    biases = (projected if model.attention_bias else 0) + (
        layers * hidden if model.attention_output_bias else 0
    )
    sinks = layers * model.num_attention_heads if model.has_attention_sinks else 0
    return hidden * projected + queries * hidden + biases + sinks


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


def _attention_norms(model: LanguageModel) -> int:
    if model.is_latent:
        return (model.latent_dims.q_lora_rank or 0) + model.latent_dims.kv_lora_rank
    return 2 * model.head_dim if model.qk_norm else 0


def _dense_parameters(model: LanguageModel) -> int:
    """Parameters of the dense MLPs of all layers."""
    matrices = _mlp_parameters(model, model.dense_width)
    beyond_first = (model.n_dense_layers - 1) * model.hidden_size
    beside = 3 * model.layer_inputs_width + 2 * model.num_hidden_layers * model.laurel_rank
    return matrices + (beyond_first if model.mlp_bias else 0) + beside * model.hidden_size


def _mlp_parameters(model: LanguageModel, width: int) -> int:
    matrices = (model.n_up_matrices + 1) * model.hidden_size * width
    return matrices + (model.n_up_matrices * width + model.hidden_size if model.mlp_bias else 0)


def _expert_parameters(model: LanguageModel) -> int:
    return _mlp_parameters(model, model.moe_dims.moe_intermediate_size) if model.is_mixture else 0


def _shared_parameters(model: LanguageModel) -> int:
    """The shared experts of a layer, and the gate of a gated one."""
    if not model.is_mixture or not model.moe_dims.shared_width:
        return 0
    gate = model.hidden_size if model.moe_dims.has_shared_gate else 0
    return _mlp_parameters(model, model.moe_dims.shared_width) + gate
